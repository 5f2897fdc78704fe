#include "l2.h"

#include <algorithm>
#include <cstdio>

namespace cpu_model {

L2::L2(uint64_t bytes, uint64_t line, uint64_t span)
    : line_(line), left_(std::max<uint64_t>(bytes / line, 1)), entries_(1) {
  const uint64_t blocks = span / (line * kL2Lines) + 1;
  first_.reset(static_cast<uint32_t*>(std::calloc(blocks, sizeof(uint32_t))));
  if (first_ == nullptr) {
    std::fprintf(stderr, "cpu model: no memory for the blocks of L2\n");
    std::exit(2);
  }
}

uint32_t L2::NewEntry(uint32_t block) {
  uint32_t at = unused_;
  if (at != 0) {
    unused_ = entries_[at].next;
  } else {
    at = static_cast<uint32_t>(entries_.size());
    entries_.emplace_back();
  }
  entries_[at] = {block, 0, 0, 0, 0, first_[block]};
  first_[block] = at;
  return at;
}

void L2::Unlink(uint32_t at) {
  const Entry& entry = entries_[at];
  entries_[entry.older].newer = entry.newer;
  entries_[entry.newer].older = entry.older;
}

// Gives back an entry without lines, which `link` leads to.
void L2::Drop(uint32_t at, uint32_t* link) {
  *link = entries_[at].next;
  entries_[at].next = unused_;
  unused_ = at;
}

uint64_t L2::Touch(uint64_t begin, uint64_t end, bool write) {
  uint64_t moved = 0;
  const uint64_t last = (end - 1) / line_;
  for (uint64_t line = begin / line_; line <= last;) {
    const uint64_t block = line / kL2Lines;
    const uint64_t stop = std::min(last, block * kL2Lines + kL2Lines - 1);
    const uint32_t count = static_cast<uint32_t>(stop - line + 1);
    const uint32_t lines = (~uint32_t{0} >> (kL2Lines - count)) << (line % kL2Lines);
    moved += TouchBlock(static_cast<uint32_t>(block), lines, write);
    line = stop + 1;
  }
  return moved;
}

uint64_t L2::TouchBlock(uint32_t block, uint32_t lines, bool write) {
  uint32_t missing = lines;
  uint32_t dirty = write ? lines : 0;
  uint32_t newest = 0;
  for (uint32_t* link = &first_[block]; *link != 0 && missing != 0;) {
    const uint32_t at = *link;
    Entry& entry = entries_[at];
    const uint32_t used = entry.held & lines;
    if (used == 0) {
      link = &entry.next;
      continue;
    }
    missing &= ~used;
    dirty |= entry.dirty & used;
    entry.held &= ~used;
    entry.dirty &= ~used;
    if (entry.held != 0) {
      link = &entry.next;
      continue;
    }
    Unlink(at);
    if (newest == 0) {
      newest = at;
      link = &entry.next;
    } else {
      Drop(at, link);
    }
  }
  if (newest == 0) newest = NewEntry(block);
  Entry& entry = entries_[newest];
  entry.held = lines;
  entry.dirty = dirty;
  entry.older = entries_[0].older;
  entry.newer = 0;
  entries_[entry.older].newer = newest;
  entries_[0].older = newest;
  const uint64_t fresh = static_cast<uint64_t>(__builtin_popcount(missing));
  uint64_t moved = write ? 0 : fresh * line_;
  if (fresh <= left_) {
    left_ -= fresh;
    return moved;
  }
  for (uint64_t over = fresh - left_; over > 0; --over) moved += Evict();
  left_ = 0;
  return moved;
}

// Bytes that are written back for the oldest line, which leaves.
uint64_t L2::Evict() {
  const uint32_t at = entries_[0].newer;
  Entry& entry = entries_[at];
  const uint32_t line = entry.held & -entry.held;
  const bool dirty = (entry.dirty & line) != 0;
  entry.held &= ~line;
  entry.dirty &= ~line;
  if (entry.held == 0) {
    Unlink(at);
    uint32_t* link = &first_[entry.block];
    while (*link != at) link = &entries_[*link].next;
    Drop(at, link);
  }
  return dirty ? line_ : 0;
}

}  // namespace cpu_model
