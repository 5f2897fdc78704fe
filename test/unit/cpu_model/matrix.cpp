// One tile product on AIC 0 of each rank: out[m, n] = a * b, in every layout of the operands.
#include "kernel_operator.h"

using namespace AscendC;

constexpr uint32_t kFractal = 256;  // elements

__aicore__ inline uint32_t CeilDiv(uint32_t a, uint32_t b) { return (a + b - 1) / b; }

template <typename T>
__aicore__ inline void LoadNz(LocalTensor<T> l1, __gm__ T* data, uint32_t rows, uint32_t cols) {
  GlobalTensor<T> source;
  source.SetGlobalBuffer(data, uint64_t{rows} * cols);
  const uint16_t rows16 = CeilDiv(rows, 16) * 16;
  DataCopy(l1, source, Nd2NzParams(1, rows, cols, 0, cols, rows16, 1, 0));
}

// L0A is Zz: for each block of 16 rows all blocks of 16 k.
template <typename T>
__aicore__ inline void LoadA(LocalTensor<T> l0, LocalTensor<T> l1, uint32_t m, uint32_t k,
                             bool transposed) {
  const uint32_t m16 = CeilDiv(m, 16);
  const uint32_t k16 = CeilDiv(k, 16);
  for (uint32_t i = 0; i < m16; ++i) {
    LoadData2DParams params;
    params.repeatTimes = k16;
    params.srcStride = transposed ? 1 : m16;
    params.ifTranspose = transposed;
    const uint32_t first = transposed ? i * k16 : i;
    LoadData(l0[i * k16 * kFractal], l1[first * kFractal], params);
  }
}

// L0B is Zn: for each block of 16 k all blocks of 16 columns, each column contiguous.
template <typename T>
__aicore__ inline void LoadB(LocalTensor<T> l0, LocalTensor<T> l1, uint32_t n, uint32_t k,
                             bool transposed) {
  const uint32_t n16 = CeilDiv(n, 16);
  const uint32_t k16 = CeilDiv(k, 16);
  for (uint32_t i = 0; i < k16; ++i) {
    LoadData2DParams params;
    params.startIndex = transposed ? i * n16 : i;
    params.repeatTimes = n16;
    params.srcStride = transposed ? 1 : k16;
    params.ifTranspose = !transposed;
    LoadData(l0[i * n16 * kFractal], l1, params);
  }
}

template <typename T, typename Out>
__aicore__ inline void TileProduct(GM_ADDR a, GM_ADDR b, GM_ADDR out, uint32_t m, uint32_t n,
                                   uint32_t k, bool a_transposed, bool b_transposed, bool halves) {
  LocalTensor<T> a1(TPosition::A1, 0, 64 * 1024);
  LocalTensor<T> b1(TPosition::B1, 128 * 1024, 64 * 1024);
  LocalTensor<T> a2(TPosition::A2, 0, 32 * 1024);
  LocalTensor<T> b2(TPosition::B2, 0, 32 * 1024);
  LocalTensor<float> c(TPosition::CO1, 0, 32 * 1024);
  LoadNz(a1, (__gm__ T*)a, a_transposed ? k : m, a_transposed ? m : k);
  LoadNz(b1, (__gm__ T*)b, b_transposed ? n : k, b_transposed ? k : n);
  SetFlag<HardEvent::MTE2_MTE1>(0);
  WaitFlag<HardEvent::MTE2_MTE1>(0);
  LoadA(a2, a1, m, k, a_transposed);
  LoadB(b2, b1, n, k, b_transposed);
  SetFlag<HardEvent::MTE1_M>(0);
  WaitFlag<HardEvent::MTE1_M>(0);
  Mmad(c, a2, b2, MmadParams(m, n, k, 0, false, true));
  if (halves) {
    PipeBarrier<PIPE_M>();
    Mmad(c, a2, b2, MmadParams(m, n, k, 0, false, false));
  }
  SetFlag<HardEvent::M_FIX>(0);
  WaitFlag<HardEvent::M_FIX>(0);
  const uint32_t n16 = CeilDiv(n, 16) * 16;
  GlobalTensor<Out> result;
  result.SetGlobalBuffer((__gm__ Out*)out, uint64_t{m} * n16);
  FixpipeParamsV220 params(n16, m, CeilDiv(m, 16) * 16, n16, false);
  if (sizeof(Out) == 2) {
    params.quantPre = std::is_same<Out, half>::value ? QuantMode_t::F322F16 : QuantMode_t::F322BF16;
  }
  Fixpipe<Out, float, CFG_ROW_MAJOR>(result, c, params);
  PipeBarrier<PIPE_ALL>();
}

extern "C" __global__ __mix__(1, 2) __aicore__
    void matrix(GM_ADDR a, GM_ADDR b, GM_ADDR out, uint32_t m, uint32_t n, uint32_t k,
                uint32_t mode) {
  InitSocState();
  if ASCEND_IS_AIC {
    if (GetBlockIdx() != 0) return;
    const bool a_transposed = mode & 1;
    const bool b_transposed = mode & 2;
    const bool halves = mode & 4;
    if (mode & 8) {
      TileProduct<bfloat16_t, bfloat16_t>(a, b, out, m, n, k, a_transposed, b_transposed, halves);
    } else if (mode & 16) {
      TileProduct<half, float>(a, b, out, m, n, k, a_transposed, b_transposed, halves);
    } else {
      TileProduct<half, half>(a, b, out, m, n, k, a_transposed, b_transposed, halves);
    }
  }
}
