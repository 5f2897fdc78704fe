// DataCopy, DataCopyPad, DMA atomics.
#ifndef CPU_MODEL_COPY_H_
#define CPU_MODEL_COPY_H_

#include "cpu_model/params.h"
#include "cpu_model/tensor.h"

namespace cpu_model {

constexpr Padding kNoPadding = {false, 0, 0, 0, 1};

inline uint64_t RoundUp32(uint64_t bytes) { return (bytes + 31) / 32 * 32; }

void CheckCopySize(const char* api, uint64_t bytes, Where where);

inline Blocks BlocksOf(const AscendC::DataCopyParams& params) {
  const uint32_t bytes = params.blockLen * 32u;
  return {params.blockCount, bytes, bytes + params.srcGap * 32u, bytes + params.dstGap * 32u};
}

}  // namespace cpu_model

namespace AscendC {

// Global memory to UB (AIV) or L1 (AIC), `count` elements in one piece.
template <typename T>
inline void DataCopy(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const uint32_t count,
                     cpu_model::Where where = cpu_model::Where()) {
  const uint64_t bytes = uint64_t{count} * sizeof(T);
  cpu_model::CheckCopySize("DataCopy", bytes, where);
  cpu_model::TheApi().CopyIn("DataCopy", dst.Ref(), src.Ref(),
                             {1, static_cast<uint32_t>(bytes), 0, 0}, cpu_model::kNoPadding,
                             cpu_model::DTypeOf<T>::kValue, where);
}

template <typename T>
inline void DataCopy(const LocalTensor<T>& dst, const GlobalTensor<T>& src,
                     const DataCopyParams& params, cpu_model::Where where = cpu_model::Where()) {
  cpu_model::TheApi().CopyIn("DataCopy", dst.Ref(), src.Ref(), cpu_model::BlocksOf(params),
                             cpu_model::kNoPadding, cpu_model::DTypeOf<T>::kValue, where);
}

// UB (AIV) or L1 (AIC) to global memory; adds where SetAtomicAdd is on.
template <typename T>
inline void DataCopy(const GlobalTensor<T>& dst, const LocalTensor<T>& src, const uint32_t count,
                     cpu_model::Where where = cpu_model::Where()) {
  const uint64_t bytes = uint64_t{count} * sizeof(T);
  cpu_model::CheckCopySize("DataCopy", bytes, where);
  cpu_model::TheApi().CopyOut("DataCopy", dst.Ref(), src.Ref(),
                              {1, static_cast<uint32_t>(bytes), 0, 0},
                              cpu_model::DTypeOf<T>::kValue, where);
}

template <typename T>
inline void DataCopy(const GlobalTensor<T>& dst, const LocalTensor<T>& src,
                     const DataCopyParams& params, cpu_model::Where where = cpu_model::Where()) {
  cpu_model::TheApi().CopyOut("DataCopy", dst.Ref(), src.Ref(), cpu_model::BlocksOf(params),
                              cpu_model::DTypeOf<T>::kValue, where);
}

// Row-major matrices in global memory to NZ in L1.
template <typename T>
inline void DataCopy(const LocalTensor<T>& dst, const GlobalTensor<T>& src,
                     const Nd2NzParams& params, cpu_model::Where where = cpu_model::Where()) {
  static_assert(sizeof(T) == 2 || sizeof(T) == 4, "ND to NZ is modelled for 16 and 32 bit types");
  const uint64_t width = sizeof(T);
  cpu_model::TheApi().CopyInNz(
      dst.Ref(), src.Ref(),
      {params.ndNum, params.nValue, params.dValue, params.srcNdMatrixStride * width,
       params.srcDValue * width, params.dstNzC0Stride * 32u, params.dstNzNStride * 32u,
       params.dstNzMatrixStride * width, static_cast<uint32_t>(width)},
      where);
}

// UB to UB and the other local pairs are vector or fixpipe moves that the model does not have.
template <typename T, typename U, typename P>
void DataCopy(const LocalTensor<T>&, const LocalTensor<U>&, const P&) = delete;

template <typename T>
inline void DataCopyPad(const LocalTensor<T>& dst, const GlobalTensor<T>& src,
                        const DataCopyExtParams& params, const DataCopyPadExtParams<T>& pad,
                        cpu_model::Where where = cpu_model::Where()) {
  const uint32_t width = sizeof(T);
  const cpu_model::Padding padding = {pad.isPad, pad.leftPadding * width, pad.rightPadding * width,
                                      cpu_model::ToBits(pad.paddingValue), width};
  const uint64_t row =
      cpu_model::RoundUp32(uint64_t{params.blockLen} + padding.left + padding.right);
  cpu_model::TheApi().CopyIn(
      "DataCopyPad", dst.Ref(), src.Ref(),
      {params.blockCount, params.blockLen, uint64_t{params.blockLen} + params.srcStride,
       row + params.dstStride * 32ull},
      padding, cpu_model::DTypeOf<T>::kValue, where);
}

template <typename T>
inline void DataCopyPad(const GlobalTensor<T>& dst, const LocalTensor<T>& src,
                        const DataCopyExtParams& params,
                        cpu_model::Where where = cpu_model::Where()) {
  cpu_model::TheApi().CopyOut("DataCopyPad", dst.Ref(), src.Ref(),
                              {params.blockCount, params.blockLen,
                               cpu_model::RoundUp32(params.blockLen) + params.srcStride * 32ull,
                               uint64_t{params.blockLen} + params.dstStride},
                              cpu_model::DTypeOf<T>::kValue, where);
}

// Constant blocks in L1 (AIC), on the MTE2 pipe.
template <typename T>
inline void Fill(const LocalTensor<T>& dst, const InitConstValueParams<T>& params,
                 cpu_model::Where where = cpu_model::Where()) {
  cpu_model::TheApi().FillL1(dst.Ref(), params.repeatTimes, params.blockNum * 32u,
                             (params.blockNum + params.dstGap) * 32u,
                             cpu_model::ToBits(params.initValue), sizeof(T), where);
}

template <typename T>
inline void InitConstValue(const LocalTensor<T>& dst, const InitConstValueParams<T>& params,
                           cpu_model::Where where = cpu_model::Where()) {
  Fill(dst, params, where);
}

template <typename T>
inline void SetAtomicAdd(cpu_model::Where where = cpu_model::Where()) {
  static_assert(std::is_same<T, float>::value || std::is_same<T, half>::value ||
                    std::is_same<T, bfloat16_t>::value || std::is_same<T, int32_t>::value ||
                    std::is_same<T, int16_t>::value || std::is_same<T, int8_t>::value,
                "SetAtomicAdd: float, half, bfloat16_t, int32_t, int16_t or int8_t");
  cpu_model::TheApi().SetAtomic(true, cpu_model::DTypeOf<T>::kValue, where);
}
inline void SetAtomicNone(cpu_model::Where where = cpu_model::Where()) {
  cpu_model::TheApi().SetAtomic(false, cpu_model::DType::kFloat, where);
}
inline void DisableDmaAtomic(cpu_model::Where where = cpu_model::Where()) {
  cpu_model::TheApi().SetAtomic(false, cpu_model::DType::kFloat, where);
}

}  // namespace AscendC

#endif  // CPU_MODEL_COPY_H_
