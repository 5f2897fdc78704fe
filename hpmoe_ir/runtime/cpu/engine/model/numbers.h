// Conversions between float and the 16-bit types, inline for the engine's loops.
#ifndef CPU_MODEL_ENGINE_MODEL_NUMBERS_H_
#define CPU_MODEL_ENGINE_MODEL_NUMBERS_H_

#include <cstdint>
#include <cstring>

namespace cpu_model {

inline uint32_t FloatBits(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return bits;
}

inline float FloatOf(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}

inline float FromBfloat16(uint16_t bits) { return FloatOf(uint32_t{bits} << 16); }

inline uint16_t ToBfloat16(float value) {
  const uint32_t bits = FloatBits(value);
  if ((bits & 0x7FFFFFFF) > 0x7F800000) return static_cast<uint16_t>((bits >> 16) | 0x40);
  return static_cast<uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

// A half is a float with its exponent moved; subnormals are normalised by one multiplication.
inline float FromHalf(uint16_t bits) {
  const uint32_t sign = uint32_t{bits & 0x8000u} << 16;
  const uint32_t magnitude = bits & 0x7FFFu;
  if (magnitude >= 0x7C00u) return FloatOf(sign | 0x7F800000u | ((magnitude & 0x3FFu) << 13));
  const float scaled = FloatOf(magnitude << 13) * FloatOf(0x77800000u);  // 2^112
  return FloatOf(FloatBits(scaled) | sign);
}

inline uint16_t ToHalf(float value) {
  const uint32_t bits = FloatBits(value);
  const uint16_t sign = static_cast<uint16_t>((bits >> 16) & 0x8000);
  const uint32_t magnitude = bits & 0x7FFFFFFF;
  if (magnitude > 0x7F800000) return static_cast<uint16_t>(sign | 0x7E00 | ((bits >> 13) & 0x3FF));
  if (magnitude >= 0x477FF000) return static_cast<uint16_t>(sign | 0x7C00);  // rounds to infinity
  if (magnitude < 0x38800000) {  // subnormal: the float adder rounds at 2^-24
    const float rounded = FloatOf(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (FloatBits(rounded) - 0x3F000000));
  }
  const uint32_t rounded = magnitude + 0xFFF + ((magnitude >> 13) & 1);
  return static_cast<uint16_t>(sign | ((rounded - 0x38000000) >> 13));
}

}  // namespace cpu_model

#endif  // CPU_MODEL_ENGINE_MODEL_NUMBERS_H_
