// Reads from a recorded run what its machine does when nothing is wrong, and what deviates from
// that: how long a pair takes, what a step costs besides, whether ranks share cores, which ranks and
// links are slower than the others. It judges only what chance does not explain. fitted_machine() says
// the same in the terms of a simulation, which then predicts other runs on that machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "core/tools/explain/recorded_run.h"
#include "core/tools/sim/scenario.h"

namespace ringscope {

// Return the value below which `share` of the values lie, 0 for no values.
double quantile_of(std::vector<double> values, double share);
double median_of(const std::vector<double>& values);

// Return the least that a time takes which chance only lengthens, from draws of it. The least of n
// exponential draws is 1/n of their mean too large.
double least_of(const std::vector<double>& values);

struct MachineFit {
  // The recorded job on that machine, with its slow ranks as stragglers. Rates are 0 where nothing
  // tells them, and a link whose hops took no time has infinite bandwidth. The pace is not fitted.
  Scenario scenario;
  // [rank]: how many times as long as most links the one to the next rank takes; empty: all are alike.
  std::vector<double> link_slowness;
  bool interrupted = false;  // ranks lost their cores to others while they computed
};

// Return what an ended run tells of its machine. Throw InputError for a job or a recording that means
// nothing here.
MachineFit fitted_machine(const Recording& recording);

// ---

class FittedRun {
 public:
  FittedRun(const Recording& recording, bool is_replayed);
  MachineFit machine() const;

 protected:
  // A link's hops of one pass, payload and way.
  struct FittedLink {
    std::vector<std::size_t> hops;  // rows of the run
    int from, to;
    std::vector<double> paces;  // of each, as a part of what it takes alone (RecordedRun::alone_s)
    double slowness = 1;
    double steady = 0;  // their pace where chance lengthens none
  };

  static std::size_t of(Pass pass) { return static_cast<std::size_t>(pass); }
  static std::size_t of(int rank) { return static_cast<std::size_t>(rank); }

  bool shares_cores() const { return cores_ > 0; }
  // Return what a computation takes on a core of its own.
  double computing(const RankStep& step) const {
    return shares_cores() ? step.cpu / given_ : step.seconds;
  }
  // Return the same with what a rank sleeps in it beside others that share cores.
  double held(std::size_t row) const {
    return computing(run_.steps()[row]) + (shares_cores() ? slept_[row] : 0);
  }
  // Return what a computation would take if the rank never lost its core.
  double own(const RankStep& step) const {
    return step.cpu > 0 ? step.cpu / given_ : computing(step);
  }
  // Return whether a computation is so large that what it takes is in proportion to its work.
  bool is_large(const RankStep& step) const {
    return step.known && step.work > 0 && step.work >= large_;
  }
  // Return what a simulated step costs besides its pairs.
  double fixed_of(const RankStep& step) const {
    return run_.is_simulated() && step.pairs > 0 ? fixed_ * step.parts : 0;
  }
  // Return what a computation takes on a usual rank without chance.
  double should(const RankStep& step) const {
    return pair_s_[of(step.pass)] * step.work + fixed_of(step);
  }
  // Return what it takes on its own rank.
  double expected(const RankStep& step) const {
    return pair_s_[of(step.pass)] * step.work * slowness_[of(step.rank)] + fixed_of(step);
  }

  const Recording& recording_;
  RecordedRun run_;
  int n_;
  Durations base_;                     // the recorded times, for a replay
  int cores_ = 0;                      // that ranks share; 0: each has its own
  int cores_in_turn_ = 0;              // that they share without losing them to each other
  std::set<int> sleepers_;             // ranks that sleep instead of sharing cores
  std::vector<double> slept_;          // [row of steps]: how long a rank slept in it, in seconds
  std::vector<double> usual_gap_;      // [row of steps]: what most ranks do after that step
  double taken_ = 0;                   // seconds that chance may take from a rank at once
  double given_ = 1;                   // the share of these cores' time that the ranks got
  double pair_s_[2] = {}, fixed_ = 0;  // seconds of a pair, by pass, and of a step besides
  double large_ = 0;                   // pairs
  bool knows_rates_ = false;
  std::vector<double> slowness_;    // by rank
  std::vector<double> loss_;        // by rank: what a slow rank loses at a time
  std::vector<double> extra_;       // [row of steps]: what a slow rank loses there
  std::vector<double> waited_;      // [row of steps]: for a core, after that step
  std::vector<double> late_;        // by rank: by how much it begins later than the first
  std::vector<double> late_extra_;  // by rank: the same before its first step
  std::vector<FittedLink> links_;

 private:
  void find_sharing();
  void find_sleepers();
  void fit_pace();
  void fit_gaps();
  void fit_factors();
  void fit_losses();
  double unit_loss(std::vector<double> losses, double at_least) const;
  double unit_pause(std::vector<double> pauses, double at_least, double& late) const;
  void fit_hops();
  void fit_links(const std::vector<std::size_t>& hops);
  void take_base();
  double given_flops(Pass pass) const;
  void take_links(MachineFit& fit) const;
  double jitter(double& pace) const;
};

}  // namespace ringscope
