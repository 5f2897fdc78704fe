// Parameter structures of the data-movement and matrix calls: fields, order and defaults of the
// 2201 branch. Which values are supported is decided where the structure is used.
#ifndef CPU_MODEL_PARAMS_H_
#define CPU_MODEL_PARAMS_H_

#include "cpu_model/enums.h"
#include "cpu_model/types.h"

namespace AscendC {

struct DataCopyParams {
  DataCopyParams() {}
  DataCopyParams(uint16_t count, uint16_t len, uint16_t src_gap, uint16_t dst_gap)
      : blockCount(count), blockLen(len), srcGap(src_gap), dstGap(dst_gap) {}

  uint16_t blockCount = 1;
  uint16_t blockLen = 0;  // 32 B
  union {
    uint16_t srcGap = 0;  // 32 B, end to start
    uint16_t srcStride;
  };
  union {
    uint16_t dstGap = 0;  // 32 B, end to start
    uint16_t dstStride;
  };
};

struct DataCopyExtParams {
  DataCopyExtParams() {}
  DataCopyExtParams(uint16_t count, uint32_t len, uint32_t src_stride, uint32_t dst_stride,
                    uint32_t reserved)
      : blockCount(count),
        blockLen(len),
        srcStride(src_stride),
        dstStride(dst_stride),
        rsv(reserved) {}

  uint16_t blockCount = 1;
  uint32_t blockLen = 0;   // bytes
  uint32_t srcStride = 0;  // gap: bytes in GM, 32 B in local memory
  uint32_t dstStride = 0;
  uint32_t rsv = 0;
};

template <typename T>
struct DataCopyPadExtParams {
  DataCopyPadExtParams() {}
  DataCopyPadExtParams(bool pad, uint8_t left, uint8_t right, T value)
      : isPad(pad), leftPadding(left), rightPadding(right), paddingValue(value) {}

  bool isPad = false;
  uint8_t leftPadding = 0;   // elements
  uint8_t rightPadding = 0;  // elements
  T paddingValue = 0;
};

struct Nd2NzParams {
  Nd2NzParams() {}
  Nd2NzParams(uint16_t nd_num, uint16_t n_value, uint16_t d_value, uint16_t src_nd_matrix_stride,
              uint16_t src_d_value, uint16_t dst_nz_c0_stride, uint16_t dst_nz_n_stride,
              uint16_t dst_nz_matrix_stride)
      : ndNum(nd_num),
        nValue(n_value),
        dValue(d_value),
        srcNdMatrixStride(src_nd_matrix_stride),
        srcDValue(src_d_value),
        dstNzC0Stride(dst_nz_c0_stride),
        dstNzNStride(dst_nz_n_stride),
        dstNzMatrixStride(dst_nz_matrix_stride) {}

  uint16_t ndNum = 0;
  uint16_t nValue = 0;             // rows
  uint16_t dValue = 0;             // columns
  uint16_t srcNdMatrixStride = 0;  // elements
  uint16_t srcDValue = 0;          // row pitch, elements
  uint16_t dstNzC0Stride = 0;      // 32 B
  uint16_t dstNzNStride = 0;       // 32 B
  uint16_t dstNzMatrixStride = 0;  // elements
};

struct LoadData2DParams {
  LoadData2DParams() {}
  LoadData2DParams(uint16_t start_index, uint8_t repeat_times, uint16_t src_stride, uint8_t sid_in,
                   uint16_t dst_gap, bool if_transpose, uint8_t addr_mode)
      : startIndex(start_index),
        dstGap(dst_gap),
        srcStride(src_stride),
        ifTranspose(if_transpose),
        repeatTimes(repeat_times),
        sid(sid_in),
        addrMode(addr_mode) {}

  uint16_t startIndex = 0;  // fractals of 512 B
  uint16_t dstGap = 0;      // fractals, end to start
  uint16_t srcStride = 0;   // fractals, start to start
  bool ifTranspose = false;
  uint8_t repeatTimes = 0;
  uint8_t sid = 0;
  uint8_t addrMode = 0;
};
using LoadData2dParams = LoadData2DParams;

struct MmadParams {
  MmadParams() {}
  MmadParams(uint16_t m_in, uint16_t n_in, uint16_t k_in, uint8_t unit_flag, bool cmatrix_source,
             bool cmatrix_init_val)
      : m(m_in),
        n(n_in),
        k(k_in),
        unitFlag(unit_flag),
        cmatrixSource(cmatrix_source),
        cmatrixInitVal(cmatrix_init_val) {}

  uint16_t m = 0;
  uint16_t n = 0;
  uint16_t k = 0;
  bool isBias = false;
  int32_t fmOffset = 0;
  bool enSsparse = false;
  bool enWinogradA = false;
  bool enWinogradB = false;
  uint8_t unitFlag = 0;
  bool kDirectionAlign = false;
  bool cmatrixSource = false;  // true: start from the bias table
  bool cmatrixInitVal = true;  // true: start from zero
};

struct FixpipeParamsV220 {
  FixpipeParamsV220() {}
  FixpipeParamsV220(uint16_t n_size, uint16_t m_size, uint16_t src_stride, uint32_t dst_stride,
                    bool relu_en)
      : nSize(n_size),
        mSize(m_size),
        srcStride(src_stride),
        dstStride(dst_stride),
        reluEn(relu_en) {}
  FixpipeParamsV220(uint16_t n_size, uint16_t m_size, uint16_t src_stride, uint32_t dst_stride,
                    bool relu_en, QuantMode_t quant_pre, int64_t deq_scalar, uint16_t nd_num,
                    uint16_t src_nd_stride, uint16_t dst_nd_stride, uint8_t unit_flag)
      : nSize(n_size),
        mSize(m_size),
        srcStride(src_stride),
        dstStride(dst_stride),
        quantPre(quant_pre),
        deqScalar(static_cast<uint64_t>(deq_scalar)),
        ndNum(nd_num),
        srcNdStride(src_nd_stride),
        dstNdStride(dst_nd_stride),
        reluEn(relu_en),
        unitFlag(unit_flag) {}

  uint16_t nSize = 0;
  uint16_t mSize = 0;
  uint16_t srcStride = 0;  // 16 elements: rows between two column blocks of 16
  uint32_t dstStride = 0;  // row pitch in elements for row-major output
  QuantMode_t quantPre = QuantMode_t::NoQuant;
  uint64_t deqScalar = 0;
  uint16_t ndNum = 1;
  uint16_t srcNdStride = 0;
  uint16_t dstNdStride = 0;
  bool reluEn = false;
  uint8_t unitFlag = 0;
  bool isChannelSplit = false;
};

template <typename T>
struct InitConstValueParams {
  InitConstValueParams() {}
  InitConstValueParams(uint16_t repeat_times, uint16_t block_num, uint16_t dst_gap, T init_value)
      : repeatTimes(repeat_times), blockNum(block_num), dstGap(dst_gap), initValue(init_value) {}

  uint16_t repeatTimes = 0;
  uint16_t blockNum = 0;  // 32 B in L1
  uint16_t dstGap = 0;    // 32 B in L1
  T initValue = 0;
};

}  // namespace AscendC

#endif  // CPU_MODEL_PARAMS_H_
