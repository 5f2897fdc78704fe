// SwiGlu: silu of the left half of each row times its right half.
#ifndef HPMOE_SWIGLU_H_
#define HPMOE_SWIGLU_H_

#include "hpmoe/put_rows.h"

namespace hpmoe {

// One block: three 16-bit tensors, each twice so that loads, arithmetic and stores overlap, and two
// float tensors, once since the vector unit does one thing at a time.
template <typename T>
class SwiGluTask {
 public:
  __aicore__ inline SwiGluTask(const Tile<T>& h, const Tile<T>& a) : h_(h), a_(a) {
    const uint32_t width = Min(a.cols, kElements);
    blocks_ = {a.rows, a.cols, kElements / width, width};
  }

  __aicore__ inline void Run() {
    for (uint32_t slot = 0; slot < 2; ++slot) {
      AscendC::SetFlag<AscendC::HardEvent::V_MTE2>(slot);
      AscendC::SetFlag<AscendC::HardEvent::MTE3_V>(slot);
    }
    const uint32_t count = blocks_.Count();
    for (uint32_t i = 0; i <= count; ++i) {
      if (i < count) Load(i);
      if (i > 0) Compute(i - 1);
    }
    for (uint32_t slot = 0; slot < 2; ++slot) {
      AscendC::WaitFlag<AscendC::HardEvent::V_MTE2>(slot);
      AscendC::WaitFlag<AscendC::HardEvent::MTE3_V>(slot);
    }
    AscendC::PipeBarrier<PIPE_ALL>();
  }

 private:
  // Whole vectors of elements in both widths.
  static constexpr uint32_t kElements =
      kUbBytes / (3 * 2 * sizeof(T) + 2 * sizeof(float)) / (16 * kFractal) * (16 * kFractal);
  static constexpr uint32_t kNarrow = kElements * sizeof(T);  // bytes
  static constexpr uint32_t kWide = kElements * sizeof(float);
  static_assert(6 * kNarrow + 2 * kWide <= kUbBytes, "UB");
  static_assert(kElements / kFractal <= put_rows::kMaxBlocks, "rows of one DMA");

  // 16-bit tensor `which`: 0 gate, 1 up, 2 result.
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
    AscendC::WaitFlag<AscendC::HardEvent::V_MTE2>(slot);
    put_rows::LoadBlock(Narrow(0, slot), gate, b.rows, b.cols, h_.pitch);
    put_rows::LoadBlock(Narrow(1, slot), gate + a_.cols, b.rows, b.cols, h_.pitch);
    AscendC::SetFlag<AscendC::HardEvent::MTE2_V>(slot);
  }

  __aicore__ inline void Compute(uint32_t i) const {
    const Blocks::Block b = blocks_.At(i);
    const uint32_t slot = i % 2;
    const AscendC::LocalTensor<T> result = Narrow(2, slot);
    AscendC::WaitFlag<AscendC::HardEvent::MTE2_V>(slot);
    AscendC::WaitFlag<AscendC::HardEvent::MTE3_V>(slot);
    Activate(result, Narrow(0, slot), Narrow(1, slot), b.rows * b.cols);
    AscendC::SetFlag<AscendC::HardEvent::V_MTE2>(slot);
    Handover<AscendC::HardEvent::V_MTE3>(slot);
    put_rows::StoreBlock(a_.data + static_cast<uint64_t>(b.row) * a_.pitch + b.column, result,
                         b.rows, b.cols, a_.pitch);
    AscendC::SetFlag<AscendC::HardEvent::MTE3_V>(slot);
  }

  // gate / (1 + exp(-gate)) * up in float. Where exp overflows, the quotient is the right limit, 0.
  __aicore__ inline void Activate(const AscendC::LocalTensor<T>& result,
                                  const AscendC::LocalTensor<T>& gate,
                                  const AscendC::LocalTensor<T>& up, uint32_t n) const {
    const int32_t count = static_cast<int32_t>(n);
    const AscendC::LocalTensor<float> g = Wide(0);
    const AscendC::LocalTensor<float> t = Wide(1);
    AscendC::Cast(g, gate, AscendC::RoundMode::CAST_NONE, n);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Muls(t, g, -1.0f, count);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Exp(t, t, count);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Adds(t, t, 1.0f, count);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Div(g, g, t, count);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Cast(t, up, AscendC::RoundMode::CAST_NONE, n);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Mul(g, g, t, count);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Cast(result, g, AscendC::RoundMode::CAST_RINT, n);
    AscendC::PipeBarrier<PIPE_V>();
  }

  Tile<T> h_;
  Tile<T> a_;
  Blocks blocks_;
};

// h [rows x 2I]: gate, then up; a [rows x I]; I a multiple of 16.
template <typename T>
__aicore__ inline void SwiGlu(const Tile<T>& h, const Tile<T>& a) {
  Require(h.rows == a.rows && h.cols == 2 * a.cols && a.cols % kFractal == 0);
  if (a.rows == 0) return;
  SwiGluTask<T>(h, a).Run();
}

}  // namespace hpmoe

#endif  // HPMOE_SWIGLU_H_
