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

#include "core/explain/run_times.h"
#include "core/sim/scenario.h"

namespace ringscope {

// Return the value below which `share` of the values lie, 0 for no values.
double quantile_of(std::vector<double> values, double share);
double median_of(const std::vector<double>& values);

// Return the least that a time takes which chance only lengthens, from draws of it. The least of n
// exponential draws is 1/n of their mean too large.
double least_of(const std::vector<double>& values);

// Return what a time has besides its part in proportion to an amount: where a line through the least
// times of a low and a high amount begins, 0 if chance may be the reason.
double fixed_part(const std::vector<double>& at_low, double low, const std::vector<double>& at_high,
                  double high);

struct MachineFit {
  // The recorded job on that machine, with its slow ranks as stragglers. Rates are 0 where nothing
  // tells them, and a link whose hops took no time has infinite bandwidth. The pace is not fitted.
  Scenario scenario;
  // [rank]: how many times as long as most links the one to the next rank takes; empty: all are alike.
  std::vector<double> link_slowness;
  bool interrupted = false;  // ranks lost their cores to others while they computed
};

// Return what an ended run tells of its machine. Throw InputError for a job or a recording that means
// nothing here, as RunTimes does.
MachineFit fitted_machine(const Recording& recording);

// ---

class FittedRun {
 public:
  explicit FittedRun(const Recording& recording);
  MachineFit machine() const;

 protected:
  // What a link takes for the hops of one kind.
  struct LinkTimes {
    Pass pass;
    Payload payload;
    Way way;
    int from, to;
    double largest = 0;           // the size of the kind's largest hop
    std::vector<double> seconds;  // for as large a hop
    double middle = 0;
  };

  struct FittedLink {
    LinkTimes link;
    double slowness = 1;
    double steady = 0;  // what its hops take where chance lengthens none
  };

  std::size_t at(int row, int column) const {
    return static_cast<std::size_t>(row) * static_cast<std::size_t>(n_) +
           static_cast<std::size_t>(column);
  }
  // Call f(pass, index, step) for all computations, recorded or not.
  template <class F>
  void for_steps(F&& f) const {
    for (const Pass pass : kAllPasses)
      for (std::size_t i = 0; i < times_.steps(pass).size(); ++i) f(pass, i, times_.steps(pass)[i]);
  }
  template <class F>
  void for_hops(F&& f) const {
    for (const Pass pass : kAllPasses)
      for (const Payload payload : kAllPayloads)
        for (const Way way : {Way::ring, Way::between_nodes, Way::backwards})
          if (!times_.hops(pass, payload, way).empty())
            f(pass, payload, way, times_.hops(pass, payload, way));
  }
  int rank_of(std::size_t index) const { return static_cast<int>(index) / n_; }
  static std::size_t of(Pass pass) { return static_cast<std::size_t>(pass); }

  double& base_step(ReplayTimes& times, Pass pass, std::size_t i) {
    return times.steps[of(pass)][i];
  }
  std::vector<double>& hops_of(ReplayTimes& times, Pass pass, Payload payload, Way way) const {
    return times.hops[of(pass)][static_cast<std::size_t>(payload)][static_cast<std::size_t>(way)];
  }

  // Return what a computation takes on a core of its own.
  double alone(const RankStep& step) const {
    return shares_cores() ? step.cpu / given_ + step.around : step.all();
  }
  // Return the part of that in which it computes.
  double computing(const RankStep& step) const { return alone(step) - step.around; }
  // Return what that would be if the rank never lost its core.
  double own(const RankStep& step) const {
    return step.cpu > 0 ? step.cpu / given_ : computing(step);
  }
  bool shares_cores() const { return cores_ > 0; }
  // Return how long a rank slept in a computation beside others that share cores.
  double slept(Pass pass, std::size_t i) const {
    return i < slept_[of(pass)].size() ? slept_[of(pass)][i] : 0;
  }
  // Return what the time of a hop is in proportion to.
  double size_of(const RecordedHop& hop) const {
    return has_one_link_ ? times_.alone_s(hop) : hop.bytes;
  }
  // Return what a step costs besides its pairs.
  double fixed_of(const RankStep& step) const {
    return times_.is_simulated() && !(step.pairs > 0) ? 0 : fixed_ * step.parts;
  }
  // Return how late a profiled rank begins.
  double late_by(const RankStep& step) const { return times_.is_profile() ? step.lead : 0; }
  double waited_for_core(Pass pass, std::size_t i, const RankStep& step) const;
  // Return what a computation takes on a usual rank without chance, and on its own rank.
  double should(Pass pass, const RankStep& step) const;
  double expected(Pass pass, std::size_t i, const RankStep& step) const;

  const Recording& recording_;
  RunTimes times_;
  int n_;
  ReplayTimes base_;                   // the recorded times, for a replay
  int cores_ = 0;                      // that ranks share; 0: each has its own
  int cores_in_turn_ = 0;              // that they share without losing them to each other
  std::set<int> sleepers_;             // ranks that sleep instead of sharing cores
  std::vector<double> slept_[2];       // by pass and [rank][step]: how long, in seconds
  std::vector<double> gaps_[2];        // by pass and step: what most do after it, in seconds
  double taken_ = 0;                   // seconds that chance may take from a rank at once
  double given_ = 1;                   // the share of these cores' time that the ranks got
  double pair_s_[2] = {}, fixed_ = 0;  // seconds of a pair, by pass, and of a step besides
  bool knows_rates_ = false, has_one_link_ = false;
  std::vector<double> slowness_;  // by rank
  std::vector<double> extra_[2];  // by pass and [rank][step]: seconds that a slow rank loses there
  std::vector<double> loss_;      // by rank: what a slow rank loses at a time
  std::vector<FittedLink> links_;

 private:
  void find_sharing();
  void find_sleepers(int cores, const std::vector<std::pair<std::int64_t, int>>& changes);
  void take_base();
  void fit_computing();
  void fit_step();
  void fit_gaps();
  void fit_ranks();
  void fit_factors();
  void fit_extras();
  void fit_hops();
  double given_flops(Pass pass) const;
  void take_links(MachineFit& fit) const;
  double jitter(double& pace) const;
  std::vector<std::vector<double>> paces(Pass pass, double fixed) const;
};

}  // namespace ringscope
