#include "hpmoe_host/given_up.h"

#include "hpmoe/machine.h"

namespace hpmoe_host {
namespace {

constexpr uint32_t kLineWords = hpmoe::kCounterLine / sizeof(uint32_t);

// Words of a core's line, as hpmoe/env.h writes them.
enum Word { kLaunch, kEvent, kSeen, kTarget, kSlot };

std::string EventName(uint32_t event, const WaitNames& names) {
  for (const EventFamily& family : names.events) {
    if (event >= family.first && event - family.first < family.count) {
      return "event " + std::to_string(event - family.first) + " of @" + family.name;
    }
  }
  return "event number " + std::to_string(event);
}

std::string TaskName(uint32_t slot, const WaitNames& names) {
  const uint32_t number = slot >> hpmoe::kPointBits;
  uint32_t point = slot & ((1u << hpmoe::kPointBits) - 1);
  if (number >= names.tasks.size()) return "task " + std::to_string(slot);
  const TaskFamily& family = names.tasks[number];
  std::string coordinates;
  for (size_t i = family.extents.size(); i-- > 0; point /= family.extents[i]) {
    coordinates =
        std::to_string(point % family.extents[i]) + (coordinates.empty() ? "" : ", ") + coordinates;
  }
  return "@" + std::string(family.name) + " (" + coordinates + ")";
}

}  // namespace

uint64_t GivenUpBytes(uint32_t blocks, const WaitNames& names) {
  return names.events.empty()
             ? 0
             : uint64_t{1 + hpmoe::kAivPerAic} * blocks * kLineWords * sizeof(uint32_t);
}

std::string GivenUpText(const std::vector<uint32_t>& lines, uint32_t blocks, uint32_t launch,
                        const WaitNames& names) {
  std::string text;
  for (uint32_t core = 0; core * kLineWords < lines.size(); ++core) {
    const uint32_t* words = &lines[core * kLineWords];
    if (words[kLaunch] != launch) continue;
    const bool aic = core < blocks;
    text += std::string("\n") + (aic ? "aic" : "aiv") + std::to_string(aic ? core : core - blocks) +
            " gave up in " + TaskName(words[kSlot], names) + ": waited for " +
            EventName(words[kEvent], names) + ", saw " +
            std::to_string(static_cast<int32_t>(words[kSeen])) + ", expected " +
            std::to_string(static_cast<int32_t>(words[kTarget]));
  }
  return text;
}

}  // namespace hpmoe_host
