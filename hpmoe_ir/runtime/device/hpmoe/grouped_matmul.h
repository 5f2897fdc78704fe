// GroupedMatmul: rows of one expert times (columns of) its weights.
#ifndef HPMOE_GROUPED_MATMUL_H_
#define HPMOE_GROUPED_MATMUL_H_

#include "hpmoe/detail/matmul_pipeline.h"

namespace hpmoe {

// The operands of GroupedMatmul: the inner dimension runs along the rows of the left one.
template <typename T, class Plan, bool TransposeRhs>
struct MatmulOperands {
  Tile<T> a;
  Tile<T> w;
  Tile<T> out;

  __aicore__ inline void LoadLhs(const AscendC::LocalTensor<T>& l1, const Blocks::Block& b,
                                 uint32_t begin, uint32_t depth) const {
    LoadNz(l1, a.data + static_cast<uint64_t>(b.row) * a.pitch + begin, b.rows, depth, a.pitch);
  }

  __aicore__ inline void LoadRhs(const AscendC::LocalTensor<T>& l1, const Blocks::Block& b,
                                 uint32_t begin, uint32_t depth) const {
    if constexpr (TransposeRhs) {
      LoadNz(l1, w.data + static_cast<uint64_t>(b.column) * w.pitch + begin, b.cols, depth,
             w.pitch);
    } else {
      LoadNz(l1, w.data + static_cast<uint64_t>(begin) * w.pitch + b.column, depth, b.cols,
             w.pitch);
    }
  }

  __aicore__ inline void LoadStep(uint32_t l0, const AscendC::LocalTensor<T>& lhs,
                                  const AscendC::LocalTensor<T>& rhs, const Blocks::Block& b,
                                  const Columns& part, uint32_t depth, uint32_t k,
                                  uint32_t step) const {
    LhsToL0(Plan::LhsStep(l0), lhs, RoundUp(b.rows, kFractal), k, step);
    if constexpr (TransposeRhs) {
      TransposedRhsToL0(Plan::RhsStep(l0), rhs, b.cols, part.first, part.count, k, step);
    } else {
      RhsToL0(Plan::RhsStep(l0), rhs[part.first * depth], depth, part.count, k, step);
    }
  }

  __aicore__ inline void Store(const AscendC::LocalTensor<float>& result, const Blocks::Block& b,
                               const Columns& part) const {
    StoreResult(out.data + static_cast<uint64_t>(b.row) * out.pitch + b.column + part.first, result,
                b.rows, part.count, out.pitch);
  }
};

// GroupedMatmul by a plan.
template <class Plan, bool TransposeRhs, typename T>
__aicore__ inline void GroupedMatmulBlocks(const Tile<T>& a, const Tile<T>& w, const Tile<T>& out,
                                           const Share& share) {
  using Operands = MatmulOperands<T, Plan, TransposeRhs>;
  Require(a.rows == out.rows && a.cols == (TransposeRhs ? w.cols : w.rows) &&
          out.cols == (TransposeRhs ? w.rows : w.cols));
  Require(a.cols > 0 && a.cols % kFractal == 0 && out.cols % kFractal == 0 && share.step > 0);
  if (out.rows == 0 || out.cols == 0) return;
  MatmulPipeline<Plan, Operands>({a, w, out}, out.rows, out.cols, a.cols, share).Run();
}

// out [rows x n] = a [rows x Kdim] * w [Kdim x n], or * w^T with w [n x Kdim] when TransposeRhs;
// sums in float, rounded to nearest even on the way out. Kdim and n are multiples of 16; only valid
// rows are written. M x N is the block of the result in L0C, K the inner step in L0A and L0B.
// Blocks first, first + step, .. of out are done, row by row of blocks: by default all.
template <typename T, uint32_t M, uint32_t N, uint32_t K, bool TransposeRhs>
__aicore__ inline void GroupedMatmul(const Tile<T>& a, const Tile<T>& w, const Tile<T>& out,
                                     uint32_t first = 0, uint32_t step = 1) {
  GroupedMatmulBlocks<MatmulPlan<T, M, N, K>, TransposeRhs>(a, w, out, {first, step});
}

// GroupedMatmul with nothing in L1 but double buffers, as the grouped matmul operator of CANN uses
// it: 384 KB for 128 x 256 blocks. That stores while it sums up, by unit flags.
template <typename T, uint32_t M, uint32_t N, uint32_t K, bool TransposeRhs>
__aicore__ inline void CannLikeGroupedMatmul(const Tile<T>& a, const Tile<T>& w, const Tile<T>& out,
                                             uint32_t first = 0, uint32_t step = 1) {
  GroupedMatmulBlocks<CannLikeMatmulPlan<T, M, N, K>, TransposeRhs>(a, w, out, {first, step});
}

}  // namespace hpmoe

#endif  // HPMOE_GROUPED_MATMUL_H_
