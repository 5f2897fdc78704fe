// What a core does between two points at which it meets others: a list of operations, and how
// long a list takes.
#ifndef CPU_MODEL_ENGINE_PROFILE_H_
#define CPU_MODEL_ENGINE_PROFILE_H_

#include <cstdint>
#include <vector>

#include "cpu_model/enums.h"
#include "rates.h"

namespace cpu_model {

enum class StepKind : uint8_t {
  kScalar,   // nothing but scalar cycles
  kIn,       // global memory to UB or L1
  kOut,      // UB, L1 or L0C to global memory
  kFillL1,   // constant to L1
  kLoad,     // L1 to L0
  kMmad,     // size: blocks of 16 x 16 x 16
  kVector,   // size: cycles
  kSet,      // flag between pipes
  kWait,     // the same
  kBarrier,  // of one pipe or all
  kDrain,    // until writes are acknowledged
};

// One call. Two lists of equal operations take equal time.
struct Step {
  uint32_t scalar;  // scalar cycles since the operation before it
  StepKind kind;
  uint8_t pipes;  // index of its pipe; kSet and kWait: plus 16 times the other pipe of the pair
  uint16_t flag;  // kSet, kWait: the pair times 8 + id; kLoad: 1 is L0B; transfers: 1 is remote
  uint64_t size;  // bytes, or as the kind says
};
static_assert(sizeof(Step) == 16, "hashed as two words");

// Factors by which shared memory and links are slower than a core alone finds them.
constexpr int kFactors = 6;
constexpr double kFactor[kFactors] = {1, 1.5, 2, 4, 8, 32};
constexpr int kPipeCount = 8;
constexpr int kAllPipes = PIPE_ALL;
constexpr int PipeNumber(pipe_t pipe) { return pipe == PIPE_FIX ? 7 : pipe; }
constexpr int kFlags = static_cast<int>(AscendC::HardEvent::MAX) * 8;

struct Profile {
  uint64_t count = 0;            // operations, to tell lists of equal hash apart
  double ns[kFactors] = {};      // duration at each factor
  double busy[kPipeCount] = {};  // ns that each pipe works, at factor 1

  // Duration where transfers are `factor` times slower: linear between the factors, and beyond.
  double At(double factor) const;
};

// Runs a list of operations on idle pipes: each pipe takes its operations in order.
Profile MakeProfile(const std::vector<Step>& steps, const Rates& rates);

}  // namespace cpu_model

#endif  // CPU_MODEL_ENGINE_PROFILE_H_
