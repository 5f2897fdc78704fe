// The cache that all cores of a rank share: which bytes of memory it holds.
#ifndef CPU_MODEL_ENGINE_CLOCKS_L2_H_
#define CPU_MODEL_ENGINE_CLOCKS_L2_H_

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

namespace cpu_model {

// `count` rows of memory of `bytes` each, from start to start `pitch` bytes apart.
struct Rows {
  uint64_t begin;
  uint64_t bytes;
  uint64_t pitch;
  uint64_t count;
  bool operator==(const Rows& other) const {
    return begin == other.begin && bytes == other.bytes && pitch == other.pitch &&
           count == other.count;
  }
};

// Least recently used: of all lines that it holds, the one that was used longest ago is evicted. A
// touch uses its lines row by row, in the order of their addresses, kL2Lines at a time before lines
// are evicted.
//
// Each line refers to its last touch, and a touch counts its lines. So a touch of the same rows as
// an earlier one whose lines are all present, and were not used since, only has to become the
// newest.
class L2 {
 public:
  static constexpr uint64_t kL2Lines = 32;  // aligned groups of lines

  // A cache of `bytes` with lines of `line` bytes, for addresses below `span`.
  L2(uint64_t bytes, uint64_t line, uint64_t span);

  // Bytes that go to or come from memory beyond the cache when the rows are read or written: lines
  // that are read and not present, and dirty lines that are evicted. A line that is written is not
  // read first.
  uint64_t Touch(const Rows& rows, bool write);
  // A touch that begins here follows soon. Changes speed only.
  void Prefetch(uint64_t begin) const { __builtin_prefetch(&last_[begin / line_], 1); }

 private:
  struct TouchRecord {
    Rows rows;
    bool written;
    uint32_t lines;  // for which it is the last touch
    uint32_t whole;  // `lines` at the end of the touch
    uint32_t older;  // records in the order of their touches
    uint32_t newer;
    // Lines before `next` of `row` were evicted or used again.
    uint64_t row;
    uint64_t next;
  };
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };

  static bool IsWhole(const TouchRecord& record, const Rows& rows, bool write);
  uint64_t TouchPart(uint32_t record, uint64_t first, uint64_t last, bool write);
  uint64_t Evict(uint64_t lines);
  uint32_t NewRecord(const Rows& rows, bool write);
  void Forget(uint32_t record);
  void Unlink(uint32_t record);
  void MakeNewest(uint32_t record);
  uint64_t FirstLine(const Rows& rows, uint64_t row) const;
  uint64_t LastLine(const Rows& rows, uint64_t row) const;

  uint64_t line_;
  uint64_t left_;                     // free lines
  std::vector<TouchRecord> records_;  // a ring; the first closes it
  std::vector<uint32_t> unused_;      // of records_
  // Of each line 0, or twice the record of its last touch, plus 1 where it was written. Zeroed
  // pages take no memory until they are used.
  std::unique_ptr<uint32_t[], Free> last_;
};

}  // namespace cpu_model

#endif  // CPU_MODEL_ENGINE_CLOCKS_L2_H_
