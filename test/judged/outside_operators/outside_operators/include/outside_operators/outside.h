// Kernels of the operators that run as generated code. They are single-buffered.
#ifndef OUTSIDE_OPERATORS_OUTSIDE_H_
#define OUTSIDE_OPERATORS_OUTSIDE_H_

#include "hpmoe/put_rows.h"

namespace outside_operators {

constexpr uint32_t kElements = 8 * 1024;  // elements of a block, held in 16 bits and in float

template <typename T>
__aicore__ inline __gm__ T* Corner(const hpmoe::Tile<T>& tile, const hpmoe::Blocks::Block& b) {
  return tile.data + static_cast<uint64_t>(b.row) * tile.pitch + b.column;
}

__aicore__ inline hpmoe::Blocks Cut(uint32_t rows, uint32_t cols) {
  const uint32_t width = hpmoe::Min(cols, kElements);
  return {rows, cols, kElements / width, width};
}

template <typename T>
__aicore__ inline void Load(const AscendC::LocalTensor<float>& floats,
                            const AscendC::LocalTensor<T>& narrow, const hpmoe::Tile<T>& tile,
                            const hpmoe::Blocks::Block& b) {
  hpmoe::put_rows::LoadBlock(narrow, Corner(tile, b), b.rows, b.cols, tile.pitch);
  hpmoe::Handover<AscendC::HardEvent::MTE2_V>();
  AscendC::Cast(floats, narrow, AscendC::RoundMode::CAST_NONE, b.rows * b.cols);
  AscendC::PipeBarrier<PIPE_V>();
}

template <typename T>
__aicore__ inline void Store(const hpmoe::Tile<T>& tile, const AscendC::LocalTensor<T>& narrow,
                             const AscendC::LocalTensor<float>& floats,
                             const hpmoe::Blocks::Block& b) {
  AscendC::Cast(narrow, floats, AscendC::RoundMode::CAST_RINT, b.rows * b.cols);
  hpmoe::Handover<AscendC::HardEvent::V_MTE3>();
  hpmoe::put_rows::StoreBlock(Corner(tile, b), narrow, b.rows, b.cols, tile.pitch);
  hpmoe::Handover<AscendC::HardEvent::MTE3_MTE2>();
}

// out = rows / divisor, a power of two; a multiple of 16 columns.
template <typename T, uint32_t divisor>
__aicore__ inline void Scale(const hpmoe::Tile<T>& rows, const hpmoe::Tile<T>& out) {
  const AscendC::LocalTensor<T> narrow = hpmoe::Ub<T>(0, kElements);
  const AscendC::LocalTensor<float> floats = hpmoe::Ub<float>(kElements * sizeof(T), kElements);
  const hpmoe::Blocks blocks = Cut(out.rows, out.cols);
  for (uint32_t i = 0; i < blocks.Count(); ++i) {
    const hpmoe::Blocks::Block b = blocks.At(i);
    Load(floats, narrow, rows, b);
    AscendC::Muls(floats, floats, 1.0f / divisor, static_cast<int32_t>(b.rows * b.cols));
    AscendC::PipeBarrier<PIPE_V>();
    Store(out, narrow, floats, b);
  }
  AscendC::PipeBarrier<PIPE_ALL>();
}

// out = max(rows, 0)^2; a multiple of 16 columns.
template <typename T>
__aicore__ inline void SquaredRelu(const hpmoe::Tile<T>& rows, const hpmoe::Tile<T>& out) {
  const AscendC::LocalTensor<T> narrow = hpmoe::Ub<T>(0, kElements);
  const AscendC::LocalTensor<float> floats = hpmoe::Ub<float>(kElements * sizeof(T), kElements);
  const hpmoe::Blocks blocks = Cut(out.rows, out.cols);
  for (uint32_t i = 0; i < blocks.Count(); ++i) {
    const hpmoe::Blocks::Block b = blocks.At(i);
    const int32_t count = static_cast<int32_t>(b.rows * b.cols);
    Load(floats, narrow, rows, b);
    AscendC::Maxs(floats, floats, 0.0f, count);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Mul(floats, floats, floats, count);
    AscendC::PipeBarrier<PIPE_V>();
    Store(out, narrow, floats, b);
  }
  AscendC::PipeBarrier<PIPE_ALL>();
}

// out = 2 max(rows, 0) gradient; a multiple of 16 columns.
template <typename T>
__aicore__ inline void SquaredReluGrad(const hpmoe::Tile<T>& rows, const hpmoe::Tile<T>& gradient,
                                       const hpmoe::Tile<T>& out) {
  constexpr uint32_t kWide = kElements * sizeof(float);
  const AscendC::LocalTensor<float> floats = hpmoe::Ub<float>(0, kElements);
  const AscendC::LocalTensor<float> other = hpmoe::Ub<float>(kWide, kElements);
  const AscendC::LocalTensor<T> first = hpmoe::Ub<T>(2 * kWide, kElements);
  const AscendC::LocalTensor<T> second = hpmoe::Ub<T>(2 * kWide + kElements * sizeof(T), kElements);
  const hpmoe::Blocks blocks = Cut(out.rows, out.cols);
  for (uint32_t i = 0; i < blocks.Count(); ++i) {
    const hpmoe::Blocks::Block b = blocks.At(i);
    const int32_t count = static_cast<int32_t>(b.rows * b.cols);
    Load(floats, first, rows, b);
    Load(other, second, gradient, b);
    AscendC::Maxs(floats, floats, 0.0f, count);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Muls(floats, floats, 2.0f, count);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Mul(floats, floats, other, count);
    AscendC::PipeBarrier<PIPE_V>();
    Store(out, first, floats, b);
  }
  AscendC::PipeBarrier<PIPE_ALL>();
}

// out = zeros: a kernel that is wrong.
template <typename T, uint32_t divisor>
__aicore__ inline void Zeros(const hpmoe::Tile<T>& rows, const hpmoe::Tile<T>& out) {
  const AscendC::LocalTensor<T> narrow = hpmoe::Ub<T>(0, kElements);
  const AscendC::LocalTensor<float> floats = hpmoe::Ub<float>(kElements * sizeof(T), kElements);
  const hpmoe::Blocks blocks = Cut(out.rows, out.cols);
  for (uint32_t i = 0; i < blocks.Count(); ++i) {
    const hpmoe::Blocks::Block b = blocks.At(i);
    Load(floats, narrow, rows, b);
    AscendC::Muls(floats, floats, 0.0f, static_cast<int32_t>(b.rows * b.cols));
    AscendC::PipeBarrier<PIPE_V>();
    Store(out, narrow, floats, b);
  }
  AscendC::PipeBarrier<PIPE_ALL>();
}

}  // namespace outside_operators

#endif  // OUTSIDE_OPERATORS_OUTSIDE_H_
