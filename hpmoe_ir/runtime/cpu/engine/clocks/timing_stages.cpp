// Stages: all cores of a rank end one, and after one that communicates all ranks do, before any
// core begins the next. That is how operators run that are launched one after the other.
#include <limits>

#include "clocks/timing_state.h"

namespace cpu_model {
namespace timed {

void OpenStageAt(int rank, int stage, double time);

struct RankStages {
  int open = 0;
  int parked = 0;        // cores that wait for a later stage, or have ended
  bool closing = false;  // the next stage is on its way
  std::vector<Core*> waiting;
};

static RankStages& StagesOf(int rank) {
  static std::vector<RankStages> ranks(RankCount());
  return ranks[rank];
}

static bool Done(const RankStages& stages) { return stages.parked == TheEngine().blocks * 3; }

static void OpenNext(int rank, double latency) {
  RankStages& stages = StagesOf(rank);
  stages.closing = true;
  OpenStageAt(rank, stages.open + 1, TheState().now + latency);
}

// All cores of the rank wait: the next stage opens, if the other ranks allow it.
static void Close(int rank) {
  RankStages& stages = StagesOf(rank);
  if (!Done(stages) || stages.waiting.empty() || stages.closing) return;
  const double launch = TheState().rates().latency_launch * 1e9;
  if (!timing_job.communicates[stages.open]) return OpenNext(rank, launch);
  for (int other = 0; other < RankCount(); ++other) {
    const RankStages& others = StagesOf(other);
    if (others.open < stages.open || (others.open == stages.open && !Done(others))) return;
  }
  const double collective = TheState().rates().latency_collective * 1e9;
  for (int other = 0; other < RankCount(); ++other) {
    const RankStages& others = StagesOf(other);
    if (others.open == stages.open && !others.closing && !others.waiting.empty()) {
      OpenNext(other, launch + collective);
    }
  }
}

void EnterStage(Core& core, int stage) {
  CoreClock& clock = ClockOf(core);
  clock.stage = stage;
  RankStages& stages = StagesOf(core.rank);
  if (stage <= stages.open) return;
  stages.waiting.push_back(&core);
  ++stages.parked;
  Close(core.rank);
  core.fiber.Suspend();
}

void LeaveStages(Core& core) {
  if (timing_job.stages.empty()) return;
  ++StagesOf(core.rank).parked;
  Close(core.rank);
}

void OpenStage(int rank, int stage) {
  RankStages& stages = StagesOf(rank);
  stages.open = stage;
  stages.closing = false;
  std::vector<Core*> waiting;
  waiting.swap(stages.waiting);
  for (Core* core : waiting) {
    if (ClockOf(*core).stage > stage) {
      stages.waiting.push_back(core);
    } else {
      --stages.parked;
      ResumeAt(*core, TheState().now);
    }
  }
  Close(rank);
}

}  // namespace timed
}  // namespace cpu_model
