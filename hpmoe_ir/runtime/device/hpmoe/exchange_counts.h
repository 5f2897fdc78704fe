// ExchangeCounts: the put of one rank's counts into the window of one peer.
#ifndef HPMOE_EXCHANGE_COUNTS_H_
#define HPMOE_EXCHANGE_COUNTS_H_

#include "hpmoe/count_tokens.h"
#include "hpmoe/detail/row_sum.h"
#include "hpmoe/detail/word_pairs.h"

namespace hpmoe {

namespace exchange_counts {
constexpr uint32_t kSum = 0;  // UB addresses
constexpr uint32_t kBefore = kSum + kMaxExperts * sizeof(int32_t);
constexpr uint32_t kPiece = kBefore + kMaxExperts * sizeof(int32_t);
constexpr uint32_t kPieceBytes = 64 * 1024 / kListCut;
static_assert(kPiece + kPieceBytes <= kUbBytes, "UB");
}  // namespace exchange_counts

// chunk_counts [B x E]: counts of each token chunk; dst [1 x 2E]: their sums, then the exclusive
// prefix sum of those.
__aicore__ inline void ExchangeCounts(const Tile<int32_t>& chunk_counts, const Tile<int32_t>& dst) {
  using namespace exchange_counts;
  const uint32_t experts = chunk_counts.cols;
  Require(experts <= kMaxExperts && dst.cols == 2 * experts);
  const AscendC::LocalTensor<int32_t> sum = Ub<int32_t>(kSum, kMaxExperts);
  const AscendC::LocalTensor<int32_t> before = Ub<int32_t>(kBefore, kMaxExperts);
  SumRows(sum, Ub<int32_t>(kPiece, kPieceBytes / sizeof(int32_t)), chunk_counts);
  StoreList(dst.data, sum, experts);
  ExclusiveSums(before, sum, 0, experts);
  Handover<AscendC::HardEvent::S_MTE3>();
  StoreList(dst.data + experts, before, experts);
  AscendC::PipeBarrier<PIPE_ALL>();
}

}  // namespace hpmoe

#endif  // HPMOE_EXCHANGE_COUNTS_H_
