// The task table: queues, thresholds and sizes of one program, computed by the compiler. The host
// writes it before the first launch and nothing changes it later, so that its lines are right
// whenever they are loaded, once the kernel's start has dropped those of older memory.
#ifndef HPMOE_TABLE_H_
#define HPMOE_TABLE_H_

#include "hpmoe/cache.h"

namespace hpmoe {

constexpr uint32_t kTableMagic = 0x544D5048;  // "HPMT"
constexpr uint32_t kTableVersion = 1;

// Words of the header.
enum TableWord : uint32_t {
  kWordMagic = 0,
  kWordVersion = 1,
  kWordBytes = 2,
  kWordRanks = 3,
  kWordBlocks = 4,  // AIC workers; kAivPerAic as many AIV workers
  kWordFamilies = 5,
  kWordEvents = 6,
  kWordTasks = 7,
  kWordSizes = 8,  // byte offset of the sizes
  kWordSizeCount = 9,
  kWordThresholds = 10,  // byte offset of int32[events]
  kWordAicQueue = 11,    // byte offsets of the queue sections
  kWordAivQueue = 12,
  kWordCounters = 13,  // cache lines of the windows before the counters
  kWordChecksum = 14,
};

// A queue slot: the point of a family's grid in the lower kPointBits bits, the family above.
constexpr uint32_t kPointMask = (1u << kPointBits) - 1;

class Table {
 public:
  __aicore__ inline explicit Table(GM_ADDR image)
      : words_(reinterpret_cast<__gm__ uint32_t*>(image)) {}

  // Word `index` of the section that starts at byte `offset`.
  __aicore__ inline uint32_t Word(uint32_t index, uint32_t offset = 0) const {
    return ReadConstant(words_, index + offset / sizeof(uint32_t));
  }

 private:
  __gm__ uint32_t* words_;
};

}  // namespace hpmoe

#endif  // HPMOE_TABLE_H_
