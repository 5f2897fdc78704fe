// Tensors at fixed addresses of local memories, lists between global memory and UB, flags.
#ifndef HPMOE_LOCAL_H_
#define HPMOE_LOCAL_H_

#include "hpmoe/memories.h"
#include "kernel_operator.h"

namespace hpmoe {

// The worker loop's kilobyte in the reserved part, which starts where that of the kernels ends.
constexpr uint32_t kUbWorker = kUbBytes;
constexpr uint32_t kL1Worker = kL1Bytes;

constexpr uint32_t kBlockWords = kDataBlock / sizeof(int32_t);  // 32-bit words of a data block

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

// Keeps the compiler from moving loads and stores over this place; costs no instruction.
__aicore__ inline void CompilerFence() { __asm__ __volatile__("" ::: "memory"); }

// Whether an event is between the scalar unit and another pipe.
template <AscendC::HardEvent event>
constexpr bool kOfScalarUnit =
    event == AscendC::HardEvent::S_V || event == AscendC::HardEvent::V_S ||
    event == AscendC::HardEvent::S_MTE2 || event == AscendC::HardEvent::MTE2_S ||
    event == AscendC::HardEvent::S_MTE3 || event == AscendC::HardEvent::MTE3_S;

// Makes a pipe wait for all instructions that another pipe has been given so far. Those of the
// scalar unit are plain loads and stores, which the compiler could move over the flags.
template <AscendC::HardEvent event>
__aicore__ inline void Handover(int32_t id = 0) {
  if constexpr (kOfScalarUnit<event>) CompilerFence();
  AscendC::SetFlag<event>(id);
  AscendC::WaitFlag<event>(id);
  if constexpr (kOfScalarUnit<event>) CompilerFence();
}

}  // namespace hpmoe

#endif  // HPMOE_LOCAL_H_
