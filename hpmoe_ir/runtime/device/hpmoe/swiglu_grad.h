// SwiGluGrad: the gradient of both halves of SwiGlu's operand.
#ifndef HPMOE_SWIGLU_GRAD_H_
#define HPMOE_SWIGLU_GRAD_H_

#include "hpmoe/put_rows.h"

namespace hpmoe {

// One block: three 16-bit tensors, each twice so that loads, arithmetic and stores overlap; the
// results take the places of gate and up. Four float tensors, once since the vector unit does one
// thing at a time.
template <typename T>
class SwiGluGradTask {
 public:
  __aicore__ inline SwiGluGradTask(const Tile<T>& h, const Tile<T>& da, const Tile<T>& dh)
      : h_(h), da_(da), dh_(dh) {
    const uint32_t across = CeilDiv(da.cols, kElements);
    const uint32_t width = RoundUp(CeilDiv(da.cols, across), kFractal);
    blocks_ = {da.rows, da.cols, kElements / width, width};
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
      kUbBytes / (3 * 2 * sizeof(T) + 4 * sizeof(float)) / (16 * kFractal) * (16 * kFractal);
  static constexpr uint32_t kNarrow = kElements * sizeof(T);  // bytes
  static constexpr uint32_t kWide = kElements * sizeof(float);
  static_assert(6 * kNarrow + 4 * kWide <= kUbBytes, "UB");
  static_assert(kElements / kFractal <= put_rows::kMaxBlocks, "rows of one DMA");

  // 16-bit tensor `which`: 0 gate and its gradient, 1 up and its gradient, 2 da.
  __aicore__ inline AscendC::LocalTensor<T> Narrow(uint32_t which, uint32_t slot) const {
    return Ub<T>((2 * which + slot) * kNarrow, kElements);
  }
  __aicore__ inline AscendC::LocalTensor<float> Wide(uint32_t which) const {
    return Ub<float>(6 * kNarrow + which * kWide, kElements);
  }

  __aicore__ inline void Load(uint32_t i) const {
    const Blocks::Block b = blocks_.At(i);
    const uint32_t slot = i % 2;
    __gm__ T* gate = h_.data + static_cast<uint64_t>(b.row) * h_.pitch + b.column;
    __gm__ T* da = da_.data + static_cast<uint64_t>(b.row) * da_.pitch + b.column;
    AscendC::WaitFlag<AscendC::HardEvent::MTE3_MTE2>(slot);
    put_rows::LoadBlock(Narrow(0, slot), gate, b.rows, b.cols, h_.pitch);
    put_rows::LoadBlock(Narrow(1, slot), gate + da_.cols, b.rows, b.cols, h_.pitch);
    put_rows::LoadBlock(Narrow(2, slot), da, b.rows, b.cols, da_.pitch);
    AscendC::SetFlag<AscendC::HardEvent::MTE2_V>(slot);
  }

  __aicore__ inline void Compute(uint32_t i) const {
    const Blocks::Block b = blocks_.At(i);
    const uint32_t slot = i % 2;
    AscendC::WaitFlag<AscendC::HardEvent::MTE2_V>(slot);
    Differentiate(slot, b.rows * b.cols);
    Handover<AscendC::HardEvent::V_MTE3>(slot);
    __gm__ T* dgate = dh_.data + static_cast<uint64_t>(b.row) * dh_.pitch + b.column;
    put_rows::StoreBlock(dgate, Narrow(0, slot), b.rows, b.cols, dh_.pitch);
    put_rows::StoreBlock(dgate + da_.cols, Narrow(1, slot), b.rows, b.cols, dh_.pitch);
    AscendC::SetFlag<AscendC::HardEvent::MTE3_MTE2>(slot);
  }

  // With s = 1 / (1 + exp(-g)): da * u * s * (1 + g * (1 - s)) for the gate g, da * g * s for up u,
  // in float. Where exp overflows, s is the right limit, 0, and so are both results.
  __aicore__ inline void Differentiate(uint32_t slot, uint32_t n) const {
    const int32_t count = static_cast<int32_t>(n);
    const AscendC::LocalTensor<float> g = Wide(0);
    const AscendC::LocalTensor<float> s = Wide(1);
    const AscendC::LocalTensor<float> slope = Wide(2);
    const AscendC::LocalTensor<float> t = Wide(3);
    AscendC::Cast(g, Narrow(0, slot), AscendC::RoundMode::CAST_NONE, n);
    AscendC::Duplicate(t, 1.0f, count);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Muls(s, g, -1.0f, count);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Exp(s, s, count);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Adds(s, s, 1.0f, count);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Div(s, t, s, count);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Sub(slope, t, s, count);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Mul(slope, slope, g, count);
    AscendC::Cast(t, Narrow(2, slot), AscendC::RoundMode::CAST_NONE, n);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Adds(slope, slope, 1.0f, count);
    AscendC::Mul(g, g, s, count);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Mul(slope, slope, s, count);
    AscendC::Mul(g, g, t, count);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Mul(slope, slope, t, count);
    AscendC::Cast(s, Narrow(1, slot), AscendC::RoundMode::CAST_NONE, n);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Mul(slope, slope, s, count);
    AscendC::Cast(Narrow(1, slot), g, AscendC::RoundMode::CAST_RINT, n);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Cast(Narrow(0, slot), slope, AscendC::RoundMode::CAST_RINT, n);
    AscendC::PipeBarrier<PIPE_V>();
  }

  Tile<T> h_;
  Tile<T> da_;
  Tile<T> dh_;
  Blocks blocks_;
};

// h [rows x 2I]: gate, then up; da [rows x I]: gradient of SwiGlu's result; dh [rows x 2I]; I a
// multiple of 16.
template <typename T>
__aicore__ inline void SwiGluGrad(const Tile<T>& h, const Tile<T>& da, const Tile<T>& dh) {
  Require(h.rows == da.rows && dh.rows == da.rows);
  Require(h.cols == 2 * da.cols && dh.cols == h.cols && da.cols % kFractal == 0);
  if (da.rows == 0 || da.cols == 0) return;
  SwiGluGradTask<T>(h, da, dh).Run();
}

}  // namespace hpmoe

#endif  // HPMOE_SWIGLU_GRAD_H_
