// Reports of waits that exceeded their budget: each core that gives up leaves a line in memory.
#ifndef HPMOE_HOST_GIVEN_UP_H_
#define HPMOE_HOST_GIVEN_UP_H_

#include <cstdint>
#include <string>
#include <vector>

namespace hpmoe_host {

// A family of events, `count` counters from number `first` on.
struct EventFamily {
  const char* name;
  uint32_t first;
  uint32_t count;
};

// A family of tasks with the extents of its grid.
struct TaskFamily {
  const char* name;
  std::vector<uint32_t> extents;
};

// Names of events and tasks for the report; empty where waits have no budget.
struct WaitNames {
  std::vector<EventFamily> events;
  std::vector<TaskFamily> tasks;
};

// Returns the bytes of the lines of all cores, AIC then AIV, which follow the counters in the
// windows. `blocks`: AICs.
uint64_t GivenUpBytes(uint32_t blocks, const WaitNames& names);

// Returns a line of text for each core that gave up in `launch`. `lines`: content of that memory.
std::string GivenUpText(const std::vector<uint32_t>& lines, uint32_t blocks, uint32_t launch,
                        const WaitNames& names);

}  // namespace hpmoe_host

#endif  // HPMOE_HOST_GIVEN_UP_H_
