// RowwisePipeline: element-wise arithmetic in float on blocks of rows, while the next block is
// loaded and the previous one is stored; for AddRows, SwiGlu and SwiGluGrad.
#ifndef HPMOE_DETAIL_ROWWISE_PIPELINE_H_
#define HPMOE_DETAIL_ROWWISE_PIPELINE_H_

#include "hpmoe/put_rows.h"

namespace hpmoe {

// UB holds `Narrows` 16-bit tensors of a block, double-buffered so that loads, arithmetic and
// stores overlap, and `Wides` float tensors, single-buffered since only the vector unit uses them.
// InPlace: results overwrite operands, so a slot is loaded again only after its store; otherwise
// after its arithmetic, and a result waits for the store of the previous result in its slot.
template <typename T, uint32_t Narrows, uint32_t Wides, bool InPlace>
class RowwisePipeline {
 public:
  // Elements of a block; a multiple of kVectorBytes is whole vectors of 16 and of 32 bits. A DMA
  // moves a block, whose rows have at least kFractal elements.
  static constexpr uint32_t kFit = kUbBytes / (Narrows * 2 * sizeof(T) + Wides * sizeof(float));
  static constexpr uint32_t kElements =
      (kFit < kMaxBursts * kFractal ? kFit : kMaxBursts * kFractal) / kVectorBytes * kVectorBytes;
  static_assert(kElements > 0, "UB holds a vector of each tensor");

  // Blocks of about the same width, a multiple of 16.
  static __aicore__ inline Blocks EvenBlocks(uint32_t rows, uint32_t cols) {
    const uint32_t across = CeilDiv(cols, kElements);
    const uint32_t width = RoundUp(CeilDiv(cols, across), kFractal);
    return {rows, cols, kElements / width, width};
  }

  static __aicore__ inline AscendC::LocalTensor<T> Narrow(uint32_t which, uint32_t slot) {
    return Ub<T>((2 * which + slot) * kNarrow, kElements);
  }
  static __aicore__ inline AscendC::LocalTensor<float> Wide(uint32_t which) {
    return Ub<float>(2 * Narrows * kNarrow + which * kWide, kElements);
  }
  static __aicore__ inline __gm__ T* Address(const Tile<T>& tile, const Blocks::Block& b) {
    return tile.data + static_cast<uint64_t>(b.row) * tile.pitch + b.column;
  }

  // The task's Load(block, slot), Compute(slot, elements) and Store(block, slot) for every block.
  // Compute ends with a barrier of the vector unit.
  template <typename Task>
  static __aicore__ inline void Run(const Blocks& blocks, const Task& task) {
    for (uint32_t slot = 0; slot < 2; ++slot) {
      AscendC::SetFlag<kLoadable>(slot);
      if constexpr (!InPlace) AscendC::SetFlag<AscendC::HardEvent::MTE3_V>(slot);
    }
    const uint32_t count = blocks.Count();
    for (uint32_t i = 0; i <= count; ++i) {
      if (i < count) Load(task, blocks.At(i), i % 2);
      if (i > 0) ComputeAndStore(task, blocks.At(i - 1), (i - 1) % 2);
    }
    for (uint32_t slot = 0; slot < 2; ++slot) {
      AscendC::WaitFlag<kLoadable>(slot);
      if constexpr (!InPlace) AscendC::WaitFlag<AscendC::HardEvent::MTE3_V>(slot);
    }
    AscendC::PipeBarrier<PIPE_ALL>();
  }

 private:
  static constexpr AscendC::HardEvent kLoadable =
      InPlace ? AscendC::HardEvent::MTE3_MTE2 : AscendC::HardEvent::V_MTE2;
  static constexpr uint32_t kNarrow = kElements * sizeof(T);  // bytes
  static constexpr uint32_t kWide = kElements * sizeof(float);
  static_assert(2 * Narrows * kNarrow + Wides * kWide <= kUbBytes, "UB");
  static_assert(kElements / kFractal <= kMaxBursts, "rows of one DMA");

  template <typename Task>
  static __aicore__ inline void Load(const Task& task, const Blocks::Block& b, uint32_t slot) {
    AscendC::WaitFlag<kLoadable>(slot);
    task.Load(b, slot);
    AscendC::SetFlag<AscendC::HardEvent::MTE2_V>(slot);
  }

  template <typename Task>
  static __aicore__ inline void ComputeAndStore(const Task& task, const Blocks::Block& b,
                                                uint32_t slot) {
    AscendC::WaitFlag<AscendC::HardEvent::MTE2_V>(slot);
    if constexpr (!InPlace) AscendC::WaitFlag<AscendC::HardEvent::MTE3_V>(slot);
    task.Compute(slot, b.rows * b.cols);
    if constexpr (!InPlace) AscendC::SetFlag<kLoadable>(slot);
    Handover<AscendC::HardEvent::V_MTE3>(slot);
    task.Store(b, slot);
    AscendC::SetFlag<InPlace ? kLoadable : AscendC::HardEvent::MTE3_V>(slot);
  }
};

}  // namespace hpmoe

#endif  // HPMOE_DETAIL_ROWWISE_PIPELINE_H_
