// SwiGluGrad: the gradient of both halves of SwiGlu's operand.
#ifndef HPMOE_SWIGLU_GRAD_H_
#define HPMOE_SWIGLU_GRAD_H_

#include "hpmoe/detail/rowwise_pipeline.h"

namespace hpmoe {

// 16-bit tensors of a block: 0 gate and its gradient, 1 up and its gradient, 2 da.
template <typename T>
class SwiGluGradTask {
 public:
  __aicore__ inline SwiGluGradTask(const Tile<T>& h, const Tile<T>& da, const Tile<T>& dh)
      : h_(h), da_(da), dh_(dh) {}

  __aicore__ inline void Run() const {
    Pipeline::Run(Pipeline::EvenBlocks(da_.rows, da_.cols), *this);
  }

  __aicore__ inline void Load(const Blocks::Block& b, uint32_t slot) const {
    __gm__ T* gate = Pipeline::Address(h_, b);
    put_rows::LoadBlock(Pipeline::Narrow(0, slot), gate, b.rows, b.cols, h_.pitch);
    put_rows::LoadBlock(Pipeline::Narrow(1, slot), gate + da_.cols, b.rows, b.cols, h_.pitch);
    put_rows::LoadBlock(Pipeline::Narrow(2, slot), Pipeline::Address(da_, b), b.rows, b.cols,
                        da_.pitch);
  }

  // With s = 1 / (1 + exp(-g)): da * u * s * (1 + g * (1 - s)) for the gate g, da * g * s for up u,
  // in float. Where exp overflows, s is the right limit, 0, and so are both results.
  __aicore__ inline void Compute(uint32_t slot, uint32_t n) const {
    const int32_t count = static_cast<int32_t>(n);
    const AscendC::LocalTensor<float> g = Pipeline::Wide(0);
    const AscendC::LocalTensor<float> s = Pipeline::Wide(1);
    const AscendC::LocalTensor<float> slope = Pipeline::Wide(2);
    const AscendC::LocalTensor<float> t = Pipeline::Wide(3);
    AscendC::Cast(g, Pipeline::Narrow(0, slot), AscendC::RoundMode::CAST_NONE, n);
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
    AscendC::Cast(t, Pipeline::Narrow(2, slot), AscendC::RoundMode::CAST_NONE, n);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Adds(slope, slope, 1.0f, count);
    AscendC::Mul(g, g, s, count);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Mul(slope, slope, s, count);
    AscendC::Mul(g, g, t, count);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Mul(slope, slope, t, count);
    AscendC::Cast(s, Pipeline::Narrow(1, slot), AscendC::RoundMode::CAST_NONE, n);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Mul(slope, slope, s, count);
    AscendC::Cast(Pipeline::Narrow(1, slot), g, AscendC::RoundMode::CAST_RINT, n);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Cast(Pipeline::Narrow(0, slot), slope, AscendC::RoundMode::CAST_RINT, n);
    AscendC::PipeBarrier<PIPE_V>();
  }

  __aicore__ inline void Store(const Blocks::Block& b, uint32_t slot) const {
    __gm__ T* dgate = Pipeline::Address(dh_, b);
    put_rows::StoreBlock(dgate, Pipeline::Narrow(0, slot), b.rows, b.cols, dh_.pitch);
    put_rows::StoreBlock(dgate + da_.cols, Pipeline::Narrow(1, slot), b.rows, b.cols, dh_.pitch);
  }

 private:
  using Pipeline = RowwisePipeline<T, 3, 4, true>;

  Tile<T> h_;
  Tile<T> da_;
  Tile<T> dh_;
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
