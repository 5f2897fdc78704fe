// The cache that all cores of a rank share: which blocks of memory it holds.
#ifndef CPU_MODEL_ENGINE_L2_H_
#define CPU_MODEL_ENGINE_L2_H_

#include <cstdint>
#include <unordered_map>
#include <vector>

namespace cpu_model {

constexpr int kL2BlockBits = 16;
constexpr uint64_t kL2Block = uint64_t{1} << kL2BlockBits;  // bytes

// Least recently used blocks leave. Of a block only the number of bytes is known that were used:
// until all were, each use is taken to be of others.
class L2 {
 public:
  explicit L2(uint64_t bytes) : slots_(bytes / kL2Block) {}

  // Bytes that go to or come from memory beyond the cache when `bytes` of a block are read or
  // written: what is read and is not there, and what was written to a block that has to leave.
  uint64_t Touch(uint32_t block, uint64_t bytes, bool write);

 private:
  struct Slot {
    uint32_t block = 0;
    uint32_t held = 0;   // bytes
    uint32_t dirty = 0;  // bytes of these
    uint32_t older = 0;
    uint32_t newer = 0;
  };
  void Unlink(uint32_t at);
  void MakeNewest(uint32_t at);

  std::vector<Slot> slots_;
  uint32_t used_ = 0;
  uint32_t oldest_ = 0;
  uint32_t newest_ = 0;
  std::unordered_map<uint32_t, uint32_t> where_;
};

}  // namespace cpu_model

#endif  // CPU_MODEL_ENGINE_L2_H_
