// The events of a timed run, in the order of their times.
#include "clocks/timing.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "clocks/timing_state.h"

namespace cpu_model {

bool timing = false;
TimingJob timing_job;
void AtomicStore(bool atomic, DType type, uint8_t* dst, const uint8_t* src, uint64_t bytes);

namespace timed {

constexpr double kWindow = 500;  // ns between two looks at how bandwidth is shared
constexpr double kNever = std::numeric_limits<double>::infinity();

State& TheState() {
  static State state;
  return state;
}

int RankCount() { return timing_job.mirror ? 1 : TheEngine().ranks; }

CoreClock& ClockOf(const Core& core) { return TheState().cores[core.number]; }

static void Push(double time, Core* core, int32_t signal, int32_t stage, int32_t rank) {
  State& state = TheState();
  state.events.push({time, state.event_count++, core, signal, stage, rank});
}

void ResumeAt(Core& core, double time) { Push(time, &core, -1, -1, -1); }
void MakeReady(Core& core, double after_ns) { ResumeAt(core, TheState().now + after_ns); }
void OpenStageAt(int rank, int stage, double time) { Push(time, nullptr, -1, stage, rank); }

void SendSignal(const Signal& signal, double time) {
  State& state = TheState();
  int32_t at = static_cast<int32_t>(state.signals.size());
  if (state.free_signals.empty()) {
    state.signals.push_back(signal);
  } else {
    at = state.free_signals.back();
    state.free_signals.pop_back();
    state.signals[at] = signal;
  }
  Push(time, nullptr, at, -1, -1);
}

static void Deliver(int32_t at) {
  State& state = TheState();
  const Signal signal = state.signals[at];
  state.free_signals.push_back(at);
  AtomicStore(signal.add, signal.type, GlobalData(signal.addr), signal.data, signal.bytes);
  WakeWatchers(signal.addr, signal.addr + signal.bytes);
}

static uint64_t FirstCounter(int rank) {
  static std::vector<uint64_t> begins;
  if (begins.empty()) {
    begins.assign(TheEngine().ranks, 0);
    for (const Region& region : TheEngine().regions) {
      if (region.name == timing_job.counters) {
        begins[region.rank] = region.begin + timing_job.first_counter;
      }
    }
  }
  return begins[rank];
}

int CounterAt(const Core& core, uint64_t addr) {
  const uint64_t begin = FirstCounter(core.rank);
  if (begin == 0 || addr < begin) return -1;
  const uint64_t index = (addr - begin) / timing_job.counter_pitch;
  return index < timing_job.counter_count ? static_cast<int>(index) : -1;
}

bool MayBeCounter(const Region& region, uint64_t addr) {
  if (timing_job.counter_count == 0 || region.name != timing_job.counters) return true;
  const uint64_t begin = region.begin + timing_job.first_counter;
  return addr >= begin && (addr - begin) / timing_job.counter_pitch < timing_job.counter_count;
}

uint64_t CounterAddress(const Core& core, uint64_t index) {
  return FirstCounter(core.rank) + index * timing_job.counter_pitch;
}

void SleepUntilWritten(Core& core, uint64_t addr) {
  CoreClock& clock = ClockOf(core);
  clock.watch = addr;
  TheState().watchers[addr / 64].push_back(&core);
  core.wait = WaitKind::kPoll;
  core.fiber.Suspend();
}

void WakeWatchers(uint64_t begin, uint64_t end) {
  State& state = TheState();
  for (uint64_t line = begin / 64; line <= (end - 1) / 64; ++line) {
    const auto found = state.watchers.find(line);
    if (found == state.watchers.end()) continue;
    std::vector<Core*>& cores = found->second;
    for (size_t i = 0; i < cores.size();) {
      CoreClock& clock = ClockOf(*cores[i]);
      if (clock.watch + 4 <= begin || clock.watch >= end) {
        ++i;
        continue;
      }
      const double looks = std::ceil((state.now - clock.looked) / clock.period);
      cores[i]->wait = WaitKind::kNone;
      ResumeAt(*cores[i], clock.looked + std::max(looks, 1.0) * clock.period);
      cores.erase(cores.begin() + static_cast<std::ptrdiff_t>(i));
    }
    if (cores.empty()) state.watchers.erase(found);
  }
}

void Sleep(Core& core) { core.fiber.Suspend(); }
void Notify(Core& core) { MakeReady(core, TheState().rates().latency_cross_core * 1e9); }

static void Account(const Core& core, const Work& work) {
  RankTotals& totals = TheTimeline().totals[core.rank];
  for (int pipe = 0; pipe < kPipeCount; ++pipe) {
    totals.busy[core.aic ? 0 : 1][pipe] += work.profile->busy[pipe];
  }
  for (const Use& use : work.uses) {
    TheTimeline().totals[use.rank].bytes[use.resource] += use.bytes;
  }
  TaskRecord& task = ClockOf(core).task;
  if (!ClockOf(core).signalled) task.alone += work.profile->ns[0];
  task.busy += work.profile->busy[core.aic ? PIPE_M : PIPE_V];
}

void Meet(Core& core) {
  TheState().recorder.SetTimed();
  State& state = TheState();
  Recorder& recorder = state.recorder;
  CoreClock& clock = ClockOf(core);
  if (recorder.empty()) {
    const double end = state.now + state.rates().Ns(recorder.scalar());
    if (!clock.signalled) clock.task.alone += end - state.now;
    recorder.Clear();
    if (end == state.now) return;
    if (end < state.window_end && (state.events.empty() || state.events.top().time > end)) {
      state.now = end;
      return;
    }
    ResumeAt(core, end);
    core.fiber.Suspend();
    return;
  }
  if (clock.in_task && !clock.started && recorder.works()) {
    clock.started = true;
    clock.task.start = state.now + state.rates().Ns(recorder.lead());
  }
  Work& work = clock.work;
  work.profile = recorder.Take(core.rank, work.uses);
  Account(core, work);
  state.fluid->Start(&work, state.now);
  const double end = work.End();
  if (work.uses.empty() || end < state.window_end) {
    work.queued = true;
    ResumeAt(core, end);
  }
  core.fiber.Suspend();
}

static void Resume(Core& core, void (*finished)(Core&)) {
  State& state = TheState();
  Work& work = ClockOf(core).work;
  if (work.profile != nullptr) {
    state.fluid->Finish(&work);
    work.profile = nullptr;
    work.queued = false;
  }
  TheEngine().current = &core;
  core.fiber.Resume();
  TheEngine().current = nullptr;
  if (!core.fiber.done()) return;
  CheckCoreEnd(core);
  core.running = false;
  ++state.progress;
  TheTimeline().totals[core.rank].end = state.now;
  LeaveStages(core);
  finished(core);
}

// Where nothing else can happen, code that only looked like a poll goes on.
static bool Probe() {
  State& state = TheState();
  static uint64_t last = ~uint64_t{0};
  if (state.watchers.empty() || state.progress == last) return false;
  last = state.progress;
  std::vector<Core*> all;
  for (const auto& core : TheEngine().cores) {
    if (core->wait == WaitKind::kPoll) all.push_back(core.get());
  }
  state.watchers.clear();
  for (Core* core : all) {
    core->wait = WaitKind::kNone;
    ResumeAt(*core, state.now + ClockOf(*core).period);
  }
  return !all.empty();
}

static bool AnyRunning() {
  for (const auto& core : TheEngine().cores) {
    if (core->running) return true;
  }
  return false;
}

void Run(void (*finished)(Core&)) {
  State& state = TheState();
  Fluid& fluid = *state.fluid;
  double soonest = kNever;
  bool rescan = true;
  while (true) {
    if (fluid.changed()) {
      fluid.Share(state.window_end);
      rescan = true;
    }
    if (rescan) {
      soonest = kNever;
      for (const Work* work : fluid.running()) soonest = std::min(soonest, work->End());
    }
    const double next = state.events.empty() ? kNever : state.events.top().time;
    if (std::min(next, soonest) == kNever) {
      if (!AnyRunning()) return;
      if (!Probe()) FailDeadlock();
      continue;
    }
    state.window_end = (std::floor(std::min(next, soonest) / kWindow) + 1) * kWindow;
    rescan = soonest < state.window_end;
    if (rescan) {
      for (Work* work : fluid.running()) {
        if (work->queued || work->End() >= state.window_end) continue;
        work->queued = true;
        ResumeAt(*TheEngine().cores[work->core], work->End());
      }
    }
    while (!state.events.empty() && state.events.top().time < state.window_end) {
      const Event event = state.events.top();
      state.events.pop();
      state.now = event.time;
      if (event.core != nullptr) {
        Resume(*event.core, finished);
      } else if (event.signal >= 0) {
        ++state.progress;
        Deliver(event.signal);
      } else {
        ++state.progress;
        OpenStage(event.rank, event.stage);
      }
    }
  }
}

}  // namespace timed
}  // namespace cpu_model
