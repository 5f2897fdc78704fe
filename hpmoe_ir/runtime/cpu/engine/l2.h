// The cache that all cores of a rank share: which bytes of memory it holds.
#ifndef CPU_MODEL_ENGINE_L2_H_
#define CPU_MODEL_ENGINE_L2_H_

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

namespace cpu_model {

// Of all lines that it holds, the one that was used longest ago leaves; of those last used by one
// piece of a touch, the one of the lowest address. A piece is what a touch uses of a block of
// kL2Lines lines. Pieces are written down one after the other; a line knows its last one.
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
  struct Piece {
    uint32_t block;
    uint32_t lines;  // a bit for each
  };
  struct Block {
    uint32_t held = 0;             // a bit for each line
    uint32_t dirty = 0;            // of these
    uint32_t used[kL2Lines] = {};  // of each held line, the number of the last piece
  };
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };

  uint64_t TouchBlock(uint32_t block, uint32_t first, uint32_t last, bool write);
  Block& BlockOf(uint32_t block);
  uint64_t Evict();
  uint32_t LastUsed(size_t piece) const;
  void ForgetPieces();

  uint64_t line_;
  uint64_t left_;  // lines that still fit
  std::vector<Piece> pieces_;
  size_t oldest_ = 0;              // all lines of pieces before it have left or were used again
  size_t most_ = size_t{1} << 16;  // pieces, before those of which nothing is left are sought
  std::vector<Block> blocks_;      // of which lines are held; the first is none
  std::vector<uint32_t> unused_;   // of blocks_
  // Where each block of memory is in blocks_. Zeroed pages take no memory until they are used.
  std::unique_ptr<uint32_t[], Free> where_;
};

}  // namespace cpu_model

#endif  // CPU_MODEL_ENGINE_L2_H_
