#include "model/pending.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <unordered_map>
#include <utility>

#include "model/model.h"
#include "model/observer.h"

namespace cpu_model {

// A DMA write leaves a core in bursts of at most this many bytes, split at multiples of it.
constexpr uint64_t kBurst = 512;
constexpr uint64_t kLine = 64;
// Delays are in API calls of all cores. This one is longer than any task: only a barrier ends it.
constexpr uint64_t kUntilBarrier = uint64_t{1} << 24;
constexpr uint64_t kRemote = 8;  // factor for writes to another rank's memory

struct Write {
  Core* core;
  pipe_t pipe;
  bool drained;
  bool atomic;
  DType type;
  uint64_t addr;
  std::vector<uint8_t> data;
  CacheEntry line;  // of a write-back, which has no `data`
  Where where;

  uint64_t Bytes() const { return data.empty() ? kLine : data.size(); }
};

// When a write lands, and its number among all writes.
using Key = std::pair<uint64_t, uint64_t>;

static bool weak = false;
static uint64_t weak_seed = 0;
static uint64_t count = 0;
static uint64_t skipped = 0;  // time that was skipped while no core could run
static std::map<Key, Write> writes;
static std::unordered_map<const Core*, std::multimap<uint64_t, Key>> by_address;

static uint64_t Hash(uint64_t value) {
  uint64_t z = value + 0x9E3779B97F4A7C15ull;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

void SetMemoryModel(bool is_weak, uint64_t seed) {
  weak = is_weak;
  weak_seed = Hash(seed ^ 0x7765616B6D656Dull);
}

static uint64_t Now() { return TheEngine().steps + skipped; }

// Which delay reveals most depends on the write: a late payload is read too early, but a late
// signal hides that it was sent too early. So most seeds do not delay writes that fit in a line, as
// signals do; of these some delay all others until a barrier, and some mix short and long delays.
// The sequence of random numbers is independent of the scheduler's.
static uint64_t Delay(const Core& core, uint64_t addr, uint64_t bytes) {
  enum Style : uint64_t { kMixed, kLatePayload, kMixedPayload, kNearlyStrong };
  const auto style = static_cast<Style>(weak_seed % 4);
  const uint64_t draw = Hash(weak_seed + ++count);
  const uint64_t soon = (draw >> 8) % 4;
  if (style == kNearlyStrong || (style != kMixed && bytes <= kLine)) return soon;
  const uint64_t kind = style == kLatePayload ? 0 : draw % 4;
  if (kind == 0) return kUntilBarrier + (draw >> 40);
  if (kind == 1) return soon;
  const uint64_t most = uint64_t{1} << (2 + (draw >> 8) % 11);
  const uint64_t delay = (draw >> 16) % most;
  const Allocation* allocation = FindAllocation(addr);
  return allocation != nullptr && allocation->rank != core.rank ? delay * kRemote : delay;
}

static void Announce(const Core& core, uint64_t addr, uint64_t bytes, Where where) {
  TheModel().WakeReaders(addr, addr + bytes);
  TheObserver().OnLanded(core, addr, bytes, where);
}

static void StoreLine(const Core& core, uint64_t line, const CacheEntry& entry, Where where) {
  uint8_t* memory = GlobalData(line);
  for (uint64_t i = 0; i < kLine; ++i) {
    if ((entry.dirty >> i & 1) == 0 && memory[i] != entry.base[i]) {
      FailAt("cache",
             Format("writing back the cache line of %s loses what another core wrote to %s since "
                    "the line was loaded",
                    DescribeAddress(line).c_str(), DescribeAddress(line + i).c_str()),
             where, &core);
    }
  }
  if (std::memcmp(memory, entry.data, kLine) == 0) return;
  std::memcpy(memory, entry.data, kLine);
  Announce(core, line, kLine, where);
}

static void Land(Key key);

// Lands what the core has written to these bytes before its write number `before`.
static void LandOlder(const Core& core, uint64_t begin, uint64_t end, uint64_t before) {
  auto& of_core = by_address[&core];
  while (true) {
    auto at = of_core.lower_bound(begin < kBurst ? 0 : begin - kBurst);
    for (; at != of_core.end() && at->first < end; ++at) {
      const Write& write = writes.at(at->second);
      if (at->second.second < before && write.addr + write.Bytes() > begin) break;
    }
    if (at == of_core.end() || at->first >= end) return;
    Land(at->second);
  }
}

static void Land(Key key) {
  const auto node = writes.extract(key);
  const Write& write = node.mapped();
  auto& of_core = by_address[write.core];
  for (auto at = of_core.lower_bound(write.addr);; ++at) {
    if (at->second != key) continue;
    of_core.erase(at);
    break;
  }
  LandOlder(*write.core, write.addr, write.addr + write.Bytes(), key.second);
  if (write.data.empty()) {
    StoreLine(*write.core, write.addr, write.line, write.where);
    return;
  }
  AtomicStore(write.atomic, write.type, GlobalData(write.addr), write.data.data(),
              write.data.size());
  Announce(*write.core, write.addr, write.data.size(), write.where);
}

static void Add(Write write) {
  const Key key = {Now() + Delay(*write.core, write.addr, write.Bytes()), count};
  by_address[write.core].emplace(write.addr, key);
  writes.emplace(key, std::move(write));
}

void WriteMemory(Core& core, pipe_t pipe, uint64_t addr, const uint8_t* data, uint64_t bytes,
                 Where where) {
  TheObserver().OnWrite(core, addr, bytes);
  if (!weak) {
    AtomicStore(core.atomic, core.atomic_type, GlobalData(addr), data, bytes);
    TheObserver().OnLanded(core, addr, bytes, where);
    return;
  }
  for (uint64_t at = 0; at < bytes;) {
    const uint64_t size = std::min(bytes - at, kBurst - (addr + at) % kBurst);
    Add({&core, pipe, false, core.atomic, core.atomic_type, addr + at,
         std::vector<uint8_t>(data + at, data + at + size), CacheEntry(), where});
    at += size;
  }
}

void WriteLine(Core& core, uint64_t line, const CacheEntry& entry, Where where) {
  if (!weak) {
    StoreLine(core, line, entry, where);
    return;
  }
  // The cache and the memory barrier are of the same pipe: nothing has to be drained.
  Add({&core, PIPE_S, true, false, DType::kInt8, line, {}, entry, where});
}

// Lands the writes of a core that `chosen` names, the oldest first.
template <class Chosen>
static void LandSome(const Core& core, const Chosen& chosen) {
  if (!weak) return;
  std::vector<Key> keys;
  for (const auto& [addr, key] : by_address[&core]) {
    if (chosen(writes.at(key))) keys.push_back(key);
  }
  std::sort(keys.begin(), keys.end());
  for (const Key& key : keys) {
    if (writes.count(key) != 0) Land(key);
  }
}

void SettleLine(Core& core, uint64_t line) {
  LandSome(core, [&](const Write& write) { return write.pipe == PIPE_S && write.addr == line; });
}

void DrainPipe(Core& core, pipe_t pipe) {
  if (!weak) return;
  for (const auto& [addr, key] : by_address[&core]) {
    Write& write = writes.at(key);
    if (pipe == PIPE_ALL || write.pipe == pipe) write.drained = true;
  }
}

void LandDrained(Core& core) {
  LandSome(core, [](const Write& write) { return write.drained; });
}

void LandOnRank(Core& core, pipe_t pipe) {
  LandSome(core, [&](const Write& write) {
    if (pipe != PIPE_ALL && write.pipe != pipe) return false;
    const Allocation* allocation = FindAllocation(write.addr);
    return allocation != nullptr && allocation->rank == core.rank;
  });
}

void LandRank(int rank) {
  for (const auto& core : TheEngine().cores) {
    if (core->rank == rank) LandSome(*core, [](const Write&) { return true; });
  }
}

void LandDue() {
  while (!writes.empty() && writes.begin()->first.first <= Now()) Land(writes.begin()->first);
}

bool LandNext() {
  if (writes.empty()) return false;
  const Key key = writes.begin()->first;
  skipped += key.first - std::min(key.first, Now());
  Land(key);
  return true;
}

}  // namespace cpu_model
