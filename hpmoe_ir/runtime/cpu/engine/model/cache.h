// Early fills: lines that enter a core's data cache before the core asks for them, as a prefetch or
// a speculative read would bring them.
#ifndef CPU_MODEL_ENGINE_MODEL_CACHE_H_
#define CPU_MODEL_ENGINE_MODEL_CACHE_H_

#include "model/core.h"

namespace cpu_model {

// Off by default. The fills depend on the seed alone, and on the calls of the cores.
void SetEarlyFills(bool on, uint64_t seed);

// Maybe fills a line. Candidates are the lines that scalar reads of the core's rank have touched so
// far, in any launch and by any core, and the line after each.
void FillEarly(Core& core);

}  // namespace cpu_model

#endif  // CPU_MODEL_ENGINE_MODEL_CACHE_H_
