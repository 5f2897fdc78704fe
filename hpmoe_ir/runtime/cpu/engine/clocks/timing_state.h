// State of a timed run that its parts share.
#ifndef CPU_MODEL_ENGINE_CLOCKS_TIMING_STATE_H_
#define CPU_MODEL_ENGINE_CLOCKS_TIMING_STATE_H_

#include <memory>
#include <queue>
#include <unordered_map>
#include <vector>

#include "clocks/recorder.h"
#include "clocks/timing.h"
#include "model/timeline.h"

namespace cpu_model {
namespace timed {

constexpr int kCacheLines = 512;

// What a timed run knows of a core besides `Core`.
struct CoreClock {
  Work work;
  TaskRecord task = {};
  bool in_task = false;
  bool started = false;  // the task's body
  bool signalled = false;
  uint32_t signals = 0;  // that the task has sent
  double waited = 0;     // longest wait of the task for a counter
  double looked = 0;     // last look at memory that is polled
  double period = 0;     // from look to look
  uint64_t watch = 0;
  int stage = 0;                     // that the core is in, or wants to enter
  uint64_t lines[kCacheLines] = {};  // of the data cache, 0 where empty
};

// A write of a few bytes on its way: a signal.
struct Signal {
  uint64_t addr;
  uint32_t bytes;
  bool add;
  DType type;
  uint8_t data[64];
};

struct Event {
  double time;
  uint64_t number;  // events of one time come in the order in which they were made
  Core* core;       // to resume, or
  int32_t signal;   // to deliver, or
  int32_t stage;    // to open, for `rank`
  int32_t rank;
  bool operator<(const Event& other) const {
    return time > other.time || (time == other.time && number > other.number);
  }
};

struct State {
  double now = 0;
  double window_end = 0;
  Recorder recorder;
  std::unique_ptr<Fluid> fluid;
  std::vector<CoreClock> cores;
  std::priority_queue<Event> events;
  uint64_t event_count = 0;
  uint64_t progress = 0;  // signals that arrived, stages that opened, tasks and kernels that ended
  std::vector<Signal> signals;
  std::vector<int32_t> free_signals;
  std::unordered_map<uint64_t, std::vector<Core*>> watchers;  // by line
  const Rates& rates() const { return timing_job.rates; }
};
State& TheState();
int RankCount();  // that run
CoreClock& ClockOf(const Core& core);

void ResumeAt(Core& core, double time);
void SendSignal(const Signal& signal, double time);
void WakeWatchers(uint64_t begin, uint64_t end);
// Sleeps until a look finds that the word was written.
void SleepUntilWritten(Core& core, uint64_t addr);
// Index of a counter of the core's rank; -1 where the address is none.
int CounterAt(const Core& core, uint64_t addr);
// Whether a short store to symmetric memory may be a signal: rows of counts are as short where a
// layer has few experts. Where no counters are named, any may be.
bool MayBeCounter(const Region& region, uint64_t addr);
uint64_t CounterAddress(const Core& core, uint64_t index);

// Stages.
void EnterStage(Core& core, int stage);
void LeaveStages(Core& core);
void OpenStage(int rank, int stage);

}  // namespace timed
}  // namespace cpu_model

#endif  // CPU_MODEL_ENGINE_CLOCKS_TIMING_STATE_H_
