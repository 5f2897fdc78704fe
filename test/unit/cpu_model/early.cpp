// A line that enters a core's data cache early: AIV 0 writes a payload with the DMA and signals,
// AIV 1 waits and reads it through the data cache. `drop`: whether it drops the payload's line
// first.
#include "kernel_operator.h"
#include "shmem.h"

using namespace AscendC;

constexpr uint32_t kPayload = 16;  // int32 words: the line behind that of the counter

__aicore__ inline GlobalTensor<int32_t> Words(GM_ADDR p, uint32_t first = 0) {
  GlobalTensor<int32_t> g;
  g.SetGlobalBuffer((__gm__ int32_t*)p + first);
  return g;
}

__aicore__ inline void Drop(const GlobalTensor<int32_t>& word) {
  DataCacheCleanAndInvalid<int32_t, CacheLine::SINGLE_CACHE_LINE, DcciDst::CACHELINE_OUT>(word);
}

__aicore__ inline void Store(const GlobalTensor<int32_t>& to, int32_t value) {
  LocalTensor<int32_t> word(TPosition::VECOUT, 0, 8);
  word.SetValue(0, value);
  SetFlag<HardEvent::S_MTE3>(0);
  WaitFlag<HardEvent::S_MTE3>(0);
  DataCopyPad(to, word, {1, 4, 0, 0, 0});
  PipeBarrier<PIPE_ALL>();
  DataSyncBarrier<MemDsbT::DDR>();
}

__aicore__ inline void Write(GM_ADDR windows, int32_t launch) {
  Store(Words(windows, kPayload), 100 * launch);
  SetAtomicAdd<int32_t>();
  LocalTensor<int32_t> one(TPosition::VECOUT, 0, 8);
  one.SetValue(0, 1);
  SetFlag<HardEvent::S_MTE3>(0);
  WaitFlag<HardEvent::S_MTE3>(0);
  DataCopyPad(Words(windows), one, {1, 4, 0, 0, 0});
  SetAtomicNone();
}

__aicore__ inline void Read(GM_ADDR out, GM_ADDR windows, int32_t launch, bool drop) {
  do {
    Drop(Words(windows));
  } while (Words(windows).GetValue(0) < launch);
  if (drop) Drop(Words(windows, kPayload));
  Store(Words(out), Words(windows, kPayload).GetValue(0));
}

extern "C" __global__ __mix__(1, 2) __aicore__
    void early(GM_ADDR out, GM_ADDR windows, uint32_t drop, uint32_t launch) {
  InitSocState();
  DataCacheCleanAndInvalid<int32_t, CacheLine::ENTIRE_DATA_CACHE, DcciDst::CACHELINE_OUT>(
      Words(windows));
  if ASCEND_IS_AIV {
    if (GetBlockIdx() == 0) Write(windows, static_cast<int32_t>(launch));
    if (GetBlockIdx() == 1) Read(out, windows, static_cast<int32_t>(launch), drop != 0);
  }
  PipeBarrier<PIPE_ALL>();
}
