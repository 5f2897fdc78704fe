// The matrix core's work on one product: blocks of the result one after the other, its queues
// overlapping.
#ifndef HPMOE_DETAIL_MATMUL_PIPELINE_H_
#define HPMOE_DETAIL_MATMUL_PIPELINE_H_

#include "hpmoe/detail/matmul_block.h"

namespace hpmoe {

// The blocks of a product that a task does: first, first + step, and so on.
struct Share {
  uint32_t first = 0;
  uint32_t step = 1;
};

// Columns of a block, counted from its first.
struct Columns {
  uint32_t first;
  uint32_t count;
};

// Blocks of M x N results, each summed up in L0C over chunks of the inner dimension that lie in L1.
// The matrix core's queues overlap by double buffers: while chunk i is multiplied, chunk i + 1 (be
// it of the next block) is on its way into L1, and step by step the next operands into L0.
//
// Operands knows where the operands and the result are:
//   LoadLhs(l1, block, begin, depth), LoadRhs: inner indices begin .. begin + depth - 1 of a
//   block's
//     operand to L1; indices up to the next multiple of 16, too, must end in L0 as zeros;
//   LoadStep(l0, lhs, rhs, block, columns, depth, k, step): inner indices k .. k + step - 1 of a
//     chunk in L1, depth counted in whole fractals, to L0A and, these columns of the block, to L0B;
//   Store(result, block, columns): columns of a result from L0C to global memory.
//
// Where L0C holds one result only, the first and the last chunk of a block go half by half of its
// columns: one half is stored while the other is still summed up, or begun anew for the next block.
template <class Plan, class Operands>
class MatmulPipeline {
 public:
  // The inner dimension may be 0: its chunk then has no valid index, so the result is zero.
  __aicore__ inline MatmulPipeline(const Operands& operands, uint32_t rows, uint32_t cols,
                                   uint32_t depth, const Share& share)
      : operands_(operands),
        depth_(depth),
        l1_(depth, Plan::kKeeps && cols > 2 * share.step * Plan::kCols),
        blocks_{rows, cols, Plan::kRows, Plan::kCols},
        share_(share) {}

  __aicore__ inline void Run() {
    if (share_.first >= blocks_.Count()) return;
    for (uint32_t slot = 0; slot < 2; ++slot) {
      AscendC::SetFlag<AscendC::HardEvent::MTE1_MTE2>(slot);
      AscendC::SetFlag<AscendC::HardEvent::M_MTE1>(slot);
    }
    for (uint32_t part = 0; part < kStores; ++part) {
      AscendC::SetFlag<AscendC::HardEvent::FIX_M>(part);
    }
    const uint32_t count = CeilDiv(blocks_.Count() - share_.first, share_.step) * l1_.Chunks();
    for (uint32_t i = 0; i <= count; ++i) {
      if (i < count) Load(i);
      if (i > 0) Multiply(i - 1);
    }
    for (uint32_t slot = 0; slot < 2; ++slot) {
      AscendC::WaitFlag<AscendC::HardEvent::MTE1_MTE2>(slot);
      AscendC::WaitFlag<AscendC::HardEvent::M_MTE1>(slot);
    }
    for (uint32_t part = 0; part < kStores; ++part) {
      AscendC::WaitFlag<AscendC::HardEvent::FIX_M>(part);
    }
    AscendC::PipeBarrier<PIPE_ALL>();
  }

 private:
  // Places in L0C that are stored on their own: results, or parts of the only one.
  static constexpr uint32_t kStores = Plan::kResults * Plan::kParts;

  // Depth of chunk c.
  __aicore__ inline uint32_t Depth(uint32_t c) const {
    return Min(l1_.Chunk(), depth_ - c * l1_.Chunk());
  }

  // The i-th block of this task.
  __aicore__ inline Blocks::Block Block(uint32_t i) const {
    return blocks_.At(share_.first + i * share_.step);
  }

  // Brings both operands of chunk i into L1, the left one unless it has stayed there.
  //
  // What stays was last read a block earlier, two or more chunks ago, and so before the flag.
  __aicore__ inline void Load(uint32_t i) const {
    const uint32_t block = i / l1_.Chunks();
    const Blocks::Block b = Block(block);
    const uint32_t chunk = i % l1_.Chunks();
    const uint32_t begin = chunk * l1_.Chunk();
    const uint32_t slot = i % 2;
    AscendC::WaitFlag<AscendC::HardEvent::MTE1_MTE2>(slot);
    if (!l1_.Keeps(chunk) || block == 0 || Block(block - 1).row != b.row) {
      operands_.LoadLhs(l1_.Lhs(slot, chunk), b, begin, Depth(chunk));
    }
    operands_.LoadRhs(l1_.Rhs(slot), b, begin, Depth(chunk));
    AscendC::SetFlag<AscendC::HardEvent::MTE2_MTE1>(slot);
  }

  // Adds chunk i to its block's result; stores the result after the block's last chunk.
  __aicore__ inline void Multiply(uint32_t i) {
    const uint32_t block = i / l1_.Chunks();
    const Blocks::Block b = Block(block);
    const uint32_t chunk = i % l1_.Chunks();
    const uint32_t slot = i % 2;
    const bool first = chunk == 0, last = chunk + 1 == l1_.Chunks();
    AscendC::WaitFlag<AscendC::HardEvent::MTE2_MTE1>(slot);
    // The halves of a smaller block would lie elsewhere in L0C.
    const bool whole = RoundUp(b.rows, kFractal) == Plan::kRows && b.cols == Plan::kCols;
    const uint32_t parts = (first || last) && whole ? Plan::kParts : 1;
    for (uint32_t part = 0; part < parts; ++part) {
      const uint32_t cols = b.cols / parts;
      const uint32_t place = block % Plan::kResults + part;
      // What is not halved takes both places.
      const uint32_t places = parts == Plan::kParts ? 1 : Plan::kParts;
      for (uint32_t p = place; first && p < place + places; ++p) {
        AscendC::WaitFlag<AscendC::HardEvent::FIX_M>(p);
      }
      const AscendC::LocalTensor<float> result =
          Plan::Result(block % Plan::kResults)[part * cols * Plan::kRows];
      Sum(result, b, {part * cols, cols}, chunk, slot, part + 1 == parts);
      if (!last) continue;
      Handover<AscendC::HardEvent::M_FIX>(place);
      operands_.Store(result, b, {part * cols, cols});
      for (uint32_t p = place; p < place + places; ++p) {
        AscendC::SetFlag<AscendC::HardEvent::FIX_M>(p);
      }
    }
  }

  // Adds a chunk to columns of a result. `leaves`: nothing else is read from the chunk in L1.
  __aicore__ inline void Sum(const AscendC::LocalTensor<float>& result, const Blocks::Block& b,
                             const Columns& part, uint32_t chunk, uint32_t slot, bool leaves) {
    const uint32_t depth = Max(RoundUp(Depth(chunk), kFractal), kFractal);
    for (uint32_t k = 0; k < depth; k += Plan::kStep) {
      const uint32_t step = Min(Plan::kStep, depth - k);
      const uint32_t l0 = steps_++ % 2;
      AscendC::WaitFlag<AscendC::HardEvent::M_MTE1>(l0);
      operands_.LoadStep(l0, l1_.Lhs(slot, chunk), l1_.Rhs(slot), b, part, depth, k, step);
      if (leaves && k + step == depth) AscendC::SetFlag<AscendC::HardEvent::MTE1_MTE2>(slot);
      Handover<AscendC::HardEvent::MTE1_M>(l0);
      Accumulate(result, Plan::LhsStep(l0), Plan::RhsStep(l0), b.rows, part.count, step,
                 chunk == 0 && k == 0);
      AscendC::SetFlag<AscendC::HardEvent::M_MTE1>(l0);
    }
  }

  Operands operands_;
  uint32_t depth_;
  MatmulL1<Plan> l1_;
  Blocks blocks_;
  Share share_;
  uint32_t steps_ = 0;
};

}  // namespace hpmoe

#endif  // HPMOE_DETAIL_MATMUL_PIPELINE_H_
