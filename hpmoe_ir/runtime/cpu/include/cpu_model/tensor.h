// GlobalTensor and LocalTensor.
#ifndef CPU_MODEL_TENSOR_H_
#define CPU_MODEL_TENSOR_H_

#include "cpu_model/call.h"

namespace cpu_model {

template <typename T>
inline uint64_t ToBits(T value) {
  static_assert(sizeof(T) <= 8, "scalars of at most 8 bytes");
  uint64_t bits = 0;
  __builtin_memcpy(&bits, &value, sizeof(T));
  return bits;
}

template <typename T>
inline T FromBits(uint64_t bits) {
  T value;
  __builtin_memcpy(&value, &bits, sizeof(T));
  return value;
}

}  // namespace cpu_model

namespace AscendC {

template <typename T>
class GlobalTensor {
 public:
  using PrimType = T;

  void SetGlobalBuffer(__gm__ T* buffer, uint64_t size) {
    addr_ = reinterpret_cast<uint64_t>(buffer);
    end_ = addr_ + size * sizeof(T);
  }
  void SetGlobalBuffer(__gm__ T* buffer) {
    addr_ = reinterpret_cast<uint64_t>(buffer);
    end_ = 0;
  }

  const __gm__ T* GetPhyAddr() const { return reinterpret_cast<const T*>(addr_); }
  __gm__ T* GetPhyAddr(const uint64_t offset) const { return reinterpret_cast<T*>(addr_) + offset; }
  uint64_t GetSize() const { return end_ == 0 ? 0 : (end_ - addr_) / sizeof(T); }

  T GetValue(const uint64_t offset, cpu_model::Where where = cpu_model::Where()) const {
    return cpu_model::FromBits<T>(
        cpu_model::TheApi().ReadGlobal(Ref(), offset * sizeof(T), sizeof(T), where));
  }
  void SetValue(const uint64_t offset, T value, cpu_model::Where where = cpu_model::Where()) {
    cpu_model::TheApi().WriteGlobal(Ref(), offset * sizeof(T), sizeof(T), cpu_model::ToBits(value),
                                    where);
  }

  GlobalTensor operator[](const uint64_t offset) const {
    GlobalTensor result = *this;
    result.addr_ += offset * sizeof(T);
    return result;
  }

  void SetL2CacheHint(CacheMode) {}  // no cache below the DCache is modelled

  cpu_model::GlobalRef Ref() const { return {addr_, end_}; }

 private:
  uint64_t addr_ = 0;
  uint64_t end_ = 0;
};

template <typename T>
class LocalTensor {
 public:
  using PrimType = T;

  LocalTensor() {}
  LocalTensor(TPosition pos, uint32_t addr, uint32_t tileSize,
              cpu_model::Where where = cpu_model::Where()) {
    const uint64_t bytes = static_cast<uint64_t>(tileSize) * sizeof(T);
    ref_ = {pos, addr, static_cast<uint32_t>(bytes)};
    cpu_model::TheApi().CheckLocal(ref_, bytes, where);
  }

  uint64_t GetPhyAddr() const { return ref_.addr; }
  uint64_t GetPhyAddr(const uint32_t offset) const { return ref_.addr + offset * sizeof(T); }
  int32_t GetPosition() const { return static_cast<int32_t>(ref_.position); }
  uint32_t GetSize() const { return ref_.bytes / sizeof(T); }

  T GetValue(const uint32_t index, cpu_model::Where where = cpu_model::Where()) const {
    return cpu_model::FromBits<T>(
        cpu_model::TheApi().ReadLocal(ref_, uint64_t{index} * sizeof(T), sizeof(T), where));
  }
  template <typename S>
  void SetValue(const uint32_t index, const S value,
                cpu_model::Where where = cpu_model::Where()) const {
    cpu_model::TheApi().WriteLocal(ref_, uint64_t{index} * sizeof(T), sizeof(T),
                                   cpu_model::ToBits(static_cast<T>(value)), where);
  }

  // An offset past the end gives an empty tensor: the access, not the offset, is the error.
  LocalTensor operator[](const uint32_t offset) const {
    LocalTensor result = *this;
    const uint64_t skip = uint64_t{offset} * sizeof(T);
    result.ref_.addr += static_cast<uint32_t>(skip);
    result.ref_.bytes = skip < ref_.bytes ? ref_.bytes - static_cast<uint32_t>(skip) : 0;
    return result;
  }

  template <typename U>
  LocalTensor<U> ReinterpretCast() const {
    LocalTensor<U> result;
    result.SetRef(ref_);
    return result;
  }

  const cpu_model::LocalRef& Ref() const { return ref_; }
  void SetRef(const cpu_model::LocalRef& ref) { ref_ = ref; }

 private:
  cpu_model::LocalRef ref_ = {TPosition::MAX, 0, 0};
};

}  // namespace AscendC

#endif  // CPU_MODEL_TENSOR_H_
