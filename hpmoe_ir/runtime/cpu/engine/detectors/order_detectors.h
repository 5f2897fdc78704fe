// Detectors of missing order: between pipes of a core, between cores and ranks, and between the
// data cache and memory. None of them looks at values.
#ifndef CPU_MODEL_ENGINE_DETECTORS_ORDER_DETECTORS_H_
#define CPU_MODEL_ENGINE_DETECTORS_ORDER_DETECTORS_H_

#include <vector>

#include "detectors/event_counters.h"

namespace cpu_model {

class OrderDetectors : public EventCounterDetector {
 public:
  // Once the cores are there, before there is any memory.
  explicit OrderDetectors(const EventCounters& counters);

  void OnInitialise(Allocation& allocation, bool from_host) override;
  void OnFree(Allocation& allocation) override;
  void OnAccess(Core& core, const char* api, pipe_t pipe, Where where,
                std::initializer_list<Span> spans) override;
  void OnMark(Core& core) override;
  void OnLoadLine(Core& core, uint64_t line, CacheEntry& entry) override;
  void OnFillEarly(Core& core, uint64_t line, CacheEntry& entry) override;
  void OnScalarRead(Core& core, const char* api, uint64_t addr, uint32_t bytes,
                    const CacheEntry* entry, Where where) override;
  void OnWriteBack(Core& core, uint64_t line, const CacheEntry& entry) override;
  void OnSetFlag(Core& core, int event, int id, pipe_t from) override;
  void OnWaitFlag(Core& core, int event, int id, pipe_t to) override;
  void OnBarrier(Core& core, pipe_t pipe) override;
  void OnDataSync(Core& core, AscendC::MemDsbT kind) override;
  void OnCrossSet(Core& core, int mode, pipe_t pipe, uint16_t id, Where where) override;
  void OnCrossRaise(const std::vector<Core*>& setters, const std::vector<Core*>& receivers,
                    int mode, uint16_t id) override;
  void OnCrossWait(Core& core, uint16_t id) override;
  void OnSyncAll(const std::vector<Core*>& members) override;
  void OnKernelStart(int rank) override;
};

}  // namespace cpu_model

#endif  // CPU_MODEL_ENGINE_DETECTORS_ORDER_DETECTORS_H_
