// Which core runs next. A seed fixes every choice, so a run can be repeated exactly.
#include <algorithm>

#include "clocks/timing.h"
#include "detectors/shadow.h"
#include "functional/clock.h"
#include "model/engine.h"
#include "model/pending.h"

namespace cpu_model {

// How cores take turns; each finds other orders. kShort and kLong pick a core at random for one
// or for some calls. kPriority runs the most important core until it waits or loses its rank, so
// that some cores are far behind; kRanks does so for whole ranks.
enum class Policy { kShort, kLong, kPriority, kRanks };
constexpr int kPolicies = 4;

static uint64_t random_state = 1;
static Policy policy = Policy::kLong;
static uint64_t rank_bias = 0;
static std::vector<Core*> ready;
static std::vector<Core*> waiting;  // blocked on memory: kPoll and kSignal
static int quantum = 0;
static int next_priority = -1;
static bool progress = false;

constexpr int kProbes = 4096;
constexpr int kTimedProbes = 2;  // of a loop that ends by time rather than by turns
constexpr int kPatience = 16;

Engine& TheEngine() {
  static Engine engine;
  return engine;
}

Core& Engine::CoreOf(int rank, bool aic, int index) {
  return *cores[rank * blocks * 3 + (aic ? index : blocks + index)];
}

uint64_t Random() {
  uint64_t z = (random_state += 0x9E3779B97F4A7C15ull);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

void SeedScheduler(uint64_t seed) {
  random_state = seed * 0xD1342543DE82EF95ull + 1;
  policy = seed == 0 ? Policy::kLong : static_cast<Policy>(Random() % kPolicies);
  rank_bias = Random();
}

static bool ByPriority() { return policy == Policy::kPriority || policy == Policy::kRanks; }

void MakeReady(Core& core) {
  if (timing) return timed::MakeReady(core);
  core.priority = static_cast<int>(Random() % 1000000);
  if (policy == Policy::kRanks) {
    const uint64_t rank = (rank_bias + static_cast<uint64_t>(core.rank)) * 0x9E3779B97F4A7C15ull;
    core.priority += static_cast<int>(rank >> 54) * 1000000;
  }
  ready.push_back(&core);
}

static bool IsLate(const Core* core) {
  const std::vector<int>& late = TheEngine().late_ranks;
  return std::find(late.begin(), late.end(), core->rank) != late.end();
}

// Cores of late ranks come last in `ready`; they are chosen from only where there are no others.
static size_t Choices() {
  if (TheEngine().late_ranks.empty()) return ready.size();
  const auto late = std::stable_partition(ready.begin(), ready.end(),
                                          [](const Core* core) { return !IsLate(core); });
  return late == ready.begin() ? ready.size() : static_cast<size_t>(late - ready.begin());
}

static size_t Pick() {
  const size_t choices = Choices();
  if (!ByPriority()) return Random() % choices;
  size_t best = 0;
  for (size_t i = 1; i < choices; ++i) {
    if (ready[i]->priority > ready[best]->priority) best = i;
  }
  return best;
}

static int Quantum() {
  if (policy == Policy::kShort) return 1;
  if (policy == Policy::kLong) return 1 + static_cast<int>(Random() % 32);
  return 1 + static_cast<int>(Random() % 256);
}

static void Yield(Core& core) {
  // A priority lost at a random point is what lets a slow core overtake a fast one.
  if (ByPriority() && Random() % 32 == 0) core.priority = next_priority--;
  ready.push_back(&core);
  core.fiber.Suspend();
}

Core& Enter(const char* api, pipe_t pipe, Where where, std::initializer_list<Span> spans,
            bool passive) {
  Engine& engine = TheEngine();
  Core& core = *engine.current;
  core.api = api;
  core.where = where;
  if (timing) {
    timed::Entered(api, pipe, where);
    core.effects += !passive;
    return core;
  }
  ++core.calls;
  if (++engine.steps > engine.limits.steps) {
    Fail("livelock",
         Format("%s: no end after %llu API calls", api,
                static_cast<unsigned long long>(engine.limits.steps)),
         where);
  }
  LandDue();
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
    progress = true;
  }
  if (--quantum <= 0) Yield(core);
  for (const Span& span : spans) {
    if (span.space == kGm && span.write && !span.Empty()) WakeReaders(span.begin, span.End());
  }
  NoteAccess(core, api, pipe, where, spans);
  return core;
}

void Block(Core& core, WaitKind kind) {
  core.wait = kind;
  if (timing) return timed::Sleep(core);
  if (kind == WaitKind::kPoll || kind == WaitKind::kSignal) waiting.push_back(&core);
  core.fiber.Suspend();
}

void Wake(Core& core) {
  if (core.wait == WaitKind::kNone) return;
  core.wait = WaitKind::kNone;
  if (timing) return timed::Notify(core);
  waiting.erase(std::remove(waiting.begin(), waiting.end(), &core), waiting.end());
  ready.push_back(&core);
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

void WakeReaders(uint64_t begin, uint64_t end) {
  for (size_t i = 0; i < waiting.size();) {
    Core& core = *waiting[i];
    if (!Watches(core, begin, end)) {
      ++i;
      continue;
    }
    core.wait = WaitKind::kNone;
    waiting[i] = waiting.back();
    waiting.pop_back();
    ready.push_back(&core);
  }
}

// A read that repeats earlier ones of the same kernel line and saw the same value, with nothing
// done in between, is one turn of a polling loop: after some turns the core sleeps until that
// memory is written. A word that is merely looked up twice must not put a core to sleep, for it
// would wait until no other core can run, and its rank would never get ahead of others. Sleeping is
// advice: when nothing else can run, sleepers get some more turns before a deadlock is reported.
void NotePoll(Core& core, uint64_t addr, uint64_t target, uint32_t bytes, uint64_t value,
              Where where) {
  for (Poll& poll : core.poll) {
    if (poll.file != where.file || poll.line != where.line || poll.addr != addr ||
        poll.target != target || poll.bytes != bytes || poll.effects != core.effects) {
      continue;
    }
    if (poll.value != value) {
      poll.value = value;
      poll.repeats = 0;
      progress = true;
    } else if (core.probes > 0) {
      --core.probes;
    } else if (++poll.repeats >= kPatience) {
      core.next_poll = static_cast<int>(&poll - core.poll + 1) % kPolls;
      Block(core, WaitKind::kPoll);
    }
    return;
  }
  core.poll[core.next_poll] = {where.file, where.line, addr, target, bytes, value, core.effects, 0};
  core.next_poll = (core.next_poll + 1) % kPolls;
}

// Gives sleeping pollers some turns; false where there is none. With `timed`, only those whose loop
// looks at the clock.
static bool WakePollers(bool timed) {
  bool any = false;
  const std::vector<Core*> asleep = waiting;
  for (Core* core : asleep) {
    if (core->wait != WaitKind::kPoll || (timed && !MayGiveUp(*core))) continue;
    core->probes = MayGiveUp(*core) ? kTimedProbes : kProbes;
    Wake(*core);
    any = true;
  }
  return any;
}

// Gives every sleeping poller some turns; false where they had them already, to no effect.
static bool Probe() {
  if (!progress) return false;
  progress = false;
  EndOfStall();
  return WakePollers(false);
}

static bool AnyRunning() {
  for (const auto& core : TheEngine().cores) {
    if (core->running) return true;
  }
  return false;
}

void RunCores(void (*finished)(Core&)) {
  Engine& engine = TheEngine();
  progress = true;
  while (true) {
    if (ready.empty()) {
      if (!AnyRunning()) return;
      if (LandNext() || WakeByTime()) continue;
      if (!Probe() && !(PassTime() && WakePollers(true))) FailDeadlock();
    }
    const size_t at = Pick();
    Core& core = *ready[at];
    ready[at] = ready.back();
    ready.pop_back();
    quantum = Quantum();
    engine.current = &core;
    core.fiber.Resume();
    if (core.fiber.done()) {
      CheckCoreEnd(core);
      core.running = false;
      progress = true;
      finished(core);
    }
    engine.current = nullptr;
  }
}

}  // namespace cpu_model
