// Scalar accesses. Those of global memory go through the core's data cache, which is not coherent:
// a line keeps its content until it is cleaned and invalidated, and cleaning writes all of it back.
#include "model/cache.h"

#include <algorithm>
#include <cstring>
#include <unordered_set>

#include "model/model.h"
#include "model/observer.h"
#include "model/pending.h"

namespace cpu_model {

constexpr uint64_t kLine = 64;
constexpr size_t kLines = 512;  // 32 KB

static uint64_t LineOf(uint64_t addr) { return addr / kLine * kLine; }

static void CheckScalar(const char* api, uint64_t addr, uint32_t bytes, Where where) {
  if (addr % bytes != 0) {
    Fail("alignment",
         Format("%s: a scalar of %u bytes at %s is not aligned to its size", api, bytes,
                DescribeAddress(addr).c_str()),
         where);
  }
}

static bool IsPattern(uint64_t value, uint32_t bytes) {
  const uint64_t wide = uint64_t{kPattern} << 32 | kPattern;
  return (bytes == 4 && value == kPattern) || (bytes == 8 && value == wide);
}

static void Drop(Core& core, uint64_t line, Where where) {
  auto at = core.cache.find(line);
  if (at == core.cache.end()) return;
  if (at->second.dirty != 0) {
    TheObserver().OnWriteBack(core, line, at->second);
    --core.dirty_lines;
    WriteLine(core, line, at->second, where);
  }
  core.cache.erase(at);
  core.cache_order.erase(std::find(core.cache_order.begin(), core.cache_order.end(), line));
}

static CacheEntry& Fill(Core& core, uint64_t line, Where where) {
  if (core.cache.size() == kLines) Drop(core, core.cache_order.front(), where);
  SettleLine(core, line);
  CacheEntry& entry = core.cache[line];
  core.cache_order.push_back(line);
  std::memcpy(entry.data, GlobalData(line), kLine);
  std::memcpy(entry.base, entry.data, kLine);
  return entry;
}

static CacheEntry& Load(Core& core, uint64_t line, Where where) {
  auto at = core.cache.find(line);
  if (at != core.cache.end()) return at->second;
  CacheEntry& entry = Fill(core, line, where);
  TheObserver().OnLoadLine(core, line, entry);
  return entry;
}

// The lines that may be filled early, of one rank.
struct Candidates {
  std::vector<uint64_t> lines;
  std::unordered_set<uint64_t> known;

  void Add(uint64_t line) {
    if (known.insert(line).second) lines.push_back(line);
  }
};

static bool early = false;
static uint64_t early_state = 0;
static std::vector<Candidates> candidates;  // by rank

static uint64_t EarlyRandom() {
  uint64_t z = (early_state += 0x9E3779B97F4A7C15ull);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

void SetEarlyFills(bool on, uint64_t seed) {
  early = on;
  early_state = seed ^ 0x6561726C79ull;
  candidates.resize(TheEngine().ranks);
}

static void NoteScalarRead(const Core& core, uint64_t line) {
  if (!early) return;
  candidates[core.rank].Add(line);
  candidates[core.rank].Add(line + kLine);
}

void FillEarly(Core& core) {
  if (!early) return;
  constexpr uint64_t kEvery = 4;  // calls
  const std::vector<uint64_t>& lines = candidates[core.rank].lines;
  const uint64_t draw = EarlyRandom();
  if (lines.empty() || draw % kEvery != 0) return;
  const uint64_t line = lines[(draw >> 8) % lines.size()];
  // The line after the last one of an allocation, or one of an allocation that is gone.
  const Allocation* allocation = FindAllocation(line);
  if (allocation == nullptr || line + kLine > allocation->begin + allocation->bytes) return;
  if (core.cache.count(line) != 0) return;
  TheObserver().OnFillEarly(core, line, Fill(core, line, core.where));
}

uint64_t Model::ReadGlobal(const GlobalRef& tensor, uint64_t offset, uint32_t bytes, Where where) {
  const uint64_t addr = tensor.addr + offset;
  Core& core =
      Enter("GetValue", PIPE_S, where, {GlobalSpan({addr, tensor.end}, false, bytes)}, true);
  CheckScalar("GetValue", addr, bytes, where);
  const uint64_t line = LineOf(addr);
  uint64_t value = 0;
  const CacheEntry& entry = Load(core, line, where);
  NoteScalarRead(core, line);
  std::memcpy(&value, entry.data + (addr - line), bytes);
  TheObserver().OnScalarRead(core, "GetValue", addr, bytes, &entry, where);
  if (IsPattern(value, bytes)) {
    Fail("uninitialised", Format("GetValue: %s was never written", DescribeAddress(addr).c_str()),
         where);
  }
  NotePoll(core, addr, 0, bytes, value, where);
  return value;
}

void Model::WriteGlobal(const GlobalRef& tensor, uint64_t offset, uint32_t bytes, uint64_t value,
                        Where where) {
  const uint64_t addr = tensor.addr + offset;
  // The write reaches memory, and readers wake, when the line is written back.
  Core& core = Enter("SetValue", PIPE_S, where, {});
  CheckSpan(core, "SetValue", GlobalSpan({addr, tensor.end}, true, bytes), where);
  CheckScalar("SetValue", addr, bytes, where);
  const uint64_t line = LineOf(addr);
  CacheEntry& entry = Load(core, line, where);
  std::memcpy(entry.data + (addr - line), &value, bytes);
  if (entry.dirty == 0) ++core.dirty_lines;
  entry.dirty_where = where;
  entry.dirty |= ((uint64_t{1} << bytes) - 1) << (addr - line);
}

void Model::CleanCache(const GlobalRef& tensor, bool whole_cache, Where where) {
  Core& core = Enter("DataCacheCleanAndInvalid", PIPE_S, where, {}, true);
  if (whole_cache) {
    while (!core.cache_order.empty()) Drop(core, core.cache_order.back(), where);
    return;
  }
  Span span = GlobalSpan(tensor, false, 1);
  CheckSpan(core, "DataCacheCleanAndInvalid", span, where);
  Drop(core, LineOf(tensor.addr), where);
}

uint64_t Model::ReadLocal(const LocalRef& tensor, uint64_t offset, uint32_t bytes, Where where) {
  LocalRef at = tensor;
  at.addr += static_cast<uint32_t>(offset);
  Span span = LocalSpan(tensor, false, bytes);
  span.begin = at.addr;
  Core& core = Enter("GetValue", PIPE_S, where, {span}, true);
  if (span.space != kUb) Unsupported("scalar access to local memory other than UB", where);
  CheckAlignment("GetValue", at, bytes, where);
  uint64_t value = 0;
  std::memcpy(&value, LocalData(core, at), bytes);
  if (IsPattern(value, bytes)) {
    Fail("uninitialised", Format("GetValue: UB byte %u was never written", at.addr), where);
  }
  return value;
}

void Model::WriteLocal(const LocalRef& tensor, uint64_t offset, uint32_t bytes, uint64_t value,
                       Where where) {
  LocalRef at = tensor;
  at.addr += static_cast<uint32_t>(offset);
  Span span = LocalSpan(tensor, true, bytes);
  span.begin = at.addr;
  Core& core = Enter("SetValue", PIPE_S, where, {span});
  if (span.space != kUb) Unsupported("scalar access to local memory other than UB", where);
  CheckAlignment("SetValue", at, bytes, where);
  std::memcpy(LocalData(core, at), &value, bytes);
}

}  // namespace cpu_model
