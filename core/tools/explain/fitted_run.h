// Reads from a recorded run what its machine does when nothing is wrong, as medians over ranks,
// steps and links, and what deviates from that: whether ranks share cores, which ranks and links are
// slower than the others, what chance adds. fitted_machine() says the same in the terms of a
// simulation, which then predicts other runs on that machine.
#pragma once

#include <cstddef>
#include <set>
#include <vector>

#include "core/base/quantile.h"
#include "core/tools/explain/recorded_run.h"
#include "core/tools/sim/scenario.h"

namespace ringscope {

struct MachineFit {
  // The recorded job on that machine, with its slow ranks as stragglers. Rates are 0 where nothing
  // tells them, and a link whose hops took no time has infinite bandwidth. The pace is not fitted.
  Scenario scenario;
  // [rank]: how many times as long as most links the one to the next rank takes; empty: all are alike.
  std::vector<double> link_slowness;
  bool interrupted = false;  // ranks lost their cores to others while they computed
};

// Return what an ended run tells of its machine, on which a real rank or link is slow only if explain()
// names it, or if a rank takes more processor time behind one that it names. Throw InputError for a job
// or a recording that means nothing here.
MachineFit fitted_machine(const Recording& recording);

// ---

class FittedRun {
 public:
  explicit FittedRun(const Recording& recording);
  MachineFit machine() const;

 protected:
  // What a rank's step is made of besides its pairs. Seconds.
  struct StepFit {
    double slept = 0;      // in the computation, beside ranks that share cores
    double waited = 0;     // for a core, in the computation and after it
    double usual_gap = 0;  // that most ranks take after this step
    double extra = 0;      // that a slow rank loses
  };
  // A link's hops of one pass, payload and way.
  struct FittedLink {
    std::vector<std::size_t> hops;  // rows of the run
    int from, to;
    std::vector<double> paces;  // of each, as a part of what it takes alone (RecordedRun::alone_s)
    double slowness = 1;
    double steady = 0;  // their pace where chance lengthens none
  };

  static int of(Pass pass) { return static_cast<int>(pass); }

  bool shares_cores() const { return cores_ > 0; }
  // Return what a computation takes on a core of its own.
  double computing(const RankStep& step) const {
    return shares_cores() ? step.cpu / given_ : step.seconds;
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
    return pair_s_[of(step.pass)] * step.work * slowness_[step.rank] + fixed_of(step);
  }

  RecordedRun run_;
  int n_;
  Durations base_;                     // the recorded times
  int cores_ = 0;                      // that ranks share; 0: each has its own
  int known_cores_ = 0;                // of the machine; 0: unknown
  double given_ = 1;                   // the share of these cores' time that the ranks got
  double taken_ = 0;                   // seconds that a scheduler may take from a real rank at once
  double pair_s_[2] = {}, fixed_ = 0;  // seconds of a pair, by pass, and of a step besides
  double large_ = 0;                   // pairs: what smaller steps take is not in proportion
  std::set<int> sleepers_;             // ranks that sleep instead of computing
  std::vector<StepFit> fits_;          // of the run's steps
  std::vector<double> slowness_;       // by rank
  std::vector<double> loss_;           // by rank: what a slow rank loses at a time
  std::vector<double> late_;           // by rank: by how much it begins later than the first
  std::vector<double> late_extra_;     // by rank: the part of it that a slow rank loses
  std::vector<FittedLink> links_;

 private:
  void find_sharing();
  void fit_pace();
  void fit_gaps();
  void fit_slowness();
  void fit_losses();
  void take_base();
  void fit_links(const std::vector<std::size_t>& hops);
  bool is_large(const RankStep& step) const;
  double given_flops(Pass pass) const;
  void take_links(MachineFit& fit) const;
  double jitter(double& pace) const;
};

}  // namespace ringscope
