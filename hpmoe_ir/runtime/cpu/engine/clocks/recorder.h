// The operations of the running core since its last synchronisation point.
#ifndef CPU_MODEL_ENGINE_CLOCKS_RECORDER_H_
#define CPU_MODEL_ENGINE_CLOCKS_RECORDER_H_

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "clocks/fluid.h"
#include "clocks/l2.h"
#include "clocks/profile.h"

namespace cpu_model {

class Recorder {
 public:
  // mirror: a rank receives what it sends, so traffic to a peer is charged to the rank itself.
  void Start(int ranks, bool mirror, const Rates& rates);

  void AddScalar(double cycles) { scalar_ += cycles; }
  double scalar() const { return scalar_; }
  bool empty() const { return steps_.empty(); }
  // Whether anything but flags and barriers was recorded, and the scalar cycles before that.
  bool works() const { return works_; }
  double lead() const { return lead_; }

  void Add(StepKind kind, int pipes, int flag, uint64_t size) {
    const uint32_t scalar = static_cast<uint32_t>(scalar_);
    scalar_ = 0;
    timed_ = true;
    steps_.emplace_back(scalar, kind, pipes, flag, size);
    if (!works_) {
      lead_ += scalar;
      works_ = kind < StepKind::kSet;
    }
    const unsigned __int128 product =
        static_cast<unsigned __int128>(hash_ ^ steps_.back().head() ^ 0x9E3779B97F4A7C15ull) *
        (size ^ (hash_ << 32 | hash_ >> 32) ^ 0xBF58476D1CE4E5B9ull);
    hash_ = static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
  }

  // Traffic of an operation with global memory: `rows` pieces of `bytes`, `pitch` bytes apart.
  // Returns the bytes that are moved, whole granules.
  uint64_t Traffic(uint64_t begin, uint64_t rows, uint64_t bytes, uint64_t pitch, bool write) {
    const uint64_t moved = rows * ((bytes + granule_ - 1) / granule_ * granule_);
    Moved& of_owner = MovedOf(RankOf(begin));
    (write ? of_owner.written : of_owner.read) += static_cast<double>(moved);
    if (rows == 1 || pitch == bytes) {
      pieces_.push_back({begin, rows * bytes, 0, 1, write});
    } else {
      pieces_.push_back({begin, bytes, pitch, rows, write});
    }
    if (pieces_.size() >= kPieces) ForgetEqualPieces();
    return moved;
  }

  // Where the memories of all ranks lie: rank r at base + (r << bits).
  void SetArena(uint64_t base, int bits);
  // The same place in the memory of rank 0.
  uint64_t AtHome(uint64_t addr) const { return base_ + ((addr - base_) & ((1ull << bits_) - 1)); }
  int RankOf(uint64_t addr) const { return static_cast<int>((addr - base_) >> bits_); }
  uint64_t base() const { return base_; }
  int bits() const { return bits_; }

  // Whether anything was recorded since the last time this was asked.
  bool TakeTimed() {
    const bool timed = timed_;
    timed_ = false;
    return timed;
  }
  void SetTimed() { timed_ = true; }

  // The profile of what was recorded, and what it uses, on a core of `rank`; forgets it.
  const Profile* Take(int rank, std::vector<ResourceUse>& uses);
  void Clear();

 private:
  // Rows of memory that an operation uses.
  struct Piece {
    uint64_t begin;
    uint64_t bytes;  // of a row
    uint64_t pitch;  // from row to row; 0 where there is one row
    uint64_t rows;
    bool write;
    bool operator<(const Piece& other) const;
    bool operator==(const Piece& other) const;
  };
  struct Moved {
    int rank;
    double read, written, memory;
  };
  // Pieces between two synchronisation points after which equal ones are merged.
  static constexpr size_t kPieces = size_t{1} << 16;

  Moved& MovedOf(int rank);
  void ForgetEqualPieces();
  void JoinPieces();
  void TakeUses(int rank, std::vector<ResourceUse>& uses);

  const Rates* rates_ = nullptr;
  std::vector<Step> steps_;
  uint64_t hash_ = 0;
  double scalar_ = 0;
  bool works_ = false;
  double lead_ = 0;
  bool mirror_ = false;
  bool timed_ = false;
  uint64_t granule_ = 1;
  uint64_t base_ = 0;
  int bits_ = 0;
  std::vector<Piece> pieces_;
  std::vector<Moved> moved_;
  int ranks_ = 0;
  std::vector<L2> l2_;  // of each rank
  std::unordered_map<uint64_t, Profile> profiles_;
};

}  // namespace cpu_model

#endif  // CPU_MODEL_ENGINE_CLOCKS_RECORDER_H_
