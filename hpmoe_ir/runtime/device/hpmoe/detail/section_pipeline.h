// The pipeline of the matrix core for sums over a long inner dimension, section by section.
#ifndef HPMOE_DETAIL_SECTION_PIPELINE_H_
#define HPMOE_DETAIL_SECTION_PIPELINE_H_

#include "hpmoe/detail/matmul_block.h"

namespace hpmoe {

// How sums over a long inner dimension use L1: it holds the whole left operand of a section, that
// of the next section, which is loaded meanwhile, and double-buffered chunks of the right operand.
template <class Plan>
struct SectionL1 {
  // Chunks of a section. More chunks make a section longer but its copies shorter.
  static constexpr uint32_t kChunks = 4;
  // Steps of a chunk, of which one copy loads the rows; 0 where L1 doesn't hold two sections.
  static constexpr uint32_t kFit = kL1Bytes / (2 * (kChunks * Plan::kLhsStep + Plan::kRhsStep));
  static constexpr uint32_t kMaxSteps =
      kFit * Plan::kStep <= kMaxNzRows ? kFit : kMaxNzRows / Plan::kStep;

  using Operand = AscendC::LocalTensor<typename Plan::Element>;
  static __aicore__ inline Operand Lhs(uint32_t section, uint32_t chunk) {
    const uint32_t place = section % 2 * kChunks + chunk;
    return {AscendC::TPosition::A1, place * kMaxSteps * Plan::kLhsStep,
            kMaxSteps * Plan::kStep * Plan::kRows};
  }
  static __aicore__ inline Operand Rhs(uint32_t slot) {
    const uint32_t after = 2 * kChunks * kMaxSteps * Plan::kLhsStep;
    return {AscendC::TPosition::B1, after + slot * kMaxSteps * Plan::kRhsStep,
            kMaxSteps * Plan::kStep * Plan::kCols};
  }
};

// Computes all M x N blocks of a float result, of which L0C holds two: the inner dimension is cut
// into sections, and the sum of each section is added to the block in global memory. The left
// operand of a section is read once for all blocks of a row, so that blocks of half the size read
// less of global memory than with MatmulPipeline.
//
// `Operands` has the functions of MatmulPipeline's, and stores a block's sum over a section:
//   StoreSection(result, block, first): sums of a section from L0C to global memory, of the first
//     section or of a later one.
template <class Plan, class Operands>
class SectionPipeline {
 public:
  // Requires depth > 0 and several blocks in a row of blocks.
  __aicore__ inline SectionPipeline(const Operands& operands, uint32_t rows, uint32_t cols,
                                    uint32_t depth)
      : operands_(operands), depth_(depth), blocks_{rows, cols, Plan::kRows, Plan::kCols} {
    static_assert(Plan::kResults == 2, "L0C holds two results");
    static_assert(L1::kMaxSteps > 0, "L1 holds two sections");
    Require(depth > 0 && cols > Plan::kCols);
    const uint32_t all = CeilDiv(depth, Plan::kStep);
    sections_ = CeilDiv(all, L1::kChunks * L1::kMaxSteps);
    chunk_ = CeilDiv(all, L1::kChunks * sections_) * Plan::kStep;
    across_ = CeilDiv(cols, Plan::kCols);
  }

  __aicore__ inline void Run() {
    for (uint32_t slot = 0; slot < 2; ++slot) {
      AscendC::SetFlag<AscendC::HardEvent::MTE1_MTE2>(slot);
      AscendC::SetFlag<AscendC::HardEvent::M_MTE1>(slot);
      AscendC::SetFlag<AscendC::HardEvent::FIX_M>(slot);
    }
    const uint32_t count = CeilDiv(blocks_.rows, Plan::kRows) * sections_;
    uint32_t loaded = 0, multiplied = 0;
    for (uint32_t section = 0; section < count; ++section) {
      const uint32_t last = across_ * Chunks(section);
      // Multiplications run a chunk behind, so the first one of a section comes with its second
      // chunk, and the last one with the first chunk of the next.
      for (uint32_t i = 0; i < last; ++i) {
        Load(section, i, loaded++, section + 1 < count);
        if (i > 0)
          Multiply(section, i - 1, multiplied++);
        else if (section > 0)
          Multiply(section - 1, across_ * Chunks(section - 1) - 1, multiplied++);
      }
    }
    Multiply(count - 1, across_ * Chunks(count - 1) - 1, multiplied++);
    for (uint32_t slot = 0; slot < 2; ++slot) {
      AscendC::WaitFlag<AscendC::HardEvent::MTE1_MTE2>(slot);
      AscendC::WaitFlag<AscendC::HardEvent::M_MTE1>(slot);
      AscendC::WaitFlag<AscendC::HardEvent::FIX_M>(slot);
    }
    AscendC::PipeBarrier<PIPE_ALL>();
  }

 private:
  using L1 = SectionL1<Plan>;

  // First inner index of a section, and the number of its chunks.
  __aicore__ inline uint32_t Begin(uint32_t section) const {
    return section % sections_ * L1::kChunks * chunk_;
  }
  __aicore__ inline uint32_t Chunks(uint32_t section) const {
    return Min(L1::kChunks, CeilDiv(depth_ - Begin(section), chunk_));
  }
  // First inner index of a section's chunk, and how many there are.
  __aicore__ inline uint32_t ChunkBegin(uint32_t section, uint32_t chunk) const {
    return Begin(section) + chunk * chunk_;
  }
  __aicore__ inline uint32_t ChunkDepth(uint32_t section, uint32_t chunk) const {
    return Min(chunk_, depth_ - ChunkBegin(section, chunk));
  }

  // Sections are counted over all rows of blocks.
  __aicore__ inline Blocks::Block Block(uint32_t section, uint32_t across) const {
    return blocks_.At(section / sections_ * across_ + across);
  }

  __aicore__ inline void LoadLhs(uint32_t section, uint32_t chunk) const {
    operands_.LoadLhs(L1::Lhs(section, chunk), Block(section, 0), ChunkBegin(section, chunk),
                      ChunkDepth(section, chunk));
  }

  // Loads the operands of the i-th chunk of a section into L1, then a part of the next section's
  // left operand. `number` counts chunks over all sections.
  //
  // The next section's left operand overwrites that of the previous section, which was read until
  // its last chunk: once the second chunk of this section is loaded, the flag of its slot has
  // ordered that.
  __aicore__ inline void Load(uint32_t section, uint32_t i, uint32_t number, bool more) const {
    const uint32_t chunks = Chunks(section);
    const uint32_t chunk = i % chunks;
    const uint32_t slot = number % 2;
    AscendC::WaitFlag<AscendC::HardEvent::MTE1_MTE2>(slot);
    if (section == 0 && i < chunks) LoadLhs(section, chunk);
    operands_.LoadRhs(L1::Rhs(slot), Block(section, i / chunks), ChunkBegin(section, chunk),
                      ChunkDepth(section, chunk));
    AscendC::SetFlag<AscendC::HardEvent::MTE2_MTE1>(slot);
    if (!more || i == 0) return;
    const uint32_t parts = Chunks(section + 1), times = across_ * chunks - 1;
    for (uint32_t c = (i - 1) * parts / times; c < i * parts / times; ++c) LoadLhs(section + 1, c);
  }

  // Adds the i-th chunk of a section to its block's sum, which is stored after the last one.
  __aicore__ inline void Multiply(uint32_t section, uint32_t i, uint32_t number) {
    const uint32_t chunks = Chunks(section);
    const uint32_t chunk = i % chunks;
    const uint32_t slot = number % 2;
    const Blocks::Block b = Block(section, i / chunks);
    const uint32_t place = results_ % 2;
    const AscendC::LocalTensor<float> result = Plan::Result(place);
    AscendC::WaitFlag<AscendC::HardEvent::MTE2_MTE1>(slot);
    if (chunk == 0) AscendC::WaitFlag<AscendC::HardEvent::FIX_M>(place);
    const uint32_t depth = RoundUp(ChunkDepth(section, chunk), kFractal);
    for (uint32_t k = 0; k < depth; k += Plan::kStep) {
      const uint32_t step = Min(Plan::kStep, depth - k);
      const uint32_t l0 = steps_++ % 2;
      AscendC::WaitFlag<AscendC::HardEvent::M_MTE1>(l0);
      operands_.LoadStep(l0, L1::Lhs(section, chunk), L1::Rhs(slot), b, {0, b.cols}, depth, k,
                         step);
      if (k + step == depth) AscendC::SetFlag<AscendC::HardEvent::MTE1_MTE2>(slot);
      Handover<AscendC::HardEvent::MTE1_M>(l0);
      Accumulate(result, Plan::LhsStep(l0), Plan::RhsStep(l0), b.rows, b.cols, step,
                 chunk == 0 && k == 0);
      AscendC::SetFlag<AscendC::HardEvent::M_MTE1>(l0);
    }
    if (chunk + 1 < chunks) return;
    Handover<AscendC::HardEvent::M_FIX>(place);
    // The previous sum of this block was stored two or more blocks ago: the flag that freed its
    // place in L0C came after that store.
    operands_.StoreSection(result, b, Begin(section) == 0);
    AscendC::SetFlag<AscendC::HardEvent::FIX_M>(place);
    ++results_;
  }

  Operands operands_;
  uint32_t depth_;
  Blocks blocks_;
  uint32_t sections_;  // of each row of blocks
  uint32_t chunk_;     // inner indices
  uint32_t across_;    // blocks of a row of blocks
  uint32_t steps_ = 0;
  uint32_t results_ = 0;
};

}  // namespace hpmoe

#endif  // HPMOE_DETAIL_SECTION_PIPELINE_H_
