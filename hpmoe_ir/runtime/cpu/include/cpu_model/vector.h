// Vector operations in the form with an element count.
#ifndef CPU_MODEL_VECTOR_H_
#define CPU_MODEL_VECTOR_H_

#include "cpu_model/tensor.h"

namespace cpu_model {

template <typename T>
constexpr bool kIsFloating = std::is_same<T, float>::value || std::is_same<T, half>::value;
template <typename T>
constexpr bool kIsVector =
    kIsFloating<T> || std::is_same<T, int16_t>::value || std::is_same<T, int32_t>::value;

template <typename T>
inline double ToDouble(const T& value) {
  return static_cast<double>(static_cast<float>(value));
}
template <>
inline double ToDouble<int32_t>(const int32_t& value) {
  return value;
}
template <>
inline double ToDouble<uint32_t>(const uint32_t& value) {
  return value;
}

}  // namespace cpu_model

namespace AscendC {

#define CPU_MODEL_BINARY(NAME, OP, TYPES)                                                   \
  template <typename T>                                                                     \
  inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src0,                   \
                   const LocalTensor<T>& src1, const int32_t& count,                        \
                   cpu_model::Where where = cpu_model::Where()) {                           \
    static_assert(cpu_model::TYPES<T>, #NAME ": the vector unit has no such element type"); \
    cpu_model::TheApi().Binary(cpu_model::BinaryOp::OP, dst.Ref(), src0.Ref(), src1.Ref(),  \
                               cpu_model::DTypeOf<T>::kValue, count, where);                \
  }
CPU_MODEL_BINARY(Add, kAdd, kIsVector)
CPU_MODEL_BINARY(Sub, kSub, kIsVector)
CPU_MODEL_BINARY(Mul, kMul, kIsVector)
CPU_MODEL_BINARY(Div, kDiv, kIsFloating)
CPU_MODEL_BINARY(Max, kMax, kIsVector)
CPU_MODEL_BINARY(Min, kMin, kIsVector)
#undef CPU_MODEL_BINARY

#define CPU_MODEL_UNARY(NAME, OP)                                                              \
  template <typename T>                                                                        \
  inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t& count, \
                   cpu_model::Where where = cpu_model::Where()) {                              \
    static_assert(cpu_model::kIsFloating<T>, #NAME ": float or half");                         \
    cpu_model::TheApi().Unary(cpu_model::UnaryOp::OP, dst.Ref(), src.Ref(),                    \
                              cpu_model::DTypeOf<T>::kValue, count, where);                    \
  }
CPU_MODEL_UNARY(Exp, kExp)
CPU_MODEL_UNARY(Ln, kLn)
CPU_MODEL_UNARY(Abs, kAbs)
CPU_MODEL_UNARY(Sqrt, kSqrt)
#undef CPU_MODEL_UNARY

#define CPU_MODEL_SCALAR(NAME, OP)                                                              \
  template <typename T, bool isSetMask = true>                                                  \
  inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, const T& scalarValue,  \
                   const int32_t& count, cpu_model::Where where = cpu_model::Where()) {         \
    static_assert(isSetMask, #NAME ": a mask set by the caller is not modelled");               \
    static_assert(cpu_model::kIsVector<T>, #NAME ": the vector unit has no such element type"); \
    cpu_model::TheApi().Scalar(cpu_model::ScalarOp::OP, dst.Ref(), src.Ref(),                   \
                               cpu_model::ToDouble(scalarValue), cpu_model::DTypeOf<T>::kValue, \
                               count, where);                                                   \
  }
CPU_MODEL_SCALAR(Adds, kAdd)
CPU_MODEL_SCALAR(Muls, kMul)
CPU_MODEL_SCALAR(Maxs, kMax)
CPU_MODEL_SCALAR(Mins, kMin)
#undef CPU_MODEL_SCALAR

// dst += src * scalar.
template <typename T, typename U>
inline void Axpy(const LocalTensor<T>& dst, const LocalTensor<U>& src, const U& scalarValue,
                 const int32_t& count, cpu_model::Where where = cpu_model::Where()) {
  static_assert(std::is_same<T, U>::value && cpu_model::kIsFloating<T>,
                "Axpy is modelled for float to float and half to half");
  cpu_model::TheApi().Scalar(cpu_model::ScalarOp::kAxpy, dst.Ref(), src.Ref(),
                             cpu_model::ToDouble(scalarValue), cpu_model::DTypeOf<T>::kValue, count,
                             where);
}

template <typename T>
inline void Duplicate(const LocalTensor<T>& dst, const T& scalarValue, const int32_t& count,
                      cpu_model::Where where = cpu_model::Where()) {
  static_assert(sizeof(T) == 2 || sizeof(T) == 4, "Duplicate: 16 and 32 bit types");
  cpu_model::TheApi().Scalar(cpu_model::ScalarOp::kFill, dst.Ref(), dst.Ref(),
                             cpu_model::ToDouble(scalarValue), cpu_model::DTypeOf<T>::kValue, count,
                             where);
}

template <typename T, typename U>
inline void Cast(const LocalTensor<T>& dst, const LocalTensor<U>& src, const RoundMode& roundMode,
                 const uint32_t count, cpu_model::Where where = cpu_model::Where()) {
  cpu_model::TheApi().Convert(dst.Ref(), cpu_model::DTypeOf<T>::kValue, src.Ref(),
                              cpu_model::DTypeOf<U>::kValue, roundMode, count, where);
}

}  // namespace AscendC

#endif  // CPU_MODEL_VECTOR_H_
