// One vector operation on AIV 0: out = op(a, b) element by element, `n` elements.
#include "kernel_operator.h"

using namespace AscendC;

template <typename T>
__aicore__ inline void Arithmetic(LocalTensor<T> out, LocalTensor<T> a, LocalTensor<T> b,
                                  uint32_t op, int32_t n) {
  if (op == 0) Add(out, a, b, n);
  if (op == 1) Sub(out, a, b, n);
  if (op == 2) Mul(out, a, b, n);
  if (op == 3) Max(out, a, b, n);
  if (op == 4) Min(out, a, b, n);
  if (op == 5) Adds(out, a, T(3), n);
  if (op == 6) Muls(out, a, T(3), n);
  if (op == 7) Maxs(out, a, T(3), n);
  if (op == 8) Mins(out, a, T(3), n);
  if (op == 9) Duplicate(out, T(3), n);
}

template <typename T>
__aicore__ inline void Floating(LocalTensor<T> out, LocalTensor<T> a, LocalTensor<T> b, uint32_t op,
                                int32_t n) {
  Arithmetic(out, a, b, op, n);
  if (op == 10) Div(out, a, b, n);
  if (op == 11) Exp(out, a, n);
  if (op == 12) Ln(out, a, n);
  if (op == 13) Abs(out, a, n);
  if (op == 14) Sqrt(out, a, n);
  if (op == 15) {
    Adds(out, b, T(0), n);
    PipeBarrier<PIPE_V>();
    Axpy(out, a, T(3), n);
  }
}

constexpr uint32_t kBytes = 4096;

template <typename T>
__aicore__ inline LocalTensor<T> Buffer(uint32_t index) {
  return LocalTensor<T>(TPosition::VECCALC, index * kBytes, kBytes / sizeof(T));
}

template <typename T>
__aicore__ inline void Load(LocalTensor<T> dst, GM_ADDR src, uint32_t n) {
  GlobalTensor<T> source;
  source.SetGlobalBuffer((__gm__ T*)src, n);
  DataCopyPad(dst, source, {1, static_cast<uint32_t>(n * sizeof(T)), 0, 0, 0}, {false, 0, 0, 0});
}

template <typename T>
__aicore__ inline void Store(GM_ADDR dst, LocalTensor<T> src, uint32_t n) {
  SetFlag<HardEvent::V_MTE3>(0);
  WaitFlag<HardEvent::V_MTE3>(0);
  GlobalTensor<T> target;
  target.SetGlobalBuffer((__gm__ T*)dst, n);
  DataCopyPad(target, src, {1, static_cast<uint32_t>(n * sizeof(T)), 0, 0, 0});
}

__aicore__ inline void LoadDone() {
  SetFlag<HardEvent::MTE2_V>(0);
  WaitFlag<HardEvent::MTE2_V>(0);
}

template <typename To, typename From>
__aicore__ inline void Convert(GM_ADDR a, GM_ADDR out, uint32_t mode, uint32_t n) {
  Load(Buffer<From>(0), a, n);
  LoadDone();
  Cast(Buffer<To>(1), Buffer<From>(0), static_cast<RoundMode>(mode), n);
  Store(out, Buffer<To>(1), n);
}

extern "C" __global__ __mix__(1, 2) __aicore__
    void vector(GM_ADDR a, GM_ADDR b, GM_ADDR out, uint32_t op, uint32_t type, uint32_t n) {
  InitSocState();
  if ASCEND_IS_AIV {
    if (GetBlockIdx() != 0) return;
    if (type >= 100) {
      if (type == 100) Convert<float, half>(a, out, op, n);
      if (type == 101) Convert<float, bfloat16_t>(a, out, op, n);
      if (type == 102) Convert<half, float>(a, out, op, n);
      if (type == 103) Convert<bfloat16_t, float>(a, out, op, n);
      if (type == 104) Convert<int32_t, float>(a, out, op, n);
      if (type == 105) Convert<float, int32_t>(a, out, op, n);
      if (type == 106) Convert<float, float>(a, out, op, n);
      if (type == 107) Convert<int16_t, half>(a, out, op, n);
      return;
    }
    if (type == 0) {
      Load(Buffer<float>(0), a, n);
      Load(Buffer<float>(1), b, n);
      LoadDone();
      Floating(Buffer<float>(2), Buffer<float>(0), Buffer<float>(1), op, n);
      Store(out, Buffer<float>(2), n);
    } else if (type == 1) {
      Load(Buffer<half>(0), a, n);
      Load(Buffer<half>(1), b, n);
      LoadDone();
      Floating(Buffer<half>(2), Buffer<half>(0), Buffer<half>(1), op, n);
      Store(out, Buffer<half>(2), n);
    } else {
      Load(Buffer<int32_t>(0), a, n);
      Load(Buffer<int32_t>(1), b, n);
      LoadDone();
      Arithmetic(Buffer<int32_t>(2), Buffer<int32_t>(0), Buffer<int32_t>(1), op, n);
      Store(out, Buffer<int32_t>(2), n);
    }
  }
}
