// Kernels of the clamp extension. They are single-buffered: simple rather than fast.
#ifndef CLAMP_EXTENSION_CLAMP_H_
#define CLAMP_EXTENSION_CLAMP_H_

#include "hpmoe/put_rows.h"

namespace clamp_extension {

constexpr uint32_t kElements = 8 * 1024;  // elements of a block, held in 16 bits and in float

template <typename T>
__aicore__ inline void LoadFloats(const AscendC::LocalTensor<float>& floats,
                                  const AscendC::LocalTensor<T>& narrow, __gm__ T* source,
                                  const hpmoe::Blocks::Block& b, uint32_t pitch) {
  hpmoe::put_rows::LoadBlock(narrow, source, b.rows, b.cols, pitch);
  hpmoe::Handover<AscendC::HardEvent::MTE2_V>();
  AscendC::Cast(floats, narrow, AscendC::RoundMode::CAST_NONE, b.rows * b.cols);
  AscendC::PipeBarrier<PIPE_V>();
}

template <typename T>
__aicore__ inline void StoreFloats(__gm__ T* target, const AscendC::LocalTensor<T>& narrow,
                                   const AscendC::LocalTensor<float>& floats,
                                   const hpmoe::Blocks::Block& b, uint32_t pitch) {
  AscendC::Cast(narrow, floats, AscendC::RoundMode::CAST_RINT, b.rows * b.cols);
  hpmoe::Handover<AscendC::HardEvent::V_MTE3>();
  hpmoe::put_rows::StoreBlock(target, narrow, b.rows, b.cols, pitch);
  hpmoe::Handover<AscendC::HardEvent::MTE3_MTE2>();
}

__aicore__ inline void ClampFloats(const AscendC::LocalTensor<float>& floats, float limit,
                                   uint32_t count) {
  AscendC::Mins(floats, floats, limit, static_cast<int32_t>(count));
  AscendC::PipeBarrier<PIPE_V>();
  AscendC::Maxs(floats, floats, -limit, static_cast<int32_t>(count));
  AscendC::PipeBarrier<PIPE_V>();
}

template <typename T>
__aicore__ inline __gm__ T* Corner(const hpmoe::Tile<T>& tile, const hpmoe::Blocks::Block& b) {
  return tile.data + static_cast<uint64_t>(b.row) * tile.pitch + b.column;
}

__aicore__ inline hpmoe::Blocks Cut(uint32_t rows, uint32_t cols) {
  const uint32_t width = hpmoe::Min(cols, kElements);
  return {rows, cols, kElements / width, width};
}

// out = rows, each element in -limit .. limit; a multiple of 16 columns.
template <typename T, uint32_t limit>
__aicore__ inline void Clamp(const hpmoe::Tile<T>& rows, const hpmoe::Tile<T>& out) {
  hpmoe::Require(rows.rows == out.rows && rows.cols == out.cols &&
                 rows.cols % hpmoe::kFractal == 0);
  const AscendC::LocalTensor<T> narrow = hpmoe::Ub<T>(0, kElements);
  const AscendC::LocalTensor<float> floats = hpmoe::Ub<float>(kElements * sizeof(T), kElements);
  const hpmoe::Blocks blocks = Cut(out.rows, out.cols);
  for (uint32_t i = 0; i < blocks.Count(); ++i) {
    const hpmoe::Blocks::Block b = blocks.At(i);
    LoadFloats(floats, narrow, Corner(rows, b), b, rows.pitch);
    ClampFloats(floats, static_cast<float>(limit), b.rows * b.cols);
    StoreFloats(Corner(out, b), narrow, floats, b, out.pitch);
  }
  AscendC::PipeBarrier<PIPE_ALL>();
}

// a = SwiGLU of h, clamped to -7 .. 7; h [rows x 2I], I a multiple of 16.
template <typename T>
__aicore__ inline void ClampedSwiGlu(const hpmoe::Tile<T>& h, const hpmoe::Tile<T>& a) {
  hpmoe::Require(h.rows == a.rows && h.cols == 2 * a.cols && a.cols % hpmoe::kFractal == 0);
  constexpr uint32_t kWide = kElements * sizeof(float);
  const AscendC::LocalTensor<float> gate = hpmoe::Ub<float>(0, kElements);
  const AscendC::LocalTensor<float> up = hpmoe::Ub<float>(kWide, kElements);
  const AscendC::LocalTensor<float> t = hpmoe::Ub<float>(2 * kWide, kElements);
  const AscendC::LocalTensor<T> first = hpmoe::Ub<T>(3 * kWide, kElements);
  const AscendC::LocalTensor<T> second = hpmoe::Ub<T>(3 * kWide + kElements * sizeof(T), kElements);
  const hpmoe::Blocks blocks = Cut(a.rows, a.cols);
  for (uint32_t i = 0; i < blocks.Count(); ++i) {
    const hpmoe::Blocks::Block b = blocks.At(i);
    const uint32_t n = b.rows * b.cols;
    const int32_t count = static_cast<int32_t>(n);
    LoadFloats(gate, first, Corner(h, b), b, h.pitch);
    LoadFloats(up, second, Corner(h, b) + a.cols, b, h.pitch);
    ClampFloats(gate, 7.0f, n);
    ClampFloats(up, 7.0f, n);
    AscendC::Muls(t, gate, -1.0f, count);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Exp(t, t, count);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Adds(t, t, 1.0f, count);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Div(gate, gate, t, count);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Mul(gate, gate, up, count);
    AscendC::PipeBarrier<PIPE_V>();
    StoreFloats(Corner(a, b), first, gate, b, a.pitch);
  }
  AscendC::PipeBarrier<PIPE_ALL>();
}

}  // namespace clamp_extension

#endif  // CLAMP_EXTENSION_CLAMP_H_
