// Limits that one call or the end of the kernel violates; within the limit if `fixed`.
#include "kernel_operator.h"

using namespace AscendC;

template <typename T = float>
__aicore__ inline GlobalTensor<T> Global(GM_ADDR p, uint32_t count = 1024) {
  GlobalTensor<T> g;
  g.SetGlobalBuffer((__gm__ T*)p, count);
  return g;
}

__aicore__ inline void Copies(GM_ADDR in, GM_ADDR out, uint32_t which, bool fixed) {
  const LocalTensor<float> ub(TPosition::VECCALC, 0, 64);
  const LocalTensor<int64_t> wide(TPosition::VECCALC, 0, 32);
  const GlobalTensor<float> src = Global(in);
  const GlobalTensor<float> dst = Global(out);
  if (which == 0) DataCopy(ub, src[fixed ? 960 : 1000], 64);               // 0
  if (which == 1) DataCopy(dst, LocalTensor<float>(ub), fixed ? 64 : 72);  // 1
  if (which == 2) DataCopy(ub, Global(in, fixed ? 32 : 31), 32);           // 2
  if (which == 3) DataCopy(ub, src, fixed ? 8 : 7);                        // 3
  if (which == 4) DataCopy(ub[fixed ? 8 : 4], src, 8);                     // 4
  if (which == 5) {                                                        // the tail is not zero
    DataCopyPad(ub, src, {1, 20, 0, 0, 0}, {true, 0, uint8_t(fixed ? 3 : 0), 0});  // 5
  }
  if (which == 6) DataCopyPad(ub, src, {2, fixed ? 36u : 28u, 0, 0, 0}, {false, 0, 0, 0});  // 6
  if (which == 7) DataCopyPad(dst, ub, {2, fixed ? 36u : 28u, 0, 0, 0});                    // 7
  if (which == 8) {
    DataCopyPad(ub, src, {1, 20, 0, 0, 0}, {true, 0, uint8_t(fixed ? 8 : 9), 0});  // 8
  }
  if (which == 9) {
    const DataCopyPadExtParams<int64_t> pad(true, 0, 1, fixed ? 0 : 1);
    DataCopyPad(wide, Global<int64_t>(in, 512), {1, 24, 0, 0, 0}, pad);  // 9
  }
  if (which == 10) DataCopy(fixed ? dst : src, ub, 8);  // 10
}

__aicore__ inline void Others(uint32_t which, bool fixed) {
  const LocalTensor<float> ub(TPosition::VECCALC, 0, 128);
  if (which == 20) {
    LocalTensor<float> all(TPosition::VECCALC, 4096, fixed ? 48000 : 48200);  // 20
    Duplicate(all, 1.0f, 48000);
  }
  if (which == 21) Adds(ub[fixed ? 64 : 8], ub, 1.0f, 64);  // 21
  if (which == 22) {
    SetFlag<HardEvent::MTE2_V>(fixed ? 5 : 6);  // 22
    WaitFlag<HardEvent::MTE2_V>(fixed ? 5 : 6);
  }
  if (which == 23) {
    SetFlag<HardEvent::MTE2_V>(0);
    if (fixed) WaitFlag<HardEvent::MTE2_V>(0);
    SetFlag<HardEvent::MTE2_V>(0);  // 23
    WaitFlag<HardEvent::MTE2_V>(0);
  }
  if (which == 24) {
    SetFlag<HardEvent::V_MTE3>(1);  // 24
    if (fixed) WaitFlag<HardEvent::V_MTE3>(1);
  }
  if (which == 25) {
    if (fixed) SetFlag<HardEvent::V_MTE3>(1);
    WaitFlag<HardEvent::V_MTE3>(1);  // 25
  }
  if (which == 26) {
    SetAtomicAdd<float>();  // 26
    if (fixed) SetAtomicNone();
  }
}

// Both vector cores.
__aicore__ inline void Pairs(uint32_t which, bool fixed) {
  if (which == 30) {  // one set more than the chip counts
    for (int i = 0; i < (fixed ? 15 : 16); ++i) CrossCoreSetFlag<1, PIPE_MTE3>(1);  // 30
    for (int i = 0; i < (fixed ? 15 : 16); ++i) CrossCoreWaitFlag(1);
  }
  if (which == 31) {
    CrossCoreSetFlag<1, PIPE_MTE3>(2);
    if (fixed || GetBlockIdx() == 0) CrossCoreWaitFlag(2);
  }
}

extern "C" __global__ __mix__(1, 2) __aicore__
    void limits(GM_ADDR in, GM_ADDR out, uint32_t which, uint32_t fixed) {
  InitSocState();
  if ASCEND_IS_AIC
    return;
  PrintTimeStamp(which);
  if (which >= 30) Pairs(which, fixed != 0);
  if (GetBlockIdx() != 0) return;
  if (which < 20) Copies(in, out, which, fixed != 0);
  if (which >= 20 && which < 30) Others(which, fixed != 0);
}
