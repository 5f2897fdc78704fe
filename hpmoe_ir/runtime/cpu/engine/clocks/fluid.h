// Sharing of bandwidth: how fast each running segment advances.
#ifndef CPU_MODEL_ENGINE_CLOCKS_FLUID_H_
#define CPU_MODEL_ENGINE_CLOCKS_FLUID_H_

#include <cstdint>
#include <vector>

#include "clocks/profile.h"
#include "clocks/rates.h"
#include "model/timeline.h"

namespace cpu_model {

// Bytes that a segment moves through a resource of a rank.
struct ResourceUse {
  int rank;
  Resource resource;
  double bytes;
  double share;  // fraction of its transfers that the resource slows down
};

// The operations of one core between two synchronisation points.
struct Segment {
  const Profile* profile = nullptr;
  int core = 0;         // in Engine::cores
  bool queued = false;  // the event of its end is queued
  size_t at = 0;        // in Fluid::running()
  std::vector<ResourceUse> uses;
  double since = 0;   // ns
  double left = 0;    // fraction that is left at `since`
  double factor = 1;  // slow-down of its transfers
  double noise = 1;   // factor of its time, whatever it does
  double Time() const { return noise * profile->At(factor); }
  double End() const { return since + left * Time(); }
};

// Fair share: all users of a resource are slowed down by one factor, the smallest at which their
// bytes a second fit. Links come first, then L2, then memory; a user that one resource slows down
// demands less of the next.
class Fluid {
 public:
  Fluid(int ranks, const Rates& rates);

  void Start(Segment* segment, double now);
  void Finish(Segment* segment);
  // Computes all factors again, at time `now`, after segments have started or finished.
  void Share(double now);
  bool changed() const { return changed_; }
  const std::vector<Segment*>& running() const { return running_; }

 private:
  struct User {
    const ResourceUse* use;
    size_t at;  // in running_
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
