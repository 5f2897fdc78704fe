// The detectors of unordered accesses to global memory, of reads of what was never written, and of
// two writers in one cache line.
#include "detectors/shadow.h"

namespace cpu_model {

std::string MissingOrder(const Op& before, const Op& now);

static const char* Access(const Op& op) {
  if (op.write_back) return "write-back";
  if (op.counter) return "signal";
  return op.atomic ? "add" : op.write ? "write" : "read";
}

std::string DescribeOp(const Op& op) {
  return Format("%s at %s:%d (rank %d %s)", op.api, op.where.file, op.where.line, op.core->rank,
                op.core->Name().c_str());
}

std::string DescribeBytes(const Conflict& at) {
  const auto begin = static_cast<unsigned long long>(at.begin);
  const auto end = static_cast<unsigned long long>(at.end);
  if (at.region == nullptr) return Format("%s bytes %llu to %llu", SpaceName(at.space), begin, end);
  return Format("'%s' of rank %d, bytes %llu to %llu", at.region->name.c_str(), at.region->rank,
                begin, end);
}

// What is missing between two unordered calls: a flag in a core, the drain of a payload before its
// signal, or any order at all.
[[noreturn]] static void FailOrder(const Conflict& at, const Core& core) {
  const Op& now = *at.now;
  const Op& before = *at.before;
  const std::string what = Format("%s: %s of %s", now.api, Access(now), DescribeBytes(at).c_str());
  const std::string other = Format("the %s by %s", Access(before), DescribeOp(before).c_str());
  if (before.core == now.core) {
    FailConflict("pipe", what + " after " + other + ": " + MissingOrder(before, now), at);
  }
  if (const Release* signal = EarlySignal(before, core)) {
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
  OpId id;
  const Region& region;
  const Clock& clock;  // of the core, or when the cache line was loaded

  const Op& Now() const { return GetOp(id); }
  Conflict At(const Op* before, uint64_t begin, uint64_t end) const {
    return {&GetOp(id), before, &region, kGm, begin, end};
  }
  bool Ended(const Op& before) const {
    return HasEnded(before, core, Now().pipe, region.rank, clock);
  }

  void CheckEnded(const std::vector<OpId>& earlier, uint64_t begin, uint64_t end) const {
    const Op& now = Now();
    for (OpId other : earlier) {
      const Op& before = GetOp(other);
      if (other == id || Ended(before)) continue;
      if (now.atomic && before.atomic) continue;
      if (before.counter && now.short_read) continue;
      if (now.counter && before.short_read) continue;
      FailOrder(At(&before, begin, end), core);
    }
  }

  void CheckLines(const State& state, uint64_t begin, uint64_t end) const {
    for (OpId other : state.rewriters) {
      const Op& before = GetOp(other);
      if (other == id || Ended(before)) continue;
      const Conflict at = At(&before, begin, end);
      if (before.core == &core) FailOrder(at, core);
      FailConflict(
          "line",
          Format("%s: %s of %s is not ordered with the write-back of its cache line by %s",
                 Now().api, Access(Now()), DescribeBytes(at).c_str(), DescribeOp(before).c_str()),
          at);
    }
  }

  void CheckWritten(const State& state, uint64_t begin, uint64_t end) const {
    const Op& now = Now();
    const auto first = static_cast<unsigned long long>(begin);
    if (state.writers.empty() && !state.from_host) {
      FailConflict(
          "uninitialised",
          Format("%s: '%s' of rank %d + %llu was never written in this launch (%s of bytes "
                 "%llu to %llu)",
                 now.api, region.name.c_str(), region.rank, first, Access(now), first,
                 static_cast<unsigned long long>(end)),
          At(nullptr, begin, end));
    }
    if (now.write) return;
    for (OpId other : state.writers) {
      const Op& before = GetOp(other);
      if (before.atomic || before.launch == now.launch) continue;
      const Conflict at = At(&before, begin, end);
      FailConflict(
          "stale",
          Format("%s: in launch %u, read of %s, which launch %u wrote: %s", now.api, now.launch,
                 DescribeBytes(at).c_str(), before.launch, DescribeOp(before).c_str()),
          at);
    }
  }

  void CheckVisible(const State& state, uint64_t begin, uint64_t end) const {
    for (OpId other : state.writers) {
      const Op& before = GetOp(other);
      if (IsVisible(before, core, region.rank)) continue;
      const Conflict at = At(&before, begin, end);
      const std::string barrier = before.pipe == kS
                                      ? std::string()
                                      : Format("PipeBarrier<PIPE_%s> and ", PipeName(before.pipe));
      FailConflict("pipe",
                   Format("%s: read of %s after the %s by %s: ", Now().api,
                          DescribeBytes(at).c_str(), Access(before), DescribeOp(before).c_str()) +
                       barrier + "DataSyncBarrier<MemDsbT::DDR> are needed between them",
                   at);
    }
  }

  StateId Read(StateId from, uint64_t begin, uint64_t end) const {
    const State& state = GetState(from);
    CheckEnded(state.writers, begin, end);
    CheckVisible(state, begin, end);
    CheckWritten(state, begin, end);
    return ReadState(from, id);
  }

  StateId Write(StateId from, uint64_t begin, uint64_t end) const {
    const State& state = GetState(from);
    CheckEnded(state.writers, begin, end);
    CheckEnded(state.readers, begin, end);
    CheckLines(state, begin, end);
    if (!Now().atomic) return WrittenState(id);
    CheckWritten(state, begin, end);
    return AddedState(from, id);
  }
};

// A copy does not see what its own core's data cache has not written back.
static void CheckDirty(const Core& core, const Op& now, const Region& region, const Span& span) {
  if (core.dirty_lines == 0) return;
  for (const auto& line : core.cache) {
    if (line.second.dirty == 0) continue;
    if (line.first >= span.End() || line.first + 64 <= span.begin) continue;
    const uint64_t begin = std::max(line.first, span.begin) - region.begin;
    const uint64_t end = std::min(line.first + 64, span.End()) - region.begin;
    const Conflict at = {&now, nullptr, &region, kGm, begin, end};
    FailConflict(
        "cache",
        Format("%s: read of %s, which the core's own data cache has not written back since "
               "SetValue at %s:%d: DataCacheCleanAndInvalid is missing",
               now.api, DescribeBytes(at).c_str(), line.second.dirty_where.file,
               line.second.dirty_where.line),
        at);
  }
}

void NoteGlobal(Core& core, OpId id, const Span& span) {
  const Region& region = *FindRegion(span.begin);
  if (region.shadow == nullptr) return;
  const uint64_t offset = span.begin - region.begin;
  const bool is_signal = span.write && GetOp(id).counter;
  if (!span.write) {
    CheckDirty(core, GetOp(id), region, span);
    if (GetOp(id).short_read) AcquireByCopy(core, span.begin);
  }
  const GlobalAccess access = {core, id, region, *OrderOf(core).clock};
  VisitSpan(region.shadow, span, offset, kGlobalGranule,
            [&](StateId from, uint64_t begin, uint64_t end) {
              return span.write ? access.Write(from, begin, end) : access.Read(from, begin, end);
            });
  if (!is_signal) return;
  NoteWordAdd(span.begin, GetOp(id));
  ReleaseCounter(core, GetOp(id).pipe, span.begin, GetOp(id).where);
}

void NoteLoad(Core& core, uint64_t line, CacheEntry& entry) {
  if (!Checking()) return;
  AcquireLine(core, line);
  entry.clock = OrderOf(core).clock;
  std::copy(OrderOf(core).known[kS], OrderOf(core).known[kS] + kPipes, entry.known);
}

// Whether `before` had ended when the line was loaded.
static bool EndedAtLoad(const Op& before, const Core& core, int rank, const CacheEntry& entry) {
  if (before.core != &core) return HasEnded(before, core, kS, rank, *entry.clock);
  return before.pipe == kS || entry.known[before.pipe] >= before.number;
}

void NoteScalarRead(Core& core, const char* api, uint64_t addr, uint32_t bytes,
                    const CacheEntry* entry, Where where) {
  if (!Checking()) return;
  const Region& region = *FindRegion(addr);
  if (region.shadow == nullptr) return;
  if (entry != nullptr && (entry->dirty >> (addr % 64) & 1) != 0) return;
  if (entry == nullptr) AcquireLine(core, addr / 64 * 64);
  const OpId id = ScalarOp(core, api, where, false);
  Op& op = GetOp(id);
  op.scalar_read = op.short_read = true;
  const GlobalAccess access = {core, id, region, *OrderOf(core).clock};
  const uint64_t offset = addr - region.begin;
  Visit(region.shadow, offset / kGlobalGranule, (offset + bytes + 1) / kGlobalGranule,
        [&](StateId from, uint64_t, uint64_t) {
          if (HasRead(from, id)) return from;
          NoteWordRead(core, addr, GetOp(id));
          const StateId to = access.Read(from, offset, offset + bytes);
          for (OpId other : GetState(from).writers) {
            const Op& before = GetOp(other);
            if (before.counter || entry == nullptr) continue;
            if (EndedAtLoad(before, core, region.rank, *entry)) continue;
            const Conflict at = access.At(&before, offset, offset + bytes);
            FailConflict("cache",
                         Format("%s: read of %s from the data cache, which loaded the line before "
                                "the write by %s: DataCacheCleanAndInvalid is missing",
                                api, DescribeBytes(at).c_str(), DescribeOp(before).c_str()),
                         at);
          }
          return to;
        });
}

void NoteWriteBack(Core& core, uint64_t line, const CacheEntry& entry) {
  if (!Checking()) return;
  const Region& region = *FindRegion(line);
  if (region.shadow == nullptr) return;
  const OpId id = NewOp(core, "SetValue", kS, entry.dirty_where);
  KeepOp(id);
  GetOp(id).write = GetOp(id).write_back = true;
  const GlobalAccess access = {core, id, region, *OrderOf(core).clock};
  auto is_dirty = [&entry](uint64_t granule) {
    return (entry.dirty >> granule * kGlobalGranule % 64 & 3) != 0;
  };
  const uint64_t first = (line - region.begin) / kGlobalGranule;
  const uint64_t granules = (region.bytes + kGlobalGranule - 1) / kGlobalGranule;
  const uint64_t last = std::min(first + 64 / kGlobalGranule, granules);
  for (uint64_t run = first, next = first; run < last; run = next) {
    const bool dirty = is_dirty(run);
    while (next < last && is_dirty(next) == dirty) ++next;
    Visit(region.shadow, run, next, [&](StateId from, uint64_t begin, uint64_t end) {
      begin *= kGlobalGranule;
      end *= kGlobalGranule;
      if (dirty) return access.Write(from, begin, end);
      for (OpId other : GetState(from).writers) {
        const Op& before = GetOp(other);
        if (EndedAtLoad(before, core, region.rank, entry)) continue;
        const Conflict at = access.At(&before, begin, end);
        FailConflict("line",
                     Format("%s: the write-back of its cache line is not ordered with the %s "
                            "of %s by %s",
                            "SetValue", Access(before), DescribeBytes(at).c_str(),
                            DescribeOp(before).c_str()),
                     at);
      }
      return RewrittenState(from, id);
    });
  }
  DropOp(id);
}

}  // namespace cpu_model
