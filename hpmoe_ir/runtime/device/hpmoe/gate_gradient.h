// GateGradient: the gradient of the router weights.
#ifndef HPMOE_GATE_GRADIENT_H_
#define HPMOE_GATE_GRADIENT_H_

#include "hpmoe/put_rows.h"

namespace hpmoe {

// A unit is a block of columns of one token: its K rows and the token's gradient are loaded while
// the previous unit is multiplied. Each copy's products are folded, the upper half onto the lower,
// down to one data block, which is added to that of the token's other units. The scalar unit sums
// the last eight numbers. The order of the additions depends on the sizes alone, so the result
// has the same bits in every run.
template <typename T>
class GateGradientTask {
 public:
  __aicore__ inline GateGradientTask(const Tile<T>& back, const Tile<int32_t>& position,
                                     const Tile<T>& dout, const Tile<float>& dgate)
      : back_(back), position_(position), dout_(dout), dgate_(dgate), copies_(position.cols) {
    Require(copies_ > 0 && copies_ <= kMaxCopies);
    data_ = kSums + copies_ * kDataBlock;
    const uint32_t column = (copies_ + 1) * (2 * sizeof(T) + sizeof(float));  // bytes
    const uint32_t widest = RoundDown((kUbBytes - data_) / column, kFractal);
    Require(widest >= kFractal);
    width_ = RoundUp(CeilDiv(dout.cols, CeilDiv(dout.cols, widest)), kFractal);
  }

  __aicore__ inline void Run() {
    for (uint32_t slot = 0; slot < 2; ++slot) AscendC::SetFlag<AscendC::HardEvent::V_MTE2>(slot);
    const uint32_t tokens = kListWords / copies_;
    for (uint32_t first = 0; first < dout_.rows; first += tokens) {
      RunTokens(first, Min(tokens, dout_.rows - first));
    }
    for (uint32_t slot = 0; slot < 2; ++slot) AscendC::WaitFlag<AscendC::HardEvent::V_MTE2>(slot);
    AscendC::PipeBarrier<PIPE_ALL>();
  }

 private:
  static constexpr uint32_t kListWords = kMaxCopies;  // positions, or results, held in UB
  static constexpr uint32_t kLanes = kDataBlock / sizeof(float);
  static constexpr uint32_t kResults = kListWords * sizeof(int32_t);  // UB addresses
  static constexpr uint32_t kSums = kResults + kListWords * sizeof(float);

  // Tokens first .. first + n - 1, whose positions fit the list.
  __aicore__ inline void RunTokens(uint32_t first, uint32_t n) {
    const uint64_t pair = static_cast<uint64_t>(first) * copies_;
    LoadList(Positions(), position_.data + pair, n * copies_);
    Handover<AscendC::HardEvent::MTE2_S>();
    const Blocks units = {n, dout_.cols, 1, width_};
    const uint32_t count = units.Count();
    for (uint32_t i = 0; i <= count; ++i) {
      if (i < count) Load(units.At(i), i % 2, first);
      if (i > 0) Compute(units.At(i - 1), (i - 1) % 2);
    }
    Handover<AscendC::HardEvent::S_MTE2>();
    Handover<AscendC::HardEvent::S_MTE3>();
    StoreList(dgate_.data + pair, Results(), n * copies_);
    Handover<AscendC::HardEvent::MTE3_S>();
  }

  // The rows of the copies, then the token's gradient.
  __aicore__ inline void Load(const Blocks::Block& unit, uint32_t slot, uint32_t first) const {
    const AscendC::LocalTensor<T> slab = Slab(slot);
    AscendC::WaitFlag<AscendC::HardEvent::V_MTE2>(slot);
    for (uint32_t k = 0; k < copies_; ++k) {
      const uint32_t row = static_cast<uint32_t>(Positions().GetValue(unit.row * copies_ + k));
      Require(row < back_.rows);
      LoadRow(slab[k * unit.cols], back_, row, unit);
    }
    LoadRow(slab[copies_ * unit.cols], dout_, first + unit.row, unit);
    AscendC::SetFlag<AscendC::HardEvent::MTE2_V>(slot);
  }

  __aicore__ inline void LoadRow(const AscendC::LocalTensor<T>& dst, const Tile<T>& tile,
                                 uint32_t row, const Blocks::Block& unit) const {
    put_rows::LoadBlock(dst, tile.data + static_cast<uint64_t>(row) * tile.pitch + unit.column, 1,
                        unit.cols, tile.pitch);
  }

  __aicore__ inline void Compute(const Blocks::Block& unit, uint32_t slot) const {
    const AscendC::LocalTensor<float> wide = Wide();
    const int32_t n = static_cast<int32_t>(unit.cols);
    AscendC::WaitFlag<AscendC::HardEvent::MTE2_V>(slot);
    if (unit.column == 0) {
      AscendC::Duplicate(Sums(), 0.0f, static_cast<int32_t>(copies_ * kLanes));
    }
    AscendC::Cast(wide, Slab(slot), AscendC::RoundMode::CAST_NONE, (copies_ + 1) * unit.cols);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::SetFlag<AscendC::HardEvent::V_MTE2>(slot);
    for (uint32_t k = 0; k < copies_; ++k) {
      AscendC::Mul(wide[k * unit.cols], wide[k * unit.cols], wide[copies_ * unit.cols], n);
    }
    AscendC::PipeBarrier<PIPE_V>();
    Fold(wide, unit.cols);
    for (uint32_t k = 0; k < copies_; ++k) {
      AscendC::Add(Sums()[k * kLanes], Sums()[k * kLanes], wide[k * unit.cols],
                   static_cast<int32_t>(kLanes));
    }
    AscendC::PipeBarrier<PIPE_V>();
    if (unit.column + unit.cols == dout_.cols) Finish(unit.row);
  }

  // Adds up the columns of each copy until one data block is left.
  __aicore__ inline void Fold(const AscendC::LocalTensor<float>& wide, uint32_t cols) const {
    for (uint32_t n = cols; n > kLanes;) {
      const uint32_t half = RoundUp(n / 2, kLanes);
      for (uint32_t k = 0; k < copies_; ++k) {
        const AscendC::LocalTensor<float> row = wide[k * cols];
        AscendC::Add(row, row, row[half], static_cast<int32_t>(n - half));
      }
      AscendC::PipeBarrier<PIPE_V>();
      n = half;
    }
  }

  // The sums of the token's copies are complete.
  __aicore__ inline void Finish(uint32_t token) const {
    Handover<AscendC::HardEvent::V_S>();
    for (uint32_t k = 0; k < copies_; ++k) {
      float sum = Sums().GetValue(k * kLanes);
      for (uint32_t i = 1; i < kLanes; ++i) sum += Sums().GetValue(k * kLanes + i);
      Results().SetValue(token * copies_ + k, sum);
    }
    Handover<AscendC::HardEvent::S_V>();
  }

  __aicore__ inline AscendC::LocalTensor<int32_t> Positions() const {
    return Ub<int32_t>(0, kListWords);
  }
  __aicore__ inline AscendC::LocalTensor<float> Results() const {
    return Ub<float>(kResults, kListWords);
  }
  __aicore__ inline AscendC::LocalTensor<float> Sums() const {
    return Ub<float>(kSums, copies_ * kLanes);
  }
  __aicore__ inline AscendC::LocalTensor<T> Slab(uint32_t slot) const {
    const uint32_t elements = (copies_ + 1) * width_;
    return Ub<T>(data_ + slot * elements * sizeof(T), elements);
  }
  __aicore__ inline AscendC::LocalTensor<float> Wide() const {
    const uint32_t elements = (copies_ + 1) * width_;
    return Ub<float>(data_ + 2 * elements * sizeof(T), elements);
  }

  Tile<T> back_;
  Tile<int32_t> position_;
  Tile<T> dout_;
  Tile<float> dgate_;
  uint32_t copies_;
  uint32_t data_;   // UB address of the slabs
  uint32_t width_;  // columns of a unit
};

// dgate[t][k] = inner product of back[position[t][k]] and dout[t], in float; back: the whole buffer
// of returned rows [.. x H]; position and dgate [rows x K] without gaps; dout [rows x H]; H a
// multiple of 16, K at most 1024.
template <typename T>
__aicore__ inline void GateGradient(const Tile<T>& back, const Tile<int32_t>& position,
                                    const Tile<T>& dout, const Tile<float>& dgate) {
  Require(position.rows == dout.rows && dgate.rows == dout.rows && dgate.cols == position.cols);
  Require(back.cols == dout.cols && dout.cols > 0 && dout.cols % kFractal == 0);
  if (dout.rows == 0) return;
  Require(dout.rows == 1 || (position.pitch == position.cols && dgate.pitch == dgate.cols));
  GateGradientTask<T>(back, position, dout, dgate).Run();
}

}  // namespace hpmoe

#endif  // HPMOE_GATE_GRADIENT_H_
