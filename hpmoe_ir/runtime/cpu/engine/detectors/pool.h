// Objects with small ids, which are reused. References stay valid while the pool grows.
#ifndef CPU_MODEL_ENGINE_DETECTORS_POOL_H_
#define CPU_MODEL_ENGINE_DETECTORS_POOL_H_

#include <cstdint>
#include <memory>
#include <vector>

namespace cpu_model {

template <typename T>
class Pool {
 public:
  T& operator[](uint32_t id) { return chunks_[id / kChunk][id % kChunk]; }

  // The id of an unused object, which is in the state in which it was given back.
  uint32_t Take() {
    if (!free_.empty()) {
      const uint32_t id = free_.back();
      free_.pop_back();
      return id;
    }
    if (size_ % kChunk == 0) chunks_.emplace_back(new T[kChunk]);
    return size_++;
  }
  void GiveBack(uint32_t id) { free_.push_back(id); }

 private:
  static constexpr uint32_t kChunk = 4096;
  std::vector<std::unique_ptr<T[]>> chunks_;
  std::vector<uint32_t> free_;
  uint32_t size_ = 0;
};

}  // namespace cpu_model

#endif  // CPU_MODEL_ENGINE_DETECTORS_POOL_H_
