// Results of a run besides memory: a record of each task, and in a timed run totals of each rank.
#ifndef CPU_MODEL_ENGINE_MODEL_TIMELINE_H_
#define CPU_MODEL_ENGINE_MODEL_TIMELINE_H_

#include <cstdint>
#include <string>
#include <vector>

namespace cpu_model {

// Resources that cores share.
enum Resource : uint8_t { kLinkIn, kLinkOut, kL2, kHbm, kResources };
constexpr int kPipeCount = 8;

// One task; times in ns since the kernel's start. A functional run knows `turn` alone, in API calls
// of all cores.
struct TaskRecord {
  int32_t rank;
  int32_t core;      // place in its rank: AICs, then AIVs
  uint32_t slot;     // argument of PrintTimeStamp
  int32_t event;     // counter that was waited for longest; -1: none was short
  double turn;       // the core began with the task's waits
  double ready;      // the last read of a counter ended; turn where there was none
  double start;      // the body began: the first operation other than a scalar one
  double done;       // the first signal left; end where there is none
  double end;        // the core was free again
  double busy;       // ns that the matrix unit, on an AIV the vector unit, worked
  double alone;      // ns from its last read of a counter to `done`, if it shared no resource
  uint32_t signals;  // adds to event counters
  uint32_t remote;   // of these, to those of other ranks
};
static_assert(sizeof(TaskRecord) == 80, "as the reader expects");

struct RankTotals {
  double end = 0;                   // ns: the last core of the rank ended
  double bytes[kResources] = {};    // moved, by resource
  double busy[2][kPipeCount] = {};  // ns by pipe, of all AICs, of all AIVs
};
static_assert(sizeof(RankTotals) == 8 * (1 + kResources + 2 * kPipeCount), "as the reader expects");

struct Timeline {
  std::vector<TaskRecord> tasks;
  std::vector<RankTotals> totals;
};
Timeline& TheTimeline();
void WriteTimeline(const std::string& path);

}  // namespace cpu_model

#endif  // CPU_MODEL_ENGINE_MODEL_TIMELINE_H_
