// The core's place in the launch, start-up, markers and stops.
#ifndef CPU_MODEL_SYSTEM_H_
#define CPU_MODEL_SYSTEM_H_

#include "cpu_model/call.h"

// Both core kinds run in one process, so the choice is made at run time.
#define ASCEND_IS_AIC (::cpu_model::IsAic())
#define ASCEND_IS_AIV (!::cpu_model::IsAic())
#define ASCEND_IS_NOT_AIC (!::cpu_model::IsAic())
#define ASCEND_IS_NOT_AIV (::cpu_model::IsAic())

namespace AscendC {

inline int64_t GetBlockIdx() { return cpu_model::BlockIndex(); }
inline int64_t GetBlockNum() { return cpu_model::BlockCount(); }
inline int64_t GetSubBlockIdx() { return cpu_model::SubBlockIndex(); }
inline int64_t GetSubBlockNum() { return cpu_model::SubBlockCount(); }
inline int64_t GetTaskRatio() { return cpu_model::SubBlockCount(); }
inline int64_t GetSystemCycle(cpu_model::Where where = cpu_model::Where()) {
  return cpu_model::TheApi().Cycle(where);
}
inline void InitSocState(cpu_model::Where where = cpu_model::Where()) {
  cpu_model::TheApi().InitCore(where);
}
inline void PrintTimeStamp(uint32_t descId) { cpu_model::TheApi().Mark(descId); }
inline void Trap(cpu_model::Where where = cpu_model::Where()) { cpu_model::TheApi().Trap(where); }

}  // namespace AscendC

#endif  // CPU_MODEL_SYSTEM_H_
