// Copies between global and local memory, one case each; on AIV 0 or AIC 0.
#include "kernel_operator.h"

using namespace AscendC;

template <typename T>
__aicore__ inline GlobalTensor<T> Global(GM_ADDR p) {
  GlobalTensor<T> g;
  g.SetGlobalBuffer((__gm__ T*)p);
  return g;
}

__aicore__ inline void Arrived() {
  SetFlag<HardEvent::MTE2_MTE3>(0);
  WaitFlag<HardEvent::MTE2_MTE3>(0);
}

__aicore__ inline void OnAiv(GM_ADDR in, GM_ADDR out, uint32_t which) {
  LocalTensor<int16_t> ub(TPosition::VECIN, 0, 4096);
  GlobalTensor<int16_t> src = Global<int16_t>(in);
  GlobalTensor<int16_t> dst = Global<int16_t>(out);
  if (which == 0) {  // count form, from an address that is not aligned
    DataCopy(ub, src[3], 64);
    Arrived();
    DataCopy(dst[5], ub, 64);
  }
  if (which == 1) {  // 3 blocks of 32 B, gaps of 1 and 2 blocks
    DataCopy(ub, src, DataCopyParams(3, 1, 1, 2));
    Arrived();
    DataCopy(dst, ub, DataCopyParams(3, 1, 2, 0));
  }
  if (which == 2) {  // 4 rows of 17 elements, 2 bytes between them, padded on both sides
    DataCopyPad(ub, src, DataCopyExtParams(4, 34, 2, 1, 0),
                DataCopyPadExtParams<int16_t>(true, 2, 3, -7));
    Arrived();
    DataCopy(dst, ub, 4 * 48);
  }
  if (which == 3) {  // rows out again: 3 rows of 17, each 96 B apart in UB, 6 bytes in memory
    DataCopy(ub, src, 144);
    Arrived();
    DataCopyPad(dst, ub, DataCopyExtParams(3, 34, 1, 6, 0));
  }
  if (which == 4) {  // without a value the padding is arbitrary
    DataCopyPad(ub, src, DataCopyExtParams(1, 10, 0, 0, 0),
                DataCopyPadExtParams<int16_t>(false, 0, 0, 0));
    Arrived();
    DataCopy(dst, ub, 16);
  }
  if (which == 5) {  // atomic adds of each type
    LocalTensor<float> f = ub.ReinterpretCast<float>();
    LocalTensor<half> h = ub.ReinterpretCast<half>();
    LocalTensor<bfloat16_t> b = ub.ReinterpretCast<bfloat16_t>();
    LocalTensor<int32_t> i = ub.ReinterpretCast<int32_t>();
    DataCopy(ub, src, 256);
    Arrived();
    DataCopy(dst, ub, 256);
    PipeBarrier<PIPE_MTE3>();
    SetAtomicAdd<float>();
    DataCopy(Global<float>(out), f, 32);
    SetAtomicAdd<half>();
    DataCopy(Global<half>(out)[64], h[64], 64);
    SetAtomicAdd<bfloat16_t>();
    DataCopy(Global<bfloat16_t>(out)[128], b[128], 64);
    SetAtomicAdd<int32_t>();
    DataCopyPad(Global<int32_t>(out)[96], i[96], {1, 4, 0, 0, 0});
    SetAtomicNone();
    DataCopyPad(Global<int32_t>(out)[97], i[104], {1, 4, 0, 0, 0});
  }
}

__aicore__ inline void OnAic(GM_ADDR in, GM_ADDR out, uint32_t which) {
  LocalTensor<int16_t> l1(TPosition::A1, 0, 4096);
  GlobalTensor<int16_t> src = Global<int16_t>(in);
  GlobalTensor<int16_t> dst = Global<int16_t>(out);
  if (which == 6) {  // through L1 and back
    DataCopy(l1, src, 64);
    Arrived();
    DataCopy(dst, l1, DataCopyParams(2, 2, 0, 1));
  }
  if (which == 7) {  // 5 rows of 20 columns: the column tail is zero, rows 5 to 15 stay as they are
    DataCopy(l1, src, Nd2NzParams(1, 5, 20, 0, 24, 16, 1, 0));
    Arrived();
    DataCopy(dst, l1, 2 * 16 * 16);
  }
  if (which == 8) {  // two matrices of 2 x 16, the second 1 KB further
    DataCopy(l1, src, Nd2NzParams(2, 2, 16, 40, 16, 16, 2, 512));
    Arrived();
    DataCopy(dst, l1, 1024);
  }
  if (which == 9) {  // the counter increment of an AIC
    LocalTensor<int32_t> word(TPosition::A1, 0, 8);
    Fill(word, InitConstValueParams<int32_t>(1, 1, 0, 0));
    PipeBarrier<PIPE_MTE2>();
    DataCopy(word, Global<int32_t>(in), 8);
    Arrived();
    DataCopy(Global<int32_t>(out), word, 8);
    PipeBarrier<PIPE_MTE3>();
    SetAtomicAdd<int32_t>();
    DataCopy(Global<int32_t>(out), word, 8);
    SetAtomicNone();
  }
}

extern "C" __global__ __mix__(1, 2) __aicore__ void dma(GM_ADDR in, GM_ADDR out, uint32_t which) {
  InitSocState();
  if (GetBlockIdx() != 0) return;
  if ASCEND_IS_AIC
    OnAic(in, out, which);
  if ASCEND_IS_AIV
    OnAiv(in, out, which);
}
