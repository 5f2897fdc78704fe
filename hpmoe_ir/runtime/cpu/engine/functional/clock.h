// Time as GetSystemCycle tells it in a run without clocks, in its ticks.
//
// A core's own API calls take a tick each, and those that only look, as in a polling loop, a small
// part of one, so that time never stands still. Work of other cores takes none: only when no core
// can do anything but wait does time pass for those that look at the clock. A wait that gives up
// after some time therefore never does so because the model let other cores go first, however long
// their work is; and one whose event never comes does give up.
#ifndef CPU_MODEL_ENGINE_FUNCTIONAL_CLOCK_H_
#define CPU_MODEL_ENGINE_FUNCTIONAL_CLOCK_H_

#include "model/engine.h"

namespace cpu_model {

// A core looks at the clock. One that does nothing else between two looks sleeps until some time
// has passed.
int64_t ReadClock(Where where);
// Whether the core has looked at the clock since it last did something: its loop may end by time.
bool MayGiveUp(const Core& core);
// No core can run: lets the time pass until the first that sleeps on the clock wakes. False where
// none does.
bool WakeByTime();
// Every core sleeps in a polling loop: lets some time pass, more each time in a row. False where
// so much has passed that nobody can be waiting for the time.
bool PassTime();
// Something has happened since: the next PassTime is the first in a row.
void EndOfStall();

}  // namespace cpu_model

#endif  // CPU_MODEL_ENGINE_FUNCTIONAL_CLOCK_H_
