// Memory of a timed run: the ranks lie side by side in one range of addresses, of which only the
// pages that hold integers are ever touched.
#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>

#include "clocks/timing_state.h"

namespace cpu_model {
namespace timed {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kGap = kPage;

static std::vector<uint64_t> next;  // first free address of each rank

void Reserve(int ranks, uint64_t bytes_of_rank) {
  int bits = 0;
  while ((uint64_t{1} << bits) < bytes_of_rank + kPage) ++bits;
  const uint64_t size = (static_cast<uint64_t>(ranks) + 1) << bits;
  void* base = mmap(nullptr, size, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) {
    std::fprintf(stderr, "cpu model: no range of %llu bytes of addresses\n",
                 static_cast<unsigned long long>(size));
    std::exit(2);
  }
  const uint64_t rank = uint64_t{1} << bits;
  const uint64_t begin = (reinterpret_cast<uint64_t>(base) + rank - 1) / rank * rank;
  TheState().recorder.SetArena(begin, bits);
  for (int r = 0; r < ranks; ++r) next.push_back(begin + r * rank + kGap);
}

uint64_t Place(int rank, uint64_t bytes) {
  const uint64_t begin = next[rank];
  next[rank] += (bytes + kPage - 1) / kPage * kPage + kGap;
  return begin;
}

uint64_t Peer(uint64_t addr, int rank) {
  const Recorder& recorder = TheState().recorder;
  const int64_t ranks = rank - recorder.RankOf(addr);
  return addr + static_cast<uint64_t>(ranks << recorder.bits());
}

void Start(uint64_t bytes_of_rank) {
  State& state = TheState();
  state.recorder.Start(RankCount(), timing_job.mirror, state.rates());
  state.fluid = std::make_unique<Fluid>(RankCount(), state.rates());
  state.cores.resize(TheEngine().cores.size());
  for (size_t i = 0; i < state.cores.size(); ++i) state.cores[i].work.core = static_cast<int>(i);
  TheTimeline().totals.resize(RankCount());
  Reserve(TheEngine().ranks, bytes_of_rank);
}

}  // namespace timed
}  // namespace cpu_model
