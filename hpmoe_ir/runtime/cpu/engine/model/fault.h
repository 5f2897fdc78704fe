// Fault reports: one JSON object in the job's directory, then the process ends.
#ifndef CPU_MODEL_ENGINE_MODEL_FAULT_H_
#define CPU_MODEL_ENGINE_MODEL_FAULT_H_

#include <cstdint>
#include <string>

#include "cpu_model/call.h"

namespace cpu_model {

struct Core;

// A fault of the running core.
[[noreturn]] void Fail(const char* kind, const std::string& message, Where where);
// A fault of `core`; null where no core is at fault. `members`: further JSON members of the report,
// each after ", ".
[[noreturn]] void FailAt(const char* kind, const std::string& message, Where where,
                         const Core* core, const std::string& members = "");
[[noreturn]] void FailDeadlock();
// A bounded wait for the counter at `addr` has used up its budget; other cores may still wait.
[[noreturn]] void FailGivenUp(const Core& core, uint64_t addr, int32_t seen,
                              const std::string& message, Where where);

void SetReportPath(const std::string& path);
void InstallSignalHandlers(int seconds);

std::string Format(const char* format, ...) __attribute__((format(printf, 1, 2)));
std::string QuoteJson(const std::string& text);
std::string Location(Where where);  // file:line; empty where there is none

}  // namespace cpu_model

#endif  // CPU_MODEL_ENGINE_MODEL_FAULT_H_
