// Shadow memory: for each granule of a memory, which calls accessed it last.
//
// A granule holds the id of a history; granules with the same history share one. A call maps
// histories to histories, so a run of granules with one history costs one step.
#ifndef CPU_MODEL_ENGINE_DETECTORS_SHADOW_H_
#define CPU_MODEL_ENGINE_DETECTORS_SHADOW_H_

#include <algorithm>

#include "detectors/order.h"

namespace cpu_model {

constexpr uint64_t kGlobalGranule = 2;  // bytes
constexpr uint64_t kLocalGranule = 32;  // a data block: only scalar accesses are smaller

using HistoryId = uint32_t;
constexpr HistoryId kUnwritten = 0;
constexpr HistoryId kFromHost = 1;  // written before the launch

struct History {
  std::vector<CallId> writers;    // the last write, or all adds since then
  std::vector<CallId> readers;    // since the last write
  std::vector<CallId> rewriters;  // wrote back the bytes unchanged, as part of a cache line
  bool from_host = false;
  uint64_t references = 0;  // granules
};
extern Pool<History> histories;
inline History& GetHistory(HistoryId id) { return histories[id]; }
void DropHistory(HistoryId id, uint64_t granules);
// The history after a call has read, written, added to, or written back unchanged, as part of a
// cache line, a granule with history `from`.
HistoryId AfterRead(HistoryId from, CallId call);
bool HasRead(HistoryId id, CallId call);
HistoryId AfterWrite(CallId call);
HistoryId AfterAdd(HistoryId from, CallId call);
HistoryId AfterRewrite(HistoryId from, CallId call);

// End of the run of equal ids that starts at `first`.
inline uint64_t RunEnd(const HistoryId* histories, uint64_t first, uint64_t last) {
  const HistoryId id = histories[first];
  uint64_t end = first + 1;
  while (end + 8 <= last) {
    HistoryId differ = 0;
    for (int i = 0; i < 8; ++i) differ |= histories[end + i] ^ id;
    if (differ != 0) break;
    end += 8;
  }
  while (end < last && histories[end] == id) ++end;
  return end;
}

// Replaces the histories of granules first to last - 1 by next(history, begin, end).
template <typename Next>
inline void Visit(HistoryId* histories, uint64_t first, uint64_t last, const Next& next) {
  while (first < last) {
    const HistoryId from = histories[first];
    const uint64_t end = RunEnd(histories, first, last);
    const HistoryId to = next(from, first, end);
    if (to != from) {
      std::fill(histories + first, histories + end, to);
      GetHistory(to).references += end - first;
      DropHistory(from, end - first);
    }
    first = end;
  }
}

// The same for the bytes of every block of a span, given the offset of its first byte. A history
// that a later block has in common with the block before it is mapped once.
template <typename Next>
inline void VisitSpan(HistoryId* histories, const Span& span, uint64_t offset, uint64_t granule,
                      const Next& next) {
  HistoryId seen_from = 0;  // kept until the end, so that its id means the same throughout
  HistoryId seen_to = 0;
  bool seen = false;
  for (uint64_t j = 0; j < span.count[1]; ++j) {
    for (uint64_t i = 0; i < span.count[0]; ++i) {
      const uint64_t begin = offset + i * span.pitch[0] + j * span.pitch[1];
      const uint64_t end = begin + span.bytes;
      Visit(histories, begin / granule, (end + granule - 1) / granule,
            [&](HistoryId from, uint64_t first, uint64_t last) {
              if (seen && seen_from == from && GetHistory(seen_to).references > 0) return seen_to;
              seen_to = next(from, std::max(begin, first * granule), std::min(end, last * granule));
              if (seen) DropHistory(seen_from, 1);
              seen_from = from;
              ++GetHistory(from).references;
              seen = true;
              return seen_to;
            });
    }
  }
  if (seen) DropHistory(seen_from, 1);
}

// The call that scalar accesses of one kernel line belong to, until EndScalarCalls.
CallId ScalarCall(Core& core, const char* api, Where where, bool write);
// Checks a call's access to local memory, or to global memory, and keeps it.
void NoteLocal(Core& core, CallId id, const Span& span);
void NoteGlobal(Core& core, CallId id, const Span& span);
// The call polls the word at `addr`, or signals it: two such words of different cores may not share
// a cache line.
void NotePolledWord(uint64_t addr);
void NoteSignalledWord(uint64_t addr, const CallRecord& call);

}  // namespace cpu_model

#endif  // CPU_MODEL_ENGINE_DETECTORS_SHADOW_H_
