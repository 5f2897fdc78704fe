// Memory of a timed run: the ranks are adjacent in one range of addresses, of which only the pages
// that hold integers are ever touched.
#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>

#include "clocks/timed_mode.h"

namespace cpu_model {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kGap = kPage;

void TimedMode::Reserve(int ranks, uint64_t bytes_of_rank) {
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
  recorder_.SetArena(begin, bits);
  for (int r = 0; r < ranks; ++r) next_address_.push_back(begin + r * rank + kGap);
}

uint64_t TimedMode::Place(const std::string&, int rank, uint64_t bytes) {
  const uint64_t begin = next_address_[rank];
  next_address_[rank] += (bytes + kPage - 1) / kPage * kPage + kGap;
  return begin;
}

uint64_t TimedMode::AddressOnRank(uint64_t addr, int rank) const {
  const int64_t ranks = rank - recorder_.RankOf(addr);
  return addr + static_cast<uint64_t>(ranks << recorder_.bits());
}

uint64_t TimedMode::FirstCounter(int rank) {
  if (first_counters_.empty()) {
    first_counters_.assign(TheEngine().ranks, 0);
    for (const Allocation& allocation : TheEngine().allocations) {
      if (allocation.name == job_.counters) {
        first_counters_[allocation.rank] = allocation.begin + job_.first_counter;
      }
    }
  }
  return first_counters_[rank];
}

int TimedMode::CounterAt(const Core& core, uint64_t addr) {
  const uint64_t begin = FirstCounter(core.rank);
  if (begin == 0 || addr < begin) return -1;
  const uint64_t index = (addr - begin) / job_.counter_pitch;
  return index < job_.counter_count ? static_cast<int>(index) : -1;
}

bool TimedMode::MayBeCounter(const Allocation& allocation, uint64_t addr) const {
  if (job_.counter_count == 0 || allocation.name != job_.counters) return true;
  const uint64_t begin = allocation.begin + job_.first_counter;
  return addr >= begin && (addr - begin) / job_.counter_pitch < job_.counter_count;
}

uint64_t TimedMode::CounterAddress(const Core& core, uint64_t index) {
  return FirstCounter(core.rank) + index * job_.counter_pitch;
}

uint64_t TimedMode::MirroredCounter(const Core& core, uint32_t slot, uint32_t number) {
  const auto found = job_.mirrored.find(uint64_t{slot} * 256 + number);
  if (found == job_.mirrored.end()) {
    Fail("state", Format("signal %u of a task has no mirrored counter", number), core.where);
  }
  return CounterAddress(core, found->second);
}

}  // namespace cpu_model
