#include "l2.h"

#include <algorithm>
#include <cstdio>

namespace cpu_model {

constexpr uint32_t kAllLines = ~uint32_t{0};

L2::L2(uint64_t bytes, uint64_t line, uint64_t span)
    : line_(line), left_(std::max<uint64_t>(bytes / line, 1)), blocks_(1) {
  const uint64_t blocks = span / (line * kL2Lines) + 1;
  where_.reset(static_cast<uint32_t*>(std::calloc(blocks, sizeof(uint32_t))));
  if (where_ == nullptr) {
    std::fprintf(stderr, "cpu model: no memory for the blocks of L2\n");
    std::exit(2);
  }
}

uint64_t L2::Touch(uint64_t begin, uint64_t end, bool write) {
  uint64_t moved = 0;
  const uint64_t last = (end - 1) / line_;
  for (uint64_t line = begin / line_; line <= last;) {
    const uint64_t block = line / kL2Lines;
    const uint64_t stop = std::min(last, block * kL2Lines + kL2Lines - 1);
    moved += TouchBlock(static_cast<uint32_t>(block), line % kL2Lines, stop % kL2Lines, write);
    line = stop + 1;
  }
  return moved;
}

L2::Block& L2::BlockOf(uint32_t block) {
  uint32_t& at = where_[block];
  if (at == 0 && unused_.empty()) {
    at = static_cast<uint32_t>(blocks_.size());
    blocks_.emplace_back();
  } else if (at == 0) {
    at = unused_.back();
    unused_.pop_back();
  }
  return blocks_[at];
}

uint64_t L2::TouchBlock(uint32_t block, uint32_t first, uint32_t last, bool write) {
  if (pieces_.size() >= most_) ForgetPieces();
  const uint32_t lines = (kAllLines >> (kL2Lines - 1 - (last - first))) << first;
  Block& of = BlockOf(block);
  const uint64_t fresh = static_cast<uint64_t>(__builtin_popcount(lines & ~of.held));
  of.held |= lines;
  if (write) of.dirty |= lines;
  for (uint32_t i = first; i <= last; ++i) of.used[i] = static_cast<uint32_t>(pieces_.size());
  pieces_.push_back({block, lines});
  uint64_t moved = write ? 0 : fresh * line_;
  for (uint64_t over = fresh; over > left_; --over) moved += Evict();
  left_ -= std::min(left_, fresh);
  return moved;
}

// Of the lines of a piece those that are held and were not used since.
uint32_t L2::LastUsed(size_t piece) const {
  const Block& of = blocks_[where_[pieces_[piece].block]];
  uint32_t found = 0;
  for (uint32_t left = pieces_[piece].lines & of.held; left != 0; left &= left - 1) {
    if (of.used[__builtin_ctz(left)] == piece) found |= left & -left;
  }
  return found;
}

// Bytes that are written back for the oldest line, which leaves.
uint64_t L2::Evict() {
  uint32_t lines = 0;
  while ((lines = LastUsed(oldest_)) == 0) ++oldest_;
  const uint32_t line = lines & -lines;
  const uint32_t block = pieces_[oldest_].block;
  Block& of = blocks_[where_[block]];
  const bool dirty = (of.dirty & line) != 0;
  of.held &= ~line;
  of.dirty &= ~line;
  if (of.held == 0) {
    unused_.push_back(where_[block]);
    where_[block] = 0;
  }
  return dirty ? line_ : 0;
}

// Numbers the pieces anew, without those of which no line is left.
void L2::ForgetPieces() {
  uint32_t count = 0;
  for (size_t i = oldest_; i < pieces_.size(); ++i) {
    const uint32_t lines = LastUsed(i);
    if (lines == 0) continue;
    const uint32_t block = pieces_[i].block;
    for (uint32_t left = lines; left != 0; left &= left - 1) {
      blocks_[where_[block]].used[__builtin_ctz(left)] = count;
    }
    pieces_[count++] = {block, lines};
  }
  pieces_.resize(count);
  oldest_ = 0;
  most_ = std::max(size_t{1} << 16, 2 * pieces_.size());
}

}  // namespace cpu_model
