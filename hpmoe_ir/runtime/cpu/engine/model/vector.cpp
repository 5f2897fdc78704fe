// The vector unit: element-wise operations on UB.
#include <cmath>
#include <cstring>

#include "model/model.h"
#include "model/numbers.h"

namespace cpu_model {

uint32_t WidthOf(DType type) {
  switch (type) {
    case DType::kInt8:
    case DType::kUint8:
      return 1;
    case DType::kInt16:
    case DType::kUint16:
    case DType::kHalf:
    case DType::kBfloat16:
      return 2;
    case DType::kInt64:
    case DType::kUint64:
      return 8;
    default:
      return 4;
  }
}

const char* ApiName(BinaryOp op) {
  static const char* const kNames[] = {"Add", "Sub", "Mul", "Div", "Max", "Min"};
  return kNames[static_cast<int>(op)];
}

const char* ApiName(UnaryOp op) {
  static const char* const kNames[] = {"Exp", "Ln", "Abs", "Sqrt", "Relu"};
  return kNames[static_cast<int>(op)];
}

const char* ApiName(ScalarOp op) {
  static const char* const kNames[] = {"Adds", "Muls", "Maxs", "Mins", "Axpy", "Duplicate"};
  return kNames[static_cast<int>(op)];
}

static void CheckOverlap(const char* api, const Span& dst, const Span& src, Where where) {
  if (dst.begin == src.begin && dst.bytes == src.bytes) return;
  if (dst.begin < src.End() && src.begin < dst.End()) {
    Fail("overlap",
         Format("%s: UB bytes %llu to %llu are written while %llu to %llu are read", api,
                static_cast<unsigned long long>(dst.begin),
                static_cast<unsigned long long>(dst.End()),
                static_cast<unsigned long long>(src.begin),
                static_cast<unsigned long long>(src.End())),
         where);
  }
}

uint64_t VectorBytes(const char* api, DType type, int64_t count, Where where) {
  if (count < 0) {
    Fail("range", Format("%s: count %lld is negative", api, static_cast<long long>(count)), where);
  }
  return static_cast<uint64_t>(count) * WidthOf(type);
}

static void CheckOperands(const char* api, const Span& dst, const Span& a, const Span& b,
                          Where where) {
  for (const Span* span : {&dst, &a, &b}) {
    if (span->space != kUb) Fail("core-kind", Format("%s: operands are in UB", api), where);
    if (span->begin % 32 != 0) {
      Fail("alignment",
           Format("%s: UB address %llu is not a multiple of 32", api,
                  static_cast<unsigned long long>(span->begin)),
           where);
    }
  }
  if (dst.bytes != 0) {
    CheckOverlap(api, dst, a, where);
    CheckOverlap(api, dst, b, where);
  }
}

// Element access as the type an operation computes in: half in float.
template <DType TYPE>
struct Element;
template <>
struct Element<DType::kFloat> {
  using Value = float;
  static constexpr int kBytes = 4;
  static float Load(const uint8_t* p) {
    float value;
    std::memcpy(&value, p, 4);
    return value;
  }
  static void Store(uint8_t* p, float value) { std::memcpy(p, &value, 4); }
};
template <>
struct Element<DType::kHalf> {
  using Value = float;
  static constexpr int kBytes = 2;
  static float Load(const uint8_t* p) {
    uint16_t bits;
    std::memcpy(&bits, p, 2);
    return FromHalf(bits);
  }
  static void Store(uint8_t* p, float value) {
    const uint16_t bits = ToHalf(value);
    std::memcpy(p, &bits, 2);
  }
};
template <typename T>
struct Integer {
  using Value = T;
  static constexpr int kBytes = sizeof(T);
  static T Load(const uint8_t* p) {
    T value;
    std::memcpy(&value, p, sizeof(T));
    return value;
  }
  static void Store(uint8_t* p, T value) { std::memcpy(p, &value, sizeof(T)); }
};
template <>
struct Element<DType::kInt32> : Integer<int32_t> {};
template <>
struct Element<DType::kInt16> : Integer<int16_t> {};

template <typename V>
static V Wrap(uint64_t value) {
  return static_cast<V>(value);
}

template <BinaryOp OP, typename V>
static V Apply(V a, V b) {
  constexpr bool kInteger = std::is_integral<V>::value;
  if constexpr (kInteger && OP == BinaryOp::kAdd) return Wrap<V>(uint64_t(a) + uint64_t(b));
  if constexpr (kInteger && OP == BinaryOp::kSub) return Wrap<V>(uint64_t(a) - uint64_t(b));
  if constexpr (kInteger && OP == BinaryOp::kMul) return Wrap<V>(uint64_t(a) * uint64_t(b));
  if constexpr (kInteger && OP == BinaryOp::kDiv) return V(0);  // refused by the header
  if constexpr (!kInteger && OP == BinaryOp::kAdd) return a + b;
  if constexpr (!kInteger && OP == BinaryOp::kSub) return a - b;
  if constexpr (!kInteger && OP == BinaryOp::kMul) return a * b;
  if constexpr (!kInteger && OP == BinaryOp::kDiv) return a / b;
  // A NaN on either side stays visible.
  if constexpr (OP == BinaryOp::kMax) return a != a || a > b ? a : b;
  if constexpr (OP == BinaryOp::kMin) return a != a || a < b ? a : b;
}

template <typename E, typename F>
static void Each(uint8_t* dst, const uint8_t* a, const uint8_t* b, int64_t count, F f) {
  for (int64_t i = 0; i < count; ++i) {
    E::Store(dst + i * E::kBytes, f(E::Load(a + i * E::kBytes), E::Load(b + i * E::kBytes)));
  }
}

template <typename E>
static void RunBinary(BinaryOp op, uint8_t* dst, const uint8_t* a, const uint8_t* b,
                      int64_t count) {
  using V = typename E::Value;
  switch (op) {
#define CASE(OP)     \
  case BinaryOp::OP: \
    return Each<E>(dst, a, b, count, [](V x, V y) { return Apply<BinaryOp::OP, V>(x, y); })
    CASE(kAdd);
    CASE(kSub);
    CASE(kMul);
    CASE(kDiv);
    CASE(kMax);
    CASE(kMin);
#undef CASE
  }
}

template <typename F>
static void ByType(DType type, F f) {
  switch (type) {
    case DType::kFloat:
      return f(Element<DType::kFloat>());
    case DType::kHalf:
      return f(Element<DType::kHalf>());
    case DType::kInt32:
      return f(Element<DType::kInt32>());
    default:
      return f(Element<DType::kInt16>());
  }
}

void Model::Binary(BinaryOp op, const LocalRef& dst, const LocalRef& a, const LocalRef& b,
                   DType type, int64_t count, Where where) {
  const char* api = ApiName(op);
  const uint64_t bytes = VectorBytes(api, type, count, where);
  const Span write = LocalSpan(dst, true, bytes);
  const Span reads[] = {LocalSpan(a, false, bytes), LocalSpan(b, false, bytes)};
  Core& core = Enter(api, PIPE_V, where, {write, reads[0], reads[1]});
  CheckOperands(api, write, reads[0], reads[1], where);
  uint8_t* out = LocalData(core, dst);
  const uint8_t* left = LocalData(core, a);
  const uint8_t* right = LocalData(core, b);
  ByType(type, [&](auto e) { RunBinary<decltype(e)>(op, out, left, right, count); });
}

static float ApplyUnary(UnaryOp op, float x) {
  switch (op) {
    case UnaryOp::kExp:
      return std::exp(x);
    case UnaryOp::kLn:
      return std::log(x);
    case UnaryOp::kAbs:
      return std::fabs(x);
    case UnaryOp::kSqrt:
      return std::sqrt(x);
    default:
      return x > 0 || x != x ? x : 0;
  }
}

void Model::Unary(UnaryOp op, const LocalRef& dst, const LocalRef& src, DType type, int64_t count,
                  Where where) {
  const char* api = ApiName(op);
  const uint64_t bytes = VectorBytes(api, type, count, where);
  const Span read = LocalSpan(src, false, bytes);
  const Span write = LocalSpan(dst, true, bytes);
  Core& core = Enter(api, PIPE_V, where, {write, read, read});
  CheckOperands(api, write, read, read, where);
  uint8_t* out = LocalData(core, dst);
  const uint8_t* in = LocalData(core, src);
  ByType(type, [&](auto e) {
    using E = decltype(e);
    Each<E>(out, in, in, count, [op](typename E::Value x, typename E::Value) {
      return static_cast<typename E::Value>(ApplyUnary(op, static_cast<float>(x)));
    });
  });
}

static void FillElements(uint8_t* out, double scalar, DType type, int64_t count) {
  const uint32_t width = WidthOf(type);
  uint32_t bits = static_cast<uint32_t>(static_cast<int64_t>(scalar));
  if (type == DType::kFloat) bits = FloatBits(static_cast<float>(scalar));
  if (type == DType::kHalf) bits = ToHalf(static_cast<float>(scalar));
  if (type == DType::kBfloat16) bits = ToBfloat16(static_cast<float>(scalar));
  for (int64_t i = 0; i < count; ++i) std::memcpy(out + i * width, &bits, width);
}

void Model::Scalar(ScalarOp op, const LocalRef& dst, const LocalRef& src, double scalar, DType type,
                   int64_t count, Where where) {
  const char* api = ApiName(op);
  const uint64_t bytes = VectorBytes(api, type, count, where);
  Span read = LocalSpan(src, false, bytes);
  if (op == ScalarOp::kFill) read.bytes = 0;
  const Span write = LocalSpan(dst, true, bytes);
  Core& core = Enter(api, PIPE_V, where, {write, read, read});
  CheckOperands(api, write, read, read, where);
  uint8_t* out = LocalData(core, dst);
  if (op == ScalarOp::kFill) return FillElements(out, scalar, type, count);
  const uint8_t* in = LocalData(core, src);
  ByType(type, [&](auto e) {
    using E = decltype(e);
    using V = typename E::Value;
    const V s = static_cast<V>(scalar);
    switch (op) {
      case ScalarOp::kAdd:
        return Each<E>(out, in, in, count, [s](V x, V) { return Apply<BinaryOp::kAdd, V>(x, s); });
      case ScalarOp::kMul:
        return Each<E>(out, in, in, count, [s](V x, V) { return Apply<BinaryOp::kMul, V>(x, s); });
      case ScalarOp::kMax:
        return Each<E>(out, in, in, count, [s](V x, V) { return Apply<BinaryOp::kMax, V>(x, s); });
      case ScalarOp::kMin:
        return Each<E>(out, in, in, count, [s](V x, V) { return Apply<BinaryOp::kMin, V>(x, s); });
      default:
        return Each<E>(out, in, out, count, [s](V x, V y) {
          return Apply<BinaryOp::kAdd, V>(y, Apply<BinaryOp::kMul, V>(x, s));
        });
    }
  });
}

}  // namespace cpu_model
