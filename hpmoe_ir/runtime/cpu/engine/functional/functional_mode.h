// A functional run: values, without durations. A seed fixes in which order the cores make their
// calls, so a run can be repeated exactly.
#ifndef CPU_MODEL_ENGINE_FUNCTIONAL_FUNCTIONAL_MODE_H_
#define CPU_MODEL_ENGINE_FUNCTIONAL_FUNCTIONAL_MODE_H_

#include <string>
#include <vector>

#include "functional/tick_clock.h"
#include "model/model.h"

namespace cpu_model {

class FunctionalMode : public Model {
 public:
  // late_ranks: ranks whose cores run only while no core of another rank can.
  FunctionalMode(uint64_t seed, const std::vector<int>& late_ranks);

  void Start(uint64_t) override {}
  uint64_t Place(const std::string& name, int rank, uint64_t bytes) override;
  void Initialise(void* data, uint64_t bytes) override;
  int RanksThatRun() const override;
  void MakeReady(Core& core) override;
  void Suspend(Core& core, WaitKind wait) override;
  void Wake(Core& core) override;
  void WakeReaders(uint64_t begin, uint64_t end) override;
  void EndKernel(Core&) override {}
  void Run(void (*finished)(Core&)) override;

  void Mark(uint32_t value) override;
  int64_t Cycle(Where where) override;

 protected:
  // Checks pipe and memory, counts the step, may let other cores run.
  Core& Enter(const char* api, pipe_t pipe, Where where, std::initializer_list<Span> spans,
              bool passive) override;
  void NotePoll(Core& core, uint64_t addr, uint64_t target, uint32_t bytes, uint64_t value,
                Where where) override;
  void BeforeSignalRead(Core&) override {}
  void AwaitSignal(Core& core, uint64_t addr, int32_t seen) override;

 private:
  // How cores take turns; each finds other orders. kShort and kLong pick a core at random for one
  // or for some calls. kPriority runs the core of the highest priority until it waits or its
  // priority drops, so that some cores are far behind; kRanks does so for whole ranks.
  enum class TurnPolicy { kShort, kLong, kPriority, kRanks };
  static constexpr int kTurnPolicies = 4;

  uint64_t Random();
  bool ByPriority() const;
  bool IsLate(const Core* core) const;
  size_t Choices();
  size_t Pick();
  int Quantum();
  void Yield(Core& core);
  bool WakeByTime();
  bool WakePollers(bool bounded);
  bool Probe();

  uint64_t random_state_;
  TurnPolicy policy_ = TurnPolicy::kLong;
  uint64_t rank_bias_ = 0;
  std::vector<int> late_ranks_;
  std::vector<Core*> ready_;
  std::vector<Core*> waiting_;  // for memory: kPoll and kSignal
  TickClock clock_;
  int quantum_ = 0;  // calls that the running core may still make in its turn
  int next_priority_ = -1;
  bool progress_ = false;
};

}  // namespace cpu_model

#endif  // CPU_MODEL_ENGINE_FUNCTIONAL_FUNCTIONAL_MODE_H_
