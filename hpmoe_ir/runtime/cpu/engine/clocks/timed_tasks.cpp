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

void TimedMode::Mark(uint32_t value) {
  Core& core = *TheEngine().current;
  CoreClock& clock = ClockOf(core);
  Synchronise(core);
  EndTask(clock);
  if (!job_.stages.empty()) EnterStage(core, job_.stages[value >> 24]);
  clock.task = {core.rank, core.place, value, -1, now_, now_, 0, 0, 0, 0, 0, 0, 0};
  clock.in_task = true;
  clock.started = clock.signalled = false;
  clock.waited = 0;
  clock.signals = 0;
  Model::Mark(value);
}

void TimedMode::EndKernel(Core& core) {
  Synchronise(core);
  EndTask(ClockOf(core));
}

}  // namespace cpu_model
