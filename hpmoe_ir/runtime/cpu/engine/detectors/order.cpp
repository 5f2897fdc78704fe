// Clocks: pipes of a core by flags and barriers, cores by signals, cross-core flags and launches.
#include "detectors/order.h"

#include <algorithm>

namespace cpu_model {

Pool<Op> ops;
static std::vector<CoreOrder> orders;

bool Checking() { return !orders.empty(); }

static size_t IndexOf(const Core& core) {
  const int blocks = TheEngine().blocks;
  return static_cast<size_t>(core.rank * blocks * 3 +
                             (core.aic ? core.index : blocks + core.index));
}

CoreOrder& OrderOf(const Core& core) { return orders[IndexOf(core)]; }

void StartOrder() {
  const size_t cores = TheEngine().cores.size();
  orders.resize(cores);
  ops.Take();  // no call has the number 0
  for (CoreOrder& order : orders) order.clock = std::make_shared<Clock>(cores * kSlots);
}

Pipe PipeOf(pipe_t pipe) { return pipe == PIPE_FIX ? kFix : static_cast<Pipe>(pipe); }

const char* PipeName(Pipe pipe) {
  return PipeName(pipe == kFix ? PIPE_FIX : static_cast<pipe_t>(pipe));
}

OpId NewOp(const Core& core, const char* api, Pipe pipe, Where where) {
  const OpId id = ops.Take();
  const CoreOrder& order = OrderOf(core);
  Op& op = ops[id];
  op = Op();
  op.core = &core;
  op.api = api;
  op.where = where;
  op.marker = core.marker;
  op.pipe = pipe;
  op.number = order.issued[pipe];
  op.call = static_cast<uint32_t>(core.calls);
  op.launch = order.launch;
  return id;
}

void Join(Clock& into, const Clock& from) {
  for (size_t i = 0; i < from.size(); ++i) into[i] = std::max(into[i], from[i]);
}

void EndScalarOps(Core& core) {
  CoreOrder& order = OrderOf(core);
  for (OpId& id : order.scalar_ops) {
    if (id != 0) DropOp(id);
    id = 0;
  }
  ++order.issued[kS];
}

// What the scalar unit has learnt holds for every call that it gives to a pipe afterwards; its own
// accesses to memory may still be under way.
static void PassOn(CoreOrder& order, Pipe pipe) {
  if (pipe == kS) return;
  for (int q = kV; q < kPipes; ++q) {
    order.known[pipe][q] = std::max(order.known[pipe][q], order.known[kS][q]);
  }
}

static void Learn(Core& core, Pipe pipe, const uint32_t* known) {
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
  PassOn(order, pipe);
  ++order.issued[pipe];
}

void NoteSetFlag(Core& core, int event, int id, pipe_t from) {
  if (!Checking()) return;
  CoreOrder& order = OrderOf(core);
  const Pipe pipe = PipeOf(from);
  PassOn(order, pipe);
  std::copy(order.known[pipe], order.known[pipe] + kPipes, order.flag[event][id]);
  order.flag[event][id][pipe] = order.issued[pipe];
  if (pipe == kS) EndScalarOps(core);
}

void NoteWaitFlag(Core& core, int event, int id, pipe_t to) {
  if (!Checking()) return;
  const Pipe pipe = PipeOf(to);
  PassOn(OrderOf(core), pipe);
  Learn(core, pipe, OrderOf(core).flag[event][id]);
}

void NoteBarrier(Core& core, pipe_t barrier) {
  if (!Checking()) return;
  CoreOrder& order = OrderOf(core);
  if (barrier != PIPE_ALL) {
    const Pipe pipe = PipeOf(barrier);
    PassOn(order, pipe);
    order.known[pipe][pipe] = order.issued[pipe];
    return;
  }
  for (int p = 0; p < kPipes; ++p) Learn(core, static_cast<Pipe>(p), order.issued);
  order.scalar_done = order.issued[kS];
  EndScalarOps(core);
}

void NoteDataSync(Core& core, AscendC::MemDsbT kind) {
  if (!Checking()) return;
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
  EndScalarOps(core);
}

Clock Released(const Core& core, Pipe pipe, bool drained) {
  const CoreOrder& order = OrderOf(core);
  Clock clock = *order.clock;
  uint32_t known[kPipes];
  std::copy(order.known[pipe], order.known[pipe] + kPipes, known);
  if (drained) known[pipe] = order.issued[pipe];
  known[kS] = std::max(known[kS], order.scalar_done);
  uint32_t* own = &clock[IndexOf(core) * kSlots];
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

void Acquire(Core& core, const Clock& clock) {
  CoreOrder& order = OrderOf(core);
  if (order.clock.use_count() > 1) order.clock = std::make_shared<Clock>(*order.clock);
  Join(*order.clock, clock);
}

void NoteRelease(Core& core, Where where) {
  CoreOrder& order = OrderOf(core);
  Release release = {static_cast<uint32_t>(core.calls), where, {}};
  for (int q = 0; q < kPipes; ++q) {
    release.drained[q] = std::max(order.known[q][q], order.known[kS][q]);
  }
  release.drained[kS] = order.scalar_done;
  order.releases.push_back(release);
  EndScalarOps(core);
}

void NoteCrossSet(Core& core, int mode, pipe_t from, uint16_t id, Where where) {
  if (!Checking()) return;
  const Pipe pipe = PipeOf(from);
  PassOn(OrderOf(core), pipe);
  OrderOf(core).cross_sets[mode][id].push_back(Released(core, pipe, true));
  OrderOf(core).on_rank[pipe] = OrderOf(core).issued[pipe];
  NoteRelease(core, where);
}

void NoteCrossRaise(const std::vector<Core*>& setters, const std::vector<Core*>& receivers,
                    int mode, uint16_t id) {
  if (!Checking()) return;
  Clock clock(orders[0].clock->size());
  for (const Core* setter : setters) {
    auto& sets = OrderOf(*setter).cross_sets[mode][id];
    Join(clock, sets.front());
    sets.pop_front();
  }
  for (const Core* receiver : receivers) OrderOf(*receiver).cross[id].push_back(clock);
}

void NoteCrossWait(Core& core, uint16_t id) {
  if (!Checking()) return;
  auto& raised = OrderOf(core).cross[id];
  Acquire(core, raised.front());
  raised.pop_front();
}

void NoteSyncAll(const std::vector<Core*>& members) {
  if (!Checking()) return;
  Clock clock(orders[0].clock->size());
  for (const Core* member : members) Join(clock, Released(*member, kS, true));
  for (Core* member : members) {
    CoreOrder& order = OrderOf(*member);
    std::copy(order.issued, order.issued + kPipes, order.on_rank);
    Acquire(*member, clock);
  }
}

void NoteLaunch(int rank) {
  if (!Checking()) return;
  Clock clock(orders[0].clock->size());
  std::vector<Core*> members;
  for (const auto& core : TheEngine().cores) {
    if (core->rank != rank) continue;
    NoteBarrier(*core, PIPE_ALL);
    NoteDataSync(*core, AscendC::MemDsbT::ALL);
    ++OrderOf(*core).launch;
    members.push_back(core.get());
  }
  NoteSyncAll(members);
}

static Slot SlotOf(Pipe pipe) {
  return pipe == kMte2 ? kLoads : pipe == kMte3 ? kStores : pipe == kFix ? kResults : kScalar;
}

bool HasEnded(const Op& before, const Core& core, Pipe pipe, int rank, const Clock& clock) {
  if (before.core == &core) {
    if (before.pipe == kS && (before.scalar_read || pipe == kS)) return true;
    const CoreOrder& order = OrderOf(core);
    uint32_t known = order.known[pipe][before.pipe];
    if (before.pipe == kS) known = std::max(known, order.scalar_done);
    return known >= before.number;
  }
  const uint32_t* slots = &clock[IndexOf(*before.core) * kSlots];
  if (before.scalar_read) return slots[kProgram] >= before.call;
  const bool same_rank = before.core->rank == core.rank && core.rank == rank;
  const Slot slot = SlotOf(before.pipe);
  return slots[slot + (before.write && !same_rank ? kDurable : 0)] >= before.number;
}

bool IsVisible(const Op& before, const Core& core, int rank) {
  if (before.core != &core || before.counter) return true;
  const CoreOrder& order = OrderOf(core);
  return (rank == core.rank ? order.on_rank : order.durable)[before.pipe] >= before.number;
}

const Release* EarlySignal(const Op& before, const Core& core) {
  if (before.core == &core) return nullptr;
  const Clock& clock = *OrderOf(core).clock;
  if (clock[IndexOf(*before.core) * kSlots + kProgram] < before.call) return nullptr;
  const auto& releases = OrderOf(*before.core).releases;
  const auto at =
      std::lower_bound(releases.begin(), releases.end(), before.call,
                       [](const Release& release, uint32_t call) { return release.call < call; });
  return at == releases.end() ? nullptr : &*at;
}

}  // namespace cpu_model
