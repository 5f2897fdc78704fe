// Sums of rows of counts, streamed through UB: part of the routing kernels.
#ifndef HPMOE_ROW_SUM_H_
#define HPMOE_ROW_SUM_H_

#include "hpmoe/local.h"
#include "hpmoe/tile.h"

namespace hpmoe {

// sum[x] = matrix[0][x] + .. + matrix[rows - 1][x]. `piece` is a buffer in UB, its size at least
// one row. Leaves the sum readable by the scalar unit.
//
// Each row is a burst of its own: several bursts of less than a data block in one instruction are
// not dependable.
__aicore__ inline void SumRows(const AscendC::LocalTensor<int32_t>& sum,
                               const AscendC::LocalTensor<int32_t>& piece,
                               const Tile<int32_t>& matrix) {
  const uint32_t stride = RoundUp(matrix.cols, kDataBlock / sizeof(int32_t));
  const uint32_t piece_rows = piece.GetSize() / stride;
  Require(piece_rows > 0);
  AscendC::Duplicate(sum, int32_t{0}, static_cast<int32_t>(matrix.cols));
  for (uint32_t begin = 0; begin < matrix.rows; begin += piece_rows) {
    const uint32_t rows = Min(piece_rows, matrix.rows - begin);
    for (uint32_t i = 0; i < rows; ++i) {
      LoadList(piece[i * stride], matrix.data + static_cast<uint64_t>(begin + i) * matrix.pitch,
               matrix.cols);
    }
    Handover<AscendC::HardEvent::MTE2_V>();
    for (uint32_t i = 0; i < rows; ++i) {
      AscendC::PipeBarrier<PIPE_V>();
      AscendC::Add(sum, sum, piece[i * stride], static_cast<int32_t>(matrix.cols));
    }
    Handover<AscendC::HardEvent::V_MTE2>();
  }
  Handover<AscendC::HardEvent::V_S>();
}

// Sums the rows before row `at` into `before` and all rows into `total`, reading each row once.
__aicore__ inline void SumRowsAround(const AscendC::LocalTensor<int32_t>& before,
                                     const AscendC::LocalTensor<int32_t>& total,
                                     const AscendC::LocalTensor<int32_t>& piece,
                                     const Tile<int32_t>& matrix, uint32_t at) {
  const Rows first = {0, at};
  const Rows rest = {at, matrix.rows - at};
  SumRows(before, piece, Slice(matrix.data, matrix.pitch, first, 0, matrix.cols));
  SumRows(total, piece, Slice(matrix.data, matrix.pitch, rest, 0, matrix.cols));
  AscendC::Add(total, total, before, static_cast<int32_t>(matrix.cols));
  Handover<AscendC::HardEvent::V_S>();
}

}  // namespace hpmoe

#endif  // HPMOE_ROW_SUM_H_
