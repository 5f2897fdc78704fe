// Storage types of the device: half and bfloat16_t, and the address-space words that a CPU ignores.
#ifndef CPU_MODEL_TYPES_H_
#define CPU_MODEL_TYPES_H_

#include <cstddef>
#include <cstdint>
#include <type_traits>

#define __global__
#define __aicore__
#define __gm__
#define __inline__ inline
#define __schedmode__(mode)

// Only the mixed kernel of one AIC to two AIV is modelled: any other ratio is an unknown name.
#define __mix__(cubes, vectors) CPU_MODEL_MIX_##cubes##_##vectors
#define CPU_MODEL_MIX_1_2

using GM_ADDR = uint8_t*;

namespace cpu_model {

// Round to nearest even; a NaN stays a NaN.
uint16_t HalfBits(float value);
uint16_t Bfloat16Bits(float value);
float HalfValue(uint16_t bits);
float Bfloat16Value(uint16_t bits);

template <typename T>
using IfArithmetic = std::enable_if_t<std::is_arithmetic<T>::value, int>;

}  // namespace cpu_model

// The device compiler's half: scalar arithmetic is done in float and rounded on store.
struct half {
  uint16_t bits = 0;
  half() = default;
  template <typename T, cpu_model::IfArithmetic<T> = 0>
  half(T value) : bits(cpu_model::HalfBits(static_cast<float>(value))) {}
  operator float() const { return cpu_model::HalfValue(bits); }
};

// bfloat16_t has no scalar arithmetic on the chip: use AscendC::ToFloat and ToBfloat16.
struct bfloat16_t {
  uint16_t bits = 0;
  bfloat16_t() = default;
  template <typename T, cpu_model::IfArithmetic<T> = 0>
  bfloat16_t(T value) : bits(cpu_model::Bfloat16Bits(static_cast<float>(value))) {}
  explicit operator float() const { return cpu_model::Bfloat16Value(bits); }
};

static_assert(sizeof(half) == 2 && sizeof(bfloat16_t) == 2, "16-bit storage types");

namespace AscendC {
inline float ToFloat(const bfloat16_t& value) { return static_cast<float>(value); }
inline bfloat16_t ToBfloat16(const float& value) { return bfloat16_t(value); }
}  // namespace AscendC

#endif  // CPU_MODEL_TYPES_H_
