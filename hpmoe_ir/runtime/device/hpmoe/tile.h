// Operands of tile kernels: views of rows in global memory, and the arithmetic that cuts rows into
// chunks and blocks.
#ifndef HPMOE_TILE_H_
#define HPMOE_TILE_H_

#include "kernel_operator.h"

namespace hpmoe {

// A view of part of a row-major buffer. `first`: index of its first row in the buffer.
template <typename T>
struct Tile {
  __gm__ T* data;
  uint32_t rows;
  uint32_t cols;
  uint32_t pitch;  // elements from one row to the next
  uint32_t first;
};

// Consecutive rows of a buffer.
struct Rows {
  uint32_t begin;
  uint32_t count;
};

__aicore__ inline uint32_t CeilDiv(uint32_t n, uint32_t d) { return (n + d - 1) / d; }
__aicore__ inline uint32_t RoundUp(uint32_t n, uint32_t unit) { return CeilDiv(n, unit) * unit; }
__aicore__ inline uint32_t RoundDown(uint32_t n, uint32_t unit) { return n / unit * unit; }
__aicore__ inline uint32_t Min(uint32_t a, uint32_t b) { return a < b ? a : b; }
__aicore__ inline uint32_t Max(uint32_t a, uint32_t b) { return a < b ? b : a; }

// Traps unless a kernel's precondition holds; wrong arguments are never clipped or skipped.
__aicore__ inline void Require(bool holds) {
  if (!holds) AscendC::Trap();
}

// Chunk c of `chunks` chunks of `rows`; each but the last non-empty one has a multiple of `align`
// rows.
__aicore__ inline Rows Chunk(const Rows& rows, uint32_t c, uint32_t chunks, uint32_t align) {
  const uint32_t size = RoundUp(CeilDiv(rows.count, chunks), align);
  const uint32_t begin = Min(c * size, rows.count);
  const uint32_t end = Min(begin + size, rows.count);
  return {rows.begin + begin, end - begin};
}

// The tile of `rows` and of `cols` columns from `column` on, in a buffer that starts at `base`.
template <typename T>
__aicore__ inline Tile<T> Slice(__gm__ T* base, uint32_t pitch, const Rows& rows, uint32_t column,
                                uint32_t cols) {
  return {base + static_cast<uint64_t>(rows.begin) * pitch + column, rows.count, cols, pitch,
          rows.begin};
}

// The tile of a whole buffer of `rows` rows without gaps.
template <typename T>
__aicore__ inline Tile<T> Whole(__gm__ T* base, uint32_t rows, uint32_t cols) {
  return {base, rows, cols, cols, 0};
}

// A tile cut into blocks of at most block_rows x block_cols, which are numbered row by row.
struct Blocks {
  uint32_t rows;
  uint32_t cols;
  uint32_t block_rows;
  uint32_t block_cols;

  struct Block {
    uint32_t row;
    uint32_t column;
    uint32_t rows;
    uint32_t cols;
  };

  __aicore__ inline uint32_t Count() const {
    return CeilDiv(rows, block_rows) * CeilDiv(cols, block_cols);
  }
  __aicore__ inline Block At(uint32_t i) const {
    const uint32_t across = CeilDiv(cols, block_cols);
    const uint32_t row = i / across * block_rows;
    const uint32_t column = i % across * block_cols;
    return {row, column, Min(block_rows, rows - row), Min(block_cols, cols - column)};
  }
};

}  // namespace hpmoe

#endif  // HPMOE_TILE_H_
