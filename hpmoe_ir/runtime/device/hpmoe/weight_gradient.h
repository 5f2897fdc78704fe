// WeightGradient: the product of two matrices over their rows, the rows of one expert.
#ifndef HPMOE_WEIGHT_GRADIENT_H_
#define HPMOE_WEIGHT_GRADIENT_H_

#include <type_traits>

#include "hpmoe/detail/matmul_pipeline.h"
#include "hpmoe/detail/section_pipeline.h"

namespace hpmoe {

// The operands of WeightGradient: the inner dimension is that of the rows, of which there may be
// any number. Both chunks in L1 are NZ with whole fractals of rows; rows past the last one are
// zeroed in both operands, since they may hold NaN, and NaN times zero is NaN.
template <typename T, typename Out, class Plan, bool Accumulate>
struct WeightGradientOperands {
  Tile<T> lhs;
  Tile<T> rhs;
  Tile<Out> out;

  __aicore__ inline void LoadLhs(const AscendC::LocalTensor<T>& l1, const Blocks::Block& b,
                                 uint32_t begin, uint32_t depth) const {
    Load(l1, lhs, begin, depth, b.row, b.rows);
  }

  __aicore__ inline void LoadRhs(const AscendC::LocalTensor<T>& l1, const Blocks::Block& b,
                                 uint32_t begin, uint32_t depth) const {
    Load(l1, rhs, begin, depth, b.column, b.cols);
  }

  __aicore__ inline void LoadStep(uint32_t l0, const AscendC::LocalTensor<T>& left,
                                  const AscendC::LocalTensor<T>& right, const Blocks::Block& b,
                                  const Columns& part, uint32_t depth, uint32_t k,
                                  uint32_t step) const {
    TransposedLhsToL0(Plan::LhsStep(l0), left, depth, b.rows, k, step);
    RhsToL0(Plan::RhsStep(l0), right[part.first * depth], depth, part.count, k, step);
  }

  __aicore__ inline void Store(const AscendC::LocalTensor<float>& result, const Blocks::Block& b,
                               const Columns& part) const {
    if constexpr (Accumulate) AscendC::SetAtomicAdd<float>();
    StoreResult(out.data + static_cast<uint64_t>(b.row) * out.pitch + b.column + part.first, result,
                b.rows, part.count, out.pitch);
    if constexpr (Accumulate) AscendC::SetAtomicNone();
  }

  // Stores the sum over a section, added to the sums of earlier sections.
  __aicore__ inline void StoreSection(const AscendC::LocalTensor<float>& result,
                                      const Blocks::Block& b, bool first) const {
    if (Accumulate || !first) AscendC::SetAtomicAdd<float>();
    StoreResult(out.data + static_cast<uint64_t>(b.row) * out.pitch + b.column, result, b.rows,
                b.cols, out.pitch);
    if (Accumulate || !first) AscendC::SetAtomicNone();
  }

 private:
  // Rows begin .. begin + depth - 1 of `cols` columns of an operand.
  static __aicore__ inline void Load(const AscendC::LocalTensor<T>& l1, const Tile<T>& operand,
                                     uint32_t begin, uint32_t depth, uint32_t column,
                                     uint32_t cols) {
    if (depth == 0 || depth % kFractal != 0) {
      ZeroLastRows(l1, depth, cols);
      // The rows are copied over the zeros.
      AscendC::PipeBarrier<PIPE_MTE2>();
    }
    if (depth == 0) return;
    LoadNz(l1, operand.data + static_cast<uint64_t>(begin) * operand.pitch + column, depth, cols,
           operand.pitch);
  }

  // Zeros in the last fractal of each 16 columns of a chunk of `rows` rows.
  static __aicore__ inline void ZeroLastRows(const AscendC::LocalTensor<T>& chunk, uint32_t rows,
                                             uint32_t cols) {
    const uint32_t padded = Max(RoundUp(rows, kFractal), kFractal);
    const AscendC::LocalTensor<int32_t> last =
        chunk[(padded - kFractal) * kFractal].template ReinterpretCast<int32_t>();
    // In units of 32 bytes: a row of a fractal.
    AscendC::Fill(last, AscendC::InitConstValueParams<int32_t>(cols / kFractal, kFractal,
                                                               padded - kFractal, 0));
  }
};

// Checks the arguments of WeightGradient. Returns whether there is anything to compute.
template <typename T, bool Accumulate, typename Out>
__aicore__ inline bool WeightGradientNeeds(const Tile<T>& lhs, const Tile<T>& rhs,
                                           const Tile<Out>& out, const Share& share) {
  static_assert(std::is_same<Out, float>::value || std::is_same<Out, T>::value,
                "the result is float or of the operands' type");
  static_assert(!Accumulate || std::is_same<Out, float>::value, "sums over launches are float");
  Require(lhs.rows == rhs.rows && out.rows == lhs.cols && out.cols == rhs.cols);
  Require(out.rows % kFractal == 0 && out.cols % kFractal == 0 && share.step > 0);
  return out.rows > 0 && out.cols > 0 && (!Accumulate || lhs.rows > 0);
}

// Blocks of a share, each over all rows.
template <class Plan, bool Accumulate, typename T, typename Out>
__aicore__ inline void WeightGradientBlocks(const Tile<T>& lhs, const Tile<T>& rhs,
                                            const Tile<Out>& out, const Share& share) {
  using Operands = WeightGradientOperands<T, Out, Plan, Accumulate>;
  MatmulPipeline<Plan, Operands>({lhs, rhs, out}, out.rows, out.cols, lhs.rows, share).Run();
}

// All blocks, with the rows cut into sections.
template <class Plan, bool Accumulate, typename T, typename Out>
__aicore__ inline void WeightGradientSections(const Tile<T>& lhs, const Tile<T>& rhs,
                                              const Tile<Out>& out) {
  using Operands = WeightGradientOperands<T, Out, Plan, Accumulate>;
  SectionPipeline<Plan, Operands>({lhs, rhs, out}, out.rows, out.cols, lhs.rows).Run();
}

// out [m x n] = lhs^T * rhs with lhs [rows x m], rhs [rows x n]; out += with Accumulate, which
// needs floats in out. Sums in float over all rows; m and n are multiples of 16. Without rows, out
// is written as zeros, or left as it is with Accumulate. M x N is the block of the result in L0C, K
// the step of rows in L0A and L0B. Blocks first, first + step, .. of out are done, row by row of
// blocks: by default all.
//
// Blocks are half as wide, so that L0C holds two and one is stored while the other is summed, in
// two cases. Over few rows, where storing a block takes long compared with summing it: if L1 can
// hold M columns of all rows and this task has several blocks of these columns, which are then read
// once. Over many rows, if this task computes all blocks of a float out and L1 holds two sections:
// the rows are cut into sections, whose columns are read once for four blocks or more.
template <typename T, uint32_t M, uint32_t N, uint32_t K, bool Accumulate, typename Out>
__aicore__ inline void WeightGradient(const Tile<T>& lhs, const Tile<T>& rhs, const Tile<Out>& out,
                                      uint32_t first = 0, uint32_t step = 1) {
  using Whole = MatmulPlan<T, M, N, K>;
  using Narrow = MatmulPlan<T, M, Whole::kParts == 2 ? N / 2 : N, K>;
  if (!WeightGradientNeeds<T, Accumulate>(lhs, rhs, out, {first, step})) return;
  const bool few = lhs.rows <= kL1Bytes / (M * sizeof(T));
  if constexpr (std::is_same<Out, float>::value && Narrow::kResults == 2 &&
                SectionL1<Narrow>::kMaxSteps > 0) {
    if (!few && first == 0 && step == 1 && out.cols > 3 * Narrow::kCols) {
      WeightGradientSections<Narrow, Accumulate>(lhs, rhs, out);
      return;
    }
  }
  if (few && out.cols > step * N) {
    WeightGradientBlocks<Narrow, Accumulate>(lhs, rhs, out, {first, step});
    return;
  }
  WeightGradientBlocks<Whole, Accumulate>(lhs, rhs, out, {first, step});
}

// WeightGradient with nothing in L1 but double buffers, and one result in L0C that is stored before
// the next is begun: the grouped matmul operator of CANN has no unit flags where the left operand
// is transposed.
template <typename T, uint32_t M, uint32_t N, uint32_t K, bool Accumulate, typename Out>
__aicore__ inline void CannLikeWeightGradient(const Tile<T>& lhs, const Tile<T>& rhs,
                                              const Tile<Out>& out, uint32_t first = 0,
                                              uint32_t step = 1) {
  if (!WeightGradientNeeds<T, Accumulate>(lhs, rhs, out, {first, step})) return;
  WeightGradientBlocks<CannLikeGradientPlan<T, M, N, K>, Accumulate>(lhs, rhs, out, {first, step});
}

}  // namespace hpmoe

#endif  // HPMOE_WEIGHT_GRADIENT_H_
