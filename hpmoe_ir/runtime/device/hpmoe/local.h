// Local memories: what kernels may use, and tensors at fixed addresses in them.
#ifndef HPMOE_LOCAL_H_
#define HPMOE_LOCAL_H_

#include "kernel_operator.h"

namespace hpmoe {

constexpr uint32_t kUbBytes = 183 * 1024;  // 0 .. kUbBytes belongs to the running kernel
constexpr uint32_t kL1Bytes = 510 * 1024;
constexpr uint32_t kL0aBytes = 64 * 1024;
constexpr uint32_t kL0bBytes = 64 * 1024;
constexpr uint32_t kL0cBytes = 128 * 1024;

// The worker loop's own kilobyte, above that of the kernels.
constexpr uint32_t kUbWorker = kUbBytes;
constexpr uint32_t kL1Worker = kL1Bytes;

constexpr uint32_t kDataBlock = 32;    // bytes: unit of a DMA, alignment of UB and L1 addresses
constexpr uint32_t kFractal = 16;      // rows and columns of a fractal of 16-bit elements
constexpr uint32_t kMaxPitch = 65535;  // elements: what one ND to NZ copy can step over

template <typename T>
__aicore__ inline AscendC::LocalTensor<T> Ub(uint32_t address, uint32_t count) {
  return AscendC::LocalTensor<T>(AscendC::TPosition::VECCALC, address, count);
}

template <typename T>
__aicore__ inline AscendC::GlobalTensor<T> Global(__gm__ T* data, uint64_t count) {
  AscendC::GlobalTensor<T> tensor;
  tensor.SetGlobalBuffer(data, count);
  return tensor;
}

// Copies `count` elements from any address into UB, one burst. The bytes up to the next data block
// are arbitrary.
template <typename T>
__aicore__ inline void LoadList(const AscendC::LocalTensor<T>& dst, __gm__ T* src, uint32_t count) {
  const AscendC::DataCopyExtParams burst(1, count * sizeof(T), 0, 0, 0);
  AscendC::DataCopyPad(dst, Global(src, count), burst,
                       AscendC::DataCopyPadExtParams<T>(false, 0, 0, 0));
}

// Copies `count` elements from UB to any address, one burst.
template <typename T>
__aicore__ inline void StoreList(__gm__ T* dst, const AscendC::LocalTensor<T>& src,
                                 uint32_t count) {
  const AscendC::DataCopyExtParams burst(1, count * sizeof(T), 0, 0, 0);
  AscendC::DataCopyPad(Global(dst, count), src, burst);
}

// A pipe waits for what another one has been given so far.
template <AscendC::HardEvent event>
__aicore__ inline void Handover(int32_t id = 0) {
  AscendC::SetFlag<event>(id);
  AscendC::WaitFlag<event>(id);
}

}  // namespace hpmoe

#endif  // HPMOE_LOCAL_H_
