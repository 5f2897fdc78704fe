// The matrix core's memories and the moves between them, for 16-bit operands and a float result.
//
// A matrix in L1 is NZ: columns of fractals, a fractal being 16 rows of 16 elements. L0A wants rows
// of fractals, L0B columns of the transposed right operand, L0C holds NZ again.
#ifndef HPMOE_DETAIL_MATMUL_BLOCK_H_
#define HPMOE_DETAIL_MATMUL_BLOCK_H_

#include "hpmoe/local.h"
#include "hpmoe/tile.h"

namespace hpmoe {

// Local addresses of a matmul with blocks of M x N and inner steps of K.
template <typename T, uint32_t M, uint32_t N, uint32_t K>
struct MatmulPlan {
  static_assert(sizeof(T) == 2, "half or bfloat16_t");
  static_assert(M % kFractal == 0 && N % kFractal == 0 && K % kFractal == 0 && M * N * K > 0,
                "blocks are whole fractals");
  static constexpr uint32_t kMaxSteps = 16;                // of a chunk in L1
  static constexpr uint32_t kLhsStep = M * K * sizeof(T);  // bytes
  static constexpr uint32_t kRhsStep = N * K * sizeof(T);
  static constexpr uint32_t kResult = M * N * sizeof(float);
  static_assert(2 * kLhsStep <= kL0aBytes, "L0A holds two steps of M x K");
  static_assert(2 * kRhsStep <= kL0bBytes, "L0B holds two steps of K x N");
  static_assert(kResult <= kL0cBytes, "L0C holds M x N");
  static_assert(N <= kMaxFixpipeCols, "one Fixpipe stores N columns");
  static_assert(M <= kMaxMmad && N <= kMaxMmad && K <= kMaxMmad, "one Mmad multiplies a step");
  static_assert(M <= kMaxRepeats * kFractal && N * K <= kMaxRepeats * kFractal * kFractal,
                "one LoadData moves a column of fractals to L0A, a step to L0B");
  static_assert(kMaxSteps * K <= kMaxNzRows, "one copy loads a chunk");

  // Steps of a chunk: as many as L1 holds twice, but a power of two, so that the rows of a chunk
  // start at multiples of the transfer size that global memory likes.
  static constexpr uint32_t kFit = kL1Bytes / (2 * (kLhsStep + kRhsStep));
  static_assert(kFit >= 1, "L1 holds two chunks");
  static constexpr uint32_t kSteps = kFit >= kMaxSteps ? kMaxSteps
                                     : kFit >= 8       ? 8
                                     : kFit >= 4       ? 4
                                     : kFit >= 2       ? 2
                                                       : 1;
  static constexpr uint32_t kRows = M;
  static constexpr uint32_t kCols = N;
  static constexpr uint32_t kStep = K;
  static constexpr uint32_t kResults = 2 * kResult <= kL0cBytes ? 2 : 1;
  // Halves of a result's columns that are stored on their own, where L0C holds only one result.
  static constexpr uint32_t kParts = kResults == 1 && N % (2 * kFractal) == 0 ? 2 : 1;
  // Whether a part of the left operand may stay in L1 from block to block.
  static constexpr bool kKeeps = true;

  using Element = T;
  static __aicore__ inline AscendC::LocalTensor<T> LhsStep(uint32_t slot) {
    return {AscendC::TPosition::A2, slot * kLhsStep, M * K};
  }
  static __aicore__ inline AscendC::LocalTensor<T> RhsStep(uint32_t slot) {
    return {AscendC::TPosition::B2, slot * kRhsStep, N * K};
  }
  static __aicore__ inline AscendC::LocalTensor<float> Result(uint32_t slot) {
    return {AscendC::TPosition::CO1, slot * kResult, M * N};
  }
};

// The same with nothing in L1 but two chunks, as CANN's grouped matmul operator has it.
template <typename T, uint32_t M, uint32_t N, uint32_t K>
struct CannLikeMatmulPlan : MatmulPlan<T, M, N, K> {
  static constexpr bool kKeeps = false;
};

// And with one result at a time, stored whole before the next is begun.
template <typename T, uint32_t M, uint32_t N, uint32_t K>
struct CannLikeGradientPlan : CannLikeMatmulPlan<T, M, N, K> {
  static constexpr uint32_t kResults = 1;
  static constexpr uint32_t kParts = 1;
};

// How a product uses L1: double-buffered chunks of both operands, each of several steps of the
// inner dimension, and in the rest some chunks of the left operand, which stay in L1 while blocks
// of the same rows follow each other. Chunks that stay are spread evenly over the inner dimension,
// since loads run only one chunk ahead. Halving the steps of a chunk doubles the instructions but
// leaves more room: done where at least half of the left operand then stays.
template <class Plan>
class MatmulL1 {
 public:
  // `reused`: whether blocks of the same rows follow each other.
  __aicore__ inline MatmulL1(uint32_t depth, bool reused) {
    const uint32_t all = CeilDiv(depth, Plan::kStep);
    if (reused && Plan::kSteps >= 2 && 2 * Room(Plan::kSteps / 2) >= all) {
      steps_ = Plan::kSteps / 2;
    }
    chunks_ = Max(CeilDiv(all, steps_), 1);
    // A single chunk would be overwritten while it is read.
    if (reused && chunks_ > 1) kept_ = Min(Room(steps_) / steps_, chunks_);
  }

  // Inner indices of a chunk, and the number of chunks: 1 where there are no indices.
  __aicore__ inline uint32_t Chunk() const { return steps_ * Plan::kStep; }
  __aicore__ inline uint32_t Chunks() const { return chunks_; }
  // Whether the left operand of a chunk stays.
  __aicore__ inline bool Keeps(uint32_t chunk) const { return Kept(chunk + 1) > Kept(chunk); }

  __aicore__ inline AscendC::LocalTensor<typename Plan::Element> Lhs(uint32_t slot,
                                                                     uint32_t chunk) const {
    const uint32_t size = steps_ * Plan::kLhsStep;
    const uint32_t address = Keeps(chunk) ? 2 * Slot() + Kept(chunk) * size : slot * Slot();
    return {AscendC::TPosition::A1, address, Plan::kRows * Chunk()};
  }
  __aicore__ inline AscendC::LocalTensor<typename Plan::Element> Rhs(uint32_t slot) const {
    return {AscendC::TPosition::B1, slot * Slot() + steps_ * Plan::kLhsStep, Plan::kCols * Chunk()};
  }

 private:
  // Steps of the left operand that fit beside two chunks of `steps` steps.
  static __aicore__ inline uint32_t Room(uint32_t steps) {
    return (kL1Bytes - 2 * steps * (Plan::kLhsStep + Plan::kRhsStep)) / Plan::kLhsStep;
  }
  // Bytes of a chunk of both operands.
  __aicore__ inline uint32_t Slot() const { return steps_ * (Plan::kLhsStep + Plan::kRhsStep); }
  // How many of the chunks before this one stay.
  __aicore__ inline uint32_t Kept(uint32_t chunk) const { return chunk * kept_ / chunks_; }

  uint32_t steps_ = Plan::kSteps;
  uint32_t chunks_;
  uint32_t kept_ = 0;
};

// A row-major block of global memory to NZ in L1; columns a multiple of 16. Rows up to the next
// multiple of 16 are not written: they affect only rows of the result that are not stored.
template <typename T>
__aicore__ inline void LoadNz(const AscendC::LocalTensor<T>& dst, __gm__ T* src, uint32_t rows,
                              uint32_t cols, uint32_t pitch) {
  AscendC::Nd2NzParams params(1, rows, cols, 0, pitch, RoundUp(rows, kFractal), 1, 0);
  if (rows == 1 || pitch <= kMaxPitch) {
    params.srcDValue = rows == 1 ? cols : pitch;
    AscendC::DataCopy(dst, Global(src, static_cast<uint64_t>(rows - 1) * pitch + cols), params);
    return;
  }
  // The copy's pitch is a 16-bit number, so wider buffers are copied row by row.
  params.nValue = 1;
  params.srcDValue = cols;
  for (uint32_t r = 0; r < rows; ++r) {
    AscendC::DataCopy(dst[r * kFractal], Global(src + static_cast<uint64_t>(r) * pitch, cols),
                      params);
  }
}

// Columns k .. k + depth - 1 of the left operand to L0A: one instruction for each 16 columns, whose
// fractals are stored a row of fractals apart.
template <typename T>
__aicore__ inline void LhsToL0(const AscendC::LocalTensor<T>& dst,
                               const AscendC::LocalTensor<T>& src, uint32_t rows, uint32_t k,
                               uint32_t depth) {
  const uint32_t across = depth / kFractal;
  const AscendC::LoadData2DParams params(0, rows / kFractal, 1, 0, across - 1, false, 0);
  for (uint32_t i = 0; i < across; ++i) {
    AscendC::LoadData(dst[i * kFractal * kFractal], src[(k + i * kFractal) * rows], params);
  }
}

// Rows k .. k + depth - 1 of a transposed left operand, `chunk` rows of `cols` columns in L1, to
// L0A: one instruction for each 16 rows transposes their fractals, whose places are a row of
// fractals apart.
template <typename T>
__aicore__ inline void TransposedLhsToL0(const AscendC::LocalTensor<T>& dst,
                                         const AscendC::LocalTensor<T>& src, uint32_t chunk,
                                         uint32_t cols, uint32_t k, uint32_t depth) {
  const uint32_t across = depth / kFractal;
  const AscendC::LoadData2DParams params(0, cols / kFractal, chunk / kFractal, 0, across - 1, true,
                                         0);
  for (uint32_t i = 0; i < across; ++i) {
    AscendC::LoadData(dst[i * kFractal * kFractal], src[(k + i * kFractal) * kFractal], params);
  }
}

// Rows k .. k + depth - 1 of the right operand, of `chunk` rows in L1, to L0B: `cols` columns from
// the first of `src` on.
template <typename T>
__aicore__ inline void RhsToL0(const AscendC::LocalTensor<T>& dst,
                               const AscendC::LocalTensor<T>& src, uint32_t chunk, uint32_t cols,
                               uint32_t k, uint32_t depth) {
  const AscendC::LoadData2DParams params(0, cols / kFractal, chunk / kFractal, 0, 0, true, 0);
  for (uint32_t i = 0; i < depth / kFractal; ++i) {
    AscendC::LoadData(dst[i * kFractal * cols], src[(k + i * kFractal) * kFractal], params);
  }
}

// Columns k .. k + depth - 1 of the transposed right operand [all x chunk], of which `cols` rows
// from `first` on: in L1 they already have the order of L0B.
template <typename T>
__aicore__ inline void TransposedRhsToL0(const AscendC::LocalTensor<T>& dst,
                                         const AscendC::LocalTensor<T>& src, uint32_t all,
                                         uint32_t first, uint32_t cols, uint32_t k,
                                         uint32_t depth) {
  const uint32_t pieces = cols == all ? 1 : depth / kFractal;
  const uint32_t deep = depth / pieces;
  const AscendC::LoadData2DParams params(0, deep / kFractal * (cols / kFractal), 1, 0, 0, false, 0);
  for (uint32_t i = 0; i < pieces; ++i) {
    AscendC::LoadData(dst[i * deep * cols], src[(k + i * deep) * all + first * kFractal], params);
  }
}

// result (+)= lhs * rhs. Rows are rounded up to whole fractals: Mmad takes a single row for a
// vector, for which the left operand has another layout.
template <typename T>
__aicore__ inline void Accumulate(const AscendC::LocalTensor<float>& result,
                                  const AscendC::LocalTensor<T>& lhs,
                                  const AscendC::LocalTensor<T>& rhs, uint32_t rows, uint32_t cols,
                                  uint32_t depth, bool from_zero) {
  const uint32_t padded = RoundUp(rows, kFractal);
  AscendC::MmadParams params(padded, cols, depth, 0, false, from_zero);
  AscendC::Mmad(result, lhs, rhs, params);
  // A short product may start before the previous one has written the same place in L0C.
  if (padded / kFractal * (cols / kFractal) < kMinPipelinedFractals) AscendC::PipeBarrier<PIPE_M>();
}

// Conversion of the fixpipe from float to the type of the result.
template <typename T>
constexpr QuantMode_t kStoreMode = QuantMode_t::NoQuant;
template <>
constexpr QuantMode_t kStoreMode<half> = QuantMode_t::F322F16;
template <>
constexpr QuantMode_t kStoreMode<bfloat16_t> = QuantMode_t::F322BF16;

// Valid rows of a result in L0C to row-major global memory.
template <typename T>
__aicore__ inline void StoreResult(__gm__ T* dst, const AscendC::LocalTensor<float>& src,
                                   uint32_t rows, uint32_t cols, uint32_t pitch) {
  AscendC::FixpipeParamsV220 params;
  params.nSize = cols;
  params.mSize = rows;
  params.srcStride = RoundUp(rows, kFractal);
  params.dstStride = pitch;
  params.quantPre = kStoreMode<T>;
  AscendC::Fixpipe<T, float, AscendC::CFG_ROW_MAJOR>(
      Global(dst, static_cast<uint64_t>(rows - 1) * pitch + cols), src, params);
}

}  // namespace hpmoe

#endif  // HPMOE_DETAIL_MATMUL_BLOCK_H_
