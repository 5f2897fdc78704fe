#include "functional/clock.h"

#include <algorithm>

namespace cpu_model {

constexpr int64_t kNever = int64_t{1} << 33;  // more than 32 bits of ticks can express

constexpr uint64_t kTurnsOfATick = 64;

static int64_t now = 0;
static int64_t stalled = 0;
static std::vector<Core*> sleepers;

int64_t ReadClock(Where where) {
  Core& core = Enter("GetSystemCycle", PIPE_S, where, {}, true);
  ClockUse& use = core.clock;
  use.effects = core.effects;
  if (core.calls == use.call + 1) {
    const int64_t step = 1 + use.slept / 8;  // few looks, and no interval missed by much
    use.slept += step;
    use.wake_at = now + step;
    sleepers.push_back(&core);
    Block(core, WaitKind::kClock);
  } else {
    use.slept = 0;
  }
  use.call = core.calls;
  return now + static_cast<int64_t>(core.effects + core.calls / kTurnsOfATick);
}

bool MayGiveUp(const Core& core) { return core.clock.effects == core.effects; }

bool WakeByTime() {
  if (sleepers.empty()) return false;
  const auto earlier = [](const Core* a, const Core* b) {
    return a->clock.wake_at < b->clock.wake_at;
  };
  now = (*std::min_element(sleepers.begin(), sleepers.end(), earlier))->clock.wake_at;
  for (size_t i = 0; i < sleepers.size();) {
    if (sleepers[i]->clock.wake_at > now) {
      ++i;
      continue;
    }
    Wake(*sleepers[i]);
    sleepers.erase(sleepers.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return true;
}

bool PassTime() {
  if (stalled > kNever) return false;
  const int64_t step = std::max<int64_t>(stalled, 1);
  now += step;
  stalled += step;
  return true;
}

void EndOfStall() { stalled = 0; }

}  // namespace cpu_model
