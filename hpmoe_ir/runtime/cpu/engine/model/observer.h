// What the model reports while it runs, for detectors. The observer that does nothing belongs to
// runs without detectors.
#ifndef CPU_MODEL_ENGINE_MODEL_OBSERVER_H_
#define CPU_MODEL_ENGINE_MODEL_OBSERVER_H_

#include <initializer_list>
#include <vector>

#include "model/core.h"
#include "model/memory.h"

namespace cpu_model {

class Observer {
 public:
  virtual ~Observer() = default;

  // Memory. The host has written an allocation before a launch, or it is uninitialised.
  virtual void OnInitialise(Allocation&, bool /*from_host*/) {}
  // The allocation is freed, or becomes an input, which no core writes.
  virtual void OnFree(Allocation&) {}

  // Calls: after other cores may have run and before the call takes effect.
  virtual void OnAccess(Core&, const char* /*api*/, pipe_t, Where, std::initializer_list<Span>) {}
  virtual void OnMark(Core&) {}
  virtual void OnTrap(const Core&, Where) {}

  // Scalar accesses of global memory. A scalar read finds its line in the data cache; `entry` is
  // null for a wait, which reads memory itself.
  virtual void OnLoadLine(Core&, uint64_t /*line*/, CacheEntry&) {}
  // The line was loaded early: the core has not asked for it yet, and may never do so.
  virtual void OnFillEarly(Core&, uint64_t /*line*/, CacheEntry&) {}
  virtual void OnScalarRead(Core&, const char* /*api*/, uint64_t /*addr*/, uint32_t /*bytes*/,
                            const CacheEntry* /*entry*/, Where) {}
  virtual void OnWriteBack(Core&, uint64_t /*line*/, const CacheEntry&) {}

  // Writes of global memory: when a core makes them, and when they have reached memory.
  virtual void OnWrite(const Core&, uint64_t /*begin*/, uint64_t /*bytes*/) {}
  virtual void OnLanded(const Core&, uint64_t /*begin*/, uint64_t /*bytes*/, Where) {}

  // Order within a core. `event`: the number of the HardEvent.
  virtual void OnSetFlag(Core&, int /*event*/, int /*id*/, pipe_t /*from*/) {}
  virtual void OnWaitFlag(Core&, int /*event*/, int /*id*/, pipe_t /*to*/) {}
  virtual void OnBarrier(Core&, pipe_t) {}
  virtual void OnDataSync(Core&, AscendC::MemDsbT) {}

  // Order between cores. OnCrossRaise: all setters of a group have set, so that the flag of the
  // receivers rises.
  virtual void OnCrossSet(Core&, int /*mode*/, pipe_t, uint16_t /*id*/, Where) {}
  virtual void OnCrossRaise(const std::vector<Core*>& /*setters*/,
                            const std::vector<Core*>& /*receivers*/, int /*mode*/,
                            uint16_t /*id*/) {}
  virtual void OnCrossWait(Core&, uint16_t /*id*/) {}
  virtual void OnSyncAll(const std::vector<Core*>& /*members*/) {}

  // Launches, from 1. OnStart: once the persistent memory is there. OnLaunch: before the memory of
  // the launch is initialised. OnKernelStart: before its cores begin. OnEnd: every rank has ended
  // its last launch.
  virtual void OnStart() {}
  virtual void OnLaunch(int /*rank*/, int /*launch*/) {}
  virtual void OnScalarArgument(int /*rank*/, int /*launch*/, const std::string& /*name*/,
                                uint32_t /*value*/) {}
  virtual void OnKernelStart(int /*rank*/) {}
  virtual void OnEnd(int /*launches*/) {}
};
Observer& TheObserver();
void SetObserver(Observer* observer);

}  // namespace cpu_model

#endif  // CPU_MODEL_ENGINE_MODEL_OBSERVER_H_
