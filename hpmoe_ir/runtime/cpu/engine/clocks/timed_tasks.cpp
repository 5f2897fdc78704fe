// Records of tasks: from one marker of a core to its next.
#include "clocks/timed_mode.h"

namespace cpu_model {

void TimedMode::EndTask(CoreClock& clock) {
  if (!clock.in_task) return;
  TaskRecord& task = clock.task;
  task.end = now_;
  if (!clock.started) task.start = task.end;
  if (!clock.signalled) task.done = task.end;
  TheTimeline().tasks.push_back(task);
  clock.in_task = false;
  ++progress_;
}

// One of 2^53 numbers, evenly spread, by the finalizer of SplitMix64.
double TimedMode::NoiseOf(int rank, uint32_t task) const {
  if (job_.noise == 0) return 1;
  uint64_t x = job_.noise_seed * 0x9E3779B97F4A7C15u + (static_cast<uint64_t>(rank) << 32 | task);
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  x ^= x >> 31;
  const double at = static_cast<double>(x >> 11) / static_cast<double>(uint64_t{1} << 53);
  return 1 + job_.noise * (2 * at - 1);
}

void TimedMode::Mark(uint32_t value) {
  Core& core = *TheEngine().current;
  CoreClock& clock = ClockOf(core);
  Synchronise(core);
  EndTask(clock);
  if (!job_.stages.empty()) EnterStage(core, job_.stages[value >> 24]);
  clock.task = {core.rank, core.place, value, -1, now_, now_, 0, 0, 0, 0, 0, 0, 0};
  clock.in_task = true;
  clock.started = clock.signalled = false;
  clock.noise = NoiseOf(core.rank, value);
  clock.waited = 0;
  clock.signals = 0;
  Model::Mark(value);
}

void TimedMode::EndKernel(Core& core) {
  Synchronise(core);
  EndTask(ClockOf(core));
}

}  // namespace cpu_model
