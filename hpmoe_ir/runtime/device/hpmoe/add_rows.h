// AddRows: the sum of two tiles, as gradients of a value that is used twice need it.
#ifndef HPMOE_ADD_ROWS_H_
#define HPMOE_ADD_ROWS_H_

#include "hpmoe/put_rows.h"

namespace hpmoe {

// One block: two 16-bit tensors, each twice so that loads, arithmetic and stores overlap; the sum
// takes the place of the first. Two float tensors, once since the vector unit does one thing at a
// time.
template <typename T>
class AddRowsTask {
 public:
  __aicore__ inline AddRowsTask(const Tile<T>& a, const Tile<T>& b, const Tile<T>& out)
      : a_(a), b_(b), out_(out) {
    const uint32_t across = CeilDiv(out.cols, kElements);
    const uint32_t width = RoundUp(CeilDiv(out.cols, across), kFractal);
    blocks_ = {out.rows, out.cols, kElements / width, width};
  }

  __aicore__ inline void Run() {
    for (uint32_t slot = 0; slot < 2; ++slot) {
      AscendC::SetFlag<AscendC::HardEvent::MTE3_MTE2>(slot);
    }
    const uint32_t count = blocks_.Count();
    for (uint32_t i = 0; i <= count; ++i) {
      if (i < count) Load(i);
      if (i > 0) Compute(i - 1);
    }
    for (uint32_t slot = 0; slot < 2; ++slot) {
      AscendC::WaitFlag<AscendC::HardEvent::MTE3_MTE2>(slot);
    }
    AscendC::PipeBarrier<PIPE_ALL>();
  }

 private:
  // Whole vectors of elements in both widths.
  static constexpr uint32_t kElements =
      kUbBytes / (2 * 2 * sizeof(T) + 2 * sizeof(float)) / (16 * kFractal) * (16 * kFractal);
  static constexpr uint32_t kNarrow = kElements * sizeof(T);  // bytes
  static constexpr uint32_t kWide = kElements * sizeof(float);
  static_assert(4 * kNarrow + 2 * kWide <= kUbBytes, "UB");
  static_assert(kElements / kFractal <= put_rows::kMaxBlocks, "rows of one DMA");

  __aicore__ inline AscendC::LocalTensor<T> Narrow(uint32_t which, uint32_t slot) const {
    return Ub<T>((2 * which + slot) * kNarrow, kElements);
  }
  __aicore__ inline AscendC::LocalTensor<float> Wide(uint32_t which) const {
    return Ub<float>(4 * kNarrow + which * kWide, kElements);
  }
  __aicore__ inline __gm__ T* Address(const Tile<T>& tile, const Blocks::Block& b) const {
    return tile.data + static_cast<uint64_t>(b.row) * tile.pitch + b.column;
  }

  __aicore__ inline void Load(uint32_t i) const {
    const Blocks::Block b = blocks_.At(i);
    const uint32_t slot = i % 2;
    AscendC::WaitFlag<AscendC::HardEvent::MTE3_MTE2>(slot);
    put_rows::LoadBlock(Narrow(0, slot), Address(a_, b), b.rows, b.cols, a_.pitch);
    put_rows::LoadBlock(Narrow(1, slot), Address(b_, b), b.rows, b.cols, b_.pitch);
    AscendC::SetFlag<AscendC::HardEvent::MTE2_V>(slot);
  }

  __aicore__ inline void Compute(uint32_t i) const {
    const Blocks::Block b = blocks_.At(i);
    const uint32_t slot = i % 2;
    const uint32_t n = b.rows * b.cols;
    AscendC::WaitFlag<AscendC::HardEvent::MTE2_V>(slot);
    AscendC::Cast(Wide(0), Narrow(0, slot), AscendC::RoundMode::CAST_NONE, n);
    AscendC::Cast(Wide(1), Narrow(1, slot), AscendC::RoundMode::CAST_NONE, n);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Add(Wide(0), Wide(0), Wide(1), static_cast<int32_t>(n));
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Cast(Narrow(0, slot), Wide(0), AscendC::RoundMode::CAST_RINT, n);
    AscendC::PipeBarrier<PIPE_V>();
    Handover<AscendC::HardEvent::V_MTE3>(slot);
    put_rows::StoreBlock(Address(out_, b), Narrow(0, slot), b.rows, b.cols, out_.pitch);
    AscendC::SetFlag<AscendC::HardEvent::MTE3_MTE2>(slot);
  }

  Tile<T> a_;
  Tile<T> b_;
  Tile<T> out_;
  Blocks blocks_;
};

// out = a + b, in float, rounded once; all [rows x n], n a multiple of 16. out may be a or b.
template <typename T>
__aicore__ inline void AddRows(const Tile<T>& a, const Tile<T>& b, const Tile<T>& out) {
  Require(a.rows == out.rows && b.rows == out.rows && a.cols == out.cols && b.cols == out.cols);
  Require(out.cols % kFractal == 0);
  if (out.rows == 0 || out.cols == 0) return;
  AddRowsTask<T>(a, b, out).Run();
}

}  // namespace hpmoe

#endif  // HPMOE_ADD_ROWS_H_
