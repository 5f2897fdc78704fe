// The system counter of a functional run, in its ticks.
//
// A core's own API calls that have an effect take a tick each, and those that only read, as in a
// polling loop, a small part of one, so that time never stands still. Work of other cores takes no
// time: only when no core can do anything but wait does time advance for those that read the
// counter. A bounded wait therefore never gives up because the scheduler ran other cores first,
// however long their work is, and one whose event never comes does give up.
#ifndef CPU_MODEL_ENGINE_FUNCTIONAL_TICK_CLOCK_H_
#define CPU_MODEL_ENGINE_FUNCTIONAL_TICK_CLOCK_H_

#include <vector>

#include "model/core.h"

namespace cpu_model {

class TickClock {
 public:
  // The core is about to read the counter. True where it has done nothing else since its last read:
  // then it must sleep until WakeNext names it.
  bool MustSleep(Core& core);
  // The counter as the core reads it.
  int64_t Read(Core& core) const;
  // Whether the core has read the counter since its last effect: its loop may end by time.
  static bool MayGiveUp(const Core& core) { return core.counter_reads.effects == core.effects; }

  // Advances to the first time at which a sleeping core wakes, and returns the cores that do; none
  // where no core sleeps.
  std::vector<Core*> WakeNext();
  // Every core sleeps in a polling loop: advances, by more with each call in a row. False where so
  // much time has passed that no wait can have a bound.
  bool Advance();
  // A core has had an effect: the next Advance is the first in a row.
  void EndStall() { stalled_ = 0; }

 private:
  int64_t now_ = 0;
  int64_t stalled_ = 0;
  std::vector<Core*> sleepers_;
};

}  // namespace cpu_model

#endif  // CPU_MODEL_ENGINE_FUNCTIONAL_TICK_CLOCK_H_
