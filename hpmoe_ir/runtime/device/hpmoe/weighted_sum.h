// WeightedSum: each token's rows, back from the experts, times its gate weights.
#ifndef HPMOE_WEIGHTED_SUM_H_
#define HPMOE_WEIGHTED_SUM_H_

#include "hpmoe/detail/copy_sum.h"

namespace hpmoe {

// out[t] = sum over k of gate[t][k] * back[position[t][k]], in float; back: the whole buffer of
// returned rows [.. x H]; position and gate [rows x K] without gaps; out [rows x H]; H a multiple
// of 16.
template <typename T>
__aicore__ inline void WeightedSum(const Tile<T>& back, const Tile<int32_t>& position,
                                   const Tile<float>& gate, const Tile<T>& out) {
  Require(position.rows == out.rows && gate.rows == out.rows && gate.cols == position.cols);
  Require(back.cols == out.cols && out.cols % kFractal == 0);
  if (out.rows == 0) return;
  Require(out.rows == 1 || (position.pitch == position.cols && gate.pitch == gate.cols));
  CopySumTask<T, true>(back, position, gate, out).Run();
}

}  // namespace hpmoe

#endif  // HPMOE_WEIGHTED_SUM_H_
