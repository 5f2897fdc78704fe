// Visibility of writes to global memory: AIV 0 (or the AIC) of each rank writes, AIV 1 of the next
// rank reads. `drop` removes single steps of those that make a payload visible.
#include "kernel_operator.h"
#include "shmem.h"

using namespace AscendC;

constexpr uint32_t kWords = 512;   // payload
constexpr uint32_t kCounter = 16;  // first word of the payload: the counter's line is before it

enum Drop : uint32_t { kPipeBarrier = 1, kMemoryBarrier = 2, kWrongPipe = 4, kSignalFirst = 8 };

__aicore__ inline GlobalTensor<int32_t> Words(GM_ADDR p, uint32_t first = 0) {
  GlobalTensor<int32_t> g;
  g.SetGlobalBuffer((__gm__ int32_t*)p + first);
  return g;
}

__aicore__ inline int32_t Fresh(const GlobalTensor<int32_t>& word) {
  DataCacheCleanAndInvalid<int32_t, CacheLine::SINGLE_CACHE_LINE, DcciDst::CACHELINE_OUT>(word);
  return word.GetValue(0);
}

__aicore__ inline GM_ADDR Next(GM_ADDR p) {
  return (GM_ADDR)aclshmem_ptr(p, (aclshmem_my_pe() + 1) % aclshmem_n_pes());
}

__aicore__ inline void Signal(GM_ADDR windows) {
  SetAtomicAdd<int32_t>();
  if ASCEND_IS_AIV {
    LocalTensor<int32_t> one(TPosition::VECOUT, 0, 8);
    Duplicate(one, int32_t{1}, 8);
    PipeBarrier<PIPE_V>();
    SetFlag<HardEvent::V_MTE3>(0);
    WaitFlag<HardEvent::V_MTE3>(0);
    DataCopyPad(Words(windows), one, {1, 4, 0, 0, 0});
  }
  if ASCEND_IS_AIC {
    LocalTensor<int32_t> one(TPosition::A1, 0, 8);
    Fill(one, InitConstValueParams<int32_t>(1, 1, 0, 1));
    SetFlag<HardEvent::MTE2_MTE3>(0);
    WaitFlag<HardEvent::MTE2_MTE3>(0);
    DataCopy(Words(windows), one, 8);
  }
  SetAtomicNone();
}

// From UB, from L0C, or by scalar writes.
__aicore__ inline void Payload(GM_ADDR windows, bool scalar) {
  GlobalTensor<int32_t> to = Words(windows, kCounter);
  if ASCEND_IS_AIC {
    GlobalTensor<float> result;
    result.SetGlobalBuffer((__gm__ float*)windows + kCounter);
    LocalTensor<float> zeros(TPosition::CO1, 0, 16 * 32);
    LocalTensor<half> left(TPosition::A1, 1024, 16 * 16);
    LocalTensor<half> a(TPosition::A2, 0, 16 * 16);
    LocalTensor<half> b(TPosition::B2, 0, 16 * 32);
    Fill(left, InitConstValueParams<half>(1, 16, 0, half(0)));
    SetFlag<HardEvent::MTE2_MTE1>(0);
    WaitFlag<HardEvent::MTE2_MTE1>(0);
    LoadData(a, left, LoadData2DParams(0, 1, 1, 0, 0, false, 0));
    LoadData(b, left, LoadData2DParams(0, 1, 1, 0, 0, false, 0));
    LoadData(b[256], left, LoadData2DParams(0, 1, 1, 0, 0, false, 0));
    SetFlag<HardEvent::MTE1_M>(0);
    WaitFlag<HardEvent::MTE1_M>(0);
    Mmad(zeros, a, b, MmadParams(16, 32, 16, 0, false, true));
    SetFlag<HardEvent::M_FIX>(0);
    WaitFlag<HardEvent::M_FIX>(0);
    FixpipeParamsV220 store;
    store.nSize = 32;
    store.mSize = 16;
    store.srcStride = 16;
    store.dstStride = 32;
    Fixpipe<float, float, CFG_ROW_MAJOR>(result, zeros, store);
    return;
  }
  if (scalar) {
    for (uint32_t i = 0; i < kWords; ++i) to.SetValue(i, 0);
    DataCacheCleanAndInvalid<int32_t, CacheLine::ENTIRE_DATA_CACHE, DcciDst::CACHELINE_OUT>(to);
    return;
  }
  LocalTensor<int32_t> zeros(TPosition::VECOUT, 1024, kWords);
  Duplicate(zeros, int32_t{0}, kWords);
  SetFlag<HardEvent::V_MTE3>(1);
  WaitFlag<HardEvent::V_MTE3>(1);
  DataCopy(to, zeros, kWords);
}

__aicore__ inline void Send(GM_ADDR windows, uint32_t drop, bool scalar) {
  if (drop & kSignalFirst) Signal(windows);
  Payload(windows, scalar);
  if (drop & kWrongPipe) {
    PipeBarrier<PIPE_MTE2>();
  } else if ((drop & kPipeBarrier) == 0) {
    PipeBarrier<PIPE_ALL>();
  }
  if ((drop & kMemoryBarrier) == 0) DataSyncBarrier<MemDsbT::DDR>();
  if ((drop & kSignalFirst) == 0) Signal(windows);
}

// Copies the payload to `out` by DMA.
__aicore__ inline void Report(GM_ADDR out, GM_ADDR from) {
  LocalTensor<int32_t> seen(TPosition::VECIN, 8192, kWords);
  DataCopy(seen, Words(from, kCounter), kWords);
  SetFlag<HardEvent::MTE2_MTE3>(2);
  WaitFlag<HardEvent::MTE2_MTE3>(2);
  DataCopy(Words(out), seen, kWords);
}

// One core: a store and then a load of the same address.
__aicore__ inline void StoreLoad(GM_ADDR out, GM_ADDR windows, uint32_t drop) {
  Payload(windows, false);
  SetFlag<HardEvent::MTE3_MTE2>(3);
  WaitFlag<HardEvent::MTE3_MTE2>(3);
  if ((drop & kMemoryBarrier) == 0) {
    PipeBarrier<PIPE_MTE3>();
    DataSyncBarrier<MemDsbT::DDR>();
  }
  Report(out, windows);
}

// One core writes the same words repeatedly, in parts of different sizes; the last value stays.
__aicore__ inline void SameAddress(GM_ADDR out) {
  for (int32_t value = 9; value >= 0; --value) {
    LocalTensor<int32_t> stage(TPosition::VECOUT, 1024, kWords);
    Duplicate(stage, value, kWords);
    SetFlag<HardEvent::V_MTE3>(1);
    WaitFlag<HardEvent::V_MTE3>(1);
    const uint32_t part = 8u << (value % 4);
    for (uint32_t i = 0; i < kWords; i += part) DataCopy(Words(out, i), stage, part);
    SetFlag<HardEvent::MTE3_V>(1);
    WaitFlag<HardEvent::MTE3_V>(1);
  }
}

// Both AIVs of a rank: one writes, the other reads, ordered by a cross-core flag only.
__aicore__ inline void OverFlag(GM_ADDR out, GM_ADDR workspace, bool all) {
  if (GetBlockIdx() == 0) Payload(workspace, false);
  if (all) {
    SyncAll<true>();
  } else {
    CrossCoreSetFlag<1, PIPE_MTE3>(4);
    CrossCoreWaitFlag(4);
  }
  if (GetBlockIdx() == 1) Report(out, workspace);
}

extern "C" __global__ __mix__(1, 2) __aicore__
    void memory(GM_ADDR out, GM_ADDR workspace, GM_ADDR windows, uint32_t which, uint32_t drop) {
  InitSocState();
  const GlobalTensor<int32_t> any = Words(windows);
  DataCacheCleanAndInvalid<int32_t, CacheLine::ENTIRE_DATA_CACHE, DcciDst::CACHELINE_OUT>(any);
  const bool aic = which == 2;
  if ASCEND_IS_AIC {
    if (aic) Send(Next(windows), drop, false);
  }
  if ASCEND_IS_AIV {
    const bool writes = GetBlockIdx() == 0 && !aic;
    if (which < 2 && writes) Send(Next(windows), drop, which == 1);
    if (which < 3 && GetBlockIdx() == 1) {
      while (Fresh(Words(windows)) < 1) {
      }
      Report(out, windows);
    }
    if (which == 3 && writes) StoreLoad(out, windows, drop);
    if (which == 4 && writes) SameAddress(out);
    if (which == 5 || which == 6) OverFlag(out, workspace, which == 6);
  }
  PipeBarrier<PIPE_ALL>();
}
