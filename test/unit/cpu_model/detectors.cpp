// Errors of order between pipes, cores and ranks, one case each, corrected if `fixed`.
#include "kernel_operator.h"
#include "shmem.h"

using namespace AscendC;

constexpr uint32_t kLine = 16;  // int32 words of a cache line

template <typename T = float>
__aicore__ inline GlobalTensor<T> Global(GM_ADDR p, uint32_t first = 0) {
  GlobalTensor<T> g;
  g.SetGlobalBuffer((__gm__ T*)p + first);
  return g;
}

template <typename T = float>
__aicore__ inline LocalTensor<T> Ub(uint32_t address, uint32_t count) {
  return LocalTensor<T>(TPosition::VECCALC, address, count);
}

template <HardEvent event>
__aicore__ inline void Handover(bool needed = true) {
  if (!needed) return;
  SetFlag<event>(0);
  WaitFlag<event>(0);
}

template <typename T>
__aicore__ inline void Fresh(const GlobalTensor<T>& word) {
  DataCacheCleanAndInvalid<T, CacheLine::SINGLE_CACHE_LINE, DcciDst::CACHELINE_OUT>(word);
}

__aicore__ inline void WaitAtLeast(const GlobalTensor<int32_t>& word, int32_t target) {
  do {
    Fresh(word);
  } while (word.GetValue(0) < target);
}

// Adds one to a counter. Without `drain` and `sync` it is not ordered after the payload.
__aicore__ inline void Signal(const GlobalTensor<int32_t>& word, bool drain = true,
                              bool sync = true) {
  const LocalTensor<int32_t> one = Ub<int32_t>(190 * 1024, 8);
  one.SetValue(0, 1);
  Handover<HardEvent::S_MTE3>();
  if (drain) PipeBarrier<PIPE_MTE3>();
  if (sync) DataSyncBarrier<MemDsbT::DDR>();
  SetAtomicAdd<int32_t>();
  DataCopyPad(word, one, {1, 4, 0, 0, 0});  // signal
  SetAtomicNone();
  Handover<HardEvent::MTE3_S>();
}

// Waits until all writes of this core are in memory.
__aicore__ inline void Settle() {
  PipeBarrier<PIPE_ALL>();
  DataSyncBarrier<MemDsbT::DDR>();
}

__aicore__ inline GM_ADDR Peer(GM_ADDR p) { return (GM_ADDR)aclshmem_ptr(p, 1 - aclshmem_my_pe()); }

__aicore__ inline void Pipes(GM_ADDR in, GM_ADDR out, uint32_t which, bool fixed) {
  const LocalTensor<float> a = Ub(0, 64);
  const LocalTensor<float> b = Ub(256, 64);
  if (which == 0) {
    DataCopy(a, Global(in), 64);  // 0 other
    Handover<HardEvent::MTE2_V>(fixed);
    Adds(b, a, 1.0f, 32);  // 0 now
  }
  if (which == 1) {
    Adds(b, a, 1.0f, 64);  // 1 other
    Handover<HardEvent::V_MTE2>(fixed);
    DataCopy(a, Global(in), 16);  // 1 now
  }
  if (which == 2) {
    Adds(a, a, 1.0f, 64);  // 2 other
    if (fixed) PipeBarrier<PIPE_V>();
    Muls(b, a, 2.0f, 64);  // 2 now
  }
  if (which == 3) {
    DataCopy(a, Global(in), 64);  // 3 other
    if (fixed) PipeBarrier<PIPE_MTE2>();
    DataCopy(a, Global(in), 32);  // 3 now
  }
  if (which == 4) {
    a.SetValue(8, 1.0f);  // 4 other
    Handover<HardEvent::S_MTE3>(fixed);
    DataCopy(Global(out), a, 64);  // 4 now
  }
  if (which == 5) {
    Duplicate(a, 1.0f, 64);  // 5 other
    Handover<HardEvent::V_S>(fixed);
    const float value = a.GetValue(3);  // 5 now
    b.SetValue(0, value);
  }
  if (which == 6) {                // a barrier of one pipe does not order another
    DataCopy(Global(out), a, 64);  // 6 other
    if (fixed) {
      PipeBarrier<PIPE_ALL>();
    } else {
      PipeBarrier<PIPE_MTE3>();
    }
    Duplicate(a, 1.0f, 64);  // 6 now
  }
  if (which == 7) {                // written and read again in global memory
    DataCopy(Global(out), a, 64);  // 7 other
    Handover<HardEvent::MTE3_MTE2>();
    if (fixed) Settle();
    DataCopy(b, Global(out), 64);  // 7 now
  }
}

__aicore__ inline void CubePipes(GM_ADDR in, GM_ADDR out, uint32_t which, bool fixed) {
  const LocalTensor<half> l1(TPosition::A1, 0, 4096);
  const LocalTensor<half> l0a(TPosition::A2, 0, 4096);
  const LocalTensor<half> l0b(TPosition::B2, 0, 4096);
  const LocalTensor<float> l0c(TPosition::CO1, 0, 4096);
  LoadData2DParams load;
  load.repeatTimes = 2;
  load.srcStride = 1;
  const MmadParams first(32, 32, 16, 0, false, true);
  const MmadParams second(32, 32, 16, 0, false, false);
  if (which == 20) {
    DataCopy(l1, Global<half>(in), 512);  // 20 other
    Handover<HardEvent::MTE2_MTE1>(fixed);
    LoadData(l0a, l1, load);  // 20 now
  }
  if (which == 21) {
    LoadData(l0b, l1, load);  // 21 other
    Handover<HardEvent::MTE1_M>(fixed);
    Mmad(l0c, l0a, l0b, first);  // 21 now
  }
  if (which == 22) {  // 4 fractals: too short to have left L0C by themselves
    PipeBarrier<PIPE_ALL>();
    Mmad(l0c, l0a, l0b, first);  // 22 other
    if (fixed) PipeBarrier<PIPE_M>();
    Mmad(l0c, l0a, l0b, second);  // 22 now
  }
  if (which == 23) {
    Mmad(l0c, l0a, l0b, first);  // 23 other
    Handover<HardEvent::M_FIX>(fixed);
    Fixpipe<float, float, CFG_ROW_MAJOR>(Global(out), l0c, {32, 32, 32, 32, false});  // 23 now
  }
}

// Between the two vector cores of a group.
__aicore__ inline void Cores(GM_ADDR out, GM_ADDR workspace, uint32_t which, bool fixed) {
  const bool first = GetBlockIdx() == 0;
  const LocalTensor<float> a = Ub(0, 64);
  GlobalTensor<int32_t> words = Global<int32_t>(workspace);
  if (which == 30) {
    if (first) DataCopy(Global(workspace), a, 64);  // 30 other
    if (fixed) CrossCoreSetFlag<1, PIPE_MTE3>(0);
    if (fixed) CrossCoreWaitFlag(0);
    if (!first) DataCopy(Global(workspace, 32), a, 64);  // 30 now
  }
  if (which == 31) {  // the sum is read before the other core has added to it
    if (first) DataCopy(Global(workspace), a, 64);
    SyncAll<true>();
    SetAtomicAdd<float>();
    DataCopy(Global(workspace), a, 64);  // 31 other
    SetAtomicNone();
    Settle();
    if (fixed) SyncAll<true>();
    if (first) DataCopy(a, Global(workspace, 16), 16);  // 31 now
  }
  if (which == 32) {  // scalar writes to two words of a line
    const uint32_t word = GetBlockIdx() * (fixed ? kLine : 1);
    words.SetValue(word, 1);  // 32 now other
    Fresh(words[word]);
  }
  if (which == 33) {  // a flag that is set before the write that it announces
    if (first && !fixed) CrossCoreSetFlag<1, PIPE_MTE3>(0);  // the signal of 33
    if (first) DataCopy(Global(workspace), a, 64);           // 33 other
    if (!first || fixed) CrossCoreSetFlag<1, PIPE_MTE3>(0);
    CrossCoreWaitFlag(0);
    if (!first) DataCopy(a, Global(workspace), 64);  // 33 now
  }
  if (!first) return;
  if (which == 34) {
    if (fixed) DataCopy(Global(workspace), a, 64);
    Handover<HardEvent::MTE3_MTE2>();
    Settle();
    DataCopy(a, Global(workspace), fixed ? 64 : 32);  // 34 now
  }
  if (which == 35) {  // the copy does not see a line that is dirty in the data cache
    DataCopy(Global(workspace), a, 64);
    Settle();
    words.SetValue(0, 1);
    if (fixed) Fresh(words);
    Handover<HardEvent::S_MTE2>();
    Settle();
    DataCopy(a, Global(workspace), 64);  // 35 now
    PipeBarrier<PIPE_ALL>();
    Fresh(words);
  }
  if (which == 36) {
    words.SetValue(3, 1);  // in the data cache
    if (fixed) Fresh(words);
    if (fixed) PipeBarrier<PIPE_ALL>();
    PrintTimeStamp(36);
  }
}

// Rank 0 and rank 1, one vector core each. Counters are in lines 8 and 9 of the windows.
__aicore__ inline void Ranks(GM_ADDR windows, uint32_t which, uint32_t launch, bool fixed) {
  const bool first = aclshmem_my_pe() == 0;
  const LocalTensor<float> a = Ub(0, 64);
  const GlobalTensor<int32_t> counter = Global<int32_t>(windows, 8 * kLine);
  const GlobalTensor<int32_t> second = Global<int32_t>(windows, 8 * kLine + (fixed ? kLine : 1));
  if (which == 40) {
    if (first) DataCopy(Global(Peer(windows)), a, 64);  // 40 other
    if (first) Signal(Global<int32_t>(Peer(windows), 8 * kLine));
    if (!first && fixed) WaitAtLeast(counter, 1);
    if (!first) DataCopy(a, Global(windows, 32), 32);  // 40 now
  }
  if (which == 41 || which == 42) {  // the signal overtakes its payload
    if (first) {
      DataCopy(Global(Peer(windows)), a, 64);  // 41 42 other
      Signal(Global<int32_t>(Peer(windows), 8 * kLine), which == 42 || fixed, which == 41 || fixed);
    } else {
      WaitAtLeast(counter, 1);
      DataCopy(a, Global(windows), 64);  // 41 42 now
    }
  }
  if (which == 43) {  // reads data of the previous launch
    if (!first && (launch == 1 || fixed)) DataCopy(Global(windows), a, 64);  // 43 other
    Settle();
    if (!first) DataCopy(a, Global(windows), 32);  // 43 now
  }
  if (which == 44) {  // the line was loaded before the wait
    Duplicate(a, 1.0f, 64);
    Handover<HardEvent::V_MTE3>();
    const GlobalTensor<int32_t> word = Global<int32_t>(windows, 20);
    if (first) {
      WaitAtLeast(counter, 1);
      DataCopy(Global(Peer(windows), 16), a, 16);  // 44 other
      Signal(Global<int32_t>(Peer(windows), 8 * kLine));
    } else {
      word.GetValue(0);
      Signal(Global<int32_t>(Peer(windows), 8 * kLine));
      WaitAtLeast(counter, 1);
      if (fixed) Fresh(word);
      word.GetValue(0);  // 44 now
    }
  }
  if (which == 45) {  // two counters in a line
    if (first) {
      Signal(Global<int32_t>(Peer(windows), 8 * kLine));
    } else {
      WaitAtLeast(counter, 1);
      Signal(second);
      WaitAtLeast(second, 1);
    }
  }
  if (which == 46) {  // overwritten while it may still be read
    if (first) {
      DataCopy(Global(Peer(windows)), a, 64);
      Signal(Global<int32_t>(Peer(windows), 8 * kLine));
      if (fixed) WaitAtLeast(counter, 1);
      DataCopy(Global(Peer(windows), 8), a, 8);  // 46 now
    } else {
      WaitAtLeast(counter, 1);
      DataCopy(a, Global(windows), 64);  // 46 other
      Handover<HardEvent::MTE2_MTE3>();
      Signal(Global<int32_t>(Peer(windows), 8 * kLine));
    }
  }
}

extern "C" __global__ __mix__(1, 2) __aicore__
    void detectors(GM_ADDR in, GM_ADDR out, GM_ADDR workspace, GM_ADDR windows, uint32_t which,
                   uint32_t launch, uint32_t fixed) {
  InitSocState();
  DataCacheCleanAndInvalid<int32_t, CacheLine::ENTIRE_DATA_CACHE, DcciDst::CACHELINE_OUT>(
      Global<int32_t>(windows));
  if ASCEND_IS_AIC {
    if (which >= 20 && which < 30) CubePipes(in, out, which, fixed != 0);
    PipeBarrier<PIPE_ALL>();
    return;
  }
  PrintTimeStamp(100 + which);
  if (which < 20 && GetBlockIdx() == 0) Pipes(in, out, which, fixed != 0);
  if (which >= 30 && which < 40) Cores(out, workspace, which, fixed != 0);
  if (which >= 40 && GetBlockIdx() == 0) Ranks(windows, which, launch, fixed != 0);
  PipeBarrier<PIPE_ALL>();
}
