// Rows of counts, loaded and summed up in UB: part of the routing kernels.
#ifndef HPMOE_DETAIL_ROW_SUM_H_
#define HPMOE_DETAIL_ROW_SUM_H_

#include "hpmoe/local.h"
#include "hpmoe/tile.h"

namespace hpmoe {

// Words from one row to the next of `LoadRows`.
__aicore__ inline uint32_t RowStride(uint32_t cols) {
  return RoundUp(cols, kDataBlock / sizeof(int32_t));
}

// Loads the rows of a matrix into UB, at most 4095 of them. Rows that are no whole data blocks are
// bursts of their own: several such bursts in one instruction are not dependable.
__aicore__ inline void LoadRows(const AscendC::LocalTensor<int32_t>& dst,
                                const Tile<int32_t>& matrix) {
  const uint32_t stride = RowStride(matrix.cols);
  if (stride == matrix.cols && matrix.rows > 0) {
    const uint32_t gap = matrix.rows == 1 ? 0 : (matrix.pitch - matrix.cols) * sizeof(int32_t);
    const AscendC::DataCopyExtParams bursts(matrix.rows, matrix.cols * sizeof(int32_t), gap, 0, 0);
    const uint64_t words = static_cast<uint64_t>(matrix.rows - 1) * matrix.pitch + matrix.cols;
    AscendC::DataCopyPad(dst, Global(matrix.data, words), bursts,
                         AscendC::DataCopyPadExtParams<int32_t>(false, 0, 0, 0));
    return;
  }
  for (uint32_t i = 0; i < matrix.rows; ++i) {
    LoadList(dst[i * stride], matrix.data + static_cast<uint64_t>(i) * matrix.pitch, matrix.cols);
  }
}

// sum += each of `rows` rows in UB, which are overwritten. Rows without gaps are folded: half of
// them are added to the other half at a time.
__aicore__ inline void AddRowsTo(const AscendC::LocalTensor<int32_t>& sum,
                                 const AscendC::LocalTensor<int32_t>& piece, uint32_t rows,
                                 uint32_t cols) {
  const uint32_t stride = RowStride(cols);
  while (stride == cols && rows > 1) {
    const uint32_t half = rows / 2;
    rows -= half;
    AscendC::Add(piece, piece, piece[rows * stride], static_cast<int32_t>(half * stride));
    AscendC::PipeBarrier<PIPE_V>();
  }
  for (uint32_t i = 0; i < rows; ++i) {
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Add(sum, sum, piece[i * stride], static_cast<int32_t>(cols));
  }
}

// sum[x] = matrix[0][x] + .. + matrix[rows - 1][x]. `piece` is a buffer in UB, its size at least
// one row. Leaves the sum readable by the scalar unit.
__aicore__ inline void SumRows(const AscendC::LocalTensor<int32_t>& sum,
                               const AscendC::LocalTensor<int32_t>& piece,
                               const Tile<int32_t>& matrix) {
  const uint32_t piece_rows = Min(piece.GetSize() / RowStride(matrix.cols), 4095);
  Require(piece_rows > 0);
  AscendC::Duplicate(sum, int32_t{0}, static_cast<int32_t>(matrix.cols));
  for (uint32_t begin = 0; begin < matrix.rows; begin += piece_rows) {
    const Rows rows = {begin, Min(piece_rows, matrix.rows - begin)};
    LoadRows(piece, Slice(matrix.data, matrix.pitch, rows, 0, matrix.cols));
    Handover<AscendC::HardEvent::MTE2_V>();
    AddRowsTo(sum, piece, rows.count, matrix.cols);
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

#endif  // HPMOE_DETAIL_ROW_SUM_H_
