// A run with clocks and without arithmetic: integers are real, since sizes depend on them, numbers
// of other types are neither stored nor computed.
//
// A core's fiber runs ahead to its next meeting with others (a look at memory that others write, a
// signal, a task's beginning), which costs no time, and so records what it does meanwhile. Then it
// sleeps until that is done.
#ifndef CPU_MODEL_ENGINE_CLOCKS_TIMING_H_
#define CPU_MODEL_ENGINE_CLOCKS_TIMING_H_

#include <string>
#include <unordered_map>
#include <vector>

#include "clocks/profile.h"
#include "model/engine.h"

namespace cpu_model {

extern bool timing;

inline bool IsInteger(DType type) {
  return type != DType::kFloat && type != DType::kHalf && type != DType::kBfloat16;
}

// What a job says besides memories and launches.
struct TimingJob {
  Rates rates;
  std::vector<int> stages;         // stage of each family; empty: one stage
  std::vector<bool> communicates;  // of each stage: whether all ranks end it together
  std::string counters;            // name of the memory that has the counters
  uint64_t first_counter = 0;      // byte offset in it
  uint64_t counter_count = 0;
  uint64_t counter_pitch = 64;
  // Only rank 0 runs; the others do the same at the same time. What it sends to a peer, a peer
  // sends to it: `mirrored` has the counter that is meant, for the n-th signal of a task.
  bool mirror = false;
  std::unordered_map<uint64_t, uint64_t> mirrored;  // by slot * 256 + n
};
extern TimingJob timing_job;

namespace timed {

// Hooks of API calls, at their beginning. Where the result is a bool, it says whether the call's
// work is to be done as in a checked run: on integers.
bool In(const LocalRef& dst, const GlobalRef& src, const Blocks& blocks, DType type, Where where);
bool Out(const GlobalRef& dst, const LocalRef& src, const Blocks& blocks, DType type);
void InNz(const GlobalRef& src, const NzShape& shape);
void Fill(uint64_t bytes);
void Load(const LocalRef& dst, uint32_t fractals);
void Mmad(uint32_t m16, uint32_t n16, uint32_t k16);
void Fix(const GlobalRef& dst, const FixpipeShape& shape, uint32_t width);
bool Vector(DType type, uint64_t bytes, int64_t elements, bool slow);
void Flag(bool set, int pair, int id, pipe_t from, pipe_t to);
void BarrierOf(pipe_t pipe);
void Drain();
void Scalar();
void Entered(const char* api, pipe_t pipe, Where where);  // refuses a call that took no time
void LocalAccess();
uint64_t Read(uint64_t addr, uint32_t bytes, Where where);
void Write(uint64_t addr, uint32_t bytes, uint64_t value);
void Clean(uint64_t addr, bool all);
void Mark(uint32_t value);
int64_t Cycle();
void SignalFrom(Core& core, uint64_t addr, const uint8_t* data, uint32_t bytes, bool add,
                DType type);
void Meet(Core& core);  // before anything else that others see or that waits for others

void End(Core& core);  // after the kernel's last call

uint64_t Peer(uint64_t addr, int rank);
void Start(uint64_t bytes_of_rank);
uint64_t Place(int rank, uint64_t bytes);  // address of new memory
void MakeReady(Core& core, double after_ns = 0);
void Sleep(Core& core);
void Notify(Core& core);  // another core ended its wait
void Look(Core& core);    // of a call that polls
void AwaitWrite(Core& core, uint64_t addr);
void Run(void (*finished)(Core&));

}  // namespace timed
}  // namespace cpu_model

#endif  // CPU_MODEL_ENGINE_CLOCKS_TIMING_H_
