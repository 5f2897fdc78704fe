// Event counters: one int32 in a cache line of its own, in symmetric memory. A counter only
// grows; launch n waits for n times the threshold, so nothing is ever reset.
#ifndef HPMOE_COUNTERS_H_
#define HPMOE_COUNTERS_H_

#include "hpmoe/cache.h"

namespace hpmoe {

// Whether a counter that reads `seen` has reached `target`, with wrap-around.
__aicore__ inline bool HasReached(int32_t seen, uint32_t target) {
  return static_cast<int32_t>(static_cast<uint32_t>(seen) - target) >= 0;
}

// Returns once the counter has reached `target`. The first read goes through the data cache: a
// counter only grows, so a cached value that suffices still does, and many tasks of a core wait for
// the same event.
__aicore__ inline void WaitCounter(__gm__ int32_t* counter, uint32_t target) {
  if (HasReached(ReadCached(counter), target)) return;
  while (!HasReached(ReadShared(counter), target)) {
  }
}

// How long a core waits for a counter and how long it pauses between two reads of it, in ticks of
// the system counter ([clock] system_counter of the machine description). A budget of 0 is without
// limit.
struct Waits {
  uint32_t budget;
  uint32_t poll_aic;
  uint32_t poll_aiv;
};

// Returns once `ticks` ticks of the system counter have passed.
__aicore__ inline void Pause(uint32_t ticks) {
  const int64_t start = AscendC::GetSystemCycle();
  while (AscendC::GetSystemCycle() - start < static_cast<int64_t>(ticks)) {
  }
}

// As WaitCounter, but returns the value last read once the counter has reached `target` or the
// budget is used up. A core whose budget has ended reads the counter once more, since it may have
// been delayed itself.
__aicore__ inline int32_t WaitCounter(__gm__ int32_t* counter, uint32_t target,
                                      const Waits& waits) {
  uint32_t poll = waits.poll_aiv;
  if ASCEND_IS_AIC {
    poll = waits.poll_aic;
  }
  const int64_t start = AscendC::GetSystemCycle();
  int32_t seen = ReadCached(counter);
  for (bool last = false; !HasReached(seen, target) && !last; seen = ReadShared(counter)) {
    if (poll != 0) Pause(poll);
    last =
        waits.budget != 0 && AscendC::GetSystemCycle() - start > static_cast<int64_t>(waits.budget);
  }
  return seen;
}

// Writes the word that this core adds to counters into its local memory, once.
__aicore__ inline void InitSignals() {
  if ASCEND_IS_AIV {
    AscendC::Duplicate(Ub<int32_t>(kUbWorker, kBlockWords), int32_t{1},
                       static_cast<int32_t>(kBlockWords));
  }
  if ASCEND_IS_AIC {
    const AscendC::LocalTensor<int32_t> ones(AscendC::TPosition::A1, kL1Worker, kBlockWords);
    AscendC::Fill(ones, AscendC::InitConstValueParams<int32_t>(1, 1, 0, 1));
  }
  AscendC::PipeBarrier<PIPE_ALL>();
}

// Adds 1 to a counter of this or of another rank, after everything that this core has written.
//
// A vector core's results and its signal leave through the same pipe. A matrix core's results leave
// through the fixpipe and its signal through MTE3, hence the wider barrier. The smallest copy from
// L1 is one data block: words 1 to 7 of the counter's line, which nothing else uses, grow with it.
__aicore__ inline void SignalCounter(__gm__ int32_t* counter) {
  if ASCEND_IS_AIV {
    AscendC::PipeBarrier<PIPE_MTE3>();
    AscendC::DataSyncBarrier<AscendC::MemDsbT::DDR>();
    AscendC::SetAtomicAdd<int32_t>();
    StoreList(counter, Ub<int32_t>(kUbWorker, kBlockWords), 1);
    AscendC::SetAtomicNone();
  }
  if ASCEND_IS_AIC {
    AscendC::PipeBarrier<PIPE_ALL>();
    AscendC::DataSyncBarrier<AscendC::MemDsbT::DDR>();
    AscendC::SetAtomicAdd<int32_t>();
    const AscendC::LocalTensor<int32_t> ones(AscendC::TPosition::A1, kL1Worker, kBlockWords);
    AscendC::DataCopy(Global(counter, kBlockWords), ones, kBlockWords);
    AscendC::SetAtomicNone();
  }
}

}  // namespace hpmoe

#endif  // HPMOE_COUNTERS_H_
