#include "fluid.h"

#include <algorithm>

namespace cpu_model {

Fluid::Fluid(int ranks, const Rates& rates)
    : factors_(static_cast<size_t>(ranks) * kResources, 1.0),
      demand_(static_cast<size_t>(ranks) * kFactors),
      capacity_{rates.shared_bandwidth_link_in / 1e9, rates.shared_bandwidth_link_out / 1e9,
                rates.shared_bandwidth_l2 / 1e9, rates.shared_bandwidth_hbm / 1e9} {}

static double Slowed(const Use& use, double factor) { return 1 + use.share * (factor - 1); }

void Fluid::Start(Work* work, double now) {
  work->since = now;
  work->left = 1;
  work->factor = 1;
  for (const Use& use : work->uses) {
    work->factor = std::max(work->factor, Slowed(use, FactorOf(use)));
  }
  if (!work->uses.empty()) {
    work->at = running_.size();
    running_.push_back(work);
    changed_ = true;
  }
}

void Fluid::Finish(Work* work) {
  if (work->uses.empty()) return;
  running_[work->at] = running_.back();
  running_[work->at]->at = work->at;
  running_.pop_back();
  changed_ = true;
}

// The factor at which the demand, given at each of kFactors, is no more than the capacity. One over
// the demand is taken as linear in between, which it is where transfers alone take time.
static double Solve(const double* demand, double capacity) {
  if (demand[0] <= capacity) return 1;
  int i = 1;
  while (i < kFactors - 1 && demand[i] > capacity) ++i;
  const double low = 1 / demand[i - 1];
  const double high = 1 / demand[i];
  if (high <= low) return kFactor[i];
  return kFactor[i - 1] + (1 / capacity - low) / (high - low) * (kFactor[i] - kFactor[i - 1]);
}

void Fluid::Share(double now) {
  changed_ = false;
  floors_.assign(running_.size(), 1.0);
  for (int r = 0; r < kResources; ++r) {
    const Resource resource = static_cast<Resource>(r);
    std::fill(demand_.begin(), demand_.end(), 0.0);
    for (size_t i = 0; i < running_.size(); ++i) {
      const Work& work = *running_[i];
      for (const Use& use : work.uses) {
        if (use.resource != resource) continue;
        double* demand = &demand_[static_cast<size_t>(use.rank) * kFactors];
        for (int f = 0; f < kFactors; ++f) {
          const double factor = std::max(floors_[i], Slowed(use, kFactor[f]));
          demand[f] +=
              use.bytes / (factor == kFactor[f] ? work.profile->ns[f] : work.profile->At(factor));
        }
      }
    }
    for (size_t rank = 0; rank < factors_.size() / kResources; ++rank) {
      factors_[rank * kResources + r] = Solve(&demand_[rank * kFactors], capacity_[r]);
    }
    for (size_t i = 0; i < running_.size(); ++i) {
      for (const Use& use : running_[i]->uses) {
        if (use.resource == resource) {
          floors_[i] = std::max(floors_[i], Slowed(use, FactorOf(use)));
        }
      }
    }
  }
  for (size_t i = 0; i < running_.size(); ++i) {
    Work& work = *running_[i];
    if (work.factor == floors_[i]) continue;
    work.left -= (now - work.since) / work.profile->At(work.factor);
    work.since = now;
    work.factor = floors_[i];
  }
}

}  // namespace cpu_model
