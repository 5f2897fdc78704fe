// The sum over the copies of each token, with weights (WeightedSum) or without (SumCopies).
#ifndef HPMOE_DETAIL_COPY_SUM_H_
#define HPMOE_DETAIL_COPY_SUM_H_

#include "hpmoe/put_rows.h"

namespace hpmoe {

// A unit is a block of columns of one token: the K rows of a unit are loaded while the
// previous unit is summed in float, always in the order k = 0 .. K - 1, so that the sum has the
// same bits in every run.
template <typename T, bool Weighted>
class CopySumTask {
 public:
  // `gate` is read only with weights.
  __aicore__ inline CopySumTask(const Tile<T>& back, const Tile<int32_t>& position,
                                const Tile<float>& gate, const Tile<T>& out)
      : back_(back), position_(position), gate_(gate), out_(out), copies_(position.cols) {
    Require(copies_ > 0 && copies_ <= kMaxCopies);
    const uint32_t widest = RoundDown(
        (kUbBytes - kData) / ((2 * copies_ + 2) * sizeof(T) + 3 * sizeof(float)), kFractal);
    Require(widest >= kFractal);
    width_ = RoundUp(CeilDiv(out.cols, CeilDiv(out.cols, widest)), kFractal);
  }

  __aicore__ inline void Run() {
    for (uint32_t slot = 0; slot < 2; ++slot) {
      AscendC::SetFlag<AscendC::HardEvent::V_MTE2>(slot);
      AscendC::SetFlag<AscendC::HardEvent::MTE3_V>(slot);
    }
    const uint32_t tokens = kListWords / copies_;
    for (uint32_t first = 0; first < out_.rows; first += tokens) {
      RunTokens(first, Min(tokens, out_.rows - first));
    }
    for (uint32_t slot = 0; slot < 2; ++slot) {
      AscendC::WaitFlag<AscendC::HardEvent::V_MTE2>(slot);
      AscendC::WaitFlag<AscendC::HardEvent::MTE3_V>(slot);
    }
    AscendC::PipeBarrier<PIPE_ALL>();
  }

 private:
  static constexpr uint32_t kListWords = kMaxCopies;  // positions, or weights, held in UB
  static constexpr uint32_t kData = 2 * kListWords * sizeof(int32_t);

  // Tokens first .. first + n - 1, whose positions and weights fit the lists.
  __aicore__ inline void RunTokens(uint32_t first, uint32_t n) {
    const uint64_t pair = static_cast<uint64_t>(first) * copies_;
    LoadList(Positions(), position_.data + pair, n * copies_);
    if constexpr (Weighted) LoadList(Weights(), gate_.data + pair, n * copies_);
    Handover<AscendC::HardEvent::MTE2_S>();
    const Blocks units = {n, out_.cols, 1, width_};
    const uint32_t count = units.Count();
    for (uint32_t i = 0; i <= count; ++i) {
      if (i < count) Load(units.At(i), i % 2);
      if (i > 0) Compute(units.At(i - 1), (i - 1) % 2, first);
    }
    Handover<AscendC::HardEvent::S_MTE2>();
  }

  __aicore__ inline void Load(const Blocks::Block& unit, uint32_t slot) const {
    const AscendC::LocalTensor<T> slab = Slab(slot);
    AscendC::WaitFlag<AscendC::HardEvent::V_MTE2>(slot);
    for (uint32_t k = 0; k < copies_; ++k) {
      const uint32_t row = static_cast<uint32_t>(Positions().GetValue(unit.row * copies_ + k));
      Require(row < back_.rows);
      __gm__ T* src = back_.data + static_cast<uint64_t>(row) * back_.pitch + unit.column;
      AscendC::DataCopy(slab[k * width_], Global(src, unit.cols), unit.cols);
    }
    AscendC::SetFlag<AscendC::HardEvent::MTE2_V>(slot);
  }

  __aicore__ inline void Compute(const Blocks::Block& unit, uint32_t slot, uint32_t first) const {
    const AscendC::LocalTensor<T> slab = Slab(slot);
    const AscendC::LocalTensor<T> result = Result(slot);
    const AscendC::LocalTensor<float> sum = Wide(2);
    const int32_t n = static_cast<int32_t>(unit.cols);
    AscendC::WaitFlag<AscendC::HardEvent::MTE2_V>(slot);
    AscendC::Cast(Wide(0), slab, AscendC::RoundMode::CAST_NONE, unit.cols);
    AscendC::PipeBarrier<PIPE_V>();
    for (uint32_t k = 0; k < copies_; ++k) {
      // The next row is converted before the barrier of this sum, so that a row needs one barrier.
      if (k + 1 < copies_) {
        AscendC::Cast(Wide((k + 1) % 2), slab[(k + 1) * width_], AscendC::RoundMode::CAST_NONE,
                      unit.cols);
      }
      float weight = 1.0f;
      if constexpr (Weighted) weight = Weights().GetValue(unit.row * copies_ + k);
      if (k == 0) {
        AscendC::Muls(sum, Wide(0), weight, n);
      } else if constexpr (Weighted) {
        AscendC::Axpy(sum, Wide(k % 2), weight, n);
      } else {
        AscendC::Add(sum, sum, Wide(k % 2), n);
      }
      AscendC::PipeBarrier<PIPE_V>();
    }
    AscendC::SetFlag<AscendC::HardEvent::V_MTE2>(slot);
    AscendC::WaitFlag<AscendC::HardEvent::MTE3_V>(slot);
    AscendC::Cast(result, sum, AscendC::RoundMode::CAST_RINT, unit.cols);
    AscendC::PipeBarrier<PIPE_V>();
    Handover<AscendC::HardEvent::V_MTE3>(slot);
    __gm__ T* dst = out_.data + static_cast<uint64_t>(first + unit.row) * out_.pitch + unit.column;
    AscendC::DataCopy(Global(dst, unit.cols), result, unit.cols);
    AscendC::SetFlag<AscendC::HardEvent::MTE3_V>(slot);
  }

  __aicore__ inline AscendC::LocalTensor<int32_t> Positions() const {
    return Ub<int32_t>(0, kListWords);
  }
  __aicore__ inline AscendC::LocalTensor<float> Weights() const {
    return Ub<float>(kListWords * sizeof(int32_t), kListWords);
  }
  __aicore__ inline AscendC::LocalTensor<T> Slab(uint32_t slot) const {
    return Ub<T>(kData + slot * copies_ * width_ * sizeof(T), copies_ * width_);
  }
  __aicore__ inline AscendC::LocalTensor<T> Result(uint32_t slot) const {
    return Ub<T>(kData + (2 * copies_ + slot) * width_ * sizeof(T), width_);
  }
  __aicore__ inline AscendC::LocalTensor<float> Wide(uint32_t which) const {
    return Ub<float>(
        kData + (2 * copies_ + 2) * width_ * sizeof(T) + which * width_ * sizeof(float), width_);
  }

  Tile<T> back_;
  Tile<int32_t> position_;
  Tile<float> gate_;
  Tile<T> out_;
  uint32_t copies_;
  uint32_t width_;  // columns of a unit
};

}  // namespace hpmoe

#endif  // HPMOE_DETAIL_COPY_SUM_H_
