// The happens-before relation: what each pipe of a core, and each core, knows to have ended.
//
// Calls of one pipe have numbers. For each pair of pipes p, q of a core, known[p][q] is the last
// call of q that has certainly ended before the next call of p starts: flags and barriers raise it.
// A core's clock says the same of the pipes of all other cores: signals, cross-core flags and
// launches raise it.
#ifndef CPU_MODEL_ENGINE_DETECTORS_ORDER_H_
#define CPU_MODEL_ENGINE_DETECTORS_ORDER_H_

#include <deque>
#include <unordered_map>

#include "detectors/pool.h"
#include "model/engine.h"

namespace cpu_model {

enum Pipe : uint8_t { kS, kV, kM, kMte1, kMte2, kMte3, kFix, kPipes };
Pipe PipeOf(pipe_t pipe);
const char* PipeName(Pipe pipe);

// Slots of one core in a clock. A write is durable once a DataSyncBarrier came after its drain:
// only then may a core that receives a signal rely on it. A cross-core flag makes it visible in its
// own rank without that. kProgram counts calls in program order: scalar reads have ended by the
// next call, and it shows that a core has signalled before its payload was durable.
enum Slot : uint8_t { kScalar, kLoads, kStores, kResults, kDurable, kProgram, kSlots = 8 };
using VectorClock = std::vector<uint32_t>;
void Join(VectorClock& into, const VectorClock& from);

// One call that accessed memory, kept while a history refers to it.
struct CallRecord {
  const Core* core = nullptr;
  const char* api = "";
  Where where = Where("", 0);
  int64_t marker = -1;
  Pipe pipe = kS;
  bool write = false;        // to global memory; of scalar calls, to UB too
  bool scalar_read = false;  // through the data cache, or a wait for a signal
  bool atomic = false;       // adds
  bool signal = false;       // adds to, or sets, at most one block of int32: a signal
  bool short_read = false;   // of at most one block: may be a poll
  bool write_back = false;   // a cache line
  uint32_t fractals = 0;     // of an Mmad's result
  uint32_t number = 0;       // on its pipe
  uint32_t core_number = 0;  // on its core
  uint32_t launch = 0;       // of its rank, from 1
  uint32_t references = 0;
  uint32_t only = 0;  // the history of memory that only this call has written
};
using CallId = uint32_t;  // 0: none
extern Pool<CallRecord> call_records;
inline CallRecord& GetCall(CallId id) { return call_records[id]; }
CallId NewCall(const Core& core, const char* api, Pipe pipe, Where where);
inline void KeepCall(CallId id) { ++call_records[id].references; }
inline void DropCall(CallId id) {
  if (--call_records[id].references == 0) call_records.GiveBack(id);
}

// The snapshot of a cache line: which calls the core knew to have ended when it loaded the line.
struct LoadSnapshot {
  std::shared_ptr<VectorClock> clock;  // of other cores
  uint32_t known[kPipes];              // of its own pipes
  // What the signals carry that the line has got by then, if it was loaded early: the core receives
  // them when it reads the line.
  VectorClock signals;
};

// A signal that a core sent.
struct SentSignal {
  uint32_t call;
  Where where;
  uint32_t drained[kPipes];  // calls that had ended then
};

struct CoreOrder {
  uint32_t issued[kPipes] = {};
  uint32_t known[kPipes][kPipes] = {};
  uint32_t durable[kPipes] = {};
  uint32_t on_rank[kPipes] = {};  // writes visible to cores of the own rank
  uint32_t scalar_done = 0;  // scalar accesses to global memory before the last DataSyncBarrier
  uint32_t launch = 0;
  std::shared_ptr<VectorClock> clock;  // shared with the cache lines loaded since it last changed
  uint32_t flag[static_cast<int>(AscendC::HardEvent::MAX)][8][kPipes] = {};
  std::deque<VectorClock> cross[16];
  std::deque<VectorClock> cross_sets[3][16];
  std::vector<SentSignal> sent_signals;
  CallId scalar_calls[16] = {};  // by kernel line, since the last EndScalarCalls
  // What the signals to a counter carry that a copy has read; acquired once the copy has ended.
  uint32_t copied = 0;
  VectorClock copied_clock;
  // The line of counters acquired last, and its version then: most polls find nothing new.
  uint64_t line = 0;
  uint32_t line_version = 0;
  std::vector<uint32_t> shadow[kSpaces];
};

// Makes a clock for every core.
void StartOrder();
CoreOrder& OrderOf(const Core& core);

// Order within a core.
void NoteIssue(Core& core, Pipe pipe);
void EndScalarCalls(Core& core);  // later scalar accesses are new calls

// Order between cores.
VectorClock Released(const Core& core, Pipe pipe, bool drained);
void Acquire(Core& core, const VectorClock& clock);
void NoteSignalSent(Core& core, Where where);
void ReleaseSignal(Core& core, Pipe pipe, uint64_t addr, Where where);
void AcquireLine(Core& core, uint64_t line);  // every counter of a cache line
VectorClock SignalsOf(uint64_t line);         // what they carry; empty where there are none
void AcquireByCopy(Core& core, uint64_t addr);

// Whether `before` has ended before the next call of `pipe` of `core` starts, for an access to
// memory of `rank`; `clock` decides for calls of other cores.
bool HasEnded(const CallRecord& before, const Core& core, Pipe pipe, int rank,
              const VectorClock& clock);
// Whether a later read by the same core sees what `before` wrote to memory of `rank`: a flag
// between pipes is not enough.
bool IsVisible(const CallRecord& before, const Core& core, int rank);
// The signal that the core has received although `before`, earlier in its core's program, had not
// ended; null where there is none.
const SentSignal* EarlySignal(const CallRecord& before, const Core& core);

}  // namespace cpu_model

#endif  // CPU_MODEL_ENGINE_DETECTORS_ORDER_H_
