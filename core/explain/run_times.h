// The times of a recorded run as tables, and the run's own graph to replay them in. A replay runs
// the scheme's loop through the simulator (core/sim) with the recorded times, some of which a caller
// has changed, and says how long the run would then have taken.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/cost/hardware.h"
#include "core/ring/seams.h"
#include "core/sim/evaluate.h"
#include "core/trace/event.h"

namespace ringscope {

// One rank's computation at one step. Seconds.
struct RankStep {
  double seconds = 0;  // of the computation
  double cpu = 0;      // processor time in it
  double around = 0;   // from there to the next wait or computation; of a rank's first step also
                       // what lies before it
  double lead = 0;     // the part of `around` that lies before the rank's first step
  double pairs = 0;
  double work = 0;  // pairs that the kernel computes
  int owner = -1;
  int parts = 1;       // simulated: computations with pairs that make it up, if any
  bool known = false;  // whether it was recorded

  double all() const { return seconds + around; }
};

// Return the job of a recording, without the backward pass and nodes. Throw InputError for what
// means nothing here.
Problem recorded_job(const RunInfo& info);
// Return the recorded kernel's tile, {1, 1} for none and for more of them than can be counted.
Granularity recorded_tile(const RunInfo& info);

// All messages of a rank at one step and on one way: both of a message's ends had begun, and it was
// on its way for so many seconds.
struct RecordedHop {
  double seconds = 0;
  double bytes = 0;
  int messages = 0;
  int to = -1;  // the receiver
  bool known = false;
};

class RunTimes {
 public:
  // Read a recording. Throw InputError for one that has nothing to explain: no events, or more than
  // kMostExplainedRanks.
  explicit RunTimes(const Recording& recording);

  const RunInfo& info() const { return *info_; }
  int ranks() const { return ranks_; }
  bool has(Pass pass) const { return !steps_[static_cast<int>(pass)].empty(); }
  bool is_simulated() const { return info_->backend == "sim"; }
  // Return whether a profiler saw the run, so that the loop is somebody else's.
  bool is_profile() const { return info_->backend == "profile"; }
  // Return whether ranks start a hop only when they have computed.
  bool computes_first() const { return computes_first_; }
  int ranks_a_node() const { return ranks_a_node_; }  // two-level only, otherwise 0
  bool is_whole() const { return is_whole_; }         // every rank was recorded
  double wall_s() const { return wall_s_; }

  // Tables, empty for what was not recorded: [rank][step], and [step][sender].
  std::vector<RankStep>& steps(Pass pass) { return steps_[static_cast<int>(pass)]; }
  const std::vector<RankStep>& steps(Pass pass) const { return steps_[static_cast<int>(pass)]; }
  std::vector<RecordedHop>& hops(Pass pass, Payload payload, Way way) {
    return hops_[static_cast<int>(pass)][static_cast<int>(payload)][static_cast<int>(way)];
  }
  const std::vector<RecordedHop>& hops(Pass pass, Payload payload, Way way) const {
    return hops_[static_cast<int>(pass)][static_cast<int>(payload)][static_cast<int>(way)];
  }

  Way way_of(int src, int dst) const;
  // Return the link inside a node, where a simulation says it.
  const std::optional<Link>& link() const { return link_; }
  // Return what a hop takes on that link; without one, its bytes.
  double alone_s(const RecordedHop& hop) const;
  // Return the tasks of all ranks' loops, if the scheme's are followed (core/ring/loop_counts.h).
  const TaskGraph* graph() const { return graph_.get(); }

  // Return whether a step's work is known: it was counted, or the mask and the partition tell it.
  bool has_work(const RankStep& step) const { return step.known || is_predicted_; }

  // Return when the first of each rank's first two hops began, 0 for a rank without any.
  const std::vector<double>& posted() const { return posted_; }

  // Return when each rank comes to a part from the midst of a run, 0 where it is no such part.
  const std::vector<double>& starts() const { return starts_; }

  // Return how long a rank's thread neither computed nor waited each time. A message that begins
  // meanwhile parts two of them.
  const std::vector<double>& gaps(int rank) const { return gaps_[static_cast<std::size_t>(rank)]; }

  // Return the floating-point operations of a pair in a pass, 0 if none was counted.
  double flops_a_pair(Pass pass) const { return flops_a_pair_[static_cast<int>(pass)]; }

 private:
  void take_work_of_graph();
  bool is_rank(int rank) const { return rank >= 0 && rank < ranks_; }
  bool is_step(const TraceEvent& e) const {
    return e.lane == Lane::compute && e.step >= 0 && e.step < ranks_;
  }
  // Return the rank's last computation, and when it had computed and waited last.
  std::pair<RankStep*, std::int64_t> read_rank(int rank, const std::vector<TraceEvent>& events);
  void read_hops(const Recording& recording);
  void predict_work();
  std::size_t place(int row, int column) const {
    return static_cast<std::size_t>(row) * static_cast<std::size_t>(ranks_) +
           static_cast<std::size_t>(column);
  }

  const RunInfo* info_;
  int ranks_ = 1;
  int ranks_a_node_ = 0;  // two-level only
  bool is_whole_ = true, is_predicted_ = false, computes_first_ = false;
  double wall_s_ = 0;
  std::int64_t begin_ns_ = 0;
  double flops_a_pair_[2] = {};
  std::vector<RankStep> steps_[2];
  std::vector<double> starts_, posted_;  // by rank
  std::vector<std::vector<double>> gaps_;
  std::vector<RecordedHop> hops_[2][2][kWays];
  std::shared_ptr<const TaskGraph> graph_;
  std::optional<Link> link_;
};

inline constexpr int kMostExplainedRanks = 2048;

// ---
// Replaying.

// The times of one replay, in the order of RunTimes.
struct ReplayTimes {
  std::vector<double> steps[2];
  std::vector<double> hops[2][2][kWays];
  int cores = 0;  // that ranks share; 0: each has its own
};

class Replay {
 public:
  // `times` must outlive this.
  explicit Replay(const RunTimes& times);

  // Return the seconds of the run with `changed` times.
  double wall_s(const ReplayTimes& changed) const;

 private:
  void measure_rest();
  void share_out(const TaskGraph& graph);
  double wall_of_graph(const TaskGraph& graph, const ReplayTimes& changed) const;
  double wall_of_profile(const ReplayTimes& changed) const;

  const RunTimes& times_;
  // The loop that is simulated, if any: of hosts that launch work, and of hosts that compute.
  std::optional<TaskGraph> loops_[2];
  std::vector<double> part_;  // of the time of its step or hop that a task of the graph has
  double flat_s_ = 0;         // of such a run: what lies outside the slowest ranks' steps
};

}  // namespace ringscope
