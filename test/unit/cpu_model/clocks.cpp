// Kernels whose times can be computed by hand, one case each.
#include "kernel_operator.h"
#include "shmem.h"

using namespace AscendC;

constexpr uint32_t kBytes = 64 * 1024;  // of a transfer
constexpr int64_t kPause = 1000;        // ticks between two reads

__aicore__ inline GlobalTensor<float> Data(GM_ADDR p, uint64_t piece) {
  GlobalTensor<float> g;
  g.SetGlobalBuffer((__gm__ float*)(p + piece * kBytes), kBytes / 4);
  return g;
}

__aicore__ inline LocalTensor<float> Slab(uint32_t slot) {
  return LocalTensor<float>(TPosition::VECIN, slot * kBytes, kBytes / 4);
}

__aicore__ inline GlobalTensor<int32_t> Counter(GM_ADDR windows) {
  GlobalTensor<int32_t> g;
  g.SetGlobalBuffer((__gm__ int32_t*)windows, 16);
  return g;
}

// `pieces` transfers, each waited for before the next.
__aicore__ inline void LoadOneByOne(GM_ADDR in, uint32_t pieces, uint32_t first = 0) {
  for (uint32_t i = 0; i < pieces; ++i) {
    DataCopy(Slab(0), Data(in, first + i), kBytes / 4);
    SetFlag<HardEvent::MTE2_S>(0);
    WaitFlag<HardEvent::MTE2_S>(0);
  }
}

// 512 bytes of each 4096, `column` times 512 bytes from the first, `times` times.
__aicore__ inline void LoadPanel(GM_ADDR in, uint32_t pieces, uint32_t column, uint32_t times) {
  const uint16_t rows = pieces * (kBytes / 4096);
  GlobalTensor<float> g;
  g.SetGlobalBuffer((__gm__ float*)in, pieces * kBytes / 4);
  for (uint32_t i = 0; i < times; ++i) {
    DataCopy(Slab(0), g[column * 128], DataCopyParams(rows, 16, 112, 0));
    PipeBarrier<PIPE_MTE2>();
  }
  PipeBarrier<PIPE_ALL>();
}

// A load into one slab while the other is stored.
__aicore__ inline void CopyPingPong(GM_ADDR in, GM_ADDR out, uint32_t pieces) {
  SetFlag<HardEvent::MTE3_MTE2>(0);
  SetFlag<HardEvent::MTE3_MTE2>(1);
  for (uint32_t i = 0; i < pieces; ++i) {
    WaitFlag<HardEvent::MTE3_MTE2>(i % 2);
    DataCopy(Slab(i % 2), Data(in, i), kBytes / 4);
    SetFlag<HardEvent::MTE2_MTE3>(i % 2);
    WaitFlag<HardEvent::MTE2_MTE3>(i % 2);
    DataCopy(Data(out, i), Slab(i % 2), kBytes / 4);
    SetFlag<HardEvent::MTE3_MTE2>(i % 2);
  }
  WaitFlag<HardEvent::MTE3_MTE2>(0);
  WaitFlag<HardEvent::MTE3_MTE2>(1);
  PipeBarrier<PIPE_ALL>();
}

__aicore__ inline void Put(GM_ADDR windows, uint32_t pieces) {
  GM_ADDR peer = (GM_ADDR)aclshmem_ptr(windows + 64, 1 - aclshmem_my_pe());
  for (uint32_t i = 0; i < pieces; ++i) DataCopy(Data(peer, i), Slab(0), kBytes / 4);
  PipeBarrier<PIPE_ALL>();
}

__aicore__ inline void Spin(int64_t ticks) {
  const int64_t begin = GetSystemCycle();
  while (GetSystemCycle() - begin < ticks) {
  }
}

__aicore__ inline void WaitForOne(GM_ADDR windows, int64_t pause) {
  const GlobalTensor<int32_t> counter = Counter(windows);
  while (true) {
    DataCacheCleanAndInvalid<int32_t, CacheLine::SINGLE_CACHE_LINE, DcciDst::CACHELINE_OUT>(
        counter);
    if (counter.GetValue(0) == 1) return;
    if (pause != 0) Spin(pause);
  }
}

__aicore__ inline void AddOne(GM_ADDR windows) {
  LocalTensor<int32_t> one(TPosition::VECOUT, 0, 8);
  Duplicate(one, 1, 8);
  PipeBarrier<PIPE_ALL>();
  SetAtomicAdd<int32_t>();
  DataCopyPad(Counter(windows), one, {1, 4, 0, 0, 0});
  SetAtomicNone();
  PipeBarrier<PIPE_ALL>();
}

__aicore__ inline void Multiply(uint32_t count) {
  const LocalTensor<half> a(TPosition::A2, 0, 128 * 64);
  const LocalTensor<half> b(TPosition::B2, 0, 256 * 64);
  const LocalTensor<float> c(TPosition::CO1, 0, 128 * 256);
  for (uint32_t i = 0; i < count; ++i) Mmad(c, a, b, MmadParams(128, 256, 64, 0, false, i == 0));
  PipeBarrier<PIPE_ALL>();
}

// Stores pieces by MTE3 or by the fixpipe, or adds them atomically.
__aicore__ inline void Store(GM_ADDR out, uint32_t pieces, uint32_t first, bool add) {
  const LocalTensor<float> result(TPosition::CO1, 0, kBytes / 4);
  FixpipeParamsV220 params;
  params.nSize = params.mSize = params.srcStride = params.dstStride = 128;
  if (add) SetAtomicAdd<float>();
  for (uint32_t i = first; i < first + pieces; ++i) {
    if ASCEND_IS_AIC {
      Fixpipe<float, float, CFG_ROW_MAJOR>(Data(out, i), result, params);
    } else {
      DataCopy(Data(out, i), Slab(0), kBytes / 4);
    }
  }
  if (add) SetAtomicNone();
  PipeBarrier<PIPE_ALL>();
}

extern "C" __global__ __mix__(1, 2) __aicore__
    void clocks(GM_ADDR in, GM_ADDR out, GM_ADDR windows, uint32_t which, uint32_t count) {
  InitSocState();
  const uint32_t index = static_cast<uint32_t>(GetBlockIdx());
  PrintTimeStamp(index);
  if ASCEND_IS_AIC {
    if (which == 5) Multiply(count);
    if (which == 10 || which == 11) Store(out, count, 0, which == 11);
  }
  if ASCEND_IS_AIV {
    if (which == 0 && index == 0) LoadOneByOne(in, count);
    if (which == 1 && index == 0) CopyPingPong(in, out, count);
    if (which == 2) LoadOneByOne(in, count, index * count);
    if (which == 3 && index == 0) WaitForOne(windows, 0);
    if (which == 8 && index == 0) WaitForOne(windows, kPause);
    if ((which == 3 || which == 8) && index == 1) {
      LoadOneByOne(in, count);
      AddOne(windows);
    }
    if (which == 4 && aclshmem_my_pe() == 0) Put(windows, count);
    if (which == 6 && index == 0) Spin(count);
    if (which == 7 && index == 0) {
      LoadOneByOne(in, count);
      PrintTimeStamp(100);
      LoadOneByOne(in, count);
    }
    if ((which == 10 || which == 11) && index == 0) Store(out, count, count, which == 11);
    if (which == 9 && index == 0) {
      LoadPanel(in, count, 0, 2);
      PrintTimeStamp(100);
      LoadPanel(in, count, 0, 1);
      PrintTimeStamp(101);
      LoadPanel(in, count, 1, 1);
    }
  }
}
