// Who and where a core is; start-up, markers, peers.
#include "clocks/timing.h"
#include "detectors/counters.h"
#include "detectors/order.h"
#include "functional/clock.h"
#include "model/engine.h"
#include "model/timeline.h"

namespace cpu_model {

bool IsAic() { return TheEngine().current->aic; }
int64_t BlockIndex() { return TheEngine().current->index; }
int64_t BlockCount() { return TheEngine().blocks; }
int64_t SubBlockIndex() { return TheEngine().current->sub; }
int64_t SubBlockCount() { return IsAic() ? 1 : 2; }
int Rank() { return TheEngine().current->rank; }
int Ranks() { return TheEngine().ranks; }
int64_t Cycle(Where where) { return timing ? timed::Cycle() : ReadClock(where); }

void InitCore(Where where) {
  Core& core = Enter("InitSocState", PIPE_S, where, {});
  core.initialised = true;
  core.atomic = false;
}

void Mark(uint32_t value) {
  Core& core = *TheEngine().current;
  if (timing) {
    timed::Mark(value);
  } else {
    const int number = core.aic ? core.index : TheEngine().blocks + core.index;
    const double step = static_cast<double>(TheEngine().steps);
    core.record = TheTimeline().tasks.size();
    TheTimeline().tasks.push_back({core.rank, number, value, -1, step, 0, 0, 0, 0, 0, 0, 0, 0});
  }
  ++core.effects;
  core.marker = value;
  if (Checking()) EndScalarOps(core);
}

void Trap(Where where) {
  Core& core = Enter("Trap", PIPE_S, where, {});
  CheckGivenUp(core, where);
  Fail("trap", "the kernel called Trap", where);
}

uint64_t PeerAddress(uint64_t addr, int rank, Where where) {
  const Engine& engine = TheEngine();
  if (rank < 0 || rank >= engine.ranks) {
    Fail("address", Format("aclshmem_ptr: rank %d is not in 0 to %d", rank, engine.ranks - 1),
         where);
  }
  if (timing) return timed::Peer(addr, rank);
  const Region* region = FindRegion(addr);
  if (region == nullptr || !region->symmetric) {
    Fail("address",
         Format("aclshmem_ptr: %s is not symmetric memory", DescribeAddress(addr).c_str()), where);
  }
  if (region->rank != engine.current->rank) {
    Fail("address",
         Format("aclshmem_ptr: %s, expected an address of the calling rank",
                DescribeAddress(addr).c_str()),
         where);
  }
  for (const Region& other : engine.regions) {
    if (other.rank == rank && other.name == region->name) {
      return other.begin + (addr - region->begin);
    }
  }
  Fail("address", "aclshmem_ptr: no such symmetric memory on the peer", where);
}

}  // namespace cpu_model
