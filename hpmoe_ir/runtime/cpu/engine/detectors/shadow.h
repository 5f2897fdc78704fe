// Shadow memory: for each granule of a memory, which calls touched it last.
//
// A granule holds the number of a state; granules with the same history share one. A call maps
// states to states, so a run of granules with one history costs one look.
#ifndef CPU_MODEL_ENGINE_DETECTORS_SHADOW_H_
#define CPU_MODEL_ENGINE_DETECTORS_SHADOW_H_

#include <algorithm>

#include "detectors/order.h"

namespace cpu_model {

constexpr uint64_t kGlobalGranule = 2;  // bytes
constexpr uint64_t kLocalGranule = 32;  // a data block: nothing local moves in less, but scalars

using StateId = uint32_t;
constexpr StateId kUnwritten = 0;
constexpr StateId kFromHost = 1;  // written before the launch

struct State {
  std::vector<OpId> writers;    // the last write, or all adds since then
  std::vector<OpId> readers;    // since the last write
  std::vector<OpId> rewriters;  // wrote back the bytes unchanged, as part of a cache line
  bool from_host = false;
  uint64_t references = 0;  // granules
};
extern Pool<State> states;
inline State& GetState(StateId id) { return states[id]; }
void DropState(StateId id, uint64_t granules);
// The states after `op` has read, written, added to, or written back as part of a line, what was in
// state `from`.
StateId ReadState(StateId from, OpId op);
bool HasRead(StateId id, OpId op);
StateId WrittenState(OpId op);
StateId AddedState(StateId from, OpId op);
StateId RewrittenState(StateId from, OpId op);

// End of the run of equal numbers that starts at `first`.
inline uint64_t RunEnd(const StateId* states, uint64_t first, uint64_t last) {
  const StateId id = states[first];
  uint64_t end = first + 1;
  while (end + 8 <= last) {
    StateId differ = 0;
    for (int i = 0; i < 8; ++i) differ |= states[end + i] ^ id;
    if (differ != 0) break;
    end += 8;
  }
  while (end < last && states[end] == id) ++end;
  return end;
}

// Replaces the states of granules first to last - 1 by next(state, begin, end).
template <typename Next>
inline void Visit(StateId* states, uint64_t first, uint64_t last, const Next& next) {
  while (first < last) {
    const StateId from = states[first];
    const uint64_t end = RunEnd(states, first, last);
    const StateId to = next(from, first, end);
    if (to != from) {
      std::fill(states + first, states + end, to);
      GetState(to).references += end - first;
      DropState(from, end - first);
    }
    first = end;
  }
}

// The same for the bytes of every block of a span, given the offset of its first byte. States met
// again in a later block are not looked at again.
template <typename Next>
inline void VisitSpan(StateId* states, const Span& span, uint64_t offset, uint64_t granule,
                      const Next& next) {
  StateId met_from = 0;  // kept until the end, so that its number means the same throughout
  StateId met_to = 0;
  bool met = false;
  for (uint64_t j = 0; j < span.count[1]; ++j) {
    for (uint64_t i = 0; i < span.count[0]; ++i) {
      const uint64_t begin = offset + i * span.pitch[0] + j * span.pitch[1];
      const uint64_t end = begin + span.bytes;
      Visit(states, begin / granule, (end + granule - 1) / granule,
            [&](StateId from, uint64_t first, uint64_t last) {
              if (met && met_from == from && GetState(met_to).references > 0) return met_to;
              met_to = next(from, std::max(begin, first * granule), std::min(end, last * granule));
              if (met) DropState(met_from, 1);
              met_from = from;
              ++GetState(from).references;
              met = true;
              return met_to;
            });
    }
  }
  if (met) DropState(met_from, 1);
}

// Two calls whose accesses to bytes begin to end are not ordered, or one call that is wrong by
// itself (`before` is null). `region` is null for local memory.
struct Conflict {
  const Op* now;
  const Op* before;
  const Region* region;
  Space space;
  uint64_t begin;  // in the region or the local memory
  uint64_t end;
};
[[noreturn]] void FailConflict(const char* kind, const std::string& message,
                               const Conflict& conflict);
std::string DescribeOp(const Op& op);
std::string DescribeBytes(const Conflict& conflict);

// Every call that touches memory, after other cores may have run and before it takes effect.
void NoteAccess(Core& core, const char* api, pipe_t pipe, Where where,
                std::initializer_list<Span> spans);
// The call that scalar accesses of one kernel line belong to, until something orders them.
OpId ScalarOp(Core& core, const char* api, Where where, bool write);
void NoteLocal(Core& core, OpId id, const Span& span);
void NoteGlobal(Core& core, OpId id, const Span& span);

// The state of a region before a launch: as the host left it, or never written. Words of a host's
// data that hold the pattern count as never written.
void ResetShadow(Region& region, bool from_host);
void DropShadow(Region& region);

// Scalar access.
void NoteLoad(Core& core, uint64_t line, CacheEntry& entry);
void NoteScalarRead(Core& core, const char* api, uint64_t addr, uint32_t bytes,
                    const CacheEntry* entry, Where where);
void NoteWriteBack(Core& core, uint64_t line, const CacheEntry& entry);
// Makes the states that memory starts from.
void StartShadow();

void NoteWordRead(Core& core, uint64_t addr, const Op& op);
void NoteWordAdd(uint64_t addr, const Op& op);

}  // namespace cpu_model

#endif  // CPU_MODEL_ENGINE_DETECTORS_SHADOW_H_
