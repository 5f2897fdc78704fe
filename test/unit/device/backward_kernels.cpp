// One tile kernel of the backward direction at a time, chosen by `kernel`; each AIV worker takes
// its own chunk of the rows.
#include "ascend_a3.h"
#include "hpmoe/add_rows.h"
#include "hpmoe/gate_gradient.h"
#include "hpmoe/gather_scaled_rows.h"
#include "hpmoe/sum_copies.h"
#include "hpmoe/swiglu_grad.h"
#include "hpmoe/weight_gradient.h"
#include "kernel_operator.h"

namespace {

enum Kernel : uint32_t {
  kScaled,
  kSumCopies,
  kGateGradient,
  kSwiGluGrad,
  kAddRows,
  kWeightGradient,
};

struct Arguments {
  GM_ADDR in0;
  GM_ADDR in1;
  GM_ADDR in2;
  GM_ADDR out0;
  GM_ADDR sums;
  uint32_t rows, cols, inner, in_pitch, out_pitch, limit, shares;

  template <typename T>
  __aicore__ inline hpmoe::Tile<T> Tile(GM_ADDR data, uint32_t tile_rows, uint32_t tile_cols,
                                        uint32_t pitch) const {
    return {reinterpret_cast<__gm__ T*>(data), tile_rows, tile_cols, pitch, 0};
  }
  template <typename T>
  __aicore__ inline hpmoe::Tile<T> Tile(GM_ADDR data, uint32_t tile_rows,
                                        uint32_t tile_cols) const {
    return Tile<T>(data, tile_rows, tile_cols, tile_cols);
  }
};

// The rows of `tile` of this worker.
template <typename T>
__aicore__ inline hpmoe::Tile<T> Part(const hpmoe::Tile<T>& tile) {
  const uint32_t worker = static_cast<uint32_t>(AscendC::GetBlockIdx());
  const uint32_t workers = 2 * static_cast<uint32_t>(AscendC::GetBlockNum());
  const hpmoe::Rows rows = hpmoe::Chunk({0, tile.rows}, worker, workers, 1);
  return hpmoe::Slice(tile.data, tile.pitch, rows, 0, tile.cols);
}

// rows, cols: of the result; inner: copies of a token; limit: rows of the tile that is read whole.
template <typename T>
__aicore__ inline void RunVector(uint32_t kernel, const Arguments& a) {
  const hpmoe::Tile<T> whole = a.Tile<T>(a.in0, a.limit, a.cols, a.in_pitch);
  const hpmoe::Tile<T> out = Part(a.Tile<T>(a.out0, a.rows, a.cols, a.out_pitch));
  const hpmoe::Tile<int32_t> position = Part(a.Tile<int32_t>(a.in1, a.rows, a.inner));
  switch (kernel) {
    case kScaled: {
      const hpmoe::Tile<int32_t> order = {reinterpret_cast<__gm__ int32_t*>(a.in2) + out.first, 1,
                                          out.rows, 0, 0};
      return hpmoe::GatherScaledRows<T>(whole, a.Tile<float>(a.in1, a.limit, a.inner), order, out,
                                        a.inner);
    }
    case kSumCopies:
      return hpmoe::SumCopies<T>(whole, position, out);
    case kGateGradient:
      return hpmoe::GateGradient<T>(whole, position,
                                    Part(a.Tile<T>(a.in2, a.rows, a.cols, a.out_pitch)),
                                    Part(a.Tile<float>(a.out0, a.rows, a.inner)));
    case kSwiGluGrad:
      return hpmoe::SwiGluGrad<T>(Part(a.Tile<T>(a.in0, a.rows, 2 * a.cols, a.in_pitch)),
                                  Part(a.Tile<T>(a.in1, a.rows, a.cols, a.inner)),
                                  Part(a.Tile<T>(a.out0, a.rows, 2 * a.cols, a.out_pitch)));
    default:
      return hpmoe::AddRows<T>(Part(a.Tile<T>(a.in0, a.rows, a.cols, a.in_pitch)),
                               Part(a.Tile<T>(a.in1, a.rows, a.cols, a.inner)), out);
  }
}

// Runs the shares of a product, the last first; 0 shares: all blocks in one call.
template <typename T, uint32_t M, uint32_t N, uint32_t K, bool Accumulate, bool CannLike = false,
          typename Out>
__aicore__ inline void MultiplyShares(const hpmoe::Tile<T>& lhs, const hpmoe::Tile<T>& rhs,
                                      const hpmoe::Tile<Out>& out, uint32_t shares) {
  const uint32_t step = shares == 0 ? 1 : shares;
  for (uint32_t first = step; first-- > 0;) {
    if constexpr (CannLike) {
      hpmoe::CannLikeWeightGradient<T, M, N, K, Accumulate>(lhs, rhs, out, first, step);
    } else {
      hpmoe::WeightGradient<T, M, N, K, Accumulate>(lhs, rhs, out, first, step);
    }
  }
}

template <typename T, bool Accumulate, typename Out>
__aicore__ inline void Multiply(uint32_t blocking, const hpmoe::Tile<T>& lhs,
                                const hpmoe::Tile<T>& rhs, const hpmoe::Tile<Out>& out,
                                uint32_t shares) {
  switch (blocking) {
    case 0:
      return MultiplyShares<T, 128, 256, 64, Accumulate>(lhs, rhs, out, shares);
    case 1:
      return MultiplyShares<T, 128, 128, 128, Accumulate>(lhs, rhs, out, shares);
    case 2:
      return MultiplyShares<T, 16, 16, 16, Accumulate>(lhs, rhs, out, shares);
    case 3:
      return MultiplyShares<T, 256, 128, 64, Accumulate>(lhs, rhs, out, shares);
    case 4:
      return MultiplyShares<T, 128, 256, 64, Accumulate, true>(lhs, rhs, out, shares);
    default:
      return MultiplyShares<T, 16, 16, 16, Accumulate, true>(lhs, rhs, out, shares);
  }
}

// lhs [limit x rows], rhs [limit x cols]. variant % 3: 0 to the operands' type, 1 to float, 2 added
// to floats; variant / 3: blocking.
template <typename T>
__aicore__ inline void RunMatrix(uint32_t variant, const Arguments& a) {
  const hpmoe::Tile<T> lhs = a.Tile<T>(a.in0, a.limit, a.rows, a.in_pitch);
  const hpmoe::Tile<T> rhs = a.Tile<T>(a.in1, a.limit, a.cols, a.inner);
  switch (variant % 3) {
    case 0:
      return Multiply<T, false>(variant / 3, lhs, rhs,
                                a.Tile<T>(a.out0, a.rows, a.cols, a.out_pitch), a.shares);
    case 1:
      return Multiply<T, false>(variant / 3, lhs, rhs,
                                a.Tile<float>(a.out0, a.rows, a.cols, a.out_pitch), a.shares);
    default:
      return Multiply<T, true>(variant / 3, lhs, rhs,
                               a.Tile<float>(a.sums, a.rows, a.cols, a.out_pitch), a.shares);
  }
}

template <typename T>
__aicore__ inline void Run(uint32_t kernel, uint32_t variant, const Arguments& a) {
  if ASCEND_IS_AIV {
    if (kernel < kWeightGradient) RunVector<T>(kernel, a);
  }
  if ASCEND_IS_AIC {
    if (kernel == kWeightGradient && AscendC::GetBlockIdx() == 0) RunMatrix<T>(variant, a);
  }
}

}  // namespace

extern "C" __global__ __mix__(1, 2) __aicore__
    void backward_kernels(GM_ADDR in0, GM_ADDR in1, GM_ADDR in2, GM_ADDR out0, GM_ADDR sums,
                          uint32_t kernel, uint32_t halves, uint32_t variant, uint32_t rows,
                          uint32_t cols, uint32_t inner, uint32_t in_pitch, uint32_t out_pitch,
                          uint32_t limit, uint32_t shares) {
  AscendC::InitSocState();
  const Arguments a = {in0,  in1,   in2,      out0,      sums,  rows,
                       cols, inner, in_pitch, out_pitch, limit, shares};
  if (halves != 0) {
    Run<half>(kernel, variant, a);
  } else {
    Run<bfloat16_t>(kernel, variant, a);
  }
}
