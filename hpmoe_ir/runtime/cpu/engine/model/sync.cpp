// Flags between pipes, flags between cores, barriers, signals of the symmetric memory.
#include <cstring>

#include "model/model.h"
#include "model/observer.h"
#include "model/pending.h"

namespace cpu_model {

using AscendC::HardEvent;

#define PAIR(FROM, TO) {PIPE_##FROM, PIPE_##TO, #FROM "_" #TO}
// In the order of HardEvent.
static const PipePair kPairs[] = {
    PAIR(MTE2, MTE1), PAIR(MTE1, MTE2), PAIR(MTE1, M),    PAIR(M, MTE1),   PAIR(MTE2, V),
    PAIR(V, MTE2),    PAIR(MTE3, V),    PAIR(V, MTE3),    PAIR(M, V),      PAIR(V, M),
    PAIR(V, V),       PAIR(MTE3, MTE1), PAIR(MTE1, MTE3), PAIR(MTE1, V),   PAIR(MTE2, M),
    PAIR(M, MTE2),    PAIR(V, MTE1),    PAIR(M, FIX),     PAIR(FIX, M),    PAIR(MTE3, MTE2),
    PAIR(MTE2, MTE3), PAIR(S, V),       PAIR(V, S),       PAIR(S, MTE2),   PAIR(MTE2, S),
    PAIR(S, MTE3),    PAIR(MTE3, S),    PAIR(MTE2, FIX),  PAIR(FIX, MTE2), PAIR(FIX, S),
    PAIR(M, S),       PAIR(FIX, MTE3),  PAIR(MTE1, FIX),  PAIR(FIX, MTE1), PAIR(FIX, FIX),
};
#undef PAIR
static_assert(sizeof(kPairs) / sizeof(kPairs[0]) == static_cast<size_t>(HardEvent::MAX), "");

const PipePair& PipesOf(HardEvent event) { return kPairs[static_cast<int>(event)]; }

constexpr int kCrossFlags = 11;     // 11 to 14 belong to SyncAll
constexpr uint32_t kCrossMax = 15;  // more pending increments hang the chip

const char* PipeName(pipe_t pipe) {
  switch (pipe) {
    case PIPE_S:
      return "S";
    case PIPE_V:
      return "V";
    case PIPE_M:
      return "M";
    case PIPE_MTE1:
      return "MTE1";
    case PIPE_MTE2:
      return "MTE2";
    case PIPE_MTE3:
      return "MTE3";
    case PIPE_FIX:
      return "FIX";
    default:
      return "ALL";
  }
}

static bool HasPipe(const Core& core, pipe_t pipe) {
  if (pipe == PIPE_V) return !core.aic;
  if (pipe == PIPE_M || pipe == PIPE_MTE1 || pipe == PIPE_FIX) return core.aic;
  return true;
}

static void CheckFlag(const char* api, const Core& core, HardEvent event, int32_t id, Where where) {
  const PipePair& pair = kPairs[static_cast<int>(event)];
  if (!HasPipe(core, pair.from) || !HasPipe(core, pair.to)) {
    Fail("core-kind",
         Format("%s<%s>: an %s does not have both pipes", api, pair.name, core.aic ? "AIC" : "AIV"),
         where);
  }
  const int limit = TheEngine().limits.event_ids;
  if (id < 0 || id >= limit) {
    Fail("event-id", Format("%s<%s>: event id %d is not in 0 to %d", api, pair.name, id, limit - 1),
         where);
  }
}

void Model::SetFlag(HardEvent event, int32_t id, Where where) {
  Core& core = Enter("SetFlag", PIPE_S, where, {}, true);
  CheckFlag("SetFlag", core, event, id, where);
  const int e = static_cast<int>(event);
  if (core.flag[e][id]) {
    Fail("flag",
         Format("SetFlag<%s>(%d): already set at %s:%d and not waited for", kPairs[e].name, id,
                core.flag_where[e][id].file, core.flag_where[e][id].line),
         where);
  }
  core.flag[e][id] = true;
  core.flag_where[e][id] = where;
  TheObserver().OnSetFlag(core, e, id, kPairs[e].from);
}

void Model::WaitFlag(HardEvent event, int32_t id, Where where) {
  Core& core = Enter("WaitFlag", PIPE_S, where, {}, true);
  CheckFlag("WaitFlag", core, event, id, where);
  const int e = static_cast<int>(event);
  if (!core.flag[e][id]) {
    Fail("flag",
         Format("WaitFlag<%s>(%d): not set before, the core would hang", kPairs[e].name, id),
         where);
  }
  core.flag[e][id] = false;
  TheObserver().OnWaitFlag(core, e, id, kPairs[e].to);
}

void Model::Barrier(pipe_t pipe, Where where) {
  Core& core = Enter("PipeBarrier", PIPE_S, where, {}, true);
  if (!HasPipe(core, pipe)) {
    Fail("core-kind",
         Format("PipeBarrier<PIPE_%s>: an %s has no such pipe", PipeName(pipe),
                core.aic ? "AIC" : "AIV"),
         where);
  }
  TheObserver().OnBarrier(core, pipe);
  DrainPipe(core, pipe);
}

void Model::MemoryBarrier(AscendC::MemDsbT kind, Where where) {
  Core& core = Enter("DataSyncBarrier", PIPE_S, where, {}, true);
  TheObserver().OnDataSync(core, kind);
  if (kind == AscendC::MemDsbT::DDR || kind == AscendC::MemDsbT::ALL) LandDrained(core);
}

static void Raise(Core& core, uint16_t id, Where where) {
  if (++core.cross[id] > kCrossMax) {
    Fail("flag",
         Format("CrossCoreSetFlag(%u): %s of rank %d has more than %u sets pending", id,
                core.Name().c_str(), core.rank, kCrossMax),
         where);
  }
  if (core.wait == WaitKind::kCrossCore && core.wait_id == id) TheModel().Wake(core);
}

static void CheckCrossId(const char* api, uint16_t id, Where where) {
  if (id >= kCrossFlags) {
    Fail("event-id", Format("%s: flag id %u is not in 0 to %d", api, id, kCrossFlags - 1), where);
  }
}

// The members of a mode's group that must all set before the receivers' counters rise.
static std::vector<Core*> Setters(Core& core, int mode) {
  Engine& engine = TheEngine();
  if (mode == 2 && core.aic) return {&core};
  if (mode != 0) {
    return {&engine.CoreOf(core.rank, false, core.group * 2),
            &engine.CoreOf(core.rank, false, core.group * 2 + 1)};
  }
  std::vector<Core*> all;
  const int count = core.aic ? engine.aics : engine.aics * 2;
  for (int i = 0; i < count; ++i) all.push_back(&engine.CoreOf(core.rank, core.aic, i));
  return all;
}

void Model::CrossCoreSet(uint8_t mode, pipe_t pipe, uint16_t id, Where where) {
  Core& core = Enter("CrossCoreSetFlag", pipe, where, {});
  CheckCrossId("CrossCoreSetFlag", id, where);
  if (mode == 1 && core.aic) {
    Fail("core-kind", "CrossCoreSetFlag: mode 1 joins the two AIVs of a group, this is an AIC",
         where);
  }
  LandOnRank(core, pipe);  // the flag is set once the pipe has drained to the rank's memory
  const std::vector<Core*> setters = Setters(core, mode);
  if (++core.cross_sets[mode][id] > kCrossMax) {
    Fail(
        "flag",
        Format("CrossCoreSetFlag(%u): more than %u sets wait for the partner cores", id, kCrossMax),
        where);
  }
  TheObserver().OnCrossSet(core, mode, pipe, id, where);
  for (const Core* setter : setters) {
    if (setter->cross_sets[mode][id] == 0) return;
  }
  for (Core* setter : setters) --setter->cross_sets[mode][id];
  Engine& engine = TheEngine();
  std::vector<Core*> receivers = setters;
  if (mode == 2 && core.aic) {
    receivers = {&engine.CoreOf(core.rank, false, core.group * 2),
                 &engine.CoreOf(core.rank, false, core.group * 2 + 1)};
  } else if (mode == 2) {
    receivers = {&engine.CoreOf(core.rank, true, core.group)};
  }
  TheObserver().OnCrossRaise(setters, receivers, mode, id);
  for (Core* receiver : receivers) Raise(*receiver, id, where);
}

void Model::CrossCoreWait(uint16_t id, Where where) {
  Core& core = Enter("CrossCoreWaitFlag", PIPE_S, where, {});
  CheckCrossId("CrossCoreWaitFlag", id, where);
  while (core.cross[id] == 0) {
    core.wait_id = id;
    Suspend(core, WaitKind::kCrossCore);
  }
  --core.cross[id];
  TheObserver().OnCrossWait(core, id);
}

void Model::SyncAll(bool vector_only, Where where) {
  Core& core = Enter("SyncAll", PIPE_S, where, {});
  if (vector_only && core.aic) {
    Fail("core-kind", "SyncAll<true>: joins the AIVs, this is an AIC", where);
  }
  TheObserver().OnBarrier(core, PIPE_ALL);  // SyncAll begins with this barrier
  LandOnRank(core, PIPE_ALL);
  Engine& engine = TheEngine();
  core.wait_id = vector_only;
  core.wait = WaitKind::kSyncAll;
  std::vector<Core*> members;
  for (const auto& other : engine.cores) {
    if (other->rank != core.rank || (vector_only && other->aic)) continue;
    members.push_back(other.get());
    if (other->wait != WaitKind::kSyncAll || other->wait_id != core.wait_id) {
      Suspend(core, WaitKind::kSyncAll);
      return;
    }
  }
  core.wait = WaitKind::kNone;
  TheObserver().OnSyncAll(members);
  for (Core* member : members) Wake(*member);
}

void CheckCoreEnd(Core& core) {
  for (int e = 0; e < static_cast<int>(HardEvent::MAX); ++e) {
    for (int id = 0; id < 8; ++id) {
      if (core.flag[e][id]) {
        Fail("flag",
             Format("the kernel ended with SetFlag<%s>(%d) not waited for", kPairs[e].name, id),
             core.flag_where[e][id]);
      }
    }
  }
  if (core.atomic) Fail("state", "the kernel ended with SetAtomicAdd on", core.where);
  for (const auto& line : core.cache) {
    if (line.second.dirty != 0) {
      Fail("cache",
           Format("the kernel ended with a scalar write to %s that was never written back",
                  DescribeAddress(line.first).c_str()),
           core.where);
    }
  }
}

void CheckRankEnd(int rank) {
  for (const auto& core : TheEngine().cores) {
    if (core->rank != rank) continue;
    for (int id = 0; id < 16; ++id) {
      uint32_t sets = 0;
      for (const auto& mode : core->cross_sets) sets += mode[id];
      if (core->cross[id] == 0 && sets == 0) continue;
      FailAt("flag",
             Format("the kernel ended with cross-core flag %d %s", id,
                    sets == 0 ? "not waited for" : "set by some cores of its group only"),
             core->where, core.get());
    }
  }
}

int32_t Model::WaitSignal(uint64_t addr, int compare, int32_t value, Where where) {
  Core& core =
      Enter("aclshmem_signal_wait_until", PIPE_S, where, {GlobalSpan({addr, 0}, false, 4)});
  while (true) {
    BeforeSignalRead(core);
    int32_t seen = 0;
    std::memcpy(&seen, GlobalData(addr), 4);
    const bool met[] = {seen == value, seen != value, seen > value,
                        seen >= value, seen < value,  seen <= value};
    if (compare < 0 || compare > 5) {
      Unsupported("aclshmem_signal_wait_until with an unknown comparison", where);
    }
    if (met[compare]) {
      TheObserver().OnScalarRead(core, "aclshmem_signal_wait_until", addr, 4, nullptr, where);
      return seen;
    }
    AwaitSignal(core, addr, seen);
  }
}

void Model::Signal(uint64_t addr, int32_t value, bool add, int rank, Where where) {
  const uint64_t target = PeerAddress(addr, rank, where);
  // The library stages the word at this address of UB.
  const LocalRef stage = {AscendC::TPosition::VECIN, 188 * 1024, 32};
  // The library waits for all pipes before and after.
  TheObserver().OnBarrier(*TheEngine().current, PIPE_ALL);
  TheEngine().current->detail.signal = true;
  Core& core = Enter("aclshmemx_signal_op", PIPE_MTE3, where,
                     {LocalSpan(stage, true, 32), GlobalSpan({target, 0}, true, 4)});
  std::memcpy(LocalData(core, stage), &value, 4);
  DrainPipe(core, PIPE_ALL);
  const bool atomic = core.atomic;
  const DType type = core.atomic_type;
  core.atomic = add;
  core.atomic_type = DType::kInt32;
  WriteMemory(core, PIPE_MTE3, target, LocalData(core, stage), 4, where);
  core.atomic = atomic;
  core.atomic_type = type;
  TheObserver().OnBarrier(core, PIPE_ALL);
  DrainPipe(core, PIPE_ALL);
}

// Drains all pipes and cleans the whole data cache.
void Model::Quiet(Where where) {
  Core& core = *TheEngine().current;
  TheObserver().OnBarrier(core, PIPE_ALL);
  CleanCache({0, 0}, true, where);
  TheObserver().OnDataSync(core, AscendC::MemDsbT::ALL);
  DrainPipe(core, PIPE_ALL);
  LandDrained(core);
}

}  // namespace cpu_model
