// CountTokens: how many (token, choice) pairs go to each expert.
#ifndef HPMOE_COUNT_TOKENS_H_
#define HPMOE_COUNT_TOKENS_H_

#include "hpmoe/detail/word_pairs.h"
#include "hpmoe/local.h"
#include "hpmoe/tile.h"

namespace hpmoe {

namespace count_tokens {
constexpr uint32_t kPiece = 8192 / kListCut;  // ids a DMA
constexpr uint32_t kCounts = 0;               // UB addresses
constexpr uint32_t kIds = kCounts + kMaxExperts * sizeof(int32_t);
static_assert(kIds + kPiece * sizeof(int32_t) <= kUbBytes, "UB");
}  // namespace count_tokens

// ids [rows x K] without gaps, rows may be 0; counts [1 x E].
__aicore__ inline void CountTokens(const Tile<int32_t>& ids, const Tile<int32_t>& counts) {
  using namespace count_tokens;
  const uint32_t experts = counts.cols;
  Require(experts <= kMaxExperts && (ids.rows <= 1 || ids.pitch == ids.cols));
  const AscendC::LocalTensor<int32_t> count = Ub<int32_t>(kCounts, kMaxExperts);
  const AscendC::LocalTensor<int32_t> piece = Ub<int32_t>(kIds, kPiece);
  AscendC::Duplicate(count, int32_t{0}, static_cast<int32_t>(experts));
  Handover<AscendC::HardEvent::V_S>();
  const uint32_t total = ids.rows * ids.cols;
  for (uint32_t begin = 0; begin < total; begin += kPiece) {
    const uint32_t n = Min(kPiece, total - begin);
    LoadList(piece, ids.data + begin, n);
    Handover<AscendC::HardEvent::MTE2_S>();
    VisitWords(piece, n, [&](uint32_t, int32_t id) __aicore__ {
      const uint32_t expert = static_cast<uint32_t>(id);
      Require(expert < experts);
      count.SetValue(expert, count.GetValue(expert) + 1);
    });
    Handover<AscendC::HardEvent::S_MTE2>();
  }
  Handover<AscendC::HardEvent::S_MTE3>();
  StoreList(counts.data, count, experts);
  AscendC::PipeBarrier<PIPE_ALL>();
}

}  // namespace hpmoe

#endif  // HPMOE_COUNT_TOKENS_H_
