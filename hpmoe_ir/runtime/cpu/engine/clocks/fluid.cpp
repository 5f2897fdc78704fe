#include "clocks/fluid.h"

#include <algorithm>

namespace cpu_model {

Fluid::Fluid(int ranks, const Rates& rates)
    : factors_(static_cast<size_t>(ranks) * kResources, 1.0),
      demand_(static_cast<size_t>(ranks) * kFactors),
      capacity_{rates.shared_bandwidth_link_in / 1e9, rates.shared_bandwidth_link_out / 1e9,
                rates.shared_bandwidth_l2 / 1e9, rates.shared_bandwidth_hbm / 1e9} {}

static double Slowed(const ResourceUse& use, double factor) { return 1 + use.share * (factor - 1); }

void Fluid::Start(Segment* segment, double now) {
  segment->since = now;
  segment->left = 1;
  segment->factor = 1;
  for (const ResourceUse& use : segment->uses) {
    segment->factor = std::max(segment->factor, Slowed(use, FactorOf(use)));
  }
  if (!segment->uses.empty()) {
    segment->at = running_.size();
    running_.push_back(segment);
    changed_ = true;
  }
}

void Fluid::Finish(Segment* segment) {
  if (segment->uses.empty()) return;
  running_[segment->at] = running_.back();
  running_[segment->at]->at = segment->at;
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

// Adds up the demand of the running segments for a resource of each rank, at kFactors first to
// end - 1. Factors beyond the first are left out for ranks whose demand at the first one fits.
void Fluid::AddDemand(Resource resource, int first, int end) {
  for (const User& user : users_[resource]) {
    const ResourceUse& use = *user.use;
    const Segment& segment = *running_[user.at];
    const Profile& profile = *segment.profile;
    double* demand = &demand_[static_cast<size_t>(use.rank) * kFactors];
    if (first > 0 && demand[0] <= capacity_[resource]) continue;
    for (int f = first; f < end; ++f) {
      const double factor = std::max(floors_[user.at], Slowed(use, kFactor[f]));
      const double time = factor == kFactor[f] ? profile.ns[f] : profile.At(factor);
      demand[f] += use.bytes / (time * segment.noise);
    }
  }
}

bool Fluid::AnyAbove(double capacity) const {
  for (size_t i = 0; i < demand_.size(); i += kFactors) {
    if (demand_[i] > capacity) return true;
  }
  return false;
}

void Fluid::Share(double now) {
  changed_ = false;
  floors_.assign(running_.size(), 1.0);
  for (std::vector<User>& users : users_) users.clear();
  for (size_t i = 0; i < running_.size(); ++i) {
    for (const ResourceUse& use : running_[i]->uses) users_[use.resource].push_back({&use, i});
  }
  for (int r = 0; r < kResources; ++r) {
    const Resource resource = static_cast<Resource>(r);
    std::fill(demand_.begin(), demand_.end(), 0.0);
    AddDemand(resource, 0, 1);
    if (AnyAbove(capacity_[r])) AddDemand(resource, 1, kFactors);
    for (size_t rank = 0; rank < factors_.size() / kResources; ++rank) {
      factors_[rank * kResources + r] = Solve(&demand_[rank * kFactors], capacity_[r]);
    }
    for (const User& user : users_[r]) {
      double& floor = floors_[user.at];
      floor = std::max(floor, Slowed(*user.use, FactorOf(*user.use)));
    }
  }
  for (size_t i = 0; i < running_.size(); ++i) {
    Segment& segment = *running_[i];
    if (segment.factor == floors_[i]) continue;
    segment.left -= (now - segment.since) / segment.Time();
    segment.since = now;
    segment.factor = floors_[i];
  }
}

}  // namespace cpu_model
