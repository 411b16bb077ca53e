// What the simulations of all schemes share: the durations of computations and hops, and the books
// on them. The books hold sums of every rank and, for recorded ranks, slices as
// core/run/recording.h writes them for a real run. When an event begins is up to each scheme.
//
// Times are seconds since the pass began, which begin_pass() sets. Where ranks begin on their own,
// the slowest one's beginning counts, and times of earlier ranks are negative.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "core/sim/machine/machine.h"
#include "core/sim/simulate.h"
#include "core/sim/work.h"

namespace ringscope {

// A time span, [begin, end).
struct TimeSpan {
  double begin = 0;
  double end = 0;

  double seconds() const { return end - begin; }
};

// What one rank computes at one step.
struct Computation {
  double pairs = 0;
  double seconds = 0;
  double effective_pairs = 0;  // that a rank of speed 1 computes in the same time, without other_s
  double other_s = 0;          // what the step costs in addition
};

// A message. Its bytes count for the sender.
struct Hop {
  Payload payload = Payload::kv;
  int step = 0;  // of the sender; the block moves on at its end
  int sender = 0, receiver = 0;
  int owner = 0;  // of the block
  double bytes = 0;
};

class Account {
 public:
  // Throw InputError for a machine, work or request that does not fit the job or is invalid.
  Account(const SimulationRequest& request, const Work& work, const Machine& machine);

  int world_size() const { return world_size_; }
  const Problem& job() const { return job_; }
  const Machine& machine() const { return machine_; }

  void begin_pass(Pass pass, double origin_s);
  Pass pass() const { return pass_; }

  // Return what `rank` computes with the block of `owner` at `step` of the current pass.
  Computation computation(int rank, int step, int owner) const {
    const WorkAmount amount = work_.of(rank, owner);
    double effective = amount.computed;
    if (!machine_.speed.empty()) effective /= machine_.speed[static_cast<std::size_t>(rank)];
    if (machine_.jitter > 0)
      effective *=
          1 + machine_.jitter * jitter_draw(machine_.seed, JitterOf::compute, pass_, rank, step);
    const double other_s = amount.pairs > 0 ? machine_.step_s : 0;
    return {amount.pairs, seconds_of(effective) + other_s, effective, other_s};
  }
  // Return seconds, rounded as compute_seconds() in core/cost/time.h rounds them.
  double seconds_of(double effective_pairs) const {
    return flops_a_pair_ * effective_pairs / flops_a_second_;
  }
  double hop_seconds(const Path& path, Payload payload, int sender, int step, double bytes) const {
    const double seconds = path.seconds(bytes);
    if (!(machine_.hop_jitter > 0)) return seconds;
    const JitterOf what = payload == Payload::kv ? JitterOf::kv_hop : JitterOf::gradient_hop;
    return seconds *
           (1 + machine_.hop_jitter * jitter_draw(machine_.seed, what, pass_, sender, step));
  }
  double block_bytes(Payload payload, int owner) const {
    return static_cast<double>(work_.rows(owner)) *
           (payload == Payload::kv ? kv_bytes_a_row_ : gradient_bytes_a_row_);
  }

  // The books. Call computed() in the order of a rank's steps, moved() in that of a link's hops.
  void computed(int rank, int step, int owner, double begin, const Computation& computation) {
    SimulatedRank& mine = at(rank);
    mine.compute_s += computation.seconds;
    if (pass_ == Pass::forward) mine.pairs += computation.pairs;
    ++result.steps;
    if (has_events_ && is_recorded(rank))
      record_compute(rank, step, owner, {begin, begin + computation.seconds}, computation.pairs);
  }
  void waited(int rank, int step, int owner, Payload payload, TimeSpan span, int waiting_for) {
    if (!(span.end > span.begin)) return;
    at(rank).wait_s += span.seconds();
    if (has_events_ && is_recorded(rank))
      record_wait(rank, step, owner, payload, span, waiting_for);
  }
  // Add time during which `rank` communicates while it waits or is idle.
  void exposed(int rank, double seconds) { at(rank).exposed_s += seconds; }
  void moved(const Hop& hop, TimeSpan span) {
    at(hop.sender).bytes_sent += hop.bytes;
    if (has_events_ && (is_recorded(hop.sender) || is_recorded(hop.receiver)))
      record_hop(hop, span);
  }
  // Count `steps` at whose end every rank's blocks moved on.
  void hopped(int steps) {
    for (SimulatedRank& rank : result.ranks) rank.hops += steps;
  }
  // Add the forward pairs of all ranks, and of the slowest one, at one step or several.
  void step_of(double all_pairs, double slowest_pairs) {
    all_pairs_ += all_pairs;
    result.mean_step_pairs = all_pairs_ / world_size_;
    result.slowest_step_pairs += slowest_pairs;
  }
  void ended(int rank, double end) { at(rank).end_s = origin_s_ + end; }

  Simulation result;

 private:
  SimulatedRank& at(int rank) { return result.ranks[static_cast<std::size_t>(rank)]; }
  bool is_recorded(int rank) const { return request_.recorded[static_cast<std::size_t>(rank)]; }
  // Send `event` to the sink. Slices of a lane never overlap, whatever rounding does.
  void give(int rank, TraceEvent& event, TimeSpan span);
  void record_compute(int rank, int step, int owner, TimeSpan span, double pairs);
  void record_wait(int rank, int step, int owner, Payload payload, TimeSpan span, int waiting_for);
  void record_hop(const Hop& hop, TimeSpan span);

  const SimulationRequest& request_;
  const Problem& job_;
  const Work& work_;
  const Machine& machine_;
  int world_size_;
  Pass pass_ = Pass::forward;
  double origin_s_ = 0;
  double all_pairs_ = 0;  // forward only
  double flops_a_pair_ = 0, flops_a_second_ = 1;
  double kv_bytes_a_row_, gradient_bytes_a_row_;
  bool has_events_;
  std::vector<std::int64_t> lane_ends_ns_;  // [rank][lane]: end of the last slice
};

// Return `seconds` in nanoseconds, at most about 292 years.
std::int64_t to_ns(double seconds);

// Return how much of `gap` lies in any of `spans`, which this function sorts.
double covered(TimeSpan gap, std::vector<TimeSpan>& spans);
// Do the same for two spans.
double covered(TimeSpan gap, TimeSpan a, TimeSpan b);

}  // namespace ringscope
