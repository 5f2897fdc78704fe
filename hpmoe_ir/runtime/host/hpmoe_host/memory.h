// Memory of this rank's device, freed with its owner.
#ifndef HPMOE_HOST_MEMORY_H_
#define HPMOE_HOST_MEMORY_H_

#include <cstddef>
#include <string>
#include <utility>

#include "acl/acl.h"
#include "hpmoe_host/failure.h"
#include "shmem.h"

namespace hpmoe_host {

// Device memory of this rank alone. The address is null where there are 0 bytes.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  // `what` names the memory in a failure.
  DeviceMemory(size_t bytes, const std::string& what) : bytes_(bytes) {
    if (bytes == 0) return;
    CheckAcl(aclrtMalloc(&address_, bytes, ACL_MEM_MALLOC_HUGE_FIRST),
             "aclrtMalloc of " + std::to_string(bytes) + " bytes for " + what);
  }
  DeviceMemory(DeviceMemory&& other) noexcept
      : address_(std::exchange(other.address_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  DeviceMemory& operator=(DeviceMemory&& other) noexcept {
    std::swap(address_, other.address_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~DeviceMemory() { (void)Free(); }

  void* address() const { return address_; }
  size_t bytes() const { return bytes_; }

  // Copies `bytes` bytes from or to the host; returns when done.
  void Upload(const void* source, size_t bytes, const std::string& what) {
    if (bytes == 0) return;
    CheckAcl(aclrtMemcpy(address_, bytes_, source, bytes, ACL_MEMCPY_HOST_TO_DEVICE),
             "aclrtMemcpy of " + what + " to the device");
  }
  void Download(void* target, size_t bytes, const std::string& what) const {
    if (bytes == 0) return;
    CheckAcl(aclrtMemcpy(target, bytes, address_, bytes, ACL_MEMCPY_DEVICE_TO_HOST),
             "aclrtMemcpy of " + what + " from the device");
  }

  // Frees the memory and returns the error, which the destructor ignores.
  aclError Free() noexcept {
    void* address = std::exchange(address_, nullptr);
    bytes_ = 0;
    return address == nullptr ? ACL_SUCCESS : aclrtFree(address);
  }

 private:
  void* address_ = nullptr;
  size_t bytes_ = 0;
};

// Symmetric memory: every rank has it in the same size and can access that of all others. Allocate
// and Free are collective.
class SymmetricMemory {
 public:
  SymmetricMemory() = default;
  SymmetricMemory(const SymmetricMemory&) = delete;
  SymmetricMemory& operator=(const SymmetricMemory&) = delete;
  ~SymmetricMemory() { Free(); }

  void* address() const { return address_; }

  void Allocate(size_t alignment, size_t bytes, const std::string& what) {
    if (bytes == 0) return;
    address_ = aclshmem_align(alignment, bytes);
    Require(address_ != nullptr,
            "aclshmem_align of " + std::to_string(bytes) + " bytes for " + what +
                " failed: the symmetric memory is used up, or another rank did not take part");
  }
  void Free() noexcept {
    void* address = std::exchange(address_, nullptr);
    if (address != nullptr) aclshmem_free(address);
  }

 private:
  void* address_ = nullptr;
};

}  // namespace hpmoe_host

#endif  // HPMOE_HOST_MEMORY_H_
