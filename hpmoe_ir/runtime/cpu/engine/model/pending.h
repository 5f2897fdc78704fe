// Writes to global memory, and when they become visible.
//
// Strong memory: at once. Weak memory: writes of MTE3, the fixpipe and the scalar data cache are
// pending for some time and land in pieces, late and out of order, at times that the seed fixes.
// Only a pipe barrier followed by a memory barrier guarantees that they have landed. Writes of one
// core to the same address keep their order.
#ifndef CPU_MODEL_ENGINE_MODEL_PENDING_H_
#define CPU_MODEL_ENGINE_MODEL_PENDING_H_

#include <cstdint>

#include "model/core.h"

namespace cpu_model {

// Chooses the memory model. The seed fixes the delays of weak memory.
void SetMemoryModel(bool weak, uint64_t seed);

// A core's pipe writes bytes, or adds elements where the core's atomic mode is on.
void WriteMemory(Core& core, pipe_t pipe, uint64_t addr, const uint8_t* data, uint64_t bytes,
                 Where where);
// The data cache writes back a dirty line. A fault where that would overwrite what another core has
// written since the line was loaded.
void WriteLine(Core& core, uint64_t line, const CacheEntry& entry, Where where);
// The data cache is about to load a line: its own write-backs of the line land first.
void SettleLine(Core& core, uint64_t line);

// All calls of a pipe, or of all pipes for PIPE_ALL, have ended: their writes are drained.
void DrainPipe(Core& core, pipe_t pipe);
// Drained writes, and write-backs of the data cache, become visible.
void LandDrained(Core& core);
// Writes of a pipe (PIPE_ALL: of all pipes) to memory of the core's own rank become visible.
void LandOnRank(Core& core, pipe_t pipe);
// All writes of the cores of a rank become visible.
void LandRank(int rank);

// Lands the writes whose delay is over. Called with each API call.
void LandDue();
// No core can run: lands the next write. False where there is none.
bool LandNext();

}  // namespace cpu_model

#endif  // CPU_MODEL_ENGINE_MODEL_PENDING_H_
