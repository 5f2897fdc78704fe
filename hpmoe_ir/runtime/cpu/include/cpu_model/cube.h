// LoadData, Mmad and Fixpipe: the matrix unit of an AIC.
#ifndef CPU_MODEL_CUBE_H_
#define CPU_MODEL_CUBE_H_

#include "cpu_model/params.h"
#include "cpu_model/tensor.h"

namespace AscendC {

// Fractals of 512 B from L1 to L0A or L0B.
template <typename T>
inline void LoadData(const LocalTensor<T>& dst, const LocalTensor<T>& src,
                     const LoadData2DParams& params, cpu_model::Where where = cpu_model::Where()) {
  static_assert(sizeof(T) == 2 || sizeof(T) == 4, "LoadData is modelled for 16 and 32 bit types");
  if (params.addrMode != 0)
    cpu_model::Unsupported("LoadData2DParams::addrMode other than 0", where);
  if (params.sid != 0) cpu_model::Unsupported("LoadData2DParams::sid other than 0", where);
  if (params.ifTranspose && sizeof(T) != 2) {
    cpu_model::Unsupported("LoadData with ifTranspose for a type that has not 16 bits", where);
  }
  cpu_model::TheApi().LoadFractals(dst.Ref(), src.Ref(),
                                   {params.startIndex, params.repeatTimes, params.srcStride,
                                    params.dstGap + 1u, params.ifTranspose},
                                   cpu_model::DTypeOf<T>::kValue, where);
}

// dst (+)= fm * filter, accumulated in float in the order of k.
template <typename T, typename U, typename S>
inline void Mmad(const LocalTensor<T>& dst, const LocalTensor<U>& fm, const LocalTensor<S>& filter,
                 const MmadParams& params, cpu_model::Where where = cpu_model::Where()) {
  static_assert(std::is_same<T, float>::value && std::is_same<U, S>::value &&
                    (std::is_same<U, half>::value || std::is_same<U, bfloat16_t>::value),
                "Mmad is modelled for half or bfloat16_t operands and a float result");
  if (params.unitFlag != 0) cpu_model::Unsupported("MmadParams::unitFlag other than 0", where);
  if (params.cmatrixSource) cpu_model::Unsupported("MmadParams::cmatrixSource = true", where);
  if (params.isBias || params.fmOffset != 0 || params.enSsparse || params.enWinogradA ||
      params.enWinogradB || params.kDirectionAlign) {
    cpu_model::Unsupported("MmadParams: bias, offset, sparse, Winograd and alignment fields",
                           where);
  }
  cpu_model::TheApi().Multiply(dst.Ref(), fm.Ref(), filter.Ref(),
                               {params.m, params.n, params.k, params.cmatrixInitVal},
                               cpu_model::DTypeOf<U>::kValue, where);
}

// L0C to row-major global memory, rounded to the type of the destination.
template <typename T, typename U, const FixpipeConfig& config = CFG_ROW_MAJOR>
inline void Fixpipe(const GlobalTensor<T>& dst, const LocalTensor<U>& src,
                    const FixpipeParamsV220& params, cpu_model::Where where = cpu_model::Where()) {
  static_assert(config.format == CO2Layout::ROW_MAJOR, "Fixpipe is modelled for row-major output");
  static_assert(std::is_same<U, float>::value, "Fixpipe is modelled for a float source");
  static_assert(std::is_same<T, float>::value || std::is_same<T, half>::value ||
                    std::is_same<T, bfloat16_t>::value,
                "Fixpipe is modelled for float, half and bfloat16_t output");
  const QuantMode_t mode = std::is_same<T, float>::value  ? QuantMode_t::NoQuant
                           : std::is_same<T, half>::value ? QuantMode_t::F322F16
                                                          : QuantMode_t::F322BF16;
  if (params.quantPre != mode) {
    cpu_model::Unsupported("FixpipeParamsV220::quantPre that does not fit the output type", where);
  }
  if (params.unitFlag != 0)
    cpu_model::Unsupported("FixpipeParamsV220::unitFlag other than 0", where);
  if (params.reluEn || params.isChannelSplit || params.ndNum != 1) {
    cpu_model::Unsupported("FixpipeParamsV220: relu, channel split and several matrices", where);
  }
  cpu_model::TheApi().StoreResult(dst.Ref(), src.Ref(),
                                  {params.mSize, params.nSize, params.srcStride, params.dstStride},
                                  cpu_model::DTypeOf<T>::kValue, where);
}

}  // namespace AscendC

#endif  // CPU_MODEL_CUBE_H_
