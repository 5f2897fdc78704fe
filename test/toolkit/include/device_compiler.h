// What the device compiler knows by itself, as far as the toolkit's headers need it to be parsed
// by g++: address-space words, types and enumerations. Its functions are declared in builtins.h,
// which type_check.py writes.
#ifndef TOOLKIT_DEVICE_COMPILER_H_
#define TOOLKIT_DEVICE_COMPILER_H_

#include <cstddef>
#include <cstdint>

#define __NPU_ARCH__ 2201
#define __CCE_AICORE__ 220

#define __aicore__
#define __global__
#define __mix__(cubes, vectors)
#define __gm__
#define __ubuf__
#define __cbuf__
#define __ca__
#define __cb__
#define __cc__
#define __fbuf__
#define __biasbuf__
#define __ssbuf__
#define __sync_alias__
#define __check_sync_alias__
#define __in_pipe__(...)
#define __out_pipe__(...)
#define __inout_pipe__(...)

struct half {
  uint16_t bits;
  half() = default;
  template <typename T>
  half(T value);
  operator float() const;
};
struct bfloat16_t {
  uint16_t bits;
  bfloat16_t() = default;
  template <typename T>
  bfloat16_t(T value);
};

enum pipe_t {
  PIPE_S,
  PIPE_V,
  PIPE_M,
  PIPE_MTE1,
  PIPE_MTE2,
  PIPE_MTE3,
  PIPE_ALL,
  PIPE_MTE4,
  PIPE_MTE5,
  PIPE_V2,
  PIPE_FIX
};
enum event_t {
  EVENT_ID0,
  EVENT_ID1,
  EVENT_ID2,
  EVENT_ID3,
  EVENT_ID4,
  EVENT_ID5,
  EVENT_ID6,
  EVENT_ID7
};
enum mem_dsb_t { DSB_ALL, DSB_DDR, DSB_UB, DSB_SEQ };
enum mem_t { L1, L0A, L0B, L0C, UB, BT };
enum addr_cal_mode_t { inc, dec };
enum pad_t {
  PAD_NONE,
  PAD_MODE1,
  PAD_MODE2,
  PAD_MODE3,
  PAD_MODE4,
  PAD_MODE5,
  PAD_MODE6,
  PAD_MODE7,
  PAD_MODE8
};
enum atomic_type_t {
  ATOMIC_NONE,
  ATOMIC_F32,
  ATOMIC_F16,
  ATOMIC_S16,
  ATOMIC_S32,
  ATOMIC_S8,
  ATOMIC_BF16
};
enum atomic_op_t { ATOMIC_SUM };
enum class cache_line_t { SINGLE_CACHE_LINE, ENTIRE_DATA_CACHE };
enum class dcci_dst_t { CACHELINE_ALL, CACHELINE_UB, CACHELINE_OUT, CACHELINE_ATOMIC };
enum QuantMode_t {
  NoQuant,
  F322F16,
  F322BF16,
  DEQF16,
  VDEQF16,
  QF322B8_PRE,
  VQF322B8_PRE,
  REQ8,
  VREQ8,
  QF322F32_PRE,
  VQF322F32_PRE,
  QF322F16_PRE,
  VQF322F16_PRE,
  QF322BF16_PRE,
  VQF322BF16_PRE,
  DEQS16,
  VDEQS16
};

namespace bisheng {
namespace cce {
inline void metrics_prof_start() {}
inline void metrics_prof_stop() {}
}  // namespace cce
}  // namespace bisheng

#include "builtins.h"

#endif  // TOOLKIT_DEVICE_COMPILER_H_
