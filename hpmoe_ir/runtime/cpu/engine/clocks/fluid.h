// Sharing of bandwidth: how fast each running piece of segment goes on.
#ifndef CPU_MODEL_ENGINE_CLOCKS_FLUID_H_
#define CPU_MODEL_ENGINE_CLOCKS_FLUID_H_

#include <cstdint>
#include <vector>

#include "clocks/profile.h"
#include "clocks/rates.h"
#include "model/timeline.h"

namespace cpu_model {

// Bytes that a piece of segment moves through a resource of a rank.
struct ResourceUse {
  int rank;
  Resource resource;
  double bytes;
  double share;  // of its transfers that are slowed down with the resource
};

// What one core does between two meetings with others.
struct Segment {
  const Profile* profile = nullptr;
  int core = 0;         // whose it is
  bool queued = false;  // its end is among the events to come
  size_t at = 0;        // place among the running
  std::vector<ResourceUse> uses;
  double since = 0;   // ns
  double left = 0;    // part of the segment that is left at `since`
  double factor = 1;  // slow-down of its transfers
  double End() const { return since + left * profile->At(factor); }
};

// Fair share: all users of a resource are slowed down by one factor, the smallest at which their
// bytes a second fit. Links come first, then L2, then memory; a user that one resource slows down
// asks less of the next.
class Fluid {
 public:
  Fluid(int ranks, const Rates& rates);

  void Start(Segment* segment, double now);
  void Finish(Segment* segment);
  // Works out all factors again, at time `now`, where users have come or gone.
  void Share(double now);
  bool changed() const { return changed_; }
  const std::vector<Segment*>& running() const { return running_; }

 private:
  struct User {
    const ResourceUse* use;
    size_t at;  // place among the running
  };

  void AddDemand(Resource resource, int first, int end);
  bool AnyAbove(double capacity) const;  // at the first of kFactors
  double& FactorOf(const ResourceUse& use) {
    return factors_[use.rank * kResources + use.resource];
  }

  std::vector<Segment*> running_;
  std::vector<User> users_[kResources];
  std::vector<double> factors_;
  std::vector<double> demand_;  // bytes a ns at each of kFactors
  std::vector<double> floors_;
  double capacity_[kResources];  // bytes a ns
  bool changed_ = false;
};

}  // namespace cpu_model

#endif  // CPU_MODEL_ENGINE_CLOCKS_FLUID_H_
