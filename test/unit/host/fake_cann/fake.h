// A fake device with its memory and peers, which records calls: each is a line on standard output.
#ifndef FAKE_CANN_FAKE_H_
#define FAKE_CANN_FAKE_H_

#include <array>
#include <cstdint>
#include <map>
#include <string>

namespace fake {

struct Failing {
  int code = 0;
  int calls_before = 0;  // successful calls before the failure
};

struct Device {
  int64_t cube_cores = 24;
  int64_t vector_cores = 48;
  int ranks = 2;
  int shmem_status = 0;
  // Effects of the kernel: the status that it writes, the error that it leaves.
  std::array<int32_t, 4> kernel_status = {};
  int launch_error = 0;
  int last_error = 0;
  std::map<std::string, Failing> failing;
};

Device& TheDevice();

// Makes `call` fail with `code` after `calls_before` successful calls.
void Fail(const std::string& call, int code, int calls_before);

// Names an address in the record; memory of the device has names already.
void Name(const void* address, const std::string& name);
std::string NameOf(const void* address);

// Returns the address with a name, or null.
void* Named(const std::string& name);

// Memory that has not been freed.
std::string Live();

// A launch of a kernel, as the device compiler makes it of <<<blocks, 0, stream>>>.
void Launched(uint32_t blocks, const void* stream);

// The kernel's record, and its effect: the status words.
void Ran(const std::string& arguments, void* status);

}  // namespace fake

#endif  // FAKE_CANN_FAKE_H_
