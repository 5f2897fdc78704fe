#include "recorder.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace cpu_model {

void Recorder::Start(int ranks, bool mirror, const Rates& rates) {
  mirror_ = mirror;
  rates_ = &rates;
  granule_ = static_cast<uint64_t>(rates.dma_granule);
  touches_.resize(kTouches);
  l2_.assign(static_cast<size_t>(ranks), L2(static_cast<uint64_t>(rates.l2_bytes)));
}

Recorder::Moved& Recorder::MovedOf(int rank) {
  for (Moved& moved : moved_) {
    if (moved.rank == rank) return moved;
  }
  moved_.push_back({rank, 0, 0, 0});
  return moved_.back();
}

void Recorder::TakeUses(int rank, std::vector<Use>& uses) {
  moved_.clear();
  for (const uint32_t at : used_) {
    const Touch& touch = touches_[at];
    const bool write = touch.key & 1;
    const uint64_t first = touch.key >> 32;
    const uint64_t count = (touch.key >> 1 & 0x7FFFFFFF) + 1;
    const int owner = static_cast<int>(first >> (bits_ - kL2BlockBits));
    Moved& moved = MovedOf(owner);
    (write ? moved.written : moved.read) += static_cast<double>(touch.bytes);
    const uint64_t each = std::max<uint64_t>(touch.bytes / count, 1);
    uint64_t memory = 0;
    const bool ghost = mirror_ && owner != rank;  // has no L2 of its own
    for (uint64_t block = first; !ghost && block < first + count; ++block) {
      memory += l2_[owner].Touch(static_cast<uint32_t>(block), each, write);
    }
    moved.memory += static_cast<double>(memory);
    touches_[at].bytes = 0;
  }
  used_.clear();
  double all = 0;
  for (const Moved& moved : moved_) all += moved.read + moved.written;
  uses.clear();
  for (const Moved& moved : moved_) {
    const double bytes = moved.read + moved.written;
    const int peer = mirror_ ? rank : moved.rank;
    uses.push_back({peer, kL2, bytes, bytes / all});
    if (moved.memory > 0) {
      uses.push_back({peer, kHbm, moved.memory, std::min(1.0, moved.memory / all)});
    }
    if (moved.rank == rank) continue;
    if (moved.written > 0) {
      uses.push_back({rank, kLinkOut, moved.written, 1});
      uses.push_back({peer, kLinkIn, moved.written, 1});
    }
    if (moved.read > 0) {
      uses.push_back({peer, kLinkOut, moved.read, 1});
      uses.push_back({rank, kLinkIn, moved.read, 1});
    }
  }
}

const Profile* Recorder::Take(int rank, std::vector<Use>& uses) {
  if (scalar_ >= 1) Add(StepKind::kScalar, 0, 0, 0);
  Profile& profile = profiles_[hash_];
  if (profile.count == 0) profile = MakeProfile(steps_, *rates_);
  if (profile.count != steps_.size()) {
    std::fprintf(stderr, "cpu model: two lists of operations have the same hash\n");
    std::exit(2);
  }
  TakeUses(rank, uses);
  Clear();
  return &profile;
}

void Recorder::Clear() {
  steps_.clear();
  hash_ = 0;
  scalar_ = 0;
  works_ = false;
  lead_ = 0;
}

}  // namespace cpu_model
