// The detector of missing flags and barriers between the pipes of one core.
#include "detectors/conflict.h"
#include "detectors/shadow.h"

namespace cpu_model {

// Mmads with a result of at least this many fractals need no barrier before the next Mmad on the
// same L0C (the threshold of catlass, which has PipeBarrier<PIPE_M> after smaller ones only).
constexpr uint32_t kLongProduct = 10;

static bool Ordered(const Core& core, const CallRecord& before, const CallRecord& now) {
  if (before.pipe == now.pipe) {
    if (now.pipe == kS) return true;
    if (now.pipe == kM && before.fractals >= kLongProduct) return true;
  }
  return OrderOf(core).known[now.pipe][before.pipe] >= before.number;
}

static const char* Verb(bool write) { return write ? "writes" : "reads"; }

std::string MissingOrder(const CallRecord& before, const CallRecord& now) {
  if (before.pipe == now.pipe) {
    return Format("PipeBarrier<PIPE_%s> between them is missing", PipeName(now.pipe));
  }
  return Format("SetFlag and WaitFlag<%s_%s> between them are missing", PipeName(before.pipe),
                PipeName(now.pipe));
}

[[noreturn]] static void FailHazard(const Conflict& at, bool before_writes, bool now_writes) {
  FailConflict(
      "pipe",
      Format("%s %s %s, which %s %s: ", at.now->api, Verb(now_writes), DescribeBytes(at).c_str(),
             DescribeCall(*at.before).c_str(), Verb(before_writes)) +
          MissingOrder(*at.before, *at.now),
      at);
}

void NoteLocal(Core& core, CallId id, const Span& span) {
  if (span.Empty()) return;
  std::vector<uint32_t>& shadow = OrderOf(core).shadow[span.space];
  const uint64_t capacity = TheEngine().limits.space_bytes[span.space];
  if (shadow.empty()) shadow.resize((capacity + kLocalGranule - 1) / kLocalGranule);
  const CallRecord& now = GetCall(id);
  auto check = [&](const std::vector<CallId>& earlier, bool writes, uint64_t begin, uint64_t end) {
    for (CallId other : earlier) {
      const CallRecord& before = GetCall(other);
      if (other == id || Ordered(core, before, now)) continue;
      FailHazard({&now, &before, nullptr, span.space, begin, end}, writes, span.write);
    }
  };
  VisitSpan(shadow.data(), span, span.begin, kLocalGranule,
            [&](HistoryId from, uint64_t begin, uint64_t end) {
              if (span.write ? from != 0 && from == now.only : HasRead(from, id)) return from;
              const History& history = GetHistory(from);
              check(history.writers, true, begin, end);
              if (!span.write) return AfterRead(from, id);
              check(history.readers, false, begin, end);
              return AfterWrite(id);
            });
}

}  // namespace cpu_model
