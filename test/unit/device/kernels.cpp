// One tile kernel at a time, chosen by `kernel`; each AIV worker takes its own chunk of the rows.
#include "ascend_a3.h"
#include "hpmoe/build_route.h"
#include "hpmoe/count_tokens.h"
#include "hpmoe/exchange_counts.h"
#include "hpmoe/grouped_matmul.h"
#include "hpmoe/place_tokens.h"
#include "hpmoe/put_rows.h"
#include "hpmoe/swiglu.h"
#include "hpmoe/weighted_sum.h"
#include "kernel_operator.h"

namespace {

enum Kernel : uint32_t {
  kCount,
  kExchange,
  kPlace,
  kRoute,
  kCopy,
  kGather,
  kSwiGlu,
  kWeightedSum,
  kMatmul,
};

struct Arguments {
  GM_ADDR in0;
  GM_ADDR in1;
  GM_ADDR in2;
  GM_ADDR out0;
  GM_ADDR out1;
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

// rows tokens, cols choices, inner experts.
__aicore__ inline void RunRouting(uint32_t kernel, const Arguments& a) {
  const uint32_t worker = static_cast<uint32_t>(AscendC::GetBlockIdx());
  const uint32_t workers = 2 * static_cast<uint32_t>(AscendC::GetBlockNum());
  const hpmoe::Tile<int32_t> ids = Part(a.Tile<int32_t>(a.in0, a.rows, a.cols));
  switch (kernel) {
    case kCount: {
      const hpmoe::Tile<int32_t> counts = a.Tile<int32_t>(a.out0, workers, a.inner);
      return hpmoe::CountTokens(ids, Part(counts));
    }
    case kExchange:
      if (worker != 0) return;
      return hpmoe::ExchangeCounts(a.Tile<int32_t>(a.in0, a.rows, a.inner, a.in_pitch),
                                   a.Tile<int32_t>(a.out0, 1, 2 * a.inner));
    case kPlace:
      return hpmoe::PlaceTokens(ids, a.Tile<int32_t>(a.in1, workers, a.inner),
                                a.Tile<int32_t>(a.out0, 1, a.rows * a.cols),
                                Part(a.Tile<int32_t>(a.out1, a.rows, a.cols)), worker);
    default: {  // rows ranks, cols this rank, inner experts
      if (worker != 0) return;
      const hpmoe::RouteLayout layout(a.inner, a.rows);
      return hpmoe::BuildRoute(a.Tile<int32_t>(a.in0, a.rows, 2 * a.inner),
                               a.Tile<int32_t>(a.out0, 1, layout.words),
                               a.Tile<int32_t>(a.out1, 1, 16), a.cols, a.limit);
    }
  }
}

template <typename T>
__aicore__ inline void RunVector(uint32_t kernel, const Arguments& a) {
  const hpmoe::Tile<T> out = Part(a.Tile<T>(a.out0, a.rows, a.cols, a.out_pitch));
  switch (kernel) {
    case kCopy:
      return hpmoe::CopyRows<T>(Part(a.Tile<T>(a.in0, a.rows, a.cols, a.in_pitch)), out);
    case kGather: {
      const hpmoe::Tile<int32_t> order = {reinterpret_cast<__gm__ int32_t*>(a.in1) + out.first, 1,
                                          out.rows, 0, 0};
      return hpmoe::GatherRows<T>(a.Tile<T>(a.in0, a.limit, a.cols, a.in_pitch), order, out,
                                  a.inner);
    }
    case kSwiGlu:
      return hpmoe::SwiGlu<T>(Part(a.Tile<T>(a.in0, a.rows, 2 * a.cols, a.in_pitch)), out);
    default:
      return hpmoe::WeightedSum<T>(a.Tile<T>(a.in0, a.limit, a.cols, a.in_pitch),
                                   Part(a.Tile<int32_t>(a.in1, a.rows, a.inner)),
                                   Part(a.Tile<float>(a.in2, a.rows, a.inner)), out);
  }
}

// Runs the shares of a product, the last first; 0 shares: all blocks in one call.
template <typename T, uint32_t M, uint32_t N, uint32_t K, bool TransposeRhs, bool CannLike = false>
__aicore__ inline void Multiply(const hpmoe::Tile<T>& lhs, const hpmoe::Tile<T>& rhs,
                                const hpmoe::Tile<T>& out, uint32_t shares) {
  const uint32_t step = shares == 0 ? 1 : shares;
  for (uint32_t first = step; first-- > 0;) {
    if constexpr (CannLike) {
      hpmoe::CannLikeGroupedMatmul<T, M, N, K, TransposeRhs>(lhs, rhs, out, first, step);
    } else {
      hpmoe::GroupedMatmul<T, M, N, K, TransposeRhs>(lhs, rhs, out, first, step);
    }
  }
}

template <typename T, bool TransposeRhs>
__aicore__ inline void RunMatmul(uint32_t blocking, const Arguments& a) {
  const hpmoe::Tile<T> lhs = a.Tile<T>(a.in0, a.rows, a.inner, a.in_pitch);
  const hpmoe::Tile<T> rhs = TransposeRhs ? a.Tile<T>(a.in1, a.cols, a.inner, a.limit)
                                          : a.Tile<T>(a.in1, a.inner, a.cols, a.limit);
  const hpmoe::Tile<T> out = a.Tile<T>(a.out0, a.rows, a.cols, a.out_pitch);
  switch (blocking) {
    case 0:
      return Multiply<T, 128, 256, 64, TransposeRhs>(lhs, rhs, out, a.shares);
    case 1:
      return Multiply<T, 128, 128, 128, TransposeRhs>(lhs, rhs, out, a.shares);
    case 2:
      return Multiply<T, 16, 16, 16, TransposeRhs>(lhs, rhs, out, a.shares);
    case 3:
      return Multiply<T, 128, 256, 64, TransposeRhs, true>(lhs, rhs, out, a.shares);
    default:
      return Multiply<T, 16, 16, 16, TransposeRhs, true>(lhs, rhs, out, a.shares);
  }
}

template <typename T>
__aicore__ inline void Run(uint32_t kernel, uint32_t variant, const Arguments& a) {
  if ASCEND_IS_AIV {
    if (kernel < kCopy) RunRouting(kernel, a);
    if (kernel >= kCopy && kernel < kMatmul) RunVector<T>(kernel, a);
  }
  if ASCEND_IS_AIC {
    if (kernel != kMatmul || AscendC::GetBlockIdx() != 0) return;
    if (variant % 2 == 0) {
      RunMatmul<T, false>(variant / 2, a);
    } else {
      RunMatmul<T, true>(variant / 2, a);
    }
  }
}

}  // namespace

extern "C" __global__ __mix__(1, 2) __aicore__
    void kernels(GM_ADDR in0, GM_ADDR in1, GM_ADDR in2, GM_ADDR out0, GM_ADDR out1, uint32_t kernel,
                 uint32_t halves, uint32_t variant, uint32_t rows, uint32_t cols, uint32_t inner,
                 uint32_t in_pitch, uint32_t out_pitch, uint32_t limit, uint32_t shares) {
  AscendC::InitSocState();
  const Arguments a = {in0,  in1,   in2,      out0,      out1,  rows,
                       cols, inner, in_pitch, out_pitch, limit, shares};
  if (halves != 0) {
    Run<half>(kernel, variant, a);
  } else {
    Run<bfloat16_t>(kernel, variant, a);
  }
}
