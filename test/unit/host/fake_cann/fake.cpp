#include "fake.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <vector>

#include "acl/acl.h"
#include "shmem.h"

// Tests leave handles open on purpose; leaks are checked by the fakes.
extern "C" const char* __asan_default_options() { return "detect_leaks=0"; }

namespace fake {
namespace {

struct Block {
  std::string name;
  std::vector<uint8_t> bytes;
};

std::vector<Block> live;
std::map<const void*, std::string> names;
std::string details;
int blocks_so_far = 0;

void Say(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

// Returns the code of a call: 0 unless it is set to fail.
int Result(const std::string& call, const std::string& arguments) {
  const auto found = TheDevice().failing.find(call);
  const bool fails = found != TheDevice().failing.end() && found->second.calls_before-- == 0;
  Say(call + (arguments.empty() ? "" : " " + arguments) + (fails ? " fails" : ""));
  if (!fails) return 0;
  details = "no luck";
  return found->second.code;
}

void* NewBlock(const std::string& kind, size_t bytes) {
  // Filled with a value that can't be taken for zeroed memory.
  live.push_back({kind + std::to_string(++blocks_so_far), std::vector<uint8_t>(bytes, 0xA5)});
  Say("  is " + live.back().name);
  return live.back().bytes.data();
}

void Release(const void* address) {
  for (size_t i = 0; i < live.size(); ++i) {
    if (live[i].bytes.data() != address) continue;
    live.erase(live.begin() + static_cast<std::ptrdiff_t>(i));
    return;
  }
  Say("  was not allocated");
}

}  // namespace

Device& TheDevice() {
  static Device device;
  return device;
}

void Fail(const std::string& call, int code, int calls_before) {
  TheDevice().failing[call] = {code, calls_before};
}

void Name(const void* address, const std::string& name) { names[address] = name; }

std::string NameOf(const void* address) {
  if (address == nullptr) return "null";
  if (const auto found = names.find(address); found != names.end()) return found->second;
  for (const Block& block : live) {
    const auto* begin = block.bytes.data();
    const auto* place = static_cast<const uint8_t*>(address);
    if (place < begin || place >= begin + block.bytes.size()) continue;
    return block.name + (place == begin ? "" : "+" + std::to_string(place - begin));
  }
  return "host";
}

void* Named(const std::string& name) {
  for (Block& block : live) {
    if (block.name == name) return block.bytes.data();
  }
  return nullptr;
}

std::string Live() {
  std::string text;
  for (const Block& block : live) text += (text.empty() ? "" : " ") + block.name;
  return text.empty() ? "none" : text;
}

void Launched(uint32_t blocks, const void* stream) {
  Say("launch of " + std::to_string(blocks) + " blocks in " + NameOf(stream));
  TheDevice().last_error = TheDevice().launch_error;
}

void Ran(const std::string& arguments, void* status) {
  Say("kernel " + arguments);
  std::memcpy(status, TheDevice().kernel_status.data(), sizeof(TheDevice().kernel_status));
}

}  // namespace fake

using fake::NameOf;
using fake::Result;
using fake::TheDevice;

extern "C" {

aclError aclInit(const char*) {
  // For programs without a driver, a variable sets a failing call: CALL CODE CALLS_BEFORE.
  if (const char* text = std::getenv("FAKE_CANN_FAIL")) {
    std::istringstream words(text);
    std::string call;
    int code = 0;
    int calls_before = 0;
    words >> call >> code >> calls_before;
    fake::Fail(call, code, calls_before);
  }
  return Result("aclInit", "");
}
aclError aclFinalize() { return Result("aclFinalize", ""); }
const char* aclGetRecentErrMsg() { return fake::details.c_str(); }

aclError aclrtSetDevice(int32_t device) { return Result("aclrtSetDevice", std::to_string(device)); }
aclError aclrtGetDevice(int32_t* device) {
  *device = 3;
  return Result("aclrtGetDevice", "");
}
aclError aclrtResetDevice(int32_t device) {
  return Result("aclrtResetDevice", std::to_string(device));
}
aclError aclrtGetDeviceInfo(uint32_t device, aclrtDevAttr attribute, int64_t* value) {
  const bool cube = attribute == ACL_DEV_ATTR_CUBE_CORE_NUM;
  *value = cube ? TheDevice().cube_cores : TheDevice().vector_cores;
  return Result("aclrtGetDeviceInfo", std::to_string(device) + (cube ? " cube" : " vector"));
}
aclError aclrtGetLastError(aclrtLastErrLevel) {
  const int error = TheDevice().last_error;
  TheDevice().last_error = 0;
  Result("aclrtGetLastError", "");
  return error;
}

aclError aclrtMalloc(void** address, size_t bytes, aclrtMemMallocPolicy) {
  const int result = Result("aclrtMalloc", std::to_string(bytes));
  if (result == 0) *address = fake::NewBlock("mem", bytes);
  return result;
}
aclError aclrtFree(void* address) {
  const int result = Result("aclrtFree", NameOf(address));
  if (result == 0) fake::Release(address);
  return result;
}
aclError aclrtMemcpy(void* target, size_t room, const void* source, size_t bytes,
                     aclrtMemcpyKind kind) {
  const std::string text =
      std::to_string(bytes) + " of " + std::to_string(room) + " " +
      (kind == ACL_MEMCPY_HOST_TO_DEVICE ? "to " + NameOf(target) : "from " + NameOf(source));
  const int result = Result("aclrtMemcpy", text);
  if (result == 0) std::memcpy(target, source, bytes);
  return result;
}
aclError aclrtMemset(void* target, size_t room, int32_t value, size_t bytes) {
  const int result =
      Result("aclrtMemset", NameOf(target) + " " + std::to_string(bytes) + " of " +
                                std::to_string(room) + " to " + std::to_string(value));
  if (result == 0) std::memset(target, value, bytes);
  return result;
}

aclError aclrtCreateStream(aclrtStream* stream) {
  const int result = Result("aclrtCreateStream", "");
  if (result == 0) *stream = fake::NewBlock("stream", 1);
  return result;
}
aclError aclrtDestroyStream(aclrtStream stream) {
  const int result = Result("aclrtDestroyStream", NameOf(stream));
  if (result == 0) fake::Release(stream);
  return result;
}
aclError aclrtSynchronizeStream(aclrtStream stream) {
  return Result("aclrtSynchronizeStream", NameOf(stream));
}
aclError aclrtSynchronizeDevice(void) { return Result("aclrtSynchronizeDevice", ""); }

int aclshmemx_init_attr(aclshmemx_bootstrap_t, aclshmemx_init_attr_t* attributes) {
  const std::string text = std::to_string(attributes->my_pe) + " of " +
                           std::to_string(attributes->n_pes) + " at " + attributes->ip_port + " " +
                           std::to_string(attributes->local_mem_size);
  const int result = Result("aclshmemx_init_attr", text);
  if (result == 0) {
    TheDevice().ranks = attributes->n_pes;
    TheDevice().shmem_status = ACLSHMEM_STATUS_IS_INITIALIZED;
  }
  return result;
}
int aclshmem_finalize(void) { return Result("aclshmem_finalize", ""); }
int aclshmemx_init_status(void) { return TheDevice().shmem_status; }
int aclshmem_n_pes(void) { return TheDevice().ranks; }
void* aclshmem_align(size_t alignment, size_t bytes) {
  const std::string text = std::to_string(alignment) + " " + std::to_string(bytes);
  return Result("aclshmem_align", text) == 0 ? fake::NewBlock("symmetric", bytes) : nullptr;
}
void aclshmem_free(void* address) {
  Result("aclshmem_free", NameOf(address));
  fake::Release(address);
}
void* aclshmem_ptr(void* address, int rank) {
  const std::string text = NameOf(address) + " of rank " + std::to_string(rank);
  return Result("aclshmem_ptr", text) == 0 ? address : nullptr;
}
void aclshmem_barrier_all(void) { Result("aclshmem_barrier_all", ""); }
}
