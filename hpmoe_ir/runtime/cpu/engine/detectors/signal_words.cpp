// Words that cores signal and poll: the order that signals carry, and two words in one cache line.
#include "detectors/conflict.h"
#include "detectors/shadow.h"

namespace cpu_model {

// The clocks that signals to the words of one cache line carry.
struct SignalLine {
  uint32_t version = 0;
  std::vector<std::pair<uint64_t, VectorClock>> words;  // by address
};

static std::unordered_map<uint64_t, SignalLine> signal_lines;  // by line

void ReleaseSignal(Core& core, Pipe pipe, uint64_t addr, Where where) {
  const VectorClock clock = Released(core, pipe, false);
  SignalLine& line = signal_lines[addr / 64];
  ++line.version;
  auto at = std::find_if(line.words.begin(), line.words.end(),
                         [addr](const auto& word) { return word.first == addr; });
  if (at == line.words.end()) {
    line.words.emplace_back(addr, clock);
  } else {
    Join(at->second, clock);
  }
  NoteSignalSent(core, where);
}

void AcquireLine(Core& core, uint64_t line) {
  const auto at = signal_lines.find(line / 64);
  if (at == signal_lines.end()) return;
  CoreOrder& order = OrderOf(core);
  if (order.line == line && order.line_version == at->second.version) return;
  order.line = line;
  order.line_version = at->second.version;
  for (const auto& word : at->second.words) Acquire(core, word.second);
}

VectorClock SignalsOf(uint64_t line) {
  VectorClock clock;
  const auto at = signal_lines.find(line / 64);
  if (at == signal_lines.end()) return clock;
  for (const auto& word : at->second.words) {
    clock.resize(word.second.size());
    Join(clock, word.second);
  }
  return clock;
}

void AcquireByCopy(Core& core, uint64_t addr) {
  const auto at = signal_lines.find(addr / 64);
  if (at == signal_lines.end()) return;
  CoreOrder& order = OrderOf(core);
  if (order.copied == 0) order.copied_clock.assign(order.clock->size(), 0);
  order.copied = order.issued[kMte2];
  for (const auto& word : at->second.words) Join(order.copied_clock, word.second);
}

// A word that is polled, or that cores signal.
struct Word {
  uint64_t addr = 0;
  bool polled = false;
  std::vector<CallRecord> signallers;  // at most two, of different cores
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
      for (const CallRecord& a : words[i].signallers) {
        for (const CallRecord& b : words[j].signallers) {
          if (a.core == b.core) continue;
          const Allocation& allocation = *FindAllocation(words[i].addr);
          const uint64_t offset = words[i].addr - allocation.begin;
          FailConflict("line",
                       Format("%s: the counter at %s shares a cache line with the counter at %s, "
                              "which %s signals: one counter a line of 64 bytes",
                              a.api, DescribeAddress(words[i].addr).c_str(),
                              DescribeAddress(words[j].addr).c_str(), DescribeCall(b).c_str()),
                       {&a, &b, &allocation, kGm, offset, offset + 4});
        }
      }
    }
  }
}

void NotePolledWord(uint64_t addr) {
  const auto at = lines.find(addr / 64);
  if (at != lines.end()) {
    for (const Word& word : at->second) {
      if (word.addr == addr && word.polled) return;
    }
  }
  WordAt(addr).polled = true;
  Check(addr);
}

void NoteSignalledWord(uint64_t addr, const CallRecord& call) {
  Word& word = WordAt(addr);
  for (const CallRecord& signaller : word.signallers) {
    if (signaller.core == call.core) return;
  }
  if (word.signallers.size() == 2) return;
  word.signallers.push_back(call);
  Check(addr);
}

}  // namespace cpu_model
