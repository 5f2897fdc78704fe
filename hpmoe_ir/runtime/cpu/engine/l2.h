// The cache that all cores of a rank share: which bytes of memory it holds.
#ifndef CPU_MODEL_ENGINE_L2_H_
#define CPU_MODEL_ENGINE_L2_H_

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

namespace cpu_model {

// Of all lines that it holds, the one that was used longest ago leaves; of those last used by one
// piece of a touch, the one of the lowest address. Lines used together lie in one entry of the list
// by age, so a touch costs a step for each kL2Lines of them.
class L2 {
 public:
  static constexpr int kL2Lines = 32;  // of a block

  // A cache of `bytes` with lines of `line` bytes, for addresses below `span`.
  L2(uint64_t bytes, uint64_t line, uint64_t span);

  // Bytes that go to or come from memory beyond the cache when begin .. end - 1 are read or
  // written: lines that are read and are not there, and written lines that have to leave. A line
  // that is written is not read before.
  uint64_t Touch(uint64_t begin, uint64_t end, bool write);

 private:
  // Lines of a block that were last used at one time.
  struct Entry {
    uint32_t block = 0;
    uint32_t held = 0;   // a bit for each line
    uint32_t dirty = 0;  // of these
    uint32_t older = 0;
    uint32_t newer = 0;
    uint32_t next = 0;  // of the same block
  };
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };

  uint64_t TouchBlock(uint32_t block, uint32_t lines, bool write);
  uint64_t Evict();
  uint32_t NewEntry(uint32_t block);
  void Unlink(uint32_t at);
  void Drop(uint32_t at, uint32_t* link);

  uint64_t line_;
  uint64_t left_;               // lines that still fit
  std::vector<Entry> entries_;  // entry 0: end of the list by age; `newer` is the oldest
  uint32_t unused_ = 0;         // entries that may be taken again, by `next`
  // Of each block the first entry, 0 for none. Zeroed pages take no memory until they are used.
  std::unique_ptr<uint32_t[], Free> first_;
};

}  // namespace cpu_model

#endif  // CPU_MODEL_ENGINE_L2_H_
