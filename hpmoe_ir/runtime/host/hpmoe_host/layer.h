// One compiled layer on this rank: its memory, its launches, its status.
#ifndef HPMOE_HOST_LAYER_H_
#define HPMOE_HOST_LAYER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>

#include "acl/acl.h"
#include "hpmoe_host/given_up.h"
#include "hpmoe_host/kernel_call.h"
#include "hpmoe_host/memory.h"
#include "hpmoe_host/table_image.h"

namespace hpmoe_host {

// Sizes and names of a compiled layer.
struct LayerPlan {
  const char* name;
  uint32_t tokens;  // largest number of tokens of a rank
  uint64_t workspace_bytes;
  uint64_t window_bytes;
  TableHeader header;  // of its task table
  WaitNames waits = {};
};

// One buffer of a launch, as the caller gave it.
struct Argument {
  const char* name;
  const void* address;
  bool of_tokens;  // has a row for each token, so it may be null where there are no tokens
};

class Layer {
 public:
  // Checks the table and the device, allocates, and waits until all ranks have zeroed their
  // counters. ACL and the symmetric memory are initialised before. Throws Failure.
  Layer(const LayerPlan& plan, const void* table, size_t table_bytes);
  Layer(const Layer&) = delete;
  Layer& operator=(const Layer&) = delete;

  // Calls `enqueue` to put the kernel's next launch into the stream. `given`: the buffers among the
  // arguments, whose addresses are checked. Throws Failure.
  template <typename Arguments>
  void Launch(std::initializer_list<Argument> given, uint32_t tokens, const Arguments& arguments,
              aclrtStream stream,
              void (*enqueue)(const Arguments&, const KernelCall&, aclrtStream)) {
    LaunchBy(given, tokens, [&](const KernelCall& call) { enqueue(arguments, call, stream); });
  }

  // Waits for the stream and reads the status of the last launch. Throws OverCapacity where a rank
  // would have received more rows than its capacity, Failure where the launch failed.
  void CheckStatus(aclrtStream stream);

  // Waits for the device and frees everything, whatever fails. Throws the first Failure.
  void Close();

 private:
  void LaunchBy(std::initializer_list<Argument> given, uint32_t tokens,
                const std::function<void(const KernelCall&)>& enqueue);
  // Returns the report of cores that gave up a wait; empty where device memory can't be read.
  std::string GivenUp() const;
  // Throws Failure, now and on every later call: counters of the other ranks have already counted
  // this launch, so a rank that failed can't take part in another.
  [[noreturn]] void Break(const std::string& text);
  std::string Prefixed(const std::string& text) const;

  const LayerPlan& plan_;
  DeviceMemory table_;
  DeviceMemory workspace_;
  DeviceMemory status_;
  SymmetricMemory windows_;
  uint32_t launch_ = 0;
  std::string broken_;
};

}  // namespace hpmoe_host

#endif  // HPMOE_HOST_LAYER_H_
