// The state of a run: limits, cores of all ranks, allocations.
#ifndef CPU_MODEL_ENGINE_MODEL_ENGINE_H_
#define CPU_MODEL_ENGINE_MODEL_ENGINE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "model/core.h"
#include "model/fault.h"
#include "model/memory.h"

namespace cpu_model {

struct Limits {
  uint64_t space_bytes[kSpaces] = {};
  int event_ids = 6;
  uint64_t steps = 0;
  int seconds = 0;
};

struct Engine {
  Limits limits;
  int ranks = 0;
  int aics = 0;                              // of a rank; it has twice as many AIVs
  std::vector<std::unique_ptr<Core>> cores;  // by rank, then AICs before AIVs
  std::vector<Allocation> allocations;       // by address
  Core* current = nullptr;
  uint64_t steps = 0;  // API calls of all cores

  int CoresOfRank() const { return 3 * aics; }
  Core& CoreOf(int rank, bool aic, int index) {
    return *cores[rank * CoresOfRank() + (aic ? index : aics + index)];
  }
  bool AnyRunning() const;
};
Engine& TheEngine();

// End of a kernel on a core or a rank: ends the run with a report where flags, atomic mode or dirty
// cache lines are left.
void CheckCoreEnd(Core& core);
void CheckRankEnd(int rank);

}  // namespace cpu_model

#endif  // CPU_MODEL_ENGINE_MODEL_ENGINE_H_
