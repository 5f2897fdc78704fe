// Global and local memories: allocations, the bytes that a call touches, bounds and alignment.
#ifndef CPU_MODEL_ENGINE_MODEL_MEMORY_H_
#define CPU_MODEL_ENGINE_MODEL_MEMORY_H_

#include <cstdint>
#include <string>

#include "cpu_model/call.h"

namespace cpu_model {

struct Core;

enum Space : uint8_t { kGm, kL1, kL0A, kL0B, kL0C, kUb, kSpaces };
const char* SpaceName(Space space);
Space SpaceOf(AscendC::TPosition position);  // kSpaces where the model has no such memory

// Uninitialised memory holds this pattern: NaN as float, half and bfloat16_t, absurd as int32.
constexpr uint32_t kPattern = 0x7FBD7FBD;
void FillPattern(void* data, size_t bytes);

// Bytes that a call reads or writes: `bytes` at begin + i * pitch[0] + j * pitch[1].
struct Span {
  Space space;
  bool write;
  uint64_t begin;
  uint64_t bytes;
  uint64_t count[2] = {1, 1};
  uint64_t pitch[2] = {0, 0};
  uint64_t limit = 0;  // end of the tensor that the kernel named; 0 where it gave none

  uint64_t End() const {
    return begin + bytes + (count[0] - 1) * pitch[0] + (count[1] - 1) * pitch[1];
  }
  bool Empty() const { return bytes == 0 || count[0] == 0 || count[1] == 0; }
};
Span LocalSpan(const LocalRef& ref, bool write, uint64_t bytes);
Span GlobalSpan(const GlobalRef& ref, bool write, uint64_t bytes);
Span Strided(Span span, uint64_t count, uint64_t pitch);

// One allocation of global memory.
struct Allocation {
  std::string name;
  int rank;
  bool symmetric;
  bool writable;
  uint64_t begin;
  uint64_t bytes;
  uint32_t* shadow = nullptr;  // of the observer: the access history of every two bytes
  uint64_t End() const { return begin + bytes; }
};
Allocation& Allocate(const std::string& name, int rank, uint64_t bytes, bool symmetric,
                     bool writable);
const Allocation* FindAllocation(uint64_t addr);
std::string DescribeAddress(uint64_t addr);
// Address of new memory between two guard gaps. Ends the process where there is none.
uint64_t MapMemory(const std::string& name, uint64_t bytes);
inline uint8_t* GlobalData(uint64_t addr) { return reinterpret_cast<uint8_t*>(addr); }
uint8_t* LocalData(Core& core, const LocalRef& ref);

void CheckSpan(const Core& core, const char* api, const Span& span, Where where);
void CheckAlignment(const char* api, const LocalRef& ref, uint32_t bytes, Where where);

}  // namespace cpu_model

#endif  // CPU_MODEL_ENGINE_MODEL_MEMORY_H_
