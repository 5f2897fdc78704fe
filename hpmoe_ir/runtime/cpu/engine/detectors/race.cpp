// Detectors of unordered accesses to global memory, of reads of uninitialised memory, and of two
// writers in one cache line.
#include "detectors/conflict.h"
#include "detectors/order_detectors.h"
#include "detectors/shadow.h"

namespace cpu_model {

std::string MissingOrder(const CallRecord& before, const CallRecord& now);

static const char* Access(const CallRecord& call) {
  if (call.write_back) return "write-back";
  if (call.signal) return "signal";
  return call.atomic ? "add" : call.write ? "write" : "read";
}

// What is missing between two unordered calls: a flag in a core, the drain of a payload before its
// signal, or any order at all.
[[noreturn]] static void FailOrder(const Conflict& at, const Core& core) {
  const CallRecord& now = *at.now;
  const CallRecord& before = *at.before;
  const std::string what = Format("%s: %s of %s", now.api, Access(now), DescribeBytes(at).c_str());
  const std::string other = Format("the %s by %s", Access(before), DescribeCall(before).c_str());
  if (before.core == now.core) {
    FailConflict("pipe", what + " after " + other + ": " + MissingOrder(before, now), at);
  }
  if (const SentSignal* signal = EarlySignal(before, core)) {
    const std::string sent =
        Format("the signal at %s:%d was sent before ", signal->where.file, signal->where.line);
    const bool durable = signal->drained[before.pipe] >= before.number;
    FailConflict("drain",
                 what + ": " + sent + other +
                     (durable ? " was made durable by DataSyncBarrier" : " had drained"),
                 at);
  }
  FailConflict("race", what + " is not ordered with " + other, at);
}

// One access to a run of granules with one history.
struct GlobalAccess {
  Core& core;
  CallId id;
  const Allocation& allocation;
  const VectorClock& clock;  // of the core, or when the cache line was loaded

  const CallRecord& Now() const { return GetCall(id); }
  Conflict At(const CallRecord* before, uint64_t begin, uint64_t end) const {
    return {&GetCall(id), before, &allocation, kGm, begin, end};
  }
  bool Ended(const CallRecord& before) const {
    return HasEnded(before, core, Now().pipe, allocation.rank, clock);
  }

  void CheckEnded(const std::vector<CallId>& earlier, uint64_t begin, uint64_t end) const {
    const CallRecord& now = Now();
    for (CallId other : earlier) {
      const CallRecord& before = GetCall(other);
      if (other == id || Ended(before)) continue;
      if (now.atomic && before.atomic) continue;
      if (before.signal && now.short_read) continue;
      if (now.signal && before.short_read) continue;
      FailOrder(At(&before, begin, end), core);
    }
  }

  void CheckLines(const History& history, uint64_t begin, uint64_t end) const {
    for (CallId other : history.rewriters) {
      const CallRecord& before = GetCall(other);
      if (other == id || Ended(before)) continue;
      const Conflict at = At(&before, begin, end);
      if (before.core == &core) FailOrder(at, core);
      FailConflict(
          "line",
          Format("%s: %s of %s is not ordered with the write-back of its cache line by %s",
                 Now().api, Access(Now()), DescribeBytes(at).c_str(), DescribeCall(before).c_str()),
          at);
    }
  }

  void CheckWritten(const History& history, uint64_t begin, uint64_t end) const {
    const CallRecord& now = Now();
    const auto first = static_cast<unsigned long long>(begin);
    if (history.writers.empty() && !history.from_host) {
      FailConflict(
          "uninitialised",
          Format("%s: '%s' of rank %d + %llu was never written in this launch (%s of bytes "
                 "%llu to %llu)",
                 now.api, allocation.name.c_str(), allocation.rank, first, Access(now), first,
                 static_cast<unsigned long long>(end)),
          At(nullptr, begin, end));
    }
    if (now.write) return;
    for (CallId other : history.writers) {
      const CallRecord& before = GetCall(other);
      if (before.atomic || before.launch == now.launch) continue;
      const Conflict at = At(&before, begin, end);
      FailConflict(
          "stale",
          Format("%s: in launch %u, read of %s, which launch %u wrote: %s", now.api, now.launch,
                 DescribeBytes(at).c_str(), before.launch, DescribeCall(before).c_str()),
          at);
    }
  }

  void CheckVisible(const History& history, uint64_t begin, uint64_t end) const {
    for (CallId other : history.writers) {
      const CallRecord& before = GetCall(other);
      if (IsVisible(before, core, allocation.rank)) continue;
      const Conflict at = At(&before, begin, end);
      const std::string barrier = before.pipe == kS
                                      ? std::string()
                                      : Format("PipeBarrier<PIPE_%s> and ", PipeName(before.pipe));
      FailConflict("pipe",
                   Format("%s: read of %s after the %s by %s: ", Now().api,
                          DescribeBytes(at).c_str(), Access(before), DescribeCall(before).c_str()) +
                       barrier + "DataSyncBarrier<MemDsbT::DDR> are needed between them",
                   at);
    }
  }

  HistoryId Read(HistoryId from, uint64_t begin, uint64_t end) const {
    const History& history = GetHistory(from);
    CheckEnded(history.writers, begin, end);
    CheckVisible(history, begin, end);
    CheckWritten(history, begin, end);
    return AfterRead(from, id);
  }

  HistoryId Write(HistoryId from, uint64_t begin, uint64_t end) const {
    const History& history = GetHistory(from);
    CheckEnded(history.writers, begin, end);
    CheckEnded(history.readers, begin, end);
    CheckLines(history, begin, end);
    if (!Now().atomic) return AfterWrite(id);
    CheckWritten(history, begin, end);
    return AfterAdd(from, id);
  }
};

// A copy does not see dirty lines of its own core's data cache.
static void CheckDirty(const Core& core, const CallRecord& now, const Allocation& allocation,
                       const Span& span) {
  if (core.dirty_lines == 0) return;
  for (const auto& line : core.cache) {
    if (line.second.dirty == 0) continue;
    if (line.first >= span.End() || line.first + 64 <= span.begin) continue;
    const uint64_t begin = std::max(line.first, span.begin) - allocation.begin;
    const uint64_t end = std::min(line.first + 64, span.End()) - allocation.begin;
    const Conflict at = {&now, nullptr, &allocation, kGm, begin, end};
    FailConflict(
        "cache",
        Format("%s: read of %s, which the core's own data cache has not written back since "
               "SetValue at %s:%d: DataCacheCleanAndInvalid is missing",
               now.api, DescribeBytes(at).c_str(), line.second.dirty_where.file,
               line.second.dirty_where.line),
        at);
  }
}

void NoteGlobal(Core& core, CallId id, const Span& span) {
  const Allocation& allocation = *FindAllocation(span.begin);
  if (allocation.shadow == nullptr) return;
  const uint64_t offset = span.begin - allocation.begin;
  const bool is_signal = span.write && GetCall(id).signal;
  if (!span.write) {
    CheckDirty(core, GetCall(id), allocation, span);
    if (GetCall(id).short_read) AcquireByCopy(core, span.begin);
  }
  const GlobalAccess access = {core, id, allocation, *OrderOf(core).clock};
  VisitSpan(allocation.shadow, span, offset, kGlobalGranule,
            [&](HistoryId from, uint64_t begin, uint64_t end) {
              return span.write ? access.Write(from, begin, end) : access.Read(from, begin, end);
            });
  if (!is_signal) return;
  NoteSignalledWord(span.begin, GetCall(id));
  ReleaseSignal(core, GetCall(id).pipe, span.begin, GetCall(id).where);
}

static std::shared_ptr<LoadSnapshot> SnapshotOf(const Core& core) {
  auto snapshot = std::make_shared<LoadSnapshot>();
  snapshot->clock = OrderOf(core).clock;
  std::copy(OrderOf(core).known[kS], OrderOf(core).known[kS] + kPipes, snapshot->known);
  return snapshot;
}

void OrderDetectors::OnLoadLine(Core& core, uint64_t line, CacheEntry& entry) {
  AcquireLine(core, line);
  entry.snapshot = SnapshotOf(core);
}

void OrderDetectors::OnFillEarly(Core& core, uint64_t line, CacheEntry& entry) {
  auto snapshot = SnapshotOf(core);
  snapshot->signals = SignalsOf(line);
  entry.snapshot = std::move(snapshot);
}

// Whether `before` had ended when the line was loaded.
static bool EndedAtLoad(const CallRecord& before, const Core& core, int rank,
                        const CacheEntry& entry) {
  const auto& snapshot = *static_cast<const LoadSnapshot*>(entry.snapshot.get());
  if (before.core != &core) return HasEnded(before, core, kS, rank, *snapshot.clock);
  return before.pipe == kS || snapshot.known[before.pipe] >= before.number;
}

void OrderDetectors::OnScalarRead(Core& core, const char* api, uint64_t addr, uint32_t bytes,
                                  const CacheEntry* entry, Where where) {
  const Allocation& allocation = *FindAllocation(addr);
  if (allocation.shadow == nullptr) return;
  if (entry != nullptr && (entry->dirty >> (addr % 64) & 1) != 0) return;
  if (entry == nullptr) {
    AcquireLine(core, addr / 64 * 64);
  } else {
    const auto& signals = static_cast<const LoadSnapshot*>(entry->snapshot.get())->signals;
    if (!signals.empty()) Acquire(core, signals);
  }
  const CallId id = ScalarCall(core, api, where, false);
  CallRecord& call = GetCall(id);
  call.scalar_read = call.short_read = true;
  const GlobalAccess access = {core, id, allocation, *OrderOf(core).clock};
  const uint64_t offset = addr - allocation.begin;
  Visit(allocation.shadow, offset / kGlobalGranule, (offset + bytes + 1) / kGlobalGranule,
        [&](HistoryId from, uint64_t, uint64_t) {
          if (HasRead(from, id)) return from;
          NotePolledWord(addr);
          const HistoryId to = access.Read(from, offset, offset + bytes);
          for (CallId other : GetHistory(from).writers) {
            const CallRecord& before = GetCall(other);
            if (before.signal || entry == nullptr) continue;
            if (EndedAtLoad(before, core, allocation.rank, *entry)) continue;
            const Conflict at = access.At(&before, offset, offset + bytes);
            FailConflict("cache",
                         Format("%s: read of %s from the data cache, which loaded the line before "
                                "the write by %s: DataCacheCleanAndInvalid is missing",
                                api, DescribeBytes(at).c_str(), DescribeCall(before).c_str()),
                         at);
          }
          return to;
        });
}

void OrderDetectors::OnWriteBack(Core& core, uint64_t line, const CacheEntry& entry) {
  const Allocation& allocation = *FindAllocation(line);
  if (allocation.shadow == nullptr) return;
  const CallId id = NewCall(core, "SetValue", kS, entry.dirty_where);
  KeepCall(id);
  GetCall(id).write = GetCall(id).write_back = true;
  const GlobalAccess access = {core, id, allocation, *OrderOf(core).clock};
  auto is_dirty = [&entry](uint64_t granule) {
    return (entry.dirty >> granule * kGlobalGranule % 64 & 3) != 0;
  };
  const uint64_t first = (line - allocation.begin) / kGlobalGranule;
  const uint64_t granules = (allocation.bytes + kGlobalGranule - 1) / kGlobalGranule;
  const uint64_t last = std::min(first + 64 / kGlobalGranule, granules);
  for (uint64_t run = first, next = first; run < last; run = next) {
    const bool dirty = is_dirty(run);
    while (next < last && is_dirty(next) == dirty) ++next;
    Visit(allocation.shadow, run, next, [&](HistoryId from, uint64_t begin, uint64_t end) {
      begin *= kGlobalGranule;
      end *= kGlobalGranule;
      if (dirty) return access.Write(from, begin, end);
      for (CallId other : GetHistory(from).writers) {
        const CallRecord& before = GetCall(other);
        if (EndedAtLoad(before, core, allocation.rank, entry)) continue;
        const Conflict at = access.At(&before, begin, end);
        FailConflict("line",
                     Format("%s: the write-back of its cache line is not ordered with the %s "
                            "of %s by %s",
                            "SetValue", Access(before), DescribeBytes(at).c_str(),
                            DescribeCall(before).c_str()),
                     at);
      }
      return AfterRewrite(from, id);
    });
  }
  DropCall(id);
}

}  // namespace cpu_model
