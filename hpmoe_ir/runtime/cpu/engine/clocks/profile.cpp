#include "clocks/profile.h"

#include <algorithm>

namespace cpu_model {

double Profile::At(double factor) const {
  int i = 1;
  while (i < kFactors - 1 && factor > kFactor[i]) ++i;
  const double slope = (ns[i] - ns[i - 1]) / (kFactor[i] - kFactor[i - 1]);
  return ns[i - 1] + slope * (factor - kFactor[i - 1]);
}

namespace {

constexpr int kFix = PipeNumber(PIPE_FIX);

// The pipes of one core on a list of operations. Times are cycles since the start.
class PipeSimulator {
 public:
  PipeSimulator(const Rates& rates, double factor)
      : rates_(rates),
        factor_(factor),
        depth_(std::min(kMaxDepth, static_cast<int>(rates.matrix_queue_depth))) {}

  void Run(const Step& op) {
    scalar_ += op.scalar();
    if (op.kind() == StepKind::kScalar) return;
    scalar_ += rates_.scalar_call;
    const int pipe = op.pipes() & 15;
    switch (op.kind()) {
      case StepKind::kSet:
        Queue(pipe, scalar_);
        flag_[op.flag()] = std::max(scalar_, done_[pipe]);
        return;
      case StepKind::kWait:
        return Wait(op.pipes() >> 4, flag_[op.flag()]);
      case StepKind::kBarrier:
        if (pipe == kAllPipes) {
          for (double done : done_) scalar_ = std::max(scalar_, done);
        } else {
          Queue(pipe, free_[pipe] = std::max({free_[pipe], done_[pipe], scalar_}));
        }
        return;
      case StepKind::kDrain: {
        const double latency = remote_ ? rates_.latency_remote_write : rates_.latency_write;
        if (written_ > 0) {
          scalar_ = std::max(scalar_, written_ + rates_.Cycles(latency * 1e9));
          written_ = 0;
          remote_ = false;
        }
        return;
      }
      default:
        Work(op, pipe);
    }
  }

  double End() const { return std::max(scalar_, *std::max_element(done_, done_ + kPipeCount)); }
  double busy(int pipe) const { return busy_[pipe]; }

 private:
  static constexpr int kMaxDepth = 64;

  // The scalar unit waits while a pipe's queue is full.
  void Queue(int pipe, double start) {
    double& slot = starts_[pipe][count_[pipe]++ % depth_];
    scalar_ = std::max(scalar_, slot);
    slot = start;
  }

  void Wait(int pipe, double flag) {
    if (pipe == PIPE_S) {
      scalar_ = std::max(scalar_, flag);
    } else {
      Queue(pipe, free_[pipe] = std::max({free_[pipe], scalar_, flag}));
    }
  }

  void Work(const Step& op, int pipe) {
    const double start = std::max(free_[pipe], scalar_);
    Queue(pipe, start);
    const double cycles = Cycles(op, pipe);
    busy_[pipe] += cycles;
    free_[pipe] = start + cycles;
    double done = free_[pipe];
    if (op.kind() == StepKind::kVector) done += rates_.vector_head + rates_.vector_tail;
    done_[pipe] = std::max(done_[pipe], done);
    if (op.kind() == StepKind::kOut) {
      written_ = std::max(written_, done);
      remote_ |= op.flag() != 0;
    }
  }

  double Transfer(double start, double bytes, double bandwidth, bool remote) const {
    if (remote) bandwidth = std::min(bandwidth, rates_.core_bandwidth_link);
    return start + bytes * factor_ / bandwidth * rates_.clock_frequency;
  }

  double Cycles(const Step& op, int pipe) const {
    const double size = static_cast<double>(op.size());
    switch (op.kind()) {
      case StepKind::kIn:
        if (op.flag() >> 1 != 0) {
          return Transfer(rates_.dma_gm_to_l1_start, size, rates_.core_bandwidth_gm_to_l1,
                          op.flag() & 1);
        }
        return Transfer(rates_.dma_gm_to_ub_start, size, rates_.core_bandwidth_gm_to_ub,
                        op.flag() & 1);
      case StepKind::kOut:
        if (pipe == kFix) {
          return Transfer(rates_.dma_l0c_to_gm_start, size, rates_.core_bandwidth_l0c_to_gm,
                          op.flag() & 1);
        }
        return Transfer(rates_.dma_ub_to_gm_start, size, rates_.core_bandwidth_ub_to_gm,
                        op.flag() & 1);
      case StepKind::kFillL1:
        return rates_.dma_gm_to_l1_start + size / rates_.matrix_l1_to_l0a;
      case StepKind::kLoad:
        return size / (op.flag() != 0 ? rates_.matrix_l1_to_l0b : rates_.matrix_l1_to_l0a);
      case StepKind::kMmad:
        return rates_.matrix_mmad_head + size;
      default:
        return size;
    }
  }

  const Rates& rates_;
  double factor_;
  int depth_;
  double scalar_ = 0;
  double free_[kPipeCount] = {};  // when a pipe can begin its next operation
  double done_[kPipeCount] = {};  // when all operations of a pipe have ended
  double busy_[kPipeCount] = {};
  double flag_[kFlags] = {};  // when it was set; a flag set before the list counts as set
  double starts_[kPipeCount][kMaxDepth] = {};
  unsigned count_[kPipeCount] = {};
  double written_ = 0;
  bool remote_ = false;
};

}  // namespace

Profile MakeProfile(const std::vector<Step>& steps, const Rates& rates) {
  Profile profile;
  profile.count = steps.size();
  for (int i = 0; i < kFactors; ++i) {
    PipeSimulator pipes(rates, kFactor[i]);
    for (const Step& op : steps) pipes.Run(op);
    profile.ns[i] = rates.Ns(pipes.End());
    if (i != 0) continue;
    for (int pipe = 0; pipe < kPipeCount; ++pipe) profile.busy[pipe] = rates.Ns(pipes.busy(pipe));
  }
  return profile;
}

}  // namespace cpu_model
