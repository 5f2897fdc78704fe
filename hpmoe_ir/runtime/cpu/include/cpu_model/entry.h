// The kernel of this executable, as the generated start-up file describes it.
#ifndef CPU_MODEL_ENTRY_H_
#define CPU_MODEL_ENTRY_H_

#include <cstdint>

namespace cpu_model {

struct Entry {
  const char* name;
  const char* const* pointers;
  int pointer_count;
  const char* const* scalars;
  int scalar_count;
  void (*call)(uint8_t* const* pointers, const uint32_t* scalars);
};
extern const Entry kEntry;

}  // namespace cpu_model

#endif  // CPU_MODEL_ENTRY_H_
