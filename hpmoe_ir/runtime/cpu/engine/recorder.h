// The operations of the core that is running, since it last met others.
#ifndef CPU_MODEL_ENGINE_RECORDER_H_
#define CPU_MODEL_ENGINE_RECORDER_H_

#include <cstring>
#include <unordered_map>
#include <vector>

#include "fluid.h"
#include "l2.h"
#include "profile.h"

namespace cpu_model {

class Recorder {
 public:
  // mirror: what goes to another rank also comes from one, so it counts for the own.
  void Start(int ranks, bool mirror, const Rates& rates);

  void Scalar(double cycles) { scalar_ += cycles; }
  double scalar() const { return scalar_; }
  bool empty() const { return steps_.empty(); }
  // Whether anything but flags and barriers is there, and the scalar cycles before it.
  bool works() const { return works_; }
  double lead() const { return lead_; }

  void Add(StepKind kind, int pipes, int flag, uint64_t size) {
    const uint32_t scalar = static_cast<uint32_t>(scalar_);
    scalar_ = 0;
    timed_ = true;
    steps_.push_back(
        {scalar, kind, static_cast<uint8_t>(pipes), static_cast<uint16_t>(flag), size});
    if (!works_) {
      lead_ += scalar;
      works_ = kind < StepKind::kSet;
    }
    uint64_t word;
    std::memcpy(&word, &steps_.back(), sizeof(word));
    const unsigned __int128 product =
        static_cast<unsigned __int128>(hash_ ^ word ^ 0x9E3779B97F4A7C15ull) *
        (size ^ (hash_ << 32 | hash_ >> 32) ^ 0xBF58476D1CE4E5B9ull);
    hash_ = static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
  }

  // Traffic of an operation with global memory: `rows` pieces of `bytes` between begin and end.
  // Returns the bytes that are moved, whole granules.
  uint64_t Traffic(uint64_t begin, uint64_t end, uint64_t rows, uint64_t bytes, bool write) {
    const uint64_t moved = rows * ((bytes + granule_ - 1) / granule_ * granule_);
    const uint64_t first = (begin - base_) >> kL2BlockBits;
    const uint64_t last = (end - 1 - base_) >> kL2BlockBits;
    const uint64_t key = (first << 31 | (last - first)) << 1 | write;
    uint64_t at = key * 0x9E3779B97F4A7C15ull >> (64 - kTouchBits);
    while (touches_[at].bytes != 0 && touches_[at].key != key) at = (at + 1) & (kTouches - 1);
    if (touches_[at].bytes == 0) {
      touches_[at].key = key;
      used_.push_back(static_cast<uint32_t>(at));
    }
    touches_[at].bytes += moved;
    return moved;
  }
  bool crowded() const { return used_.size() > kTouches / 2; }

  // Where the memories of all ranks lie: rank r at base + (r << bits).
  void SetArena(uint64_t base, int bits) {
    base_ = base;
    bits_ = bits;
  }
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
  const Profile* Take(int rank, std::vector<Use>& uses);
  void Clear();

 private:
  struct Touch {
    uint64_t key = 0;
    uint64_t bytes = 0;
  };
  struct Moved {
    int rank;
    double read, written, memory;
  };
  static constexpr int kTouchBits = 16;
  static constexpr uint64_t kTouches = uint64_t{1} << kTouchBits;

  Moved& MovedOf(int rank);
  void TakeUses(int rank, std::vector<Use>& uses);

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
  std::vector<Touch> touches_;
  std::vector<uint32_t> used_;
  std::vector<Moved> moved_;
  std::vector<L2> l2_;
  std::unordered_map<uint64_t, Profile> profiles_;
};

}  // namespace cpu_model

#endif  // CPU_MODEL_ENGINE_RECORDER_H_
