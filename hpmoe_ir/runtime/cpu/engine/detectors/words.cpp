// Counters: what signals carry from core to core, and two counters in one cache line.
#include "detectors/shadow.h"

namespace cpu_model {

// What the signals sent to the counters of one cache line carry.
struct CounterLine {
  uint32_t version = 0;
  std::vector<std::pair<uint64_t, Clock>> words;  // by address
};

static std::unordered_map<uint64_t, CounterLine> counters;  // by line

void ReleaseCounter(Core& core, Pipe pipe, uint64_t addr, Where where) {
  const Clock clock = Released(core, pipe, false);
  CounterLine& line = counters[addr / 64];
  ++line.version;
  auto at = std::find_if(line.words.begin(), line.words.end(),
                         [addr](const auto& counter) { return counter.first == addr; });
  if (at == line.words.end()) {
    line.words.emplace_back(addr, clock);
  } else {
    Join(at->second, clock);
  }
  NoteRelease(core, where);
}

void AcquireLine(Core& core, uint64_t line) {
  const auto at = counters.find(line / 64);
  if (at == counters.end()) return;
  CoreOrder& order = OrderOf(core);
  if (order.line == line && order.line_version == at->second.version) return;
  order.line = line;
  order.line_version = at->second.version;
  for (const auto& counter : at->second.words) Acquire(core, counter.second);
}

void AcquireByCopy(Core& core, uint64_t addr) {
  const auto at = counters.find(addr / 64);
  if (at == counters.end()) return;
  CoreOrder& order = OrderOf(core);
  if (order.copied == 0) order.copied_clock.assign(order.clock->size(), 0);
  order.copied = order.issued[kMte2];
  for (const auto& counter : at->second.words) Join(order.copied_clock, counter.second);
}

// A word that is polled, or that cores add to.
struct Word {
  uint64_t addr = 0;
  bool polled = false;
  std::vector<Op> adders;  // at most two, of different cores
};
static std::unordered_map<uint64_t, std::vector<Word>> lines;

static Word& WordAt(uint64_t addr) {
  std::vector<Word>& words = lines[addr / 64];
  for (Word& word : words) {
    if (word.addr == addr) return word;
  }
  words.emplace_back();
  words.back().addr = addr;
  return words.back();
}

static void Check(uint64_t addr) {
  const std::vector<Word>& words = lines[addr / 64];
  for (size_t i = 0; i < words.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (!words[i].polled || !words[j].polled) continue;
      for (const Op& a : words[i].adders) {
        for (const Op& b : words[j].adders) {
          if (a.core == b.core) continue;
          const Region& region = *FindRegion(words[i].addr);
          const uint64_t offset = words[i].addr - region.begin;
          FailConflict("line",
                       Format("%s: the counter at %s shares a cache line with the counter at %s, "
                              "which %s signals: one counter a line of 64 bytes",
                              a.api, DescribeAddress(words[i].addr).c_str(),
                              DescribeAddress(words[j].addr).c_str(), DescribeOp(b).c_str()),
                       {&a, &b, &region, kGm, offset, offset + 4});
        }
      }
    }
  }
}

void NoteWordRead(Core&, uint64_t addr, const Op&) {
  const auto at = lines.find(addr / 64);
  if (at != lines.end()) {
    for (const Word& word : at->second) {
      if (word.addr == addr && word.polled) return;
    }
  }
  WordAt(addr).polled = true;
  Check(addr);
}

void NoteWordAdd(uint64_t addr, const Op& op) {
  Word& word = WordAt(addr);
  for (const Op& adder : word.adders) {
    if (adder.core == op.core) return;
  }
  if (word.adders.size() == 2) return;
  word.adders.push_back(op);
  Check(addr);
}

}  // namespace cpu_model
