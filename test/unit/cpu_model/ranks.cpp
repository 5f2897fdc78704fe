// Cores and ranks together, one case each: flags, symmetric memory, counters, streams of launches.
#include "kernel_operator.h"
#include "shmem.h"

using namespace AscendC;

constexpr uint32_t kCounter = 16;  // int32 words from one counter to the next

__aicore__ inline GlobalTensor<int32_t> Words(GM_ADDR p, uint32_t first = 0) {
  GlobalTensor<int32_t> g;
  g.SetGlobalBuffer((__gm__ int32_t*)p + first);
  return g;
}

__aicore__ inline int32_t Fresh(const GlobalTensor<int32_t>& word) {
  DataCacheCleanAndInvalid<int32_t, CacheLine::SINGLE_CACHE_LINE, DcciDst::CACHELINE_OUT>(word);
  return word.GetValue(0);
}

__aicore__ inline void WaitAtLeast(const GlobalTensor<int32_t>& word, int32_t target) {
  while (Fresh(word) < target) {
  }
}

// Adds one to a counter of any rank, from UB, as the worker does.
__aicore__ inline void AddOne(const GlobalTensor<int32_t>& word) {
  LocalTensor<int32_t> one(TPosition::VECOUT, 0, 8);
  one.SetValue(0, 1);
  SetFlag<HardEvent::S_MTE3>(0);
  WaitFlag<HardEvent::S_MTE3>(0);
  PipeBarrier<PIPE_MTE3>();
  DataSyncBarrier<MemDsbT::DDR>();
  SetAtomicAdd<int32_t>();
  DataCopyPad(word, one, {1, 4, 0, 0, 0});
  SetAtomicNone();
  SetFlag<HardEvent::MTE3_S>(0);
  WaitFlag<HardEvent::MTE3_S>(0);
}

__aicore__ inline GM_ADDR Peer(GM_ADDR p, int rank) { return (GM_ADDR)aclshmem_ptr(p, rank); }

// Writes a word with the DMA.
__aicore__ inline void Put(const GlobalTensor<int32_t>& word, int32_t value) {
  LocalTensor<int32_t> stage(TPosition::VECOUT, 32, 8);
  stage.SetValue(0, value);
  SetFlag<HardEvent::S_MTE3>(1);
  WaitFlag<HardEvent::S_MTE3>(1);
  DataCopyPad(word, stage, {1, 4, 0, 0, 0});
  PipeBarrier<PIPE_MTE3>();
  DataSyncBarrier<MemDsbT::DDR>();
  SetFlag<HardEvent::MTE3_S>(1);
  WaitFlag<HardEvent::MTE3_S>(1);
}

// Each AIV of each rank adds to a counter of every rank, waits for its own, and reports the sum.
__aicore__ inline void Everyone(GM_ADDR out, GM_ADDR windows, int32_t launch) {
  const int ranks = aclshmem_n_pes();
  for (int r = 0; r < ranks; ++r) AddOne(Words(Peer(windows, r)));
  const int32_t target = launch * ranks * static_cast<int32_t>(GetBlockNum()) * 2;
  WaitAtLeast(Words(windows), target);
  Put(Words(out, GetBlockIdx()), target);
}

// Reads a word several times, as a worker reads its table, without a wait.
__aicore__ inline void LookUp(GM_ADDR workspace) {
  for (int i = 0; i < 4; ++i) Fresh(Words(workspace, GetBlockIdx() * kCounter));
}

// As Everyone, but AIV 0 of rank 0 adds 1 + extra times to its own rank's counter.
__aicore__ inline void Miscount(GM_ADDR windows, int32_t launch, int32_t extra) {
  const bool odd = aclshmem_my_pe() == 0 && GetBlockIdx() == 0;
  const int ranks = aclshmem_n_pes();
  for (int r = odd && extra < 0 ? 1 : 0; r < ranks; ++r) AddOne(Words(Peer(windows, r)));
  const int32_t signals = ranks * static_cast<int32_t>(GetBlockNum()) * 2;
  WaitAtLeast(Words(windows), launch * (signals - (aclshmem_my_pe() == 0 ? 1 : 0)));
  if (odd && extra > 0) AddOne(Words(windows));
}

// The order in which the cores of all ranks arrive at rank 0, as one number a core.
__aicore__ inline void Order(GM_ADDR windows) {
  PrintTimeStamp(1);
  GlobalTensor<int32_t> turn = Words(Peer(windows, 0));
  const int32_t mine = Fresh(turn);
  AddOne(turn);
  const uint32_t core = aclshmem_my_pe() * GetBlockNum() * 2 + GetBlockIdx();
  Put(Words(Peer(windows, 0), 16 + core), mine);
}

// AIC to both AIVs, both AIVs to the AIC, all AIVs, pairs.
__aicore__ inline void Handshake(GM_ADDR out, GM_ADDR workspace) {
  if ASCEND_IS_AIC {
    CrossCoreSetFlag<2, PIPE_FIX>(1);
    CrossCoreWaitFlag(2);
    CrossCoreSetFlag<0, PIPE_FIX>(3);
    CrossCoreWaitFlag(3);
    SyncAll<false>();
    return;
  }
  CrossCoreWaitFlag(1);
  Put(Words(workspace, GetBlockIdx() * kCounter), 100 + static_cast<int32_t>(GetBlockIdx()));
  CrossCoreSetFlag<2, PIPE_MTE3>(2);
  CrossCoreSetFlag<1, PIPE_MTE3>(4);
  CrossCoreWaitFlag(4);
  SyncAll<true>();
  // Every AIV sees what the next one wrote.
  const uint32_t next = (GetBlockIdx() + 1) % (GetBlockNum() * 2);
  Put(Words(out, GetBlockIdx()), Fresh(Words(workspace, next * kCounter)));
  SyncAll<false>();
}

__aicore__ inline void OnAiv(GM_ADDR out, GM_ADDR workspace, GM_ADDR windows, uint32_t which,
                             uint32_t launch) {
  const bool first = GetBlockIdx() == 0;
  if (which == 0) Everyone(out, windows, launch);
  if (which == 1) {
    Put(Words(workspace, GetBlockIdx() * kCounter), 0);
    LookUp(workspace);
    Order(windows);
  }
  if (which == 3 && first) {  // a counter that never reaches the target
    PrintTimeStamp(42);
    if (aclshmem_my_pe() == 1) AddOne(Words(windows, 3 * kCounter));
    WaitAtLeast(Words(windows, 3 * kCounter), 2);
  }
  if (which == 4 && first) {  // the line is in the cache: the change is never seen
    GlobalTensor<int32_t> word = Words(windows);
    DataCacheCleanAndInvalid<int32_t, CacheLine::ENTIRE_DATA_CACHE, DcciDst::CACHELINE_OUT>(word);
    const int32_t before = word.GetValue(0);
    aclshmemx_signal_op((__gm__ int32_t*)windows, 7, ACLSHMEM_SIGNAL_ADD, aclshmem_my_pe());
    while (word.GetValue(0) == before) {
    }
  }
  if (which == 5 && first) CrossCoreWaitFlag(5);
  if (which == 6 && first) SyncAll<true>();
  if (which == 7 && first) {  // polls by DMA
    LocalTensor<int32_t> seen(TPosition::VECIN, 64, 8);
    const int other = 1 - aclshmem_my_pe();
    if (launch == 1) AddOne(Words(Peer(windows, other)));
    do {
      SetFlag<HardEvent::S_MTE2>(0);
      WaitFlag<HardEvent::S_MTE2>(0);
      DataCopyPad(seen, Words(windows), {1, 4, 0, 0, 0}, {false, 0, 0, 0});
      SetFlag<HardEvent::MTE2_S>(0);
      WaitFlag<HardEvent::MTE2_S>(0);
    } while (seen.GetValue(0) < 1);
  }
  if (which == 8 && first) {  // a loop of reads that ends
    int32_t sum = 0;
    for (int i = 0; i < 4000; ++i) sum += Fresh(Words(windows));
    Put(Words(out), sum);
  }
  if (which == 12 && first) {  // a word copied to many places is no poll
    LocalTensor<int32_t> rows(TPosition::VECIN, 0, 40000);
    for (uint32_t i = 0; i < 5000; ++i) {
      DataCopyPad(rows[i * 8], Words(windows), {1, 4, 0, 0, 0}, {false, 0, 0, 0});
    }
    SetFlag<HardEvent::MTE2_S>(0);
    WaitFlag<HardEvent::MTE2_S>(0);
    Put(Words(out), rows.GetValue(4999 * 8));
  }
  if (which == 9) {  // the ring of signals of the symmetric-memory library
    const int next = (aclshmem_my_pe() + 1) % aclshmem_n_pes();
    if (first) {
      aclshmemx_signal_op((__gm__ int32_t*)windows, launch, ACLSHMEM_SIGNAL_SET, next);
      const int32_t seen =
          aclshmem_signal_wait_until((__gm__ int32_t*)windows, ACLSHMEM_CMP_GE, launch);
      aclshmem_quiet();
      Put(Words(out), seen);
    }
  }
  if (which == 10 && first) {  // rank 0 races ahead: its launches do not wait for rank 1
    if (aclshmem_my_pe() == 0) {
      AddOne(Words(Peer(windows, 1)));
    } else {
      WaitAtLeast(Words(windows), 3);
      Put(Words(out), 1);
    }
  }
  if (which == 13) Miscount(windows, launch, 1);
  if (which == 14) Miscount(windows, launch, -1);
  if (which == 11 && first) Put(Words(workspace), static_cast<int32_t>(launch));
}

extern "C" __global__ __mix__(1, 2) __aicore__
    void ranks(GM_ADDR out, GM_ADDR workspace, GM_ADDR windows, uint32_t which, uint32_t launch) {
  InitSocState();
  GlobalTensor<int32_t> any = Words(windows);
  DataCacheCleanAndInvalid<int32_t, CacheLine::ENTIRE_DATA_CACHE, DcciDst::CACHELINE_OUT>(any);
  if (which == 2) Handshake(out, workspace);
  if ASCEND_IS_AIV
    OnAiv(out, workspace, windows, which, launch);
  PipeBarrier<PIPE_ALL>();
}
