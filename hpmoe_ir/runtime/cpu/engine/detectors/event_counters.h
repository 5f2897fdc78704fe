// The detector of wrong event counters: a counter may only hold a sum of signals that the launches
// which have started can have sent.
#ifndef CPU_MODEL_ENGINE_DETECTORS_EVENT_COUNTERS_H_
#define CPU_MODEL_ENGINE_DETECTORS_EVENT_COUNTERS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "model/observer.h"

namespace cpu_model {

// The first word of a line counts; the others are scratch, since the smallest atomic add of an AIC
// is 32 bytes.
struct EventCounter {
  std::string event;          // family of events
  uint32_t index;             // event of the family
  uint64_t offset;            // of its line in the memory
  int64_t threshold;          // signals in each launch that uses the counter
  int copies;                 // counters that the event has, used in turn by launches
  int copy;                   // this one is used by launch n if n % copies == copy
  std::vector<int> unwaited;  // ranks on which no task waits for it: signals may arrive late there
};

struct EventCounters {
  std::string memory;             // name of the persistent memory that they are in
  std::string launch;             // scalar argument with the number of the launch, from 1
  std::vector<EventCounter> all;  // by event number
  // Offset of a line for each core, AIC then AIV, in which a core says what it waited for before it
  // traps: launch, event number, value seen, target. Negative: there is none.
  int64_t given_up = -1;
};

class EventCounterDetector : public Observer {
 public:
  explicit EventCounterDetector(const EventCounters& counters);
  // Finds the counters. Every one is 0.
  void OnStart() override;
  // Every signal of the rank's earlier launches that a task there waits for has arrived, and none
  // of a launch that no rank has started.
  void OnLaunch(int rank, int launch) override;
  // The launch is given its own number.
  void OnScalarArgument(int rank, int launch, const std::string& name, uint32_t value) override;
  void OnEnd(int launches) override;
  // Reports which counter the core waited for, where it has said so before it trapped.
  void OnTrap(const Core& core, Where where) override;
  // Counts a signal in the record of the core's task.
  void OnWrite(const Core& core, uint64_t begin, uint64_t bytes) override;
  void OnLanded(const Core& core, uint64_t begin, uint64_t bytes, Where where) override;

 private:
  // A counter in the memory of one rank.
  struct Place {
    int rank;
    const EventCounter* counter;
  };
  static std::string Describe(const Place& place, int64_t value);
  static void Check(const Place& place, uint64_t addr, int64_t low, int64_t high,
                    const std::string& when);

  const EventCounters& counters_;
  std::map<uint64_t, Place> places_;  // by address
  int started_ = 0;                   // the highest launch that any rank has started
};

}  // namespace cpu_model

#endif  // CPU_MODEL_ENGINE_DETECTORS_EVENT_COUNTERS_H_
