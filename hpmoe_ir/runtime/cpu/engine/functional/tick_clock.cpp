#include "functional/tick_clock.h"

#include <algorithm>

namespace cpu_model {

constexpr int64_t kNever = int64_t{1} << 33;  // more than 32 bits of ticks can express

constexpr uint64_t kPassiveCallsPerTick = 64;

bool TickClock::MustSleep(Core& core) {
  CounterReads& reads = core.counter_reads;
  reads.effects = core.effects;
  if (core.calls != reads.call + 1) {
    reads.slept = 0;
    return false;
  }
  const int64_t step = 1 + reads.slept / 8;  // few reads, and no interval missed by much
  reads.slept += step;
  reads.wake_at = now_ + step;
  sleepers_.push_back(&core);
  return true;
}

int64_t TickClock::Read(Core& core) const {
  core.counter_reads.call = core.calls;
  return now_ + static_cast<int64_t>(core.effects + core.calls / kPassiveCallsPerTick);
}

std::vector<Core*> TickClock::WakeNext() {
  if (sleepers_.empty()) return {};
  const auto earlier = [](const Core* a, const Core* b) {
    return a->counter_reads.wake_at < b->counter_reads.wake_at;
  };
  now_ = (*std::min_element(sleepers_.begin(), sleepers_.end(), earlier))->counter_reads.wake_at;
  const auto rest = std::stable_partition(
      sleepers_.begin(), sleepers_.end(),
      [this](const Core* core) { return core->counter_reads.wake_at <= now_; });
  std::vector<Core*> awake(sleepers_.begin(), rest);
  sleepers_.erase(sleepers_.begin(), rest);
  return awake;
}

bool TickClock::Advance() {
  if (stalled_ > kNever) return false;
  const int64_t step = std::max<int64_t>(stalled_, 1);
  now_ += step;
  stalled_ += step;
  return true;
}

}  // namespace cpu_model
