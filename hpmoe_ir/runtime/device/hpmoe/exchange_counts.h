// ExchangeCounts: one rank's counts for one peer, put straight into the peer's window.
#ifndef HPMOE_EXCHANGE_COUNTS_H_
#define HPMOE_EXCHANGE_COUNTS_H_

#include "hpmoe/count_tokens.h"
#include "hpmoe/row_sum.h"

namespace hpmoe {

namespace exchange_counts {
constexpr uint32_t kSum = 0;  // UB addresses
constexpr uint32_t kRow = kSum + kMaxExperts * sizeof(int32_t);
constexpr uint32_t kPiece = kRow + 2 * kMaxExperts * sizeof(int32_t);
constexpr uint32_t kPieceBytes = 64 * 1024;
static_assert(kPiece + kPieceBytes <= kUbBytes, "UB");
}  // namespace exchange_counts

// chunk_counts [B x E]: counts of each token chunk; dst [1 x 2E]: their sums, then the exclusive
// prefix sum of those.
__aicore__ inline void ExchangeCounts(const Tile<int32_t>& chunk_counts, const Tile<int32_t>& dst) {
  using namespace exchange_counts;
  const uint32_t experts = chunk_counts.cols;
  Require(experts <= kMaxExperts && dst.cols == 2 * experts);
  const AscendC::LocalTensor<int32_t> sum = Ub<int32_t>(kSum, kMaxExperts);
  const AscendC::LocalTensor<int32_t> row = Ub<int32_t>(kRow, 2 * kMaxExperts);
  SumRows(sum, Ub<int32_t>(kPiece, kPieceBytes / sizeof(int32_t)), chunk_counts);
  int32_t before = 0;
  for (uint32_t x = 0; x < experts; ++x) {
    const int32_t count = sum.GetValue(x);
    row.SetValue(x, count);
    row.SetValue(experts + x, before);
    before += count;
  }
  Handover<AscendC::HardEvent::S_MTE3>();
  StoreList(dst.data, row, 2 * experts);
  AscendC::PipeBarrier<PIPE_ALL>();
}

}  // namespace hpmoe

#endif  // HPMOE_EXCHANGE_COUNTS_H_
