// PlaceTokens: where the pairs of one token chunk stand in the rank's send order.
#ifndef HPMOE_PLACE_TOKENS_H_
#define HPMOE_PLACE_TOKENS_H_

#include "hpmoe/count_tokens.h"
#include "hpmoe/row_sum.h"

namespace hpmoe {

// The tokens of a chunk that go to one expert stand side by side in the send order, so they are
// collected in UB and written as one run per expert: other chunks write the words next to them, and
// only a DMA can write part of a cache line without touching the rest.
class TokenPlacer {
 public:
  __aicore__ inline explicit TokenPlacer(uint32_t experts)
      : experts_(experts),
        next_(Ub<int32_t>(kNext, kMaxExperts)),
        earlier_(Ub<int32_t>(kEarlier, kMaxExperts)),
        begin_(Ub<int32_t>(kBegin, kMaxExperts)),
        count_(Ub<int32_t>(kCount, kMaxExperts)),
        ids_(Ub<int32_t>(kIds, kPiece)),
        position_(Ub<int32_t>(kPosition, kPiece)),
        runs_(Ub<int32_t>(kRuns, kRunsWords)) {
    Require(experts <= kMaxExperts);
  }

  // Sets the first position of each expert's pairs of chunk b: all pairs of lower experts, then
  // this expert's pairs of earlier chunks.
  __aicore__ inline void Start(const Tile<int32_t>& chunk_counts, uint32_t b) {
    const AscendC::LocalTensor<int32_t> piece = Ub<int32_t>(kRuns, kRunsWords);
    SumRowsAround(earlier_, next_, piece, chunk_counts, b);
    int32_t before = 0;
    for (uint32_t x = 0; x < experts_; ++x) {
      const int32_t total = next_.GetValue(x);
      next_.SetValue(x, before + earlier_.GetValue(x));
      before += total;
    }
  }

  // Places pairs first .. first + n - 1 of the chunk, pair i being choice i % K of a token.
  __aicore__ inline void Place(const Tile<int32_t>& ids, __gm__ int32_t* order,
                               __gm__ int32_t* position, uint32_t first, uint32_t n) {
    LoadList(ids_, ids.data + first, n);
    Handover<AscendC::HardEvent::MTE2_S>();
    ReserveRuns(n);
    for (uint32_t i = 0; i < n; ++i) {
      const uint32_t x = static_cast<uint32_t>(ids_.GetValue(i));
      const int32_t rank = count_.GetValue(x);
      count_.SetValue(x, rank + 1);
      position_.SetValue(i, next_.GetValue(x) + rank);
      runs_.SetValue(static_cast<uint32_t>(begin_.GetValue(x) + rank),
                     static_cast<int32_t>(ids.first * ids.cols + first + i));
    }
    Handover<AscendC::HardEvent::S_MTE3>();
    StoreList(position + first, position_, n);
    for (uint32_t x = 0; x < experts_; ++x) {
      const int32_t count = count_.GetValue(x);
      if (count == 0) continue;
      StoreList(order + next_.GetValue(x), runs_[static_cast<uint32_t>(begin_.GetValue(x))],
                static_cast<uint32_t>(count));
      next_.SetValue(x, next_.GetValue(x) + count);
    }
    Handover<AscendC::HardEvent::MTE3_S>();
    Handover<AscendC::HardEvent::S_MTE2>();
  }

  static constexpr uint32_t kPiece = 2048;  // pairs placed at a time

 private:
  static constexpr uint32_t kWord = sizeof(int32_t);
  static constexpr uint32_t kAlign = kDataBlock / kWord;  // each run starts at a data block
  static constexpr uint32_t kNext = 0;                    // UB addresses
  static constexpr uint32_t kEarlier = kNext + kMaxExperts * kWord;
  static constexpr uint32_t kBegin = kEarlier;  // the sums are no longer needed by then
  static constexpr uint32_t kCount = kBegin + kMaxExperts * kWord;
  static constexpr uint32_t kIds = kCount + kMaxExperts * kWord;
  static constexpr uint32_t kPosition = kIds + kPiece * kWord;
  static constexpr uint32_t kRuns = kPosition + kPiece * kWord;
  // At most one run a pair, each padded.
  static constexpr uint32_t kRunsWords = kPiece + kPiece * (kAlign - 1);
  static_assert(kRuns + kRunsWords * kWord <= kUbBytes, "UB");

  // Counts the piece's pairs for each expert, gives each a run and clears the counts again.
  __aicore__ inline void ReserveRuns(uint32_t n) {
    for (uint32_t x = 0; x < experts_; ++x) count_.SetValue(x, 0);
    for (uint32_t i = 0; i < n; ++i) {
      const uint32_t x = static_cast<uint32_t>(ids_.GetValue(i));
      Require(x < experts_);
      count_.SetValue(x, count_.GetValue(x) + 1);
    }
    uint32_t begin = 0;
    for (uint32_t x = 0; x < experts_; ++x) {
      begin_.SetValue(x, static_cast<int32_t>(begin));
      begin += RoundUp(static_cast<uint32_t>(count_.GetValue(x)), kAlign);
      count_.SetValue(x, 0);
    }
  }

  uint32_t experts_;
  AscendC::LocalTensor<int32_t> next_;
  AscendC::LocalTensor<int32_t> earlier_;
  AscendC::LocalTensor<int32_t> begin_;
  AscendC::LocalTensor<int32_t> count_;
  AscendC::LocalTensor<int32_t> ids_;
  AscendC::LocalTensor<int32_t> position_;
  AscendC::LocalTensor<int32_t> runs_;
};

// ids [rows x K] of token chunk b, ids.first its first token; chunk_counts [B x E]; order: the
// whole list of pairs t * K + k in send order; position [rows x K]. Rows may be 0.
__aicore__ inline void PlaceTokens(const Tile<int32_t>& ids, const Tile<int32_t>& chunk_counts,
                                   const Tile<int32_t>& order, const Tile<int32_t>& position,
                                   uint32_t b) {
  const uint32_t pairs = ids.rows * ids.cols;
  if (pairs == 0) return;
  Require(ids.rows == 1 || (ids.pitch == ids.cols && position.pitch == position.cols));
  TokenPlacer placer(chunk_counts.cols);
  placer.Start(chunk_counts, b);
  for (uint32_t first = 0; first < pairs; first += TokenPlacer::kPiece) {
    placer.Place(ids, order.data, position.data, first, Min(TokenPlacer::kPiece, pairs - first));
  }
  AscendC::PipeBarrier<PIPE_ALL>();
}

}  // namespace hpmoe

#endif  // HPMOE_PLACE_TOKENS_H_
