// A device, its memory and its peers that only keep a record: each call is a line on standard
// output.
#ifndef FAKE_CANN_FAKE_H_
#define FAKE_CANN_FAKE_H_

#include <array>
#include <cstdint>
#include <map>
#include <string>

namespace fake {

struct Failing {
  int code = 0;
  int calls_before = 0;  // calls that go well first
};

struct Device {
  int64_t cube_cores = 24;
  int64_t vector_cores = 48;
  int ranks = 2;
  int shmem_status = 0;
  // What the kernel does: writes this status, leaves this error behind.
  std::array<int32_t, 4> kernel_status = {};
  int launch_error = 0;
  int last_error = 0;
  std::map<std::string, Failing> failing;
};

Device& TheDevice();

// Makes `call` fail with `code` after it went well `calls_before` times.
void Fail(const std::string& call, int code, int calls_before);

// Names of addresses in the record; memory that the device hands out is named by itself.
void Name(const void* address, const std::string& name);
std::string NameOf(const void* address);

// The address that has a name; null where none has it.
void* Named(const std::string& name);

// Memory that nobody has given back.
std::string Live();

// A launch of a kernel, as the device compiler makes it of <<<blocks, 0, stream>>>.
void Launched(uint32_t blocks, const void* stream);

// The kernel's record, and its effect: the status words.
void Ran(const std::string& arguments, void* status);

}  // namespace fake

#endif  // FAKE_CANN_FAKE_H_
