// One core: its fiber, memories, flags, data cache, and what it waits for.
#ifndef CPU_MODEL_ENGINE_MODEL_CORE_H_
#define CPU_MODEL_ENGINE_MODEL_CORE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "model/fiber.h"
#include "model/memory.h"

namespace cpu_model {

const char* PipeName(pipe_t pipe);

// One 64-byte line of a core's scalar data cache.
struct CacheEntry {
  uint8_t data[64];
  uint8_t base[64];                      // memory when the line was loaded
  uint64_t dirty = 0;                    // one bit a byte
  Where dirty_where = Where("", 0);      // the last scalar write
  std::shared_ptr<const void> snapshot;  // of the observer, from when the line was loaded
};

// A scalar or short DMA read that a polling loop may be repeating.
struct Poll {
  const char* file = nullptr;
  int line = 0;
  uint64_t addr = 0;
  uint64_t target = 0;  // UB address of a DMA read: a poll reads to the same place
  uint32_t bytes = 0;
  uint64_t value = 0;
  uint64_t effects = 0;
  int repeats = 0;  // consecutive reads that saw `value`
};
constexpr int kPolls = 4;

// Facts about a call that its spans do not show, for the observer.
struct CallDetail {
  bool signal = false;    // writes a counter
  uint32_t fractals = 0;  // of an Mmad's result
};

enum class WaitKind : uint8_t { kNone, kPoll, kSignal, kCrossCore, kSyncAll, kClock };

// A core's reads of the system counter in a functional run.
struct CounterReads {
  uint64_t call = 0;     // the last read
  uint64_t effects = 0;  // of the core then
  int64_t slept = 0;     // ticks since the core last did anything else
  int64_t wake_at = 0;
};

struct Core {
  int number = 0;  // in Engine::cores
  int rank = 0;
  int place = 0;  // in its rank: AICs, then AIVs
  bool aic = false;
  int group = 0;  // of one AIC and two AIVs
  int sub = 0;    // among the AIVs of its group
  int index = 0;  // GetBlockIdx

  Fiber fiber;
  bool running = false;  // between launch start and kernel end
  uint64_t effects = 0;  // calls that change local data or anything that other cores can see
  uint64_t calls = 0;
  int64_t marker = -1;
  size_t record = 0;  // of its task in the timeline of a functional run
  Where where = Where("", 0);
  const char* api = "";

  std::unique_ptr<uint8_t[]> memory[kSpaces];
  bool fresh[kSpaces] = {};  // not initialised since the launch began
  bool initialised = false;
  bool atomic = false;
  DType atomic_type = DType::kFloat;
  CallDetail detail;  // of the next call

  bool flag[static_cast<int>(AscendC::HardEvent::MAX)][8] = {};
  Where flag_where[static_cast<int>(AscendC::HardEvent::MAX)][8];
  uint32_t cross[16] = {};          // pending increments
  uint32_t cross_sets[3][16] = {};  // own sets not yet matched by the partners, by mode

  std::unordered_map<uint64_t, CacheEntry> cache;
  std::vector<uint64_t> cache_order;
  int dirty_lines = 0;

  WaitKind wait = WaitKind::kNone;
  uint64_t wait_addr = 0;
  int64_t wait_value = 0;
  uint16_t wait_id = 0;
  Poll poll[kPolls];
  int next_poll = 0;
  CounterReads counter_reads;
  int probes = 0;  // poll iterations still allowed while nothing else runs
  int priority = 0;

  std::string Name() const { return (aic ? "aic" : "aiv") + std::to_string(index); }
};

}  // namespace cpu_model

#endif  // CPU_MODEL_ENGINE_MODEL_CORE_H_
