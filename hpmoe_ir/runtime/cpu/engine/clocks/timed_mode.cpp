#include "clocks/timed_mode.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>

namespace cpu_model {

constexpr double kWindow = 500;  // ns after which shares of bandwidth are computed again
constexpr double kNever = std::numeric_limits<double>::infinity();

void TimedMode::Start(uint64_t bytes_of_rank) {
  recorder_.Start(RanksThatRun(), job_.mirror, rates());
  fluid_ = std::make_unique<Fluid>(RanksThatRun(), rates());
  clocks_.resize(TheEngine().cores.size());
  for (size_t i = 0; i < clocks_.size(); ++i) clocks_[i].segment.core = static_cast<int>(i);
  stages_.resize(RanksThatRun());
  TheTimeline().totals.resize(RanksThatRun());
  Reserve(TheEngine().ranks, bytes_of_rank);
}

int TimedMode::RanksThatRun() const { return job_.mirror ? 1 : TheEngine().ranks; }

void TimedMode::Push(double time, Core* core, int32_t signal, int32_t stage, int32_t rank) {
  events_.push({time, event_count_++, core, signal, stage, rank});
}

void TimedMode::ResumeAt(Core& core, double time) { Push(time, &core, -1, -1, -1); }
void TimedMode::MakeReady(Core& core) { ResumeAt(core, now_); }

void TimedMode::SendSignal(const SignalWrite& signal, double time) {
  int32_t at = static_cast<int32_t>(signals_.size());
  if (free_signals_.empty()) {
    signals_.push_back(signal);
  } else {
    at = free_signals_.back();
    free_signals_.pop_back();
    signals_[at] = signal;
  }
  Push(time, nullptr, at, -1, -1);
}

void TimedMode::Deliver(int32_t at) {
  const SignalWrite signal = signals_[at];
  free_signals_.push_back(at);
  AtomicStore(signal.add, signal.type, GlobalData(signal.addr), signal.data, signal.bytes);
  WakeReaders(signal.addr, signal.addr + signal.bytes);
}

void TimedMode::SuspendUntilWritten(Core& core, uint64_t addr) {
  CoreClock& clock = ClockOf(core);
  clock.watched = addr;
  watchers_[addr / 64].push_back(&core);
  core.wait = WaitKind::kPoll;
  core.fiber.Suspend();
}

void TimedMode::WakeReaders(uint64_t begin, uint64_t end) {
  for (uint64_t line = begin / 64; line <= (end - 1) / 64; ++line) {
    const auto found = watchers_.find(line);
    if (found == watchers_.end()) continue;
    std::vector<Core*>& cores = found->second;
    for (size_t i = 0; i < cores.size();) {
      CoreClock& clock = ClockOf(*cores[i]);
      if (clock.watched + 4 <= begin || clock.watched >= end) {
        ++i;
        continue;
      }
      const double reads = std::ceil((now_ - clock.last_read) / clock.period);
      cores[i]->wait = WaitKind::kNone;
      ResumeAt(*cores[i], clock.last_read + std::max(reads, 1.0) * clock.period);
      cores.erase(cores.begin() + static_cast<std::ptrdiff_t>(i));
    }
    if (cores.empty()) watchers_.erase(found);
  }
}

void TimedMode::Suspend(Core& core, WaitKind wait) {
  core.wait = wait;
  core.fiber.Suspend();
}

void TimedMode::Wake(Core& core) {
  if (core.wait == WaitKind::kNone) return;
  core.wait = WaitKind::kNone;
  ResumeAt(core, now_ + rates().latency_cross_core * 1e9);
}

void TimedMode::Account(const Core& core, const Segment& segment) {
  RankTotals& totals = TheTimeline().totals[core.rank];
  for (int pipe = 0; pipe < kPipeCount; ++pipe) {
    totals.busy[core.aic ? 0 : 1][pipe] += segment.profile->busy[pipe];
  }
  for (const ResourceUse& use : segment.uses) {
    TheTimeline().totals[use.rank].bytes[use.resource] += use.bytes;
  }
  TaskRecord& task = ClockOf(core).task;
  if (!ClockOf(core).signalled) task.alone += segment.profile->ns[0];
  task.busy += segment.profile->busy[core.aic ? PIPE_M : PIPE_V];
}

void TimedMode::Synchronise(Core& core) {
  recorder_.SetTimed();
  CoreClock& clock = ClockOf(core);
  if (recorder_.empty()) {
    const double end = now_ + rates().Ns(recorder_.scalar());
    if (!clock.signalled) clock.task.alone += end - now_;
    recorder_.Clear();
    if (end == now_) return;
    if (end < window_end_ && (events_.empty() || events_.top().time > end)) {
      now_ = end;
      return;
    }
    ResumeAt(core, end);
    core.fiber.Suspend();
    return;
  }
  if (clock.in_task && !clock.started && recorder_.works()) {
    clock.started = true;
    clock.task.start = now_ + rates().Ns(recorder_.lead());
  }
  Segment& segment = clock.segment;
  segment.profile = recorder_.Take(core.rank, segment.uses);
  Account(core, segment);
  segment.noise = clock.in_task ? clock.noise : 1;
  fluid_->Start(&segment, now_);
  const double end = segment.End();
  if (segment.uses.empty() || end < window_end_) {
    segment.queued = true;
    ResumeAt(core, end);
  }
  core.fiber.Suspend();
}

void TimedMode::Resume(Core& core, void (*finished)(Core&)) {
  Segment& segment = ClockOf(core).segment;
  if (segment.profile != nullptr) {
    fluid_->Finish(&segment);
    segment.profile = nullptr;
    segment.queued = false;
  }
  TheEngine().current = &core;
  core.fiber.Resume();
  TheEngine().current = nullptr;
  if (!core.fiber.done()) return;
  CheckCoreEnd(core);
  core.running = false;
  ++progress_;
  TheTimeline().totals[core.rank].end = now_;
  LeaveStages(core);
  finished(core);
}

bool TimedMode::Probe() {
  if (watchers_.empty() || progress_ == probed_at_) return false;
  probed_at_ = progress_;
  std::vector<Core*> all;
  for (const auto& core : TheEngine().cores) {
    if (core->wait == WaitKind::kPoll) all.push_back(core.get());
  }
  watchers_.clear();
  for (Core* core : all) {
    core->wait = WaitKind::kNone;
    ResumeAt(*core, now_ + ClockOf(*core).period);
  }
  return !all.empty();
}

void TimedMode::Run(void (*finished)(Core&)) {
  double soonest = kNever;
  bool rescan = true;
  while (true) {
    if (fluid_->changed()) {
      fluid_->Share(window_end_);
      rescan = true;
    }
    if (rescan) {
      soonest = kNever;
      for (const Segment* segment : fluid_->running()) soonest = std::min(soonest, segment->End());
    }
    const double next = events_.empty() ? kNever : events_.top().time;
    if (std::min(next, soonest) == kNever) {
      if (!TheEngine().AnyRunning()) return;
      if (!Probe()) FailDeadlock();
      continue;
    }
    window_end_ = (std::floor(std::min(next, soonest) / kWindow) + 1) * kWindow;
    rescan = soonest < window_end_;
    if (rescan) {
      for (Segment* segment : fluid_->running()) {
        if (segment->queued || segment->End() >= window_end_) continue;
        segment->queued = true;
        ResumeAt(*TheEngine().cores[segment->core], segment->End());
      }
    }
    while (!events_.empty() && events_.top().time < window_end_) {
      const QueuedEvent event = events_.top();
      events_.pop();
      now_ = event.time;
      if (event.core != nullptr) {
        Resume(*event.core, finished);
      } else if (event.signal >= 0) {
        ++progress_;
        Deliver(event.signal);
      } else {
        ++progress_;
        OpenStage(event.rank, event.stage);
      }
    }
  }
}

}  // namespace cpu_model
