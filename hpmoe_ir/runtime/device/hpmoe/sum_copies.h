// SumCopies: each token's rows, back from the experts, added up.
#ifndef HPMOE_SUM_COPIES_H_
#define HPMOE_SUM_COPIES_H_

#include "hpmoe/detail/copy_sum.h"

namespace hpmoe {

// out[t] = sum over k of back[position[t][k]], in float; back: the whole buffer of returned rows
// [.. x H]; position [rows x K] without gaps; out [rows x H]; H a multiple of 16.
template <typename T>
__aicore__ inline void SumCopies(const Tile<T>& back, const Tile<int32_t>& position,
                                 const Tile<T>& out) {
  Require(position.rows == out.rows && back.cols == out.cols && out.cols % kFractal == 0);
  if (out.rows == 0) return;
  Require(out.rows == 1 || position.pitch == position.cols);
  const Tile<float> none = {nullptr, 0, 0, 0, 0};
  CopySumTask<T, false>(back, position, none, out).Run();
}

}  // namespace hpmoe

#endif  // HPMOE_SUM_COPIES_H_
