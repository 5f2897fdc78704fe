// Scalar accesses. Those of global memory go through the core's data cache, which is not coherent:
// a line keeps its content until it is cleaned and invalidated, and cleaning writes all of it back.
#include <algorithm>
#include <cstring>

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

static CacheEntry& Load(Core& core, uint64_t line, Where where) {
  auto at = core.cache.find(line);
  if (at != core.cache.end()) return at->second;
  if (core.cache.size() == kLines) Drop(core, core.cache_order.front(), where);
  SettleLine(core, line);
  CacheEntry& entry = core.cache[line];
  core.cache_order.push_back(line);
  std::memcpy(entry.data, GlobalData(line), kLine);
  std::memcpy(entry.base, entry.data, kLine);
  TheObserver().OnLoadLine(core, line, entry);
  return entry;
}

uint64_t Model::ReadGlobal(const GlobalRef& tensor, uint64_t offset, uint32_t bytes, Where where) {
  const uint64_t addr = tensor.addr + offset;
  Core& core =
      Enter("GetValue", PIPE_S, where, {GlobalSpan({addr, tensor.end}, false, bytes)}, true);
  CheckScalar("GetValue", addr, bytes, where);
  const uint64_t line = LineOf(addr);
  uint64_t value = 0;
  const CacheEntry& entry = Load(core, line, where);
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
