// Flags between the pipes of a core, flags between cores, barriers, the scalar data cache.
#ifndef CPU_MODEL_SYNC_H_
#define CPU_MODEL_SYNC_H_

#include "cpu_model/tensor.h"

inline void dsb(mem_dsb_t kind, cpu_model::Where where = cpu_model::Where()) {
  cpu_model::TheApi().MemoryBarrier(static_cast<AscendC::MemDsbT>(kind), where);
}

namespace AscendC {

template <HardEvent event>
inline void SetFlag(int32_t eventID, cpu_model::Where where = cpu_model::Where()) {
  static_assert(event != HardEvent::MAX, "SetFlag: not a pair of pipes");
  cpu_model::TheApi().SetFlag(event, eventID, where);
}

template <HardEvent event>
inline void WaitFlag(int32_t eventID, cpu_model::Where where = cpu_model::Where()) {
  static_assert(event != HardEvent::MAX, "WaitFlag: not a pair of pipes");
  cpu_model::TheApi().WaitFlag(event, eventID, where);
}

template <pipe_t pipe>
inline void PipeBarrier(cpu_model::Where where = cpu_model::Where()) {
  static_assert(pipe != PIPE_S, "PipeBarrier: the scalar pipe has no barrier");
  cpu_model::TheApi().Barrier(pipe, where);
}

template <MemDsbT arg0>
inline void DataSyncBarrier(cpu_model::Where where = cpu_model::Where()) {
  cpu_model::TheApi().MemoryBarrier(arg0, where);
}

template <typename T, CacheLine entireType, DcciDst dcciDst>
inline void DataCacheCleanAndInvalid(const GlobalTensor<T>& dst,
                                     cpu_model::Where where = cpu_model::Where()) {
  static_assert(dcciDst == DcciDst::CACHELINE_OUT || dcciDst == DcciDst::CACHELINE_ALL,
                "DataCacheCleanAndInvalid is modelled for lines of global memory");
  cpu_model::TheApi().CleanCache(dst.Ref(), entireType == CacheLine::ENTIRE_DATA_CACHE, where);
}

template <uint8_t modeId, pipe_t pipe>
inline void CrossCoreSetFlag(uint16_t flagId, cpu_model::Where where = cpu_model::Where()) {
  static_assert(modeId <= 2, "CrossCoreSetFlag: modes 0, 1 and 2 exist on this architecture");
  static_assert(pipe != PIPE_S && pipe != PIPE_ALL,
                "CrossCoreSetFlag: a set belongs to one of V, M, MTE1, MTE2, MTE3, FIX");
  cpu_model::TheApi().CrossCoreSet(modeId, pipe, flagId, where);
}

template <uint8_t modeId = 0, pipe_t pipe = PIPE_S>
inline void CrossCoreWaitFlag(uint16_t flagId, cpu_model::Where where = cpu_model::Where()) {
  cpu_model::TheApi().CrossCoreWait(flagId, where);
}

template <bool isAIVOnly = true>
inline void SyncAll(cpu_model::Where where = cpu_model::Where()) {
  cpu_model::TheApi().SyncAll(isAIVOnly, where);
}

}  // namespace AscendC

#endif  // CPU_MODEL_SYNC_H_
