#include "clocks/recorder.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <tuple>

namespace cpu_model {

constexpr size_t kAhead = 8;  // pieces of look-ahead of the host's prefetch

void Recorder::Start(int ranks, bool mirror, const Rates& rates) {
  mirror_ = mirror;
  rates_ = &rates;
  granule_ = static_cast<uint64_t>(rates.dma_granule);
  ranks_ = ranks;
}

void Recorder::SetArena(uint64_t base, int bits) {
  base_ = base;
  bits_ = bits;
  for (int rank = 0; rank < ranks_; ++rank) {
    l2_.emplace_back(static_cast<uint64_t>(rates_->l2_bytes),
                     static_cast<uint64_t>(rates_->l2_line), uint64_t{1} << bits);
  }
}

Recorder::Moved& Recorder::MovedOf(int rank) {
  for (Moved& moved : moved_) {
    if (moved.rank == rank) return moved;
  }
  moved_.push_back({rank, 0, 0, 0});
  return moved_.back();
}

bool Recorder::Piece::operator<(const Piece& other) const {
  return std::tie(write, pitch, rows, begin, bytes) <
         std::tie(other.write, other.pitch, other.rows, other.begin, other.bytes);
}

bool Recorder::Piece::operator==(const Piece& other) const {
  return std::tie(write, pitch, rows, begin, bytes) ==
         std::tie(other.write, other.pitch, other.rows, other.begin, other.bytes);
}

void Recorder::ForgetEqualPieces() {
  std::sort(pieces_.begin(), pieces_.end());
  pieces_.erase(std::unique(pieces_.begin(), pieces_.end()), pieces_.end());
}

// Merges equal pieces, adjacent pieces, and the rows of a piece without gaps.
void Recorder::JoinPieces() {
  ForgetEqualPieces();
  size_t count = 0;
  for (const Piece& piece : pieces_) {
    Piece* last = count == 0 ? nullptr : &pieces_[count - 1];
    if (last != nullptr && last->write == piece.write && last->pitch == piece.pitch) {
      if (last->rows == piece.rows && last->begin + last->bytes == piece.begin &&
          (piece.pitch == 0 || last->bytes + piece.bytes <= piece.pitch)) {
        last->bytes += piece.bytes;
        continue;
      }
    }
    pieces_[count++] = piece;
  }
  pieces_.resize(count);
  for (Piece& piece : pieces_) {
    if (piece.bytes != piece.pitch) continue;
    piece.bytes *= piece.rows;
    piece.pitch = 0;
    piece.rows = 1;
  }
}

void Recorder::TakeUses(int rank, std::vector<ResourceUse>& uses) {
  JoinPieces();
  for (size_t i = 0; i < pieces_.size(); ++i) {
    const Piece& piece = pieces_[i];
    const int owner = RankOf(piece.begin);
    if (mirror_ && owner != rank) continue;  // has no L2 of its own
    if (i + kAhead < pieces_.size()) {
      const uint64_t begin = pieces_[i + kAhead].begin;
      if (!mirror_ || RankOf(begin) == rank) l2_[RankOf(begin)].Prefetch(AtHome(begin) - base_);
    }
    const Rows rows = {AtHome(piece.begin) - base_, piece.bytes, piece.pitch, piece.rows};
    MovedOf(owner).memory += static_cast<double>(l2_[owner].Touch(rows, piece.write));
  }
  pieces_.clear();
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
  moved_.clear();
}

const Profile* Recorder::Take(int rank, std::vector<ResourceUse>& uses) {
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
