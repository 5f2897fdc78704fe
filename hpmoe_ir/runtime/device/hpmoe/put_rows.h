// CopyRows and GatherRows: rows from global memory through UB to global memory of this or of
// another rank.
#ifndef HPMOE_PUT_ROWS_H_
#define HPMOE_PUT_ROWS_H_

#include "hpmoe/local.h"
#include "hpmoe/tile.h"

namespace hpmoe {

namespace put_rows {
constexpr uint32_t kListBytes = 4096;  // row numbers of a gather
constexpr uint32_t kListWords = kListBytes / sizeof(int32_t);
constexpr uint32_t kSlabBytes = (kUbBytes - kListBytes) / 2 / kDataBlock * kDataBlock;

// The widest block of columns that a slab holds, and as many of its rows as fit.
template <typename T>
__aicore__ inline Blocks SlabBlocks(uint32_t rows, uint32_t cols) {
  const uint32_t width = Min(cols, kSlabBytes / sizeof(T));
  const uint32_t height = Min(kSlabBytes / (width * sizeof(T)), kMaxBursts);
  return {rows, cols, height, width};
}

template <typename T>
__aicore__ inline AscendC::LocalTensor<T> Slab(uint32_t slot) {
  return Ub<T>(kListBytes + slot * kSlabBytes, kSlabBytes / sizeof(T));
}

// A block of rows side by side in UB from, or to, rows `pitch` elements apart in global memory.
template <typename T>
__aicore__ inline void LoadBlock(const AscendC::LocalTensor<T>& dst, __gm__ T* src, uint32_t rows,
                                 uint32_t cols, uint32_t pitch) {
  if (rows == 1 || pitch == cols) {
    AscendC::DataCopy(dst, Global(src, rows * cols), rows * cols);
    return;
  }
  const uint32_t gap = (pitch - cols) * sizeof(T);
  const AscendC::DataCopyExtParams bursts(rows, cols * sizeof(T), gap, 0, 0);
  AscendC::DataCopyPad(dst, Global(src, static_cast<uint64_t>(rows - 1) * pitch + cols), bursts,
                       AscendC::DataCopyPadExtParams<T>());
}

template <typename T>
__aicore__ inline void StoreBlock(__gm__ T* dst, const AscendC::LocalTensor<T>& src, uint32_t rows,
                                  uint32_t cols, uint32_t pitch) {
  if (rows == 1 || pitch == cols) {
    AscendC::DataCopy(Global(dst, rows * cols), src, rows * cols);
    return;
  }
  const uint32_t gap = (pitch - cols) * sizeof(T);
  const AscendC::DataCopyExtParams bursts(rows, cols * sizeof(T), 0, gap, 0);
  AscendC::DataCopyPad(Global(dst, static_cast<uint64_t>(rows - 1) * pitch + cols), src, bursts);
}

// Two slabs: one is filled while the other is written out.
class PingPong {
 public:
  __aicore__ inline PingPong() {
    AscendC::SetFlag<AscendC::HardEvent::MTE3_MTE2>(0);
    AscendC::SetFlag<AscendC::HardEvent::MTE3_MTE2>(1);
  }
  __aicore__ inline uint32_t Fill() {
    AscendC::WaitFlag<AscendC::HardEvent::MTE3_MTE2>(slot_);
    return slot_;
  }
  __aicore__ inline void Filled() { Handover<AscendC::HardEvent::MTE2_MTE3>(slot_); }
  __aicore__ inline void Written() {
    AscendC::SetFlag<AscendC::HardEvent::MTE3_MTE2>(slot_);
    slot_ ^= 1;
  }
  __aicore__ inline void Finish() {
    AscendC::WaitFlag<AscendC::HardEvent::MTE3_MTE2>(0);
    AscendC::WaitFlag<AscendC::HardEvent::MTE3_MTE2>(1);
    AscendC::PipeBarrier<PIPE_ALL>();
  }

 private:
  uint32_t slot_ = 0;
};
}  // namespace put_rows

// dst [n x H] = src [n x H]; H a multiple of 16.
template <typename T>
__aicore__ inline void CopyRows(const Tile<T>& src, const Tile<T>& dst) {
  using namespace put_rows;
  Require(src.rows == dst.rows && src.cols == dst.cols && src.cols % kFractal == 0);
  const Blocks blocks = SlabBlocks<T>(src.rows, src.cols);
  PingPong slabs;
  for (uint32_t i = 0; i < blocks.Count(); ++i) {
    const Blocks::Block b = blocks.At(i);
    const AscendC::LocalTensor<T> slab = Slab<T>(slabs.Fill());
    LoadBlock(slab, src.data + static_cast<uint64_t>(b.row) * src.pitch + b.column, b.rows, b.cols,
              src.pitch);
    slabs.Filled();
    StoreBlock(dst.data + static_cast<uint64_t>(b.row) * dst.pitch + b.column, slab, b.rows, b.cols,
               dst.pitch);
    slabs.Written();
  }
  slabs.Finish();
}

// dst [n x H] = the rows of x that pairs order[0] .. order[n - 1] copy: pair t * top_k + k copies
// row t; order [1 x n] at any address; H a multiple of 16.
template <typename T>
__aicore__ inline void GatherRows(const Tile<T>& x, const Tile<int32_t>& order, const Tile<T>& dst,
                                  uint32_t top_k) {
  using namespace put_rows;
  Require(order.cols == dst.rows && x.cols == dst.cols && x.cols % kFractal == 0 && top_k > 0);
  const AscendC::LocalTensor<int32_t> list = Ub<int32_t>(0, kListWords);
  PingPong slabs;
  for (uint32_t begin = 0; begin < dst.rows; begin += kListWords) {
    const uint32_t n = Min(kListWords, dst.rows - begin);
    LoadList(list, order.data + begin, n);
    Handover<AscendC::HardEvent::MTE2_S>();
    const Blocks blocks = SlabBlocks<T>(n, x.cols);
    for (uint32_t i = 0; i < blocks.Count(); ++i) {
      const Blocks::Block b = blocks.At(i);
      const AscendC::LocalTensor<T> slab = Slab<T>(slabs.Fill());
      for (uint32_t r = 0; r < b.rows; ++r) {
        const uint32_t row = static_cast<uint32_t>(list.GetValue(b.row + r)) / top_k;
        Require(row < x.rows);
        LoadBlock(slab[r * b.cols], x.data + static_cast<uint64_t>(row) * x.pitch + b.column, 1,
                  b.cols, x.pitch);
      }
      slabs.Filled();
      StoreBlock(dst.data + static_cast<uint64_t>(begin + b.row) * dst.pitch + b.column, slab,
                 b.rows, b.cols, dst.pitch);
      slabs.Written();
    }
    Handover<AscendC::HardEvent::S_MTE2>();
  }
  slabs.Finish();
}

}  // namespace hpmoe

#endif  // HPMOE_PUT_ROWS_H_
