// The engine: cores of all ranks, their memories, and the order in which they run.
#ifndef CPU_MODEL_ENGINE_MODEL_ENGINE_H_
#define CPU_MODEL_ENGINE_MODEL_ENGINE_H_

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "cpu_model/call.h"
#include "model/fiber.h"

namespace cpu_model {

enum Space : uint8_t { kGm, kL1, kL0A, kL0B, kL0C, kUb, kSpaces };
const char* SpaceName(Space space);
Space SpaceOf(AscendC::TPosition position);  // kSpaces where the model has no such memory
const char* PipeName(pipe_t pipe);

// Fresh memory holds this pattern: NaN as float, half and bfloat16_t, absurd as int32.
constexpr uint32_t kPattern = 0x7FBD7FBD;
void FillPattern(void* data, size_t bytes);

// Bytes that a call reads or writes: `bytes` at begin + i * pitch[0] + j * pitch[1].
struct Span {
  Space space;
  bool write;
  uint64_t begin;
  uint64_t bytes;
  uint64_t count[2] = {1, 1};
  uint64_t pitch[2] = {0, 0};
  uint64_t limit = 0;  // end of the tensor that the kernel named; 0 where it gave none

  uint64_t End() const {
    return begin + bytes + (count[0] - 1) * pitch[0] + (count[1] - 1) * pitch[1];
  }
  bool Empty() const { return bytes == 0 || count[0] == 0 || count[1] == 0; }
};
Span LocalSpan(const LocalRef& ref, bool write, uint64_t bytes);
Span GlobalSpan(const GlobalRef& ref, bool write, uint64_t bytes);
Span Strided(Span span, uint64_t count, uint64_t pitch);

// One allocation of global memory.
struct Region {
  std::string name;
  int rank;
  bool symmetric;
  bool writable;
  uint64_t begin;
  uint64_t bytes;
  uint32_t* shadow = nullptr;  // detectors: a state for every two bytes
  uint64_t End() const { return begin + bytes; }
};

// One 64-byte line of a core's scalar data cache.
struct CacheEntry {
  uint8_t data[64];
  uint8_t base[64];                  // memory when the line was loaded
  uint64_t dirty = 0;                // one bit a byte
  Where dirty_where = Where("", 0);  // the last scalar write
  // Detectors: what the core knew when the line was loaded, of other cores and of its own pipes.
  std::shared_ptr<std::vector<uint32_t>> clock;
  uint32_t known[7] = {};
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
  int repeats = 0;  // reads in a row that saw `value`
};
constexpr int kPolls = 4;

// What a call says to the detectors besides its spans.
struct CallDetail {
  bool signal = false;    // writes a counter
  uint32_t fractals = 0;  // of an Mmad's result
};

enum class WaitKind : uint8_t { kNone, kPoll, kSignal, kCrossCore, kSyncAll, kClock };

// How a core has looked at the clock.
struct ClockUse {
  uint64_t call = 0;     // its last look
  uint64_t effects = 0;  // of the core then
  int64_t slept = 0;     // ticks, while it did nothing but look
  int64_t wake_at = 0;
};

struct Core {
  int number = 0;  // in Engine::cores
  int rank = 0;
  bool aic = false;
  int block = 0;  // group of one AIC and two AIV
  int sub = 0;
  int index = 0;  // GetBlockIdx

  Fiber fiber;
  bool running = false;  // between launch start and kernel end
  uint64_t effects = 0;  // calls that change something others can see, or local data
  uint64_t calls = 0;
  int64_t marker = -1;
  size_t record = 0;  // of its task in the timeline of a run without clocks
  Where where = Where("", 0);
  const char* api = "";

  std::unique_ptr<uint8_t[]> memory[kSpaces];
  bool fresh[kSpaces] = {};  // still to be filled with the pattern
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
  ClockUse clock;
  int probes = 0;  // poll iterations still allowed while nothing else runs
  int priority = 0;

  std::string Name() const { return (aic ? "aic" : "aiv") + std::to_string(index); }
};

struct Limits {
  uint64_t space_bytes[kSpaces] = {};
  int event_ids = 6;
  uint64_t steps = 0;
  int seconds = 0;
  bool checks = true;  // detectors of order
};

struct Engine {
  Limits limits;
  int ranks = 0;
  int blocks = 0;
  std::vector<int> late_ranks;
  std::vector<std::unique_ptr<Core>> cores;  // rank-major: AICs then AIVs of a rank
  std::vector<Region> regions;               // by address
  Core* current = nullptr;
  uint64_t steps = 0;

  Core& CoreOf(int rank, bool aic, int index);
};
Engine& TheEngine();

// Start of every API call: checks pipe and memory, counts the step, may let other cores run.
// `passive` calls neither change global memory nor wake anyone: a loop of them is a poll.
Core& Enter(const char* api, pipe_t pipe, Where where, std::initializer_list<Span> spans,
            bool passive = false);
uint8_t* LocalData(Core& core, const LocalRef& ref);
inline uint8_t* GlobalData(uint64_t addr) { return reinterpret_cast<uint8_t*>(addr); }

// Memory.
Region& AddRegion(const std::string& name, int rank, uint64_t bytes, bool symmetric, bool writable);
const Region* FindRegion(uint64_t addr);
std::string DescribeAddress(uint64_t addr);
void CheckSpan(const Core& core, const char* api, const Span& span, Where where);
void CheckAlignment(const char* api, const LocalRef& ref, uint32_t bytes, Where where);

// Scheduling.
void SeedScheduler(uint64_t seed);
void MakeReady(Core& core);
void Block(Core& core, WaitKind kind);  // returns once the core was woken
void Wake(Core& core);
void WakeReaders(uint64_t begin, uint64_t end);
void NotePoll(Core& core, uint64_t addr, uint64_t target, uint32_t bytes, uint64_t value,
              Where where);
// Runs until no core is left; `finished` is called when a core's kernel has returned.
void RunCores(void (*finished)(Core&));
uint64_t Random();

// End of a kernel on a core or a rank: nothing may be left behind.
void CheckCoreEnd(Core& core);
void CheckRankEnd(int rank);

// Reports.
[[noreturn]] void Fail(const char* kind, const std::string& message, Where where);
[[noreturn]] void FailAt(const char* kind, const std::string& message, Where where,
                         const Core* core);
[[noreturn]] void FailDeadlock();
// A bounded wait for the counter at `addr` has ended without it; others may still wait.
[[noreturn]] void FailGivenUp(const Core& core, uint64_t addr, int32_t seen,
                              const std::string& message, Where where);
void SetReportPath(const std::string& path);
void InstallSignalHandlers(int seconds);
std::string Format(const char* format, ...) __attribute__((format(printf, 1, 2)));

}  // namespace cpu_model

#endif  // CPU_MODEL_ENGINE_MODEL_ENGINE_H_
