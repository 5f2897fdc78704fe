// Place of the running core; start-up, markers, peers.
#include "model/model.h"
#include "model/observer.h"

namespace cpu_model {

bool IsAic() { return TheEngine().current->aic; }
int64_t BlockIndex() { return TheEngine().current->index; }
int64_t BlockCount() { return TheEngine().aics; }
int64_t SubBlockIndex() { return TheEngine().current->sub; }
int64_t SubBlockCount() { return IsAic() ? 1 : 2; }
int Rank() { return TheEngine().current->rank; }
int Ranks() { return TheEngine().ranks; }

void Model::InitCore(Where where) {
  Core& core = Enter("InitSocState", PIPE_S, where, {});
  core.initialised = true;
  core.atomic = false;
}

void Model::Mark(uint32_t value) {
  Core& core = *TheEngine().current;
  ++core.effects;
  core.marker = value;
  TheObserver().OnMark(core);
}

void Model::Trap(Where where) {
  Core& core = Enter("Trap", PIPE_S, where, {});
  TheObserver().OnTrap(core, where);
  Fail("trap", "the kernel called Trap", where);
}

void CheckPeer(int rank, Where where) {
  const Engine& engine = TheEngine();
  if (rank < 0 || rank >= engine.ranks) {
    Fail("address", Format("aclshmem_ptr: rank %d is not in 0 to %d", rank, engine.ranks - 1),
         where);
  }
}

uint64_t Model::PeerAddress(uint64_t addr, int rank, Where where) {
  CheckPeer(rank, where);
  const Engine& engine = TheEngine();
  const Allocation* allocation = FindAllocation(addr);
  if (allocation == nullptr || !allocation->symmetric) {
    Fail("address",
         Format("aclshmem_ptr: %s is not symmetric memory", DescribeAddress(addr).c_str()), where);
  }
  if (allocation->rank != engine.current->rank) {
    Fail("address",
         Format("aclshmem_ptr: %s, expected an address of the calling rank",
                DescribeAddress(addr).c_str()),
         where);
  }
  for (const Allocation& other : engine.allocations) {
    if (other.rank == rank && other.name == allocation->name) {
      return other.begin + (addr - allocation->begin);
    }
  }
  Fail("address", "aclshmem_ptr: no such symmetric memory on the peer", where);
}

}  // namespace cpu_model
