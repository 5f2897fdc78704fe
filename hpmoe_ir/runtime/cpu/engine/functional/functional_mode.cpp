#include "functional/functional_mode.h"

#include <algorithm>

#include "model/cache.h"
#include "model/observer.h"
#include "model/pending.h"
#include "model/timeline.h"

namespace cpu_model {

constexpr int kProbes = 4096;
constexpr int kBoundedProbes = 2;  // of a loop that ends by time rather than by turns
constexpr int kPatience = 16;

uint64_t FunctionalMode::Random() {
  uint64_t z = (random_state_ += 0x9E3779B97F4A7C15ull);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

FunctionalMode::FunctionalMode(uint64_t seed, const std::vector<int>& late_ranks)
    : random_state_(seed * 0xD1342543DE82EF95ull + 1), late_ranks_(late_ranks) {
  if (seed != 0) policy_ = static_cast<TurnPolicy>(Random() % kTurnPolicies);
  rank_bias_ = Random();
}

uint64_t FunctionalMode::Place(const std::string& name, int, uint64_t bytes) {
  return MapMemory(name, bytes);
}

void FunctionalMode::Initialise(void* data, uint64_t bytes) { FillPattern(data, bytes); }

int FunctionalMode::RanksThatRun() const { return TheEngine().ranks; }

void FunctionalMode::Mark(uint32_t value) {
  Core& core = *TheEngine().current;
  std::vector<TaskRecord>& tasks = TheTimeline().tasks;
  core.record = tasks.size();
  const double step = static_cast<double>(TheEngine().steps);
  tasks.push_back({core.rank, core.place, value, -1, step, 0, 0, 0, 0, 0, 0, 0, 0});
  Model::Mark(value);
}

int64_t FunctionalMode::Cycle(Where where) {
  Core& core = Enter("GetSystemCycle", PIPE_S, where, {}, true);
  if (clock_.MustSleep(core)) Suspend(core, WaitKind::kClock);
  return clock_.Read(core);
}

bool FunctionalMode::ByPriority() const {
  return policy_ == TurnPolicy::kPriority || policy_ == TurnPolicy::kRanks;
}

void FunctionalMode::MakeReady(Core& core) {
  core.priority = static_cast<int>(Random() % 1000000);
  if (policy_ == TurnPolicy::kRanks) {
    const uint64_t rank = (rank_bias_ + static_cast<uint64_t>(core.rank)) * 0x9E3779B97F4A7C15ull;
    core.priority += static_cast<int>(rank >> 54) * 1000000;
  }
  ready_.push_back(&core);
}

bool FunctionalMode::IsLate(const Core* core) const {
  return std::find(late_ranks_.begin(), late_ranks_.end(), core->rank) != late_ranks_.end();
}

// The number of cores to choose from. Moves cores of late ranks to the end of `ready_`: they take
// turns only where there are no others.
size_t FunctionalMode::Choices() {
  if (late_ranks_.empty()) return ready_.size();
  const auto late = std::stable_partition(ready_.begin(), ready_.end(),
                                          [this](const Core* core) { return !IsLate(core); });
  return late == ready_.begin() ? ready_.size() : static_cast<size_t>(late - ready_.begin());
}

size_t FunctionalMode::Pick() {
  const size_t choices = Choices();
  if (!ByPriority()) return Random() % choices;
  size_t best = 0;
  for (size_t i = 1; i < choices; ++i) {
    if (ready_[i]->priority > ready_[best]->priority) best = i;
  }
  return best;
}

int FunctionalMode::Quantum() {
  if (policy_ == TurnPolicy::kShort) return 1;
  if (policy_ == TurnPolicy::kLong) return 1 + static_cast<int>(Random() % 32);
  return 1 + static_cast<int>(Random() % 256);
}

void FunctionalMode::Yield(Core& core) {
  // A priority lost at a random point is what lets a slow core overtake a fast one.
  if (ByPriority() && Random() % 32 == 0) core.priority = next_priority_--;
  ready_.push_back(&core);
  core.fiber.Suspend();
}

Core& FunctionalMode::Enter(const char* api, pipe_t pipe, Where where,
                            std::initializer_list<Span> spans, bool passive) {
  Engine& engine = TheEngine();
  Core& core = *engine.current;
  core.api = api;
  core.where = where;
  ++core.calls;
  if (++engine.steps > engine.limits.steps) {
    Fail("livelock",
         Format("%s: no end after %llu API calls", api,
                static_cast<unsigned long long>(engine.limits.steps)),
         where);
  }
  LandDue();
  FillEarly(core);
  const bool cube_pipe = pipe == PIPE_M || pipe == PIPE_MTE1 || pipe == PIPE_FIX;
  if ((cube_pipe && !core.aic) || (pipe == PIPE_V && core.aic)) {
    Fail("core-kind",
         Format("%s: an %s has no pipe %s", api, core.aic ? "AIC" : "AIV", PipeName(pipe)), where);
  }
  if (pipe != PIPE_S && !core.initialised) {
    Fail("state", Format("%s before InitSocState", api), where);
  }
  for (const Span& span : spans) {
    if (!span.Empty()) CheckSpan(core, api, span, where);
  }
  if (!passive) {
    ++core.effects;
    core.probes = 0;
    progress_ = true;
  }
  if (--quantum_ <= 0) Yield(core);
  for (const Span& span : spans) {
    if (span.space == kGm && span.write && !span.Empty()) WakeReaders(span.begin, span.End());
  }
  TheObserver().OnAccess(core, api, pipe, where, spans);
  return core;
}

void FunctionalMode::Suspend(Core& core, WaitKind kind) {
  core.wait = kind;
  if (kind == WaitKind::kPoll || kind == WaitKind::kSignal) waiting_.push_back(&core);
  core.fiber.Suspend();
}

void FunctionalMode::Wake(Core& core) {
  if (core.wait == WaitKind::kNone) return;
  core.wait = WaitKind::kNone;
  waiting_.erase(std::remove(waiting_.begin(), waiting_.end(), &core), waiting_.end());
  ready_.push_back(&core);
}

static bool Watches(const Core& core, uint64_t begin, uint64_t end) {
  if (core.wait == WaitKind::kSignal) return core.wait_addr < end && core.wait_addr + 4 > begin;
  for (const Poll& poll : core.poll) {
    if (poll.effects == core.effects && poll.addr < end && poll.addr + poll.bytes > begin) {
      return true;
    }
  }
  return false;
}

void FunctionalMode::WakeReaders(uint64_t begin, uint64_t end) {
  for (size_t i = 0; i < waiting_.size();) {
    Core& core = *waiting_[i];
    if (!Watches(core, begin, end)) {
      ++i;
      continue;
    }
    core.wait = WaitKind::kNone;
    waiting_[i] = waiting_.back();
    waiting_.pop_back();
    ready_.push_back(&core);
  }
}

// A read that repeats earlier ones of the same kernel line and saw the same value, with nothing
// done in between, is one turn of a polling loop: after some turns the core sleeps until that
// memory is written. A word that is merely read twice must not put a core to sleep: it would
// wait until no other core can run, and its rank would never get ahead of others. Sleeping is a
// heuristic: when no other core can run, sleepers get some more turns before a deadlock is
// reported.
void FunctionalMode::NotePoll(Core& core, uint64_t addr, uint64_t target, uint32_t bytes,
                              uint64_t value, Where where) {
  for (Poll& poll : core.poll) {
    if (poll.file != where.file || poll.line != where.line || poll.addr != addr ||
        poll.target != target || poll.bytes != bytes || poll.effects != core.effects) {
      continue;
    }
    if (poll.value != value) {
      poll.value = value;
      poll.repeats = 0;
      progress_ = true;
    } else if (core.probes > 0) {
      --core.probes;
    } else if (++poll.repeats >= kPatience) {
      core.next_poll = static_cast<int>(&poll - core.poll + 1) % kPolls;
      Suspend(core, WaitKind::kPoll);
    }
    return;
  }
  core.poll[core.next_poll] = {where.file, where.line, addr, target, bytes, value, core.effects, 0};
  core.next_poll = (core.next_poll + 1) % kPolls;
}

// Gives sleeping pollers some turns; false where there is none. bounded: only those whose loop
// reads the system counter.
bool FunctionalMode::WakePollers(bool bounded) {
  bool any = false;
  const std::vector<Core*> asleep = waiting_;
  for (Core* core : asleep) {
    if (core->wait != WaitKind::kPoll || (bounded && !TickClock::MayGiveUp(*core))) continue;
    core->probes = TickClock::MayGiveUp(*core) ? kBoundedProbes : kProbes;
    Wake(*core);
    any = true;
  }
  return any;
}

// Gives every sleeping poller some turns; false where there was no progress since the last time.
bool FunctionalMode::Probe() {
  if (!progress_) return false;
  progress_ = false;
  clock_.EndStall();
  return WakePollers(false);
}

bool FunctionalMode::WakeByTime() {
  const std::vector<Core*> awake = clock_.WakeNext();
  for (Core* core : awake) Wake(*core);
  return !awake.empty();
}

void FunctionalMode::AwaitSignal(Core& core, uint64_t addr, int32_t seen) {
  core.wait_addr = addr;
  core.wait_value = seen;
  Suspend(core, WaitKind::kSignal);
}

void FunctionalMode::Run(void (*finished)(Core&)) {
  Engine& engine = TheEngine();
  progress_ = true;
  while (true) {
    if (ready_.empty()) {
      if (!engine.AnyRunning()) return;
      if (LandNext() || WakeByTime()) continue;
      if (!Probe() && !(clock_.Advance() && WakePollers(true))) FailDeadlock();
    }
    const size_t at = Pick();
    Core& core = *ready_[at];
    ready_[at] = ready_.back();
    ready_.pop_back();
    quantum_ = Quantum();
    engine.current = &core;
    core.fiber.Resume();
    if (core.fiber.done()) {
      CheckCoreEnd(core);
      core.running = false;
      progress_ = true;
      finished(core);
    }
    engine.current = nullptr;
  }
}

}  // namespace cpu_model
