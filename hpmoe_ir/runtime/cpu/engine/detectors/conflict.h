// Reports of conflicts: two calls that are not ordered, or one that is wrong by itself.
#ifndef CPU_MODEL_ENGINE_DETECTORS_CONFLICT_H_
#define CPU_MODEL_ENGINE_DETECTORS_CONFLICT_H_

#include "detectors/order.h"

namespace cpu_model {

// Two calls whose accesses to bytes begin to end are not ordered, or one call that is wrong by
// itself (`before` is null). `allocation` is null for local memory.
struct Conflict {
  const CallRecord* now;
  const CallRecord* before;
  const Allocation* allocation;
  Space space;
  uint64_t begin;  // in the allocation or the local memory
  uint64_t end;
};
[[noreturn]] void FailConflict(const char* kind, const std::string& message,
                               const Conflict& conflict);
std::string DescribeCall(const CallRecord& call);
std::string DescribeBytes(const Conflict& conflict);

}  // namespace cpu_model

#endif  // CPU_MODEL_ENGINE_DETECTORS_CONFLICT_H_
