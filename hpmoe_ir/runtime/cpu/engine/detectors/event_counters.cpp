#include "detectors/event_counters.h"

#include <algorithm>
#include <cstring>

#include "model/engine.h"
#include "model/timeline.h"

namespace cpu_model {

static int64_t Value(uint64_t addr) {
  int32_t value = 0;
  std::memcpy(&value, GlobalData(addr), sizeof(value));
  return value;
}

// What launches 1 to `launches` add to a counter.
static int64_t Added(const EventCounter& counter, int64_t launches) {
  return counter.threshold * ((launches + counter.copies - counter.copy) / counter.copies -
                              (counter.copy == 0 ? 1 : 0));
}

std::string EventCounterDetector::Describe(const Place& place, int64_t value) {
  return Format("the counter of event %u of @%s on rank %d is %lld", place.counter->index,
                place.counter->event.c_str(), place.rank, static_cast<long long>(value));
}

static const char* Each(const EventCounter& counter) {
  return counter.copies == 1 ? "each" : "every other";
}

static std::string Range(int64_t low, int64_t high) {
  if (low == high) return Format("%lld", static_cast<long long>(low));
  return Format("%lld to %lld", static_cast<long long>(low), static_cast<long long>(high));
}

void EventCounterDetector::Check(const Place& place, uint64_t addr, int64_t low, int64_t high,
                                 const std::string& when) {
  const int64_t value = Value(addr);
  const int64_t least = Added(*place.counter, low);
  const int64_t most = Added(*place.counter, high);
  if (value >= least && value <= most) return;
  FailAt("counter",
         Describe(place, value) + " " + when + ", expected " + Range(least, most) +
             Format(": %s launch adds %lld", Each(*place.counter),
                    static_cast<long long>(place.counter->threshold)),
         Where("", 0), nullptr);
}

EventCounterDetector::EventCounterDetector(const EventCounters& counters) : counters_(counters) {}

void EventCounterDetector::OnStart() {
  for (const Allocation& allocation : TheEngine().allocations) {
    if (allocation.name != counters_.memory) continue;
    for (const EventCounter& counter : counters_.all) {
      places_[allocation.begin + counter.offset] = {allocation.rank, &counter};
    }
  }
  for (const auto& [addr, place] : places_) Check(place, addr, 0, 0, "before the first launch");
}

void EventCounterDetector::OnLaunch(int rank, int launch) {
  const std::string when = Format("when launch %d starts there", launch);
  for (const auto& [addr, place] : places_) {
    if (place.rank != rank) continue;
    const std::vector<int>& unwaited = place.counter->unwaited;
    const bool waited = std::count(unwaited.begin(), unwaited.end(), rank) == 0;
    Check(place, addr, waited ? launch - 1 : 0, started_, when);
  }
  started_ = std::max(started_, launch);
}

void EventCounterDetector::OnScalarArgument(int rank, int launch, const std::string& name,
                                            uint32_t value) {
  if (name != counters_.launch || value == static_cast<uint32_t>(launch)) return;
  FailAt("counter",
         Format("launch %d of rank %d is given %u as its number: it waits for %u times the "
                "threshold of an event, expected %d times",
                launch, rank, value, value, launch),
         Where("", 0), nullptr);
}

void EventCounterDetector::OnEnd(int launches) {
  const std::string when = Format("at the end of %d launches", launches);
  for (const auto& [addr, place] : places_) Check(place, addr, launches, launches, when);
}

void EventCounterDetector::OnTrap(const Core& core, Where where) {
  if (counters_.given_up < 0) return;
  for (const Allocation& allocation : TheEngine().allocations) {
    if (allocation.name != counters_.memory || allocation.rank != core.rank) continue;
    uint32_t words[4];
    std::memcpy(words, GlobalData(allocation.begin + counters_.given_up + core.place * 64),
                sizeof(words));
    const auto [launch, event, seen, target] = words;
    if (launch == 0 || event >= counters_.all.size()) return;
    const EventCounter& counter = counters_.all[event];
    FailGivenUp(
        core, allocation.begin + counter.offset, static_cast<int32_t>(seen),
        Format("gave up waiting for event %u of @%s: saw %d, waited for %d", counter.index,
               counter.event.c_str(), static_cast<int32_t>(seen), static_cast<int32_t>(target)),
        where);
  }
}

void EventCounterDetector::OnWrite(const Core& core, uint64_t begin, uint64_t bytes) {
  if (places_.empty() || core.marker < 0) return;
  const auto at = places_.lower_bound(begin);
  if (at == places_.end() || at->first >= begin + bytes) return;
  TaskRecord& task = TheTimeline().tasks[core.record];
  ++task.signals;
  task.remote += at->second.rank != core.rank;
}

void EventCounterDetector::OnLanded(const Core& core, uint64_t begin, uint64_t bytes, Where where) {
  if (places_.empty()) return;
  const uint64_t first = begin < 3 ? 0 : begin - 3;  // a word that the write touches in part
  for (auto at = places_.lower_bound(first); at != places_.end() && at->first < begin + bytes;
       ++at) {
    const int64_t value = Value(at->first);
    const int64_t most = Added(*at->second.counter, started_);
    if (value <= most) continue;
    FailAt("counter",
           Describe(at->second, value) +
               Format(" after this signal, expected at most %lld: %s launch adds %lld, and no "
                      "rank has started launch %d",
                      static_cast<long long>(most), Each(*at->second.counter),
                      static_cast<long long>(at->second.counter->threshold), started_ + 1),
           where, &core);
  }
}

}  // namespace cpu_model
