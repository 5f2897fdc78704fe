// SwiGlu: silu of the left half of each row times its right half.
#ifndef HPMOE_SWIGLU_H_
#define HPMOE_SWIGLU_H_

#include "hpmoe/detail/rowwise_pipeline.h"

namespace hpmoe {

// 16-bit tensors of a block: 0 gate, 1 up, 2 result.
template <typename T>
class SwiGluTask {
 public:
  __aicore__ inline SwiGluTask(const Tile<T>& h, const Tile<T>& a) : h_(h), a_(a) {}

  __aicore__ inline void Run() const {
    const uint32_t width = Min(a_.cols, Pipeline::kElements);
    Pipeline::Run({a_.rows, a_.cols, Pipeline::kElements / width, width}, *this);
  }

  __aicore__ inline void Load(const Blocks::Block& b, uint32_t slot) const {
    __gm__ T* gate = Pipeline::Address(h_, b);
    put_rows::LoadBlock(Pipeline::Narrow(0, slot), gate, b.rows, b.cols, h_.pitch);
    put_rows::LoadBlock(Pipeline::Narrow(1, slot), gate + a_.cols, b.rows, b.cols, h_.pitch);
  }

  // gate / (1 + exp(-gate)) * up in float. Where exp overflows, the quotient is the right limit, 0.
  __aicore__ inline void Compute(uint32_t slot, uint32_t n) const {
    const int32_t count = static_cast<int32_t>(n);
    const AscendC::LocalTensor<float> g = Pipeline::Wide(0);
    const AscendC::LocalTensor<float> t = Pipeline::Wide(1);
    AscendC::Cast(g, Pipeline::Narrow(0, slot), AscendC::RoundMode::CAST_NONE, n);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Muls(t, g, -1.0f, count);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Exp(t, t, count);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Adds(t, t, 1.0f, count);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Div(g, g, t, count);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Cast(t, Pipeline::Narrow(1, slot), AscendC::RoundMode::CAST_NONE, n);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Mul(g, g, t, count);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Cast(Pipeline::Narrow(2, slot), g, AscendC::RoundMode::CAST_RINT, n);
    AscendC::PipeBarrier<PIPE_V>();
  }

  __aicore__ inline void Store(const Blocks::Block& b, uint32_t slot) const {
    put_rows::StoreBlock(Pipeline::Address(a_, b), Pipeline::Narrow(2, slot), b.rows, b.cols,
                         a_.pitch);
  }

 private:
  using Pipeline = RowwisePipeline<T, 3, 2, false>;

  Tile<T> h_;
  Tile<T> a_;
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
