"""Changes of the device headers that are named one by one: rows, launches, local addresses."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Pick:
    """In a header below `hpmoe/`, one text for another."""

    kind: str
    header: str
    old: str
    new: str


def _rows(header: str, old: str, new: str) -> Pick:
    return Pick("wrong-rows", f"{header}.h", old, new)


def _overlap(header: str, old: str, new: str) -> Pick:
    return Pick("overlap", f"{header}.h", old, new)


PICKS = (
    Pick("launch", "env.h", "thresholds_) * launches", "thresholds_)"),
    Pick("launch", "env.h", "thresholds_) * launches", "thresholds_) * (launches - 1)"),
    Pick("launch", "env.h", "thresholds_) * launches", "thresholds_) * (launches + 1)"),
    Pick("launch", "env.h", "event + launch_ % 2 * events", "event"),
    Pick("launch", "env.h", "launch_ / 2 + launch_ % 2", "launch_"),
    Pick("launch", "env.h", "launch_ / 2 + launch_ % 2", "launch_ / 2"),
    Pick(
        "credit",
        "credit.h",
        "count + static_cast<int32_t>(puts)",
        "count + 2 * static_cast<int32_t>(puts)",
    ),
    Pick("credit", "credit.h", "count + static_cast<int32_t>(puts)", "count"),
    Pick("credit", "credit.h", "kBlockWords) != 0)", "kBlockWords) > 1)"),
    Pick("credit", "credit.h", "if (!ok_) return 0;", "if (!ok_) return 1;"),
    Pick("credit", "credit.h", "begin_.GetValue(i + 1)", "begin_.GetValue(i + 2)"),
    _overlap("credit", "kCount = kBegin + kBeginWords * sizeof(int32_t)", "kCount = kBegin"),
    Pick(
        "drop-cache", "env.h", "DropLines(words, RouteLayout(experts, ranks_).words);", "(void)0;"
    ),
    Pick("launch", "counters.h", "- target) >= 0;", "- target) >= -1;"),
    Pick("launch", "counters.h", "- target) >= 0;", "- target) > 0;"),
    Pick("launch", "counters.h", "kUbWorker, kBlockWords), 1);", "kUbWorker, kBlockWords), 2);"),
    _rows("tile", "begin + begin, end - begin}", "begin + begin, end - begin + 1}"),
    _rows("tile", "begin + begin, end - begin}", "begin + begin, (end - begin) / 2}"),
    _rows("tile", "begin + begin, end - begin}", "begin, end - begin}"),
    _rows("tile", "Min(block_rows, rows - row)", "Max(Min(block_rows, rows - row), 2) - 1"),
    _rows("tile", "Min(block_rows, rows - row)", "block_rows"),
    _rows("tile", "Min(block_cols, cols - column)", "block_cols"),
    _rows("tile", "return CeilDiv(rows, block_rows) *", "return (rows / block_rows) *"),
    _rows("route", "Word(last) - begin}", "Word(last) - begin + 1}"),
    _rows("route", "{begin, Word(last) - begin}", "{begin + 1, Word(last) - begin}"),
    _rows("route", "Word(layout_.dest_begin + x)", "Word(layout_.dest_begin + x) + 1"),
    _rows("route", "return_begin + e * ranks_ + s)", "return_begin + e * ranks_)"),
    _rows("rowwise_pipeline", "slot, b.rows * b.cols)", "slot, (b.rows - 1) * b.cols)"),
    _rows("put_rows", "order.data + begin, n)", "order.data + begin, n - 1)"),
    _rows("count_tokens", "ids.data + begin, n)", "ids.data + begin, n - 1)"),
    _rows("matmul_block", "mSize = rows;", "mSize = RoundUp(rows, kFractal);"),
    _rows("matmul_pipeline", "chunk == 0 && k == 0)", "k == 0)"),
    _rows("section_pipeline", "chunk == 0 && k == 0)", "k == 0)"),
    _rows("section_pipeline", "result, b, Begin(section) == 0)", "result, b, true)"),
    _rows("section_pipeline", "result, b, Begin(section) == 0)", "result, b, false)"),
    _overlap("section_pipeline", "after + slot * kMaxSteps", "after + 0 * kMaxSteps"),
    _overlap("section_pipeline", "after = 2 * kChunks", "after = kChunks"),
    _overlap("exchange_counts", "kBefore = kSum + kMaxExperts * sizeof(int32_t)", "kBefore = 0"),
    _overlap("exchange_counts", "kPiece = kBefore + kMaxExperts * sizeof(int32_t)", "kPiece = 0"),
    _overlap("build_route", "kBefore = kTotal + kMaxExperts * kWord", "kBefore = kTotal"),
    _overlap("build_route", "kRoute = kBefore + kMaxExperts * kWord", "kRoute = kBefore"),
    _overlap("build_route", "kPiece = kRoute + kRouteWords * kWord", "kPiece = kRoute"),
    _overlap("place_tokens", "kPosition = kIds + kPiece * kWord", "kPosition = kIds"),
    _overlap("place_tokens", "kRuns = kPosition + kPiece * kWord", "kRuns = kPosition"),
    _overlap("place_tokens", "kCount = kBegin + kMaxExperts * kWord", "kCount = kBegin"),
    _overlap("count_tokens", "kIds = kCounts + kMaxExperts * sizeof(int32_t)", "kIds = kCounts"),
    _overlap("put_rows", "kListBytes + slot * kSlabBytes", "slot * kSlabBytes"),
    _overlap("put_rows", "kListBytes + slot * kSlabBytes", "kListBytes + slot * 64"),
    _overlap("rowwise_pipeline", "(2 * which + slot) * kNarrow", "(which + slot) * kNarrow"),
    _overlap("rowwise_pipeline", "2 * Narrows * kNarrow + which * kWide", "which * kWide"),
    _overlap("matmul_block", "slot * Slot() + steps_ * Plan::kLhsStep", "slot * Slot()"),
    _overlap("matmul_block", "2 * Slot() + Kept(chunk) * size", "Slot() + Kept(chunk) * size"),
    _overlap("matmul_block", "A2, slot * kLhsStep", "A2, 0"),
    _overlap("matmul_block", "B2, slot * kRhsStep", "B2, 0"),
    _overlap("matmul_block", "CO1, slot * kResult", "CO1, 0"),
    _overlap("copy_sum", "kData + slot * copies_ * width_", "kData + slot * width_"),
    _overlap("copy_sum", "(2 * copies_ + slot) * width_", "(copies_ + slot) * width_"),
    _overlap("gate_gradient", "data_ + slot * elements", "data_ + slot * width_"),
    _overlap("local", "kUbWorker = kUbBytes;", "kUbWorker = 0;"),
    _overlap("local", "kL1Worker = kL1Bytes;", "kL1Worker = 0;"),
)
"""Rows that are off, targets of another launch, local memory that is used twice."""
