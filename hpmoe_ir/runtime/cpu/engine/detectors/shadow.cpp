#include "detectors/shadow.h"

#include <cstring>

#include "detectors/order_detectors.h"

namespace cpu_model {

Pool<History> histories;

OrderDetectors::OrderDetectors(const EventCounters& counters) : EventCounterDetector(counters) {
  StartOrder();
  histories.Take();
  histories.Take();
  histories[kFromHost].from_host = true;
}

static void Clear(std::vector<CallId>& list, HistoryId id) {
  for (CallId call : list) {
    if (GetCall(call).only == id) GetCall(call).only = 0;
    DropCall(call);
  }
  list.clear();
}

void DropHistory(HistoryId id, uint64_t granules) {
  if (id <= kFromHost) return;
  History& history = GetHistory(id);
  history.references -= granules;
  if (history.references != 0) return;
  Clear(history.writers, id);
  Clear(history.readers, id);
  Clear(history.rewriters, id);
  histories.GiveBack(id);
}

// A later call of the same pipe of the same core replaces the earlier one: whatever comes after the
// later one comes after both.
static void AddCall(std::vector<CallId>& list, CallId id) {
  const CallRecord& call = GetCall(id);
  KeepCall(id);
  for (CallId& old : list) {
    const CallRecord& other = GetCall(old);
    if (other.core != call.core || other.pipe != call.pipe) continue;
    DropCall(old);
    old = id;
    return;
  }
  list.push_back(id);
}

static void CopyCalls(std::vector<CallId>& to, const std::vector<CallId>& from) {
  to = from;
  for (CallId call : to) KeepCall(call);
}

static HistoryId Copy(HistoryId from) {
  const HistoryId to = histories.Take();
  const History& old = GetHistory(from);
  History& history = GetHistory(to);
  CopyCalls(history.writers, old.writers);
  CopyCalls(history.readers, old.readers);
  CopyCalls(history.rewriters, old.rewriters);
  history.from_host = old.from_host;
  return to;
}

HistoryId AfterRead(HistoryId from, CallId call) {
  const HistoryId to = Copy(from);
  AddCall(GetHistory(to).readers, call);
  return to;
}

HistoryId AfterWrite(CallId id) {
  CallRecord& call = GetCall(id);
  if (call.only != 0) return call.only;
  call.only = histories.Take();
  History& history = GetHistory(call.only);
  history.from_host = false;
  AddCall(history.writers, id);
  return call.only;
}

// All adds come after the plain write before them, so the write is not kept.
HistoryId AfterAdd(HistoryId from, CallId call) {
  const HistoryId to = Copy(from);
  std::vector<CallId>& writers = GetHistory(to).writers;
  if (!writers.empty() && !GetCall(writers[0]).atomic) {
    for (CallId writer : writers) DropCall(writer);
    writers.clear();
  }
  AddCall(writers, call);
  return to;
}

HistoryId AfterRewrite(HistoryId from, CallId call) {
  const HistoryId to = Copy(from);
  AddCall(GetHistory(to).rewriters, call);
  return to;
}

bool HasRead(HistoryId id, CallId call) {
  const std::vector<CallId>& readers = GetHistory(id).readers;
  return std::find(readers.begin(), readers.end(), call) != readers.end();
}

static bool IsOneBlock(const Span& span) {
  return span.bytes <= 32 && span.count[0] == 1 && span.count[1] == 1;
}

static void SetAccess(const Core& core, CallRecord& call, std::initializer_list<Span> spans) {
  for (const Span& span : spans) {
    if (span.Empty() || span.space != kGm) continue;
    call.write = span.write;
    if (!span.write) call.short_read = IsOneBlock(span);
    if (!span.write) continue;
    call.atomic = core.atomic || core.detail.signal;
    const bool words = core.detail.signal || core.atomic_type == DType::kInt32;
    call.signal = call.atomic && words && IsOneBlock(span);
  }
  call.fractals = core.detail.fractals;
}

CallId ScalarCall(Core& core, const char* api, Where where, bool write) {
  CallId& id = OrderOf(core).scalar_calls[(where.line * 2 + write) % 16];
  if (id != 0) {
    const CallRecord& call = GetCall(id);
    if (call.where.line == where.line && call.where.file == where.file && call.api == api)
      return id;
    DropCall(id);
  }
  id = NewCall(core, api, kS, where);
  KeepCall(id);
  GetCall(id).write = write;
  return id;
}

void OrderDetectors::OnAccess(Core& core, const char* api, pipe_t from, Where where,
                              std::initializer_list<Span> spans) {
  if (spans.size() == 0) return;
  const Pipe pipe = PipeOf(from);
  if (pipe == kS) {
    for (const Span& span : spans) {
      if (span.space != kGm) NoteLocal(core, ScalarCall(core, api, where, span.write), span);
    }
    return;
  }
  NoteIssue(core, pipe);
  const CallId id = NewCall(core, api, pipe, where);
  KeepCall(id);
  SetAccess(core, GetCall(id), spans);
  for (const bool write : {false, true}) {
    for (const Span& span : spans) {
      if (span.Empty() || span.write != write) continue;
      if (span.space == kGm) {
        NoteGlobal(core, id, span);
      } else {
        NoteLocal(core, id, span);
      }
    }
  }
  core.detail = CallDetail();
  DropCall(id);
}

void OrderDetectors::OnMark(Core& core) { EndScalarCalls(core); }

void OrderDetectors::OnInitialise(Allocation& allocation, bool from_host) {
  if (!allocation.writable) return;
  const uint64_t granules = (allocation.bytes + kGlobalGranule - 1) / kGlobalGranule;
  if (allocation.shadow == nullptr) {
    allocation.shadow = new HistoryId[granules]();
  } else {
    Visit(allocation.shadow, 0, granules, [](HistoryId, uint64_t, uint64_t) { return kUnwritten; });
  }
  if (!from_host) return;
  for (uint64_t i = 0; i < granules; i += 2) {
    uint32_t word = 0;
    const uint64_t bytes = std::min<uint64_t>(4, allocation.bytes - 2 * i);
    std::memcpy(&word, GlobalData(allocation.begin) + 2 * i, bytes);
    if (word == kPattern) continue;
    allocation.shadow[i] = kFromHost;
    if (i + 1 < granules) allocation.shadow[i + 1] = kFromHost;
  }
}

void OrderDetectors::OnFree(Allocation& allocation) {
  if (allocation.shadow == nullptr) return;
  OnInitialise(allocation, false);
  delete[] allocation.shadow;
  allocation.shadow = nullptr;
}

}  // namespace cpu_model
