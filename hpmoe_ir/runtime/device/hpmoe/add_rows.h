// AddRows: the sum of two tiles, as gradients of a value that is used twice need it.
#ifndef HPMOE_ADD_ROWS_H_
#define HPMOE_ADD_ROWS_H_

#include "hpmoe/detail/rowwise_pipeline.h"

namespace hpmoe {

// The sum takes the place of the first operand.
template <typename T>
class AddRowsTask {
 public:
  __aicore__ inline AddRowsTask(const Tile<T>& a, const Tile<T>& b, const Tile<T>& out)
      : a_(a), b_(b), out_(out) {}

  __aicore__ inline void Run() const {
    Pipeline::Run(Pipeline::EvenBlocks(out_.rows, out_.cols), *this);
  }

  __aicore__ inline void Load(const Blocks::Block& b, uint32_t slot) const {
    put_rows::LoadBlock(Pipeline::Narrow(0, slot), Pipeline::Address(a_, b), b.rows, b.cols,
                        a_.pitch);
    put_rows::LoadBlock(Pipeline::Narrow(1, slot), Pipeline::Address(b_, b), b.rows, b.cols,
                        b_.pitch);
  }

  __aicore__ inline void Compute(uint32_t slot, uint32_t n) const {
    const AscendC::LocalTensor<T> a = Pipeline::Narrow(0, slot);
    const AscendC::LocalTensor<float> sum = Pipeline::Wide(0);
    const AscendC::LocalTensor<float> t = Pipeline::Wide(1);
    AscendC::Cast(sum, a, AscendC::RoundMode::CAST_NONE, n);
    AscendC::Cast(t, Pipeline::Narrow(1, slot), AscendC::RoundMode::CAST_NONE, n);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Add(sum, sum, t, static_cast<int32_t>(n));
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Cast(a, sum, AscendC::RoundMode::CAST_RINT, n);
    AscendC::PipeBarrier<PIPE_V>();
  }

  __aicore__ inline void Store(const Blocks::Block& b, uint32_t slot) const {
    put_rows::StoreBlock(Pipeline::Address(out_, b), Pipeline::Narrow(0, slot), b.rows, b.cols,
                         out_.pitch);
  }

 private:
  using Pipeline = RowwisePipeline<T, 2, 2, true>;

  Tile<T> a_;
  Tile<T> b_;
  Tile<T> out_;
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
