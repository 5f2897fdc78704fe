// GatherScaledRows: copies of tokens, each times the gate weight of its copy.
#ifndef HPMOE_GATHER_SCALED_ROWS_H_
#define HPMOE_GATHER_SCALED_ROWS_H_

#include "hpmoe/put_rows.h"

namespace hpmoe {

// Two slabs of rows: one is loaded, multiplied in place and stored, while the other is a step
// behind. The float intermediate is single-buffered, since only the vector unit uses it. A pair's
// weight may be anywhere in the gate weights, so each is copied on its own, to its own data block.
template <typename T>
class GatherScaledTask {
 public:
  __aicore__ inline GatherScaledTask(const Tile<T>& x, const Tile<float>& gate,
                                     const Tile<int32_t>& order, const Tile<T>& dst, uint32_t top_k)
      : x_(x), gate_(gate), order_(order), dst_(dst), top_k_(top_k) {
    const uint32_t across = CeilDiv(dst.cols, kElements);
    width_ = RoundUp(CeilDiv(dst.cols, across), kFractal);
  }

  __aicore__ inline void Run() {
    for (uint32_t slot = 0; slot < 2; ++slot) {
      AscendC::SetFlag<AscendC::HardEvent::MTE3_MTE2>(slot);
    }
    for (uint32_t first = 0; first < dst_.rows; first += kPairs) {
      RunPairs(first, Min(kPairs, dst_.rows - first));
    }
    for (uint32_t slot = 0; slot < 2; ++slot) {
      AscendC::WaitFlag<AscendC::HardEvent::MTE3_MTE2>(slot);
    }
    AscendC::PipeBarrier<PIPE_ALL>();
  }

 private:
  static constexpr uint32_t kPairs = 256;  // pairs whose numbers and weights UB holds
  static constexpr uint32_t kBlockFloats = kDataBlock / sizeof(float);
  static constexpr uint32_t kWeights = kPairs * sizeof(int32_t);  // UB addresses
  static constexpr uint32_t kData = kWeights + kPairs * kDataBlock;
  // Elements of a slab; a multiple of kVectorBytes is whole vectors of 16 and of 32 bits. A DMA
  // moves a slab, whose rows have at least kFractal elements.
  static constexpr uint32_t kFit = (kUbBytes - kData) / (2 * sizeof(T) + sizeof(float));
  static constexpr uint32_t kElements =
      (kFit < kMaxBursts * kFractal ? kFit : kMaxBursts * kFractal) / kVectorBytes * kVectorBytes;
  static_assert(kElements > 0, "UB holds a vector of each slab");
  static_assert(kData + kElements * (2 * sizeof(T) + sizeof(float)) <= kUbBytes, "UB");
  static_assert(kElements / kFractal <= kMaxBursts, "rows of one DMA");

  // Rows first .. first + n - 1, whose pairs fit the lists.
  __aicore__ inline void RunPairs(uint32_t first, uint32_t n) {
    LoadList(Pairs(), order_.data + first, n);
    Handover<AscendC::HardEvent::MTE2_S>();
    const uint32_t pairs = gate_.rows * gate_.cols;
    for (uint32_t i = 0; i < n; ++i) {
      const uint32_t pair = static_cast<uint32_t>(Pairs().GetValue(i));
      Require(pair < pairs && pair / top_k_ < x_.rows);
      LoadList(Weights()[i * kBlockFloats], gate_.data + pair, 1);
    }
    Handover<AscendC::HardEvent::MTE2_S>();
    const Blocks blocks = {n, dst_.cols, kElements / width_, width_};
    const uint32_t count = blocks.Count();
    for (uint32_t i = 0; i <= count; ++i) {
      if (i < count) Load(blocks.At(i), i % 2);
      if (i > 0) Scale(blocks.At(i - 1), (i - 1) % 2, first);
    }
    Handover<AscendC::HardEvent::S_MTE2>();
  }

  __aicore__ inline void Load(const Blocks::Block& b, uint32_t slot) const {
    AscendC::WaitFlag<AscendC::HardEvent::MTE3_MTE2>(slot);
    for (uint32_t r = 0; r < b.rows; ++r) {
      const uint32_t row = static_cast<uint32_t>(Pairs().GetValue(b.row + r)) / top_k_;
      put_rows::LoadBlock(Slab(slot)[r * b.cols],
                          x_.data + static_cast<uint64_t>(row) * x_.pitch + b.column, 1, b.cols,
                          x_.pitch);
    }
    AscendC::SetFlag<AscendC::HardEvent::MTE2_V>(slot);
  }

  __aicore__ inline void Scale(const Blocks::Block& b, uint32_t slot, uint32_t first) const {
    const AscendC::LocalTensor<T> slab = Slab(slot);
    const AscendC::LocalTensor<float> wide = Wide();
    AscendC::WaitFlag<AscendC::HardEvent::MTE2_V>(slot);
    AscendC::Cast(wide, slab, AscendC::RoundMode::CAST_NONE, b.rows * b.cols);
    AscendC::PipeBarrier<PIPE_V>();
    for (uint32_t r = 0; r < b.rows; ++r) {
      const float weight = Weights().GetValue((b.row + r) * kBlockFloats);
      AscendC::Muls(wide[r * b.cols], wide[r * b.cols], weight, static_cast<int32_t>(b.cols));
    }
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Cast(slab, wide, AscendC::RoundMode::CAST_RINT, b.rows * b.cols);
    AscendC::PipeBarrier<PIPE_V>();
    Handover<AscendC::HardEvent::V_MTE3>(slot);
    put_rows::StoreBlock(dst_.data + static_cast<uint64_t>(first + b.row) * dst_.pitch + b.column,
                         slab, b.rows, b.cols, dst_.pitch);
    AscendC::SetFlag<AscendC::HardEvent::MTE3_MTE2>(slot);
  }

  __aicore__ inline AscendC::LocalTensor<int32_t> Pairs() const { return Ub<int32_t>(0, kPairs); }
  __aicore__ inline AscendC::LocalTensor<float> Weights() const {
    return Ub<float>(kWeights, kPairs * kBlockFloats);
  }
  __aicore__ inline AscendC::LocalTensor<T> Slab(uint32_t slot) const {
    return Ub<T>(kData + slot * kElements * sizeof(T), kElements);
  }
  __aicore__ inline AscendC::LocalTensor<float> Wide() const {
    return Ub<float>(kData + 2 * kElements * sizeof(T), kElements);
  }

  Tile<T> x_;
  Tile<float> gate_;
  Tile<int32_t> order_;
  Tile<T> dst_;
  uint32_t top_k_;
  uint32_t width_;  // columns of a block
};

// dst[i] = gate[p] * x[p / top_k] for p = order[i], a pair t * top_k + k; the product is float and
// rounded once. gate: the whole of the gate weights [T x top_k] without gaps; order [1 x n] at any
// address; dst [n x H], which may be another rank's memory; H a multiple of 16.
template <typename T>
__aicore__ inline void GatherScaledRows(const Tile<T>& x, const Tile<float>& gate,
                                        const Tile<int32_t>& order, const Tile<T>& dst,
                                        uint32_t top_k) {
  Require(order.cols == dst.rows && x.cols == dst.cols && x.cols % kFractal == 0);
  Require(top_k > 0 && gate.cols == top_k && (gate.rows <= 1 || gate.pitch == gate.cols));
  if (dst.rows == 0 || dst.cols == 0) return;
  GatherScaledTask<T>(x, gate, order, dst, top_k).Run();
}

}  // namespace hpmoe

#endif  // HPMOE_GATHER_SCALED_ROWS_H_
