// States of shadow memory, and the entry from API calls into the detectors.
#include "detectors/shadow.h"

#include <cstring>

namespace cpu_model {

Pool<State> states;

void StartShadow() {
  states.Take();
  states.Take();
  states[kFromHost].from_host = true;
}

static void Clear(std::vector<OpId>& list, StateId id) {
  for (OpId op : list) {
    if (GetOp(op).only == id) GetOp(op).only = 0;
    DropOp(op);
  }
  list.clear();
}

void DropState(StateId id, uint64_t granules) {
  if (id <= kFromHost) return;
  State& state = GetState(id);
  state.references -= granules;
  if (state.references != 0) return;
  Clear(state.writers, id);
  Clear(state.readers, id);
  Clear(state.rewriters, id);
  states.GiveBack(id);
}

// A later call of the same pipe of the same core stands for the earlier ones.
static void AddOp(std::vector<OpId>& list, OpId id) {
  const Op& op = GetOp(id);
  KeepOp(id);
  for (OpId& old : list) {
    const Op& other = GetOp(old);
    if (other.core != op.core || other.pipe != op.pipe) continue;
    DropOp(old);
    old = id;
    return;
  }
  list.push_back(id);
}

static void CopyOps(std::vector<OpId>& to, const std::vector<OpId>& from) {
  to = from;
  for (OpId op : to) KeepOp(op);
}

static StateId Copy(StateId from) {
  const StateId to = states.Take();
  const State& old = GetState(from);
  State& state = GetState(to);
  CopyOps(state.writers, old.writers);
  CopyOps(state.readers, old.readers);
  CopyOps(state.rewriters, old.rewriters);
  state.from_host = old.from_host;
  return to;
}

StateId ReadState(StateId from, OpId op) {
  const StateId to = Copy(from);
  AddOp(GetState(to).readers, op);
  return to;
}

StateId WrittenState(OpId id) {
  Op& op = GetOp(id);
  if (op.only != 0) return op.only;
  op.only = states.Take();
  State& state = GetState(op.only);
  state.from_host = false;
  AddOp(state.writers, id);
  return op.only;
}

// Adds follow a plain write that every one of them comes after, so it need not be kept.
StateId AddedState(StateId from, OpId op) {
  const StateId to = Copy(from);
  std::vector<OpId>& writers = GetState(to).writers;
  if (!writers.empty() && !GetOp(writers[0]).atomic) {
    for (OpId writer : writers) DropOp(writer);
    writers.clear();
  }
  AddOp(writers, op);
  return to;
}

StateId RewrittenState(StateId from, OpId op) {
  const StateId to = Copy(from);
  AddOp(GetState(to).rewriters, op);
  return to;
}

bool HasRead(StateId id, OpId op) {
  const std::vector<OpId>& readers = GetState(id).readers;
  return std::find(readers.begin(), readers.end(), op) != readers.end();
}

static bool IsOneBlock(const Span& span) {
  return span.bytes <= 32 && span.count[0] == 1 && span.count[1] == 1;
}

static void Describe(const Core& core, Op& op, std::initializer_list<Span> spans) {
  for (const Span& span : spans) {
    if (span.Empty() || span.space != kGm) continue;
    op.write = span.write;
    if (!span.write) op.short_read = IsOneBlock(span);
    if (!span.write) continue;
    op.atomic = core.atomic || core.detail.signal;
    const bool words = core.detail.signal || core.atomic_type == DType::kInt32;
    op.counter = op.atomic && words && IsOneBlock(span);
  }
  op.fractals = core.detail.fractals;
}

OpId ScalarOp(Core& core, const char* api, Where where, bool write) {
  OpId& id = OrderOf(core).scalar_ops[(where.line * 2 + write) % 16];
  if (id != 0) {
    const Op& op = GetOp(id);
    if (op.where.line == where.line && op.where.file == where.file && op.api == api) return id;
    DropOp(id);
  }
  id = NewOp(core, api, kS, where);
  KeepOp(id);
  GetOp(id).write = write;
  return id;
}

void NoteAccess(Core& core, const char* api, pipe_t from, Where where,
                std::initializer_list<Span> spans) {
  if (!Checking() || spans.size() == 0) return;
  const Pipe pipe = PipeOf(from);
  if (pipe == kS) {
    for (const Span& span : spans) {
      if (span.space != kGm) NoteLocal(core, ScalarOp(core, api, where, span.write), span);
    }
    return;
  }
  NoteIssue(core, pipe);
  const OpId id = NewOp(core, api, pipe, where);
  KeepOp(id);
  Describe(core, GetOp(id), spans);
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
  DropOp(id);
}

void ResetShadow(Region& region, bool from_host) {
  if (!Checking() || !region.writable) return;
  const uint64_t granules = (region.bytes + kGlobalGranule - 1) / kGlobalGranule;
  if (region.shadow == nullptr) {
    region.shadow = new StateId[granules]();
  } else {
    Visit(region.shadow, 0, granules, [](StateId, uint64_t, uint64_t) { return kUnwritten; });
  }
  if (!from_host) return;
  for (uint64_t i = 0; i < granules; i += 2) {
    uint32_t word = 0;
    const uint64_t bytes = std::min<uint64_t>(4, region.bytes - 2 * i);
    std::memcpy(&word, GlobalData(region.begin) + 2 * i, bytes);
    if (word == kPattern) continue;
    region.shadow[i] = kFromHost;
    if (i + 1 < granules) region.shadow[i + 1] = kFromHost;
  }
}

void DropShadow(Region& region) {
  if (region.shadow == nullptr) return;
  ResetShadow(region, false);
  delete[] region.shadow;
  region.shadow = nullptr;
}

}  // namespace cpu_model
