// Event counters, as the job declares them: a counter may hold only what launches and signals that
// can have happened add up to.
#ifndef CPU_MODEL_ENGINE_DETECTORS_COUNTERS_H_
#define CPU_MODEL_ENGINE_DETECTORS_COUNTERS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "cpu_model/call.h"

namespace cpu_model {

struct Core;

// The first word of a line counts; the others are scratch, since the smallest atomic add of an AIC
// is 32 bytes.
struct Counter {
  std::string event;          // family of events
  uint32_t index;             // event of the family
  uint64_t offset;            // of its line in the memory
  int64_t threshold;          // signals in each launch that uses the counter
  int copies;                 // counters that the event has, used in turn by launches
  int copy;                   // this one is used by launch n if n % copies == copy
  std::vector<int> unwaited;  // ranks on which nobody waits for it: signals may come late there
};

struct Counters {
  std::string memory;        // name of the persistent memory that they are in
  std::string launch;        // scalar argument with the number of the launch, from 1
  std::vector<Counter> all;  // by event number
  // Offset of a line for each core, AIC then AIV, in which a core says what it waited for before it
  // traps: launch, event number, value seen, target. Negative: there is none.
  int64_t given_up = -1;
};

// Once the memories are there, before any launch: every counter is 0.
void DeclareCounters(const Counters& counters);
// Launch `launch` (from 1) is about to start on a rank: every signal of its earlier launches that
// somebody there waits for is in, and none of a launch that no rank has started.
void CheckCountersAtStart(int rank, int launch);
// The rank's kernel is given `value` as the number of its launch.
void CheckLaunchNumber(int rank, int launch, uint32_t value);
// Every rank has ended its last launch.
void CheckCountersAtEnd(int launches);
// Ends the run with a report of what the core waited for, where it has said so.
void CheckGivenUp(const Core& core, Where where);
// A core writes these bytes of global memory, now or later: its task's record counts it, where an
// event counter is among them.
void CountSignal(const Core& core, uint64_t begin, uint64_t bytes);
// A core has just written these bytes of global memory.
void CheckCounterWrite(const Core& core, uint64_t begin, uint64_t bytes, Where where);

}  // namespace cpu_model

#endif  // CPU_MODEL_ENGINE_DETECTORS_COUNTERS_H_
