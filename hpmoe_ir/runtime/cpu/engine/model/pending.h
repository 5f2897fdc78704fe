// Writes to global memory, and when they become visible.
//
// Strong memory: at once. Weak memory: what MTE3, the fixpipe and the scalar data cache write is
// kept back in pieces, which land late and out of order, at times that the seed fixes. Only a pipe
// barrier and then a memory barrier make sure that they have. One core's writes to the same
// address keep their order.
#ifndef CPU_MODEL_ENGINE_MODEL_PENDING_H_
#define CPU_MODEL_ENGINE_MODEL_PENDING_H_

#include <cstdint>

#include "model/core.h"

namespace cpu_model {

// Chooses the memory; `weak` fixes nothing but by the seed.
void SetMemoryModel(bool weak, uint64_t seed);

// A core's pipe writes bytes, or adds elements where the core's atomic mode is on.
void WriteMemory(Core& core, pipe_t pipe, uint64_t addr, const uint8_t* data, uint64_t bytes,
                 Where where);
// The data cache writes back a dirty line. What it would overwrite of other cores' is a fault.
void WriteLine(Core& core, uint64_t line, const CacheEntry& entry, Where where);
// The data cache is about to load a line: it sees what it has written back itself.
void SettleLine(Core& core, uint64_t line);

// A pipe, or PIPE_ALL, has ended what it was given: its writes have left the core.
void DrainPipe(Core& core, pipe_t pipe);
// What has left the core, and what the data cache has written back, becomes visible.
void LandDrained(Core& core);
// What a pipe has written to memory of the core's own rank becomes visible; PIPE_ALL: all pipes.
void LandOnRank(Core& core, pipe_t pipe);
// Everything that the cores of a rank have written becomes visible.
void LandRank(int rank);

// Lands what is due. Called with each API call.
void LandDue();
// No core can run: lands the next write. False where there is none.
bool LandNext();

}  // namespace cpu_model

#endif  // CPU_MODEL_ENGINE_MODEL_PENDING_H_
