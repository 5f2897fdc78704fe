// Cast between element types, with the rounding modes that the chip has for each pair.
#include <cmath>
#include <cstring>
#include <limits>

#include "model/model.h"
#include "model/numbers.h"

namespace cpu_model {

using AscendC::RoundMode;

uint16_t HalfBits(float value) { return ToHalf(value); }
uint16_t Bfloat16Bits(float value) { return ToBfloat16(value); }
float HalfValue(uint16_t bits) { return FromHalf(bits); }
float Bfloat16Value(uint16_t bits) { return FromBfloat16(bits); }

constexpr uint32_t Bit(RoundMode mode) { return 1u << static_cast<int>(mode); }
constexpr uint32_t kNone = Bit(RoundMode::CAST_NONE);
constexpr uint32_t kFive = Bit(RoundMode::CAST_RINT) | Bit(RoundMode::CAST_FLOOR) |
                           Bit(RoundMode::CAST_CEIL) | Bit(RoundMode::CAST_ROUND) |
                           Bit(RoundMode::CAST_TRUNC);
constexpr uint32_t kOdd = Bit(RoundMode::CAST_ODD);

struct Pair {
  DType from;
  DType to;
  uint32_t modes;
};
static const Pair kCasts[] = {
    {DType::kHalf, DType::kFloat, kNone},
    {DType::kBfloat16, DType::kFloat, kNone},
    {DType::kInt16, DType::kFloat, kNone},
    {DType::kInt16, DType::kHalf, kFive | kNone},
    {DType::kInt32, DType::kFloat, kFive | kNone},
    {DType::kFloat, DType::kHalf, kFive | kNone | kOdd},
    {DType::kFloat, DType::kBfloat16, kFive},
    {DType::kFloat, DType::kFloat, kFive},
    {DType::kFloat, DType::kInt32, kFive},
    {DType::kFloat, DType::kInt16, kFive},
    {DType::kHalf, DType::kInt32, kFive},
    {DType::kHalf, DType::kInt16, kFive},
    {DType::kBfloat16, DType::kInt32, kFive},
};

static double LoadElement(const uint8_t* p, DType type) {
  uint16_t bits;
  int32_t word = 0;
  std::memcpy(&bits, p, 2);
  if (WidthOf(type) == 4) std::memcpy(&word, p, 4);
  switch (type) {
    case DType::kHalf:
      return FromHalf(bits);
    case DType::kBfloat16:
      return FromBfloat16(bits);
    case DType::kInt16:
      return static_cast<int16_t>(bits);
    case DType::kInt32:
      return word;
    default:
      return FloatOf(static_cast<uint32_t>(word));
  }
}

static double RoundInteger(double x, RoundMode mode) {
  switch (mode) {
    case RoundMode::CAST_FLOOR:
      return std::floor(x);
    case RoundMode::CAST_CEIL:
      return std::ceil(x);
    case RoundMode::CAST_ROUND:
      return std::round(x);
    case RoundMode::CAST_TRUNC:
      return std::trunc(x);
    case RoundMode::CAST_ODD: {
      const double low = std::floor(x);
      return low == x || std::fmod(low, 2) != 0 ? low : low + 1;
    }
    default:
      return std::nearbyint(x);
  }
}

// Rounds to a float with `mantissa` stored bits and the smallest normal exponent `lowest`.
static float RoundFloat(double x, int mantissa, int lowest, RoundMode mode) {
  if (x == 0 || !std::isfinite(x)) return static_cast<float>(x);
  const int exponent = std::max(std::ilogb(x), lowest) - mantissa;
  return static_cast<float>(std::ldexp(RoundInteger(std::ldexp(x, -exponent), mode), exponent));
}

template <typename T>
static T Saturate(double x) {
  if (x != x) return 0;
  if (x < static_cast<double>(std::numeric_limits<T>::min())) return std::numeric_limits<T>::min();
  if (x > static_cast<double>(std::numeric_limits<T>::max())) return std::numeric_limits<T>::max();
  return static_cast<T>(x);
}

static void StoreElement(uint8_t* p, double x, DType from, DType to, RoundMode mode) {
  uint16_t bits = 0;
  switch (to) {
    case DType::kHalf:
      bits = ToHalf(RoundFloat(x, 10, -14, mode));
      std::memcpy(p, &bits, 2);
      return;
    case DType::kBfloat16:
      bits = ToBfloat16(RoundFloat(x, 7, -126, mode));
      std::memcpy(p, &bits, 2);
      return;
    case DType::kInt16: {
      const int16_t value = Saturate<int16_t>(RoundInteger(x, mode));
      std::memcpy(p, &value, 2);
      return;
    }
    case DType::kInt32: {
      const int32_t value = Saturate<int32_t>(RoundInteger(x, mode));
      std::memcpy(p, &value, 4);
      return;
    }
    default: {
      const float value = from == DType::kFloat ? static_cast<float>(RoundInteger(x, mode))
                                                : RoundFloat(x, 23, -126, mode);
      std::memcpy(p, &value, 4);
    }
  }
}

static bool Quick(uint8_t* out, const uint8_t* in, DType from, DType to, RoundMode mode,
                  int64_t count) {
  const bool nearest = mode == RoundMode::CAST_NONE || mode == RoundMode::CAST_RINT;
  if (to == DType::kFloat && (from == DType::kHalf || from == DType::kBfloat16)) {
    for (int64_t i = 0; i < count; ++i) {
      uint16_t bits;
      std::memcpy(&bits, in + 2 * i, 2);
      const float value = from == DType::kHalf ? FromHalf(bits) : FromBfloat16(bits);
      std::memcpy(out + 4 * i, &value, 4);
    }
    return true;
  }
  if (nearest && from == DType::kFloat && (to == DType::kHalf || to == DType::kBfloat16)) {
    for (int64_t i = 0; i < count; ++i) {
      float value;
      std::memcpy(&value, in + 4 * i, 4);
      const uint16_t bits = to == DType::kHalf ? ToHalf(value) : ToBfloat16(value);
      std::memcpy(out + 2 * i, &bits, 2);
    }
    return true;
  }
  return false;
}

static bool Exists(DType from, DType to, RoundMode mode) {
  for (const Pair& pair : kCasts) {
    if (pair.from == from && pair.to == to) return (pair.modes & Bit(mode)) != 0;
  }
  return false;
}

void Model::Convert(const LocalRef& dst, DType dst_type, const LocalRef& src, DType src_type,
                    RoundMode mode, int64_t count, Where where) {
  const Span write = LocalSpan(dst, true, static_cast<uint64_t>(count) * WidthOf(dst_type));
  const Span read = LocalSpan(src, false, static_cast<uint64_t>(count) * WidthOf(src_type));
  Core& core = Enter("Cast", PIPE_V, where, {write, read});
  if (!Exists(src_type, dst_type, mode)) {
    Unsupported("Cast with this pair of types and this rounding mode", where);
  }
  CheckAlignment("Cast", dst, 32, where);
  CheckAlignment("Cast", src, 32, where);
  const bool apart = write.End() <= read.begin || read.End() <= write.begin;
  const bool same = write.begin == read.begin && write.bytes == read.bytes;
  if (count != 0 && !apart && !same) {
    Fail("overlap", "Cast: source and destination overlap in part", where);
  }
  uint8_t* out = LocalData(core, dst);
  const uint8_t* in = LocalData(core, src);
  if (Quick(out, in, src_type, dst_type, mode, count)) return;
  for (int64_t i = 0; i < count; ++i) {
    StoreElement(out + i * WidthOf(dst_type), LoadElement(in + i * WidthOf(src_type), src_type),
                 src_type, dst_type, mode);
  }
}

}  // namespace cpu_model
