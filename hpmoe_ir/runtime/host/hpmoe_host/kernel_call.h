// Arguments of a launch besides the caller's buffers.
#ifndef HPMOE_HOST_KERNEL_CALL_H_
#define HPMOE_HOST_KERNEL_CALL_H_

#include <cstdint>

namespace hpmoe_host {

struct KernelCall {
  uint32_t blocks;  // AIC cores, each with its two AIV cores
  void* status;
  void* table;
  void* workspace;
  void* windows;
  uint32_t tokens;
  uint32_t launch;  // 1, 2, 3, ...
};

}  // namespace hpmoe_host

#endif  // HPMOE_HOST_KERNEL_CALL_H_
