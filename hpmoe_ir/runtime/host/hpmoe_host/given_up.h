// What the cores of a rank waited for when a wait had used up its budget.
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

// Names by which to tell what was waited for; none where waits have no budget.
struct WaitNames {
  std::vector<EventFamily> events;
  std::vector<TaskFamily> tasks;
};

// Bytes of the lines of all cores, AIC then AIV, which come after the counters in the windows.
uint64_t GivenUpBytes(uint32_t blocks, const WaitNames& names);

// A line of text for each core that has given up in this launch. `lines` is what is in its memory.
std::string GivenUpText(const std::vector<uint32_t>& lines, uint32_t blocks, uint32_t launch,
                        const WaitNames& names);

}  // namespace hpmoe_host

#endif  // HPMOE_HOST_GIVEN_UP_H_
