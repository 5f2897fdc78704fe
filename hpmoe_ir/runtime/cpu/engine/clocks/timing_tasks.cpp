// Records of tasks: from one marker of a core to its next.
#include "clocks/timing_state.h"

namespace cpu_model {
namespace timed {

static void EndTask(CoreClock& clock) {
  if (!clock.in_task) return;
  TaskRecord& task = clock.task;
  task.end = TheState().now;
  if (!clock.started) task.start = task.end;
  if (!clock.signalled) task.done = task.end;
  TheTimeline().tasks.push_back(task);
  clock.in_task = false;
  ++TheState().progress;
}

void Mark(uint32_t value) {
  State& state = TheState();
  Core& core = *TheEngine().current;
  CoreClock& clock = ClockOf(core);
  Meet(core);
  EndTask(clock);
  if (!timing_job.stages.empty()) EnterStage(core, timing_job.stages[value >> 24]);
  const int number = core.aic ? core.index : TheEngine().blocks + core.index;
  clock.task = {core.rank, number, value, -1, state.now, state.now, 0, 0, 0, 0, 0, 0, 0};
  clock.in_task = true;
  clock.started = clock.signalled = false;
  clock.waited = 0;
  clock.signals = 0;
}

void End(Core& core) {
  Meet(core);
  EndTask(ClockOf(core));
}

}  // namespace timed
}  // namespace cpu_model
