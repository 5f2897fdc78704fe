// The worker loop, in which a core runs the tasks of its queue in order.
#ifndef HPMOE_WORKER_H_
#define HPMOE_WORKER_H_

#include "hpmoe/env.h"

namespace hpmoe {

// Calls run(family, point) for each slot of this core in a queue section. A task starts with idle
// pipes, so it may use all local memory of kernels and all flags.
template <class Run>
__aicore__ inline void RunQueue(const Env& env, uint32_t queue, uint32_t workers, const Run& run) {
  const Table& table = env.GetTable();
  const uint32_t worker = static_cast<uint32_t>(AscendC::GetBlockIdx());
  Require(worker < workers);
  const uint32_t slots = queue + (workers + 1) * sizeof(uint32_t);
  const uint32_t end = table.Word(worker + 1, queue);
  for (uint32_t i = table.Word(worker, queue); i < end; ++i) {
    const uint32_t slot = table.Word(i, slots);
    env.StartTask(slot);
    run(slot >> kPointBits, slot & kPointMask);
    AscendC::PipeBarrier<PIPE_ALL>();
  }
}

template <class Run>
__aicore__ inline void RunAicQueue(const Env& env, const Run& run) {
  const Table& table = env.GetTable();
  RunQueue(env, table.Word(kWordAicQueue), table.Word(kWordBlocks), run);
}

template <class Run>
__aicore__ inline void RunAivQueue(const Env& env, const Run& run) {
  const Table& table = env.GetTable();
  RunQueue(env, table.Word(kWordAivQueue), kAivPerAic * table.Word(kWordBlocks), run);
}

}  // namespace hpmoe

#endif  // HPMOE_WORKER_H_
