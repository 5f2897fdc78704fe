// Stages: all cores of a rank end a stage, and all ranks one that communicates, before any core
// begins the next, like operators that the host launches one after the other.
#include <algorithm>

#include "clocks/timed_mode.h"

namespace cpu_model {

bool TimedMode::AllParked(const RankStages& stages) {
  return stages.parked == TheEngine().CoresOfRank();
}

void TimedMode::OpenNextStage(int rank, double latency) {
  RankStages& stages = stages_[rank];
  stages.closing = true;
  Push(now_ + latency, nullptr, -1, stages.open + 1, rank);
}

// Queues the opening of the next stage where all cores of the rank wait for it, and after a stage
// that communicates all other ranks do.
void TimedMode::CloseStage(int rank) {
  RankStages& stages = stages_[rank];
  if (!AllParked(stages) || stages.waiting.empty() || stages.closing) return;
  double launch = rates().latency_launch * 1e9;
  const std::vector<int>& read = job_.synchronises;
  if (std::find(read.begin(), read.end(), stages.open) != read.end()) {
    launch += rates().latency_host_sync * 1e9;
  }
  if (!job_.communicates[stages.open]) return OpenNextStage(rank, launch);
  for (int other = 0; other < RanksThatRun(); ++other) {
    const RankStages& others = stages_[other];
    if (others.open < stages.open || (others.open == stages.open && !AllParked(others))) return;
  }
  const double collective = rates().latency_collective * 1e9;
  for (int other = 0; other < RanksThatRun(); ++other) {
    const RankStages& others = stages_[other];
    if (others.open == stages.open && !others.closing && !others.waiting.empty()) {
      OpenNextStage(other, launch + collective);
    }
  }
}

void TimedMode::EnterStage(Core& core, int stage) {
  CoreClock& clock = ClockOf(core);
  clock.stage = stage;
  RankStages& stages = stages_[core.rank];
  if (stage <= stages.open) return;
  stages.waiting.push_back(&core);
  ++stages.parked;
  CloseStage(core.rank);
  core.fiber.Suspend();
}

void TimedMode::LeaveStages(Core& core) {
  if (job_.stages.empty()) return;
  ++stages_[core.rank].parked;
  CloseStage(core.rank);
}

void TimedMode::OpenStage(int rank, int stage) {
  RankStages& stages = stages_[rank];
  stages.open = stage;
  stages.closing = false;
  std::vector<Core*> waiting;
  waiting.swap(stages.waiting);
  for (Core* core : waiting) {
    if (ClockOf(*core).stage > stage) {
      stages.waiting.push_back(core);
    } else {
      --stages.parked;
      ResumeAt(*core, now_);
    }
  }
  CloseStage(rank);
}

}  // namespace cpu_model
