// A core's operations between two synchronisation points, and how long they take.
#ifndef CPU_MODEL_ENGINE_CLOCKS_PROFILE_H_
#define CPU_MODEL_ENGINE_CLOCKS_PROFILE_H_

#include <cstdint>
#include <vector>

#include "clocks/rates.h"
#include "cpu_model/enums.h"
#include "model/timeline.h"

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
class Step {
 public:
  // scalar: cycles since the operation before it. pipes: index of its pipe; kSet and kWait: plus 16
  // times the other pipe of the pair. flag: kSet, kWait: the pair times 8 + id; kLoad: 1 is L0B;
  // kIn, kOut: 1 is remote; kIn: plus 2 for L1. size: bytes, or as the kind says.
  Step(uint32_t scalar, StepKind kind, int pipes, int flag, uint64_t size)
      : head_(scalar | uint64_t{static_cast<uint8_t>(kind)} << 32 |
              uint64_t{static_cast<uint8_t>(pipes)} << 40 |
              uint64_t{static_cast<uint16_t>(flag)} << 48),
        size_(size) {}

  uint32_t scalar() const { return static_cast<uint32_t>(head_); }
  StepKind kind() const { return static_cast<StepKind>(head_ >> 32 & 255); }
  int pipes() const { return static_cast<int>(head_ >> 40 & 255); }
  int flag() const { return static_cast<int>(head_ >> 48); }
  uint64_t size() const { return size_; }
  uint64_t head() const { return head_; }  // all but the size

 private:
  uint64_t head_;
  uint64_t size_;
};

// Factors by which transfers are slower than those of a core that shares memory and links with
// none.
constexpr int kFactors = 6;
constexpr double kFactor[kFactors] = {1, 1.5, 2, 4, 8, 32};
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

#endif  // CPU_MODEL_ENGINE_CLOCKS_PROFILE_H_
