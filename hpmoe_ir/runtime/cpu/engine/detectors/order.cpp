#include "detectors/order.h"

#include <algorithm>

#include "detectors/order_detectors.h"

namespace cpu_model {

Pool<CallRecord> call_records;
static std::vector<CoreOrder> orders;

CoreOrder& OrderOf(const Core& core) { return orders[core.number]; }

void StartOrder() {
  const size_t cores = TheEngine().cores.size();
  orders.resize(cores);
  call_records.Take();  // no call has the id 0
  for (CoreOrder& order : orders) order.clock = std::make_shared<VectorClock>(cores * kSlots);
}

Pipe PipeOf(pipe_t pipe) { return pipe == PIPE_FIX ? kFix : static_cast<Pipe>(pipe); }

const char* PipeName(Pipe pipe) {
  return PipeName(pipe == kFix ? PIPE_FIX : static_cast<pipe_t>(pipe));
}

CallId NewCall(const Core& core, const char* api, Pipe pipe, Where where) {
  const CallId id = call_records.Take();
  const CoreOrder& order = OrderOf(core);
  CallRecord& call = call_records[id];
  call = CallRecord();
  call.core = &core;
  call.api = api;
  call.where = where;
  call.marker = core.marker;
  call.pipe = pipe;
  call.number = order.issued[pipe];
  call.core_number = static_cast<uint32_t>(core.calls);
  call.launch = order.launch;
  return id;
}

void Join(VectorClock& into, const VectorClock& from) {
  for (size_t i = 0; i < from.size(); ++i) into[i] = std::max(into[i], from[i]);
}

void EndScalarCalls(Core& core) {
  CoreOrder& order = OrderOf(core);
  for (CallId& id : order.scalar_calls) {
    if (id != 0) DropCall(id);
    id = 0;
  }
  ++order.issued[kS];
}

// What the scalar unit knows holds for every call that it issues to a pipe afterwards; its own
// accesses to memory may not have ended.
static void PassToPipe(CoreOrder& order, Pipe pipe) {
  if (pipe == kS) return;
  for (int q = kV; q < kPipes; ++q) {
    order.known[pipe][q] = std::max(order.known[pipe][q], order.known[kS][q]);
  }
}

static void Extend(Core& core, Pipe pipe, const uint32_t* known) {
  CoreOrder& order = OrderOf(core);
  for (int q = 0; q < kPipes; ++q) {
    order.known[pipe][q] = std::max(order.known[pipe][q], known[q]);
  }
  if (pipe == kS && order.copied != 0 && order.known[kS][kMte2] >= order.copied) {
    Acquire(core, order.copied_clock);
    order.copied = 0;
  }
}

void NoteIssue(Core& core, Pipe pipe) {
  CoreOrder& order = OrderOf(core);
  PassToPipe(order, pipe);
  ++order.issued[pipe];
}

void OrderDetectors::OnSetFlag(Core& core, int event, int id, pipe_t from) {
  CoreOrder& order = OrderOf(core);
  const Pipe pipe = PipeOf(from);
  PassToPipe(order, pipe);
  std::copy(order.known[pipe], order.known[pipe] + kPipes, order.flag[event][id]);
  order.flag[event][id][pipe] = order.issued[pipe];
  if (pipe == kS) EndScalarCalls(core);
}

void OrderDetectors::OnWaitFlag(Core& core, int event, int id, pipe_t to) {
  const Pipe pipe = PipeOf(to);
  PassToPipe(OrderOf(core), pipe);
  Extend(core, pipe, OrderOf(core).flag[event][id]);
}

void OrderDetectors::OnBarrier(Core& core, pipe_t barrier) {
  CoreOrder& order = OrderOf(core);
  if (barrier != PIPE_ALL) {
    const Pipe pipe = PipeOf(barrier);
    PassToPipe(order, pipe);
    order.known[pipe][pipe] = order.issued[pipe];
    return;
  }
  for (int p = 0; p < kPipes; ++p) Extend(core, static_cast<Pipe>(p), order.issued);
  order.scalar_done = order.issued[kS];
  EndScalarCalls(core);
}

void OrderDetectors::OnDataSync(Core& core, AscendC::MemDsbT kind) {
  CoreOrder& order = OrderOf(core);
  const bool global = kind == AscendC::MemDsbT::ALL || kind == AscendC::MemDsbT::DDR;
  const bool local = kind == AscendC::MemDsbT::ALL || kind == AscendC::MemDsbT::UB;
  if (local) {
    for (auto& known : order.known) known[kS] = order.issued[kS];
  }
  if (global) {
    order.scalar_done = order.issued[kS];
    for (int q = 0; q < kPipes; ++q) {
      order.durable[q] = std::max({order.durable[q], order.known[q][q], order.known[kS][q]});
    }
    order.durable[kS] = order.issued[kS];
    for (int q = 0; q < kPipes; ++q)
      order.on_rank[q] = std::max(order.on_rank[q], order.durable[q]);
  }
  EndScalarCalls(core);
}

VectorClock Released(const Core& core, Pipe pipe, bool drained) {
  const CoreOrder& order = OrderOf(core);
  VectorClock clock = *order.clock;
  uint32_t known[kPipes];
  std::copy(order.known[pipe], order.known[pipe] + kPipes, known);
  if (drained) known[pipe] = order.issued[pipe];
  known[kS] = std::max(known[kS], order.scalar_done);
  uint32_t* own = &clock[core.number * kSlots];
  static constexpr Pipe kPipeOf[] = {kS, kMte2, kMte3, kFix};
  static constexpr Slot kDurableOf[] = {kDurable, kSlots, static_cast<Slot>(kDurable + 2),
                                        static_cast<Slot>(kDurable + 3)};
  for (int slot = kScalar; slot <= kResults; ++slot) {
    own[slot] = known[kPipeOf[slot]];
    if (kDurableOf[slot] == kSlots) continue;
    own[kDurableOf[slot]] = std::min(own[slot], order.durable[kPipeOf[slot]]);
    if (!drained) own[slot] = own[kDurableOf[slot]];
  }
  own[kProgram] = static_cast<uint32_t>(core.calls);
  return clock;
}

void Acquire(Core& core, const VectorClock& clock) {
  CoreOrder& order = OrderOf(core);
  if (order.clock.use_count() > 1) order.clock = std::make_shared<VectorClock>(*order.clock);
  Join(*order.clock, clock);
}

void NoteSignalSent(Core& core, Where where) {
  CoreOrder& order = OrderOf(core);
  SentSignal release = {static_cast<uint32_t>(core.calls), where, {}};
  for (int q = 0; q < kPipes; ++q) {
    release.drained[q] = std::max(order.known[q][q], order.known[kS][q]);
  }
  release.drained[kS] = order.scalar_done;
  order.sent_signals.push_back(release);
  EndScalarCalls(core);
}

void OrderDetectors::OnCrossSet(Core& core, int mode, pipe_t from, uint16_t id, Where where) {
  const Pipe pipe = PipeOf(from);
  PassToPipe(OrderOf(core), pipe);
  OrderOf(core).cross_sets[mode][id].push_back(Released(core, pipe, true));
  OrderOf(core).on_rank[pipe] = OrderOf(core).issued[pipe];
  NoteSignalSent(core, where);
}

void OrderDetectors::OnCrossRaise(const std::vector<Core*>& setters,
                                  const std::vector<Core*>& receivers, int mode, uint16_t id) {
  VectorClock clock(orders[0].clock->size());
  for (const Core* setter : setters) {
    auto& sets = OrderOf(*setter).cross_sets[mode][id];
    Join(clock, sets.front());
    sets.pop_front();
  }
  for (const Core* receiver : receivers) OrderOf(*receiver).cross[id].push_back(clock);
}

void OrderDetectors::OnCrossWait(Core& core, uint16_t id) {
  auto& raised = OrderOf(core).cross[id];
  Acquire(core, raised.front());
  raised.pop_front();
}

void OrderDetectors::OnSyncAll(const std::vector<Core*>& members) {
  VectorClock clock(orders[0].clock->size());
  for (const Core* member : members) Join(clock, Released(*member, kS, true));
  for (Core* member : members) {
    CoreOrder& order = OrderOf(*member);
    std::copy(order.issued, order.issued + kPipes, order.on_rank);
    Acquire(*member, clock);
  }
}

void OrderDetectors::OnKernelStart(int rank) {
  VectorClock clock(orders[0].clock->size());
  std::vector<Core*> members;
  for (const auto& core : TheEngine().cores) {
    if (core->rank != rank) continue;
    OnBarrier(*core, PIPE_ALL);
    OnDataSync(*core, AscendC::MemDsbT::ALL);
    ++OrderOf(*core).launch;
    members.push_back(core.get());
  }
  OnSyncAll(members);
}

static Slot SlotOf(Pipe pipe) {
  return pipe == kMte2 ? kLoads : pipe == kMte3 ? kStores : pipe == kFix ? kResults : kScalar;
}

bool HasEnded(const CallRecord& before, const Core& core, Pipe pipe, int rank,
              const VectorClock& clock) {
  if (before.core == &core) {
    if (before.pipe == kS && (before.scalar_read || pipe == kS)) return true;
    const CoreOrder& order = OrderOf(core);
    uint32_t known = order.known[pipe][before.pipe];
    if (before.pipe == kS) known = std::max(known, order.scalar_done);
    return known >= before.number;
  }
  const uint32_t* slots = &clock[before.core->number * kSlots];
  if (before.scalar_read) return slots[kProgram] >= before.core_number;
  const bool same_rank = before.core->rank == core.rank && core.rank == rank;
  const Slot slot = SlotOf(before.pipe);
  return slots[slot + (before.write && !same_rank ? kDurable : 0)] >= before.number;
}

bool IsVisible(const CallRecord& before, const Core& core, int rank) {
  if (before.core != &core || before.signal) return true;
  const CoreOrder& order = OrderOf(core);
  return (rank == core.rank ? order.on_rank : order.durable)[before.pipe] >= before.number;
}

const SentSignal* EarlySignal(const CallRecord& before, const Core& core) {
  if (before.core == &core) return nullptr;
  const VectorClock& clock = *OrderOf(core).clock;
  if (clock[before.core->number * kSlots + kProgram] < before.core_number) return nullptr;
  const auto& sent_signals = OrderOf(*before.core).sent_signals;
  const auto at = std::lower_bound(
      sent_signals.begin(), sent_signals.end(), before.core_number,
      [](const SentSignal& release, uint32_t call) { return release.call < call; });
  return at == sent_signals.end() ? nullptr : &*at;
}

}  // namespace cpu_model
