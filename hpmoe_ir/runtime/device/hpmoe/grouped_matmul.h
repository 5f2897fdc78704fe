// GroupedMatmul: rows of one expert times (columns of) its weights.
#ifndef HPMOE_GROUPED_MATMUL_H_
#define HPMOE_GROUPED_MATMUL_H_

#include "hpmoe/matmul_block.h"

namespace hpmoe {

// Blocks of M x N results, each summed up in L0C over chunks of the inner dimension that lie in L1.
// The matrix core's queues overlap by double buffers: while chunk i is multiplied, chunk i + 1 (be
// it of the next block) is on its way into L1, and step by step the next operands into L0.
template <typename T, uint32_t M, uint32_t N, uint32_t K, bool TransposeRhs>
class MatmulTask {
 public:
  __aicore__ inline MatmulTask(const Tile<T>& a, const Tile<T>& w, const Tile<T>& out)
      : a_(a),
        w_(w),
        out_(out),
        chunks_(CeilDiv(a.cols, Plan::kChunk)),
        blocks_{out.rows, out.cols, M, N} {}

  __aicore__ inline void Run() {
    for (uint32_t slot = 0; slot < 2; ++slot) {
      AscendC::SetFlag<AscendC::HardEvent::MTE1_MTE2>(slot);
      AscendC::SetFlag<AscendC::HardEvent::M_MTE1>(slot);
    }
    for (uint32_t slot = 0; slot < Plan::kResults; ++slot) {
      AscendC::SetFlag<AscendC::HardEvent::FIX_M>(slot);
    }
    const uint32_t count = blocks_.Count() * chunks_;
    for (uint32_t i = 0; i <= count; ++i) {
      if (i < count) Load(i);
      if (i > 0) Multiply(i - 1);
    }
    for (uint32_t slot = 0; slot < 2; ++slot) {
      AscendC::WaitFlag<AscendC::HardEvent::MTE1_MTE2>(slot);
      AscendC::WaitFlag<AscendC::HardEvent::M_MTE1>(slot);
    }
    for (uint32_t slot = 0; slot < Plan::kResults; ++slot) {
      AscendC::WaitFlag<AscendC::HardEvent::FIX_M>(slot);
    }
    AscendC::PipeBarrier<PIPE_ALL>();
  }

 private:
  using Plan = MatmulPlan<T, M, N, K>;

  // Depth of chunk c.
  __aicore__ inline uint32_t Depth(uint32_t c) const {
    return Min(Plan::kChunk, a_.cols - c * Plan::kChunk);
  }

  // Brings both operands of chunk i into L1.
  __aicore__ inline void Load(uint32_t i) const {
    const Blocks::Block b = blocks_.At(i / chunks_);
    const uint32_t begin = i % chunks_ * Plan::kChunk;
    const uint32_t depth = Depth(i % chunks_);
    const uint32_t slot = i % 2;
    AscendC::WaitFlag<AscendC::HardEvent::MTE1_MTE2>(slot);
    LoadNz(Plan::LhsChunk(slot), a_.data + static_cast<uint64_t>(b.row) * a_.pitch + begin, b.rows,
           depth, a_.pitch);
    if constexpr (TransposeRhs) {
      LoadNz(Plan::RhsChunk(slot), w_.data + static_cast<uint64_t>(b.column) * w_.pitch + begin,
             b.cols, depth, w_.pitch);
    } else {
      LoadNz(Plan::RhsChunk(slot), w_.data + static_cast<uint64_t>(begin) * w_.pitch + b.column,
             depth, b.cols, w_.pitch);
    }
    AscendC::SetFlag<AscendC::HardEvent::MTE2_MTE1>(slot);
  }

  // Adds chunk i to its block's result; stores the result after the block's last chunk.
  __aicore__ inline void Multiply(uint32_t i) {
    const uint32_t block = i / chunks_;
    const Blocks::Block b = blocks_.At(block);
    const uint32_t chunk = i % chunks_;
    const uint32_t depth = Depth(chunk);
    const uint32_t slot = i % 2;
    const uint32_t result = block % Plan::kResults;
    if (chunk == 0) AscendC::WaitFlag<AscendC::HardEvent::FIX_M>(result);
    AscendC::WaitFlag<AscendC::HardEvent::MTE2_MTE1>(slot);
    for (uint32_t k = 0; k < depth; k += K) {
      const uint32_t step = Min(K, depth - k);
      const uint32_t l0 = steps_++ % 2;
      AscendC::WaitFlag<AscendC::HardEvent::M_MTE1>(l0);
      LoadLhs(Plan::LhsStep(l0), Plan::LhsChunk(slot), RoundUp(b.rows, kFractal), k, step);
      if constexpr (TransposeRhs) {
        LoadRhsTransposed(Plan::RhsStep(l0), Plan::RhsChunk(slot), b.cols, k, step);
      } else {
        LoadRhs(Plan::RhsStep(l0), Plan::RhsChunk(slot), depth, b.cols, k, step);
      }
      if (k + step == depth) AscendC::SetFlag<AscendC::HardEvent::MTE1_MTE2>(slot);
      Handover<AscendC::HardEvent::MTE1_M>(l0);
      Accumulate<T>(Plan::Result(result), Plan::LhsStep(l0), Plan::RhsStep(l0), b.rows, b.cols,
                    step, chunk == 0 && k == 0);
      AscendC::SetFlag<AscendC::HardEvent::M_MTE1>(l0);
    }
    if (chunk + 1 < chunks_) return;
    Handover<AscendC::HardEvent::M_FIX>(result);
    StoreResult(out_.data + static_cast<uint64_t>(b.row) * out_.pitch + b.column,
                Plan::Result(result), b.rows, b.cols, out_.pitch);
    AscendC::SetFlag<AscendC::HardEvent::FIX_M>(result);
  }

  Tile<T> a_;
  Tile<T> w_;
  Tile<T> out_;
  uint32_t chunks_;
  Blocks blocks_;
  uint32_t steps_ = 0;
};

// out [rows x n] = a [rows x Kdim] * w [Kdim x n], or * w^T with w [n x Kdim] when TransposeRhs;
// sums in float, rounded to nearest even on the way out. Kdim and n are multiples of 16; only valid
// rows are written. M x N is the block of the result in L0C, K the inner step in L0A and L0B.
template <typename T, uint32_t M, uint32_t N, uint32_t K, bool TransposeRhs>
__aicore__ inline void GroupedMatmul(const Tile<T>& a, const Tile<T>& w, const Tile<T>& out) {
  Require(a.rows == out.rows && a.cols == (TransposeRhs ? w.cols : w.rows) &&
          out.cols == (TransposeRhs ? w.rows : w.cols));
  Require(a.cols > 0 && a.cols % kFractal == 0 && out.cols % kFractal == 0);
  if (out.rows == 0 || out.cols == 0) return;
  MatmulTask<T, M, N, K, TransposeRhs>(a, w, out).Run();
}

}  // namespace hpmoe

#endif  // HPMOE_GROUPED_MATMUL_H_
