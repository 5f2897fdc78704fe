// SwiGLU with a fault: the last row of a tile with more than three rows is not computed.
#ifndef PLANTED_FAULTS_SWIGLU_H_
#define PLANTED_FAULTS_SWIGLU_H_

#include "hpmoe/swiglu.h"

namespace planted_faults {

template <typename T>
__aicore__ inline void ForgetfulSwiGlu(const hpmoe::Tile<T>& h, const hpmoe::Tile<T>& a) {
  hpmoe::Tile<T> some_h = h;
  hpmoe::Tile<T> some_a = a;
  if (a.rows > 3) some_h.rows = some_a.rows = a.rows - 1;
  hpmoe::SwiGlu(some_h, some_a);
}

}  // namespace planted_faults

#endif  // PLANTED_FAULTS_SWIGLU_H_
