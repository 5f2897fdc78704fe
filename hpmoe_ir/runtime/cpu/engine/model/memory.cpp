#include "model/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>

// Memory is not freed before the process ends.
extern "C" const char* __asan_default_options() { return "detect_leaks=0"; }
#endif

#include "model/model.h"

namespace cpu_model {

constexpr uint64_t kGuard = 64 * 1024;

const char* SpaceName(Space space) {
  static const char* const kNames[] = {"GM", "L1", "L0A", "L0B", "L0C", "UB", "unknown memory"};
  return kNames[space];
}

Space SpaceOf(AscendC::TPosition position) {
  using AscendC::TPosition;
  switch (position) {
    case TPosition::A1:
    case TPosition::B1:
    case TPosition::C1:
    case TPosition::TSCM:
      return kL1;
    case TPosition::A2:
      return kL0A;
    case TPosition::B2:
      return kL0B;
    case TPosition::CO1:
      return kL0C;
    case TPosition::VECIN:
    case TPosition::VECOUT:
    case TPosition::VECCALC:
      return kUb;
    default:
      return kSpaces;
  }
}

void FillPattern(void* data, size_t bytes) {
  auto* out = static_cast<uint8_t*>(data);
  for (size_t i = 0; i + 4 <= bytes; i += 4) std::memcpy(out + i, &kPattern, 4);
  for (size_t i = bytes / 4 * 4; i < bytes; ++i) out[i] = i % 2 == 0 ? 0xBD : 0x7F;
}

Span LocalSpan(const LocalRef& ref, bool write, uint64_t bytes) {
  Span span = {SpaceOf(ref.position), write, ref.addr, bytes};
  span.limit = uint64_t{ref.addr} + ref.bytes;
  return span;
}

Span GlobalSpan(const GlobalRef& ref, bool write, uint64_t bytes) {
  Span span = {kGm, write, ref.addr, bytes};
  span.limit = ref.end;
  return span;
}

Span Strided(Span span, uint64_t count, uint64_t pitch) {
  const int level = span.count[0] == 1 ? 0 : 1;
  span.count[level] = count;
  span.pitch[level] = pitch;
  return span;
}

uint64_t MapMemory(const std::string& name, uint64_t bytes) {
  const uint64_t rounded = (bytes + 4095) / 4096 * 4096;
  void* base = mmap(nullptr, rounded + 2 * kGuard, PROT_NONE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) {
    std::fprintf(stderr, "cpu model: no memory for '%s' (%llu bytes)\n", name.c_str(),
                 static_cast<unsigned long long>(bytes));
    std::exit(2);
  }
  uint8_t* begin = static_cast<uint8_t*>(base) + kGuard;
  if (rounded != 0 && mprotect(begin, rounded, PROT_READ | PROT_WRITE) != 0) {
    std::perror("cpu model: mprotect");
    std::exit(2);
  }
#if defined(__SANITIZE_ADDRESS__)
  // The cache line at the end may be accessed, nothing past it.
  const uint64_t used = (bytes + 63) / 64 * 64;
  __asan_poison_memory_region(begin + used, rounded - used);
#endif
  return reinterpret_cast<uint64_t>(begin);
}

Allocation& Allocate(const std::string& name, int rank, uint64_t bytes, bool symmetric,
                     bool writable) {
  const uint64_t begin = TheModel().Place(name, rank, bytes);
  Allocation allocation = {name, rank, symmetric, writable, begin, bytes};
  auto& allocations = TheEngine().allocations;
  auto at =
      std::upper_bound(allocations.begin(), allocations.end(), allocation.begin,
                       [](uint64_t addr, const Allocation& other) { return addr < other.begin; });
  return *allocations.insert(at, allocation);
}

const Allocation* FindAllocation(uint64_t addr) {
  const auto& allocations = TheEngine().allocations;
  auto at = std::upper_bound(
      allocations.begin(), allocations.end(), addr,
      [](uint64_t a, const Allocation& allocation) { return a < allocation.begin; });
  if (at == allocations.begin()) return nullptr;
  --at;
  return addr < at->End() ? &*at : nullptr;
}

std::string DescribeAddress(uint64_t addr) {
  if (const Allocation* allocation = FindAllocation(addr)) {
    return Format("'%s' of rank %d + %llu", allocation->name.c_str(), allocation->rank,
                  static_cast<unsigned long long>(addr - allocation->begin));
  }
  for (const Allocation& allocation : TheEngine().allocations) {
    if (addr >= allocation.End() && addr < allocation.End() + kGuard) {
      return Format("%llu bytes past the end of '%s' of rank %d",
                    static_cast<unsigned long long>(addr - allocation.End()),
                    allocation.name.c_str(), allocation.rank);
    }
    if (addr < allocation.begin && addr + kGuard >= allocation.begin) {
      return Format("%llu bytes before '%s' of rank %d",
                    static_cast<unsigned long long>(allocation.begin - addr),
                    allocation.name.c_str(), allocation.rank);
    }
  }
  return Format("address 0x%llx, in no allocation", static_cast<unsigned long long>(addr));
}

static void CheckGlobal(const Core& core, const char* api, const Span& span, Where where) {
  const char* verb = span.write ? "write" : "read";
  const auto bytes = static_cast<unsigned long long>(span.End() - span.begin);
  const Allocation* allocation = FindAllocation(span.begin);
  if (allocation == nullptr) {
    Fail("address",
         Format("%s: %s of %llu bytes starts outside any allocation: %s", api, verb, bytes,
                DescribeAddress(span.begin).c_str()),
         where);
  }
  if (span.End() > allocation->End()) {
    Fail("address",
         Format("%s: %s of %llu bytes from %s ends %llu bytes past the allocation's %llu bytes",
                api, verb, bytes, DescribeAddress(span.begin).c_str(),
                static_cast<unsigned long long>(span.End() - allocation->End()),
                static_cast<unsigned long long>(allocation->bytes)),
         where);
  }
  if (span.limit != 0 && span.End() > span.limit) {
    Fail("address",
         Format("%s: %s of %llu bytes from %s ends %llu bytes past the GlobalTensor's size", api,
                verb, bytes, DescribeAddress(span.begin).c_str(),
                static_cast<unsigned long long>(span.End() - span.limit)),
         where);
  }
  if (allocation->rank != core.rank && !allocation->symmetric) {
    Fail("address",
         Format("%s: %s of %s, which is private to that rank", api, verb,
                DescribeAddress(span.begin).c_str()),
         where);
  }
  if (span.write && !allocation->writable) {
    Fail("address",
         Format("%s: write to %s, which is an input", api, DescribeAddress(span.begin).c_str()),
         where);
  }
}

static void CheckSpace(const Core& core, const char* api, Space space, Where where) {
  if (space == kSpaces) {
    Fail("unsupported", Format("%s: a tensor position that the model has no memory for", api),
         where);
  }
  if (core.aic == (space == kUb)) {
    Fail("core-kind",
         Format("%s: %s does not exist on an %s", api, SpaceName(space), core.aic ? "AIC" : "AIV"),
         where);
  }
}

void CheckSpan(const Core& core, const char* api, const Span& span, Where where) {
  if (span.space == kGm) return CheckGlobal(core, api, span, where);
  CheckSpace(core, api, span.space, where);
  const char* verb = span.write ? "write" : "read";
  const uint64_t capacity = TheEngine().limits.space_bytes[span.space];
  if (span.End() > capacity) {
    Fail("capacity",
         Format("%s: %s of %s bytes %llu to %llu, usable are %llu", api, verb,
                SpaceName(span.space), static_cast<unsigned long long>(span.begin),
                static_cast<unsigned long long>(span.End()),
                static_cast<unsigned long long>(capacity)),
         where);
  }
  if (span.End() > span.limit) {
    Fail("address",
         Format("%s: %s of %s bytes %llu to %llu, the tensor ends at %llu", api, verb,
                SpaceName(span.space), static_cast<unsigned long long>(span.begin),
                static_cast<unsigned long long>(span.End()),
                static_cast<unsigned long long>(span.limit)),
         where);
  }
}

void CheckAlignment(const char* api, const LocalRef& ref, uint32_t bytes, Where where) {
  if (ref.addr % bytes != 0) {
    Fail("alignment",
         Format("%s: %s address %u is not a multiple of %u", api, SpaceName(SpaceOf(ref.position)),
                ref.addr, bytes),
         where);
  }
}

void Model::CheckLocal(const LocalRef& tensor, uint64_t bytes, Where where) {
  const Core& core = *TheEngine().current;
  Span span = LocalSpan(tensor, false, bytes);
  span.limit = span.End();
  CheckSpan(core, "LocalTensor", span, where);
  CheckAlignment("LocalTensor", tensor, 32, where);
}

uint8_t* LocalData(Core& core, const LocalRef& ref) {
  const Space space = SpaceOf(ref.position);
  const uint64_t bytes = TheEngine().limits.space_bytes[space];
  if (core.memory[space] == nullptr) core.memory[space].reset(new uint8_t[bytes]);
  if (core.fresh[space]) {
    TheModel().Initialise(core.memory[space].get(), bytes);
    core.fresh[space] = false;
  }
  return core.memory[space].get() + ref.addr;
}

}  // namespace cpu_model
