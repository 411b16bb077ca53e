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

#include "core/ring/seams.h"
#include "core/sim/machine.h"
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
  double cpu_seconds = -1;  // on a processor of its own; below 0: all of `seconds`
};

// A message. Its bytes count for the sender.
struct Hop {
  Payload payload = Payload::kv;
  int step = 0;  // of the sender; the block moves on at its end
  int sender = 0, receiver = 0;
  int owner = 0;  // of the block
  double bytes = 0;
  Way way = Way::ring;
  std::int64_t number = 0;  // if not 0, no other hop's: ranks send several of one step and payload
  double seconds = 0;       // on its way, if its slice does not show it
};

class Account {
 public:
  // Throw InputError for a machine, work or request that does not fit the job or is invalid.
  Account(const SimulationRequest& request, const Work& work, const Machine& machine);

  int world_size() const { return world_size_; }
  const Problem& job() const { return job_; }
  const Machine& machine() const { return machine_; }
  const Granularity& granularity() const { return work_.granularity(); }

  void begin_pass(Pass pass, double origin_s);
  Pass pass() const { return pass_; }

  // Return what `rank` computes with the block of `owner` at `step` of the current pass.
  Computation computation(int rank, int step, int owner) const {
    return computation(rank, step, work_.of(rank, owner));
  }
  Computation computation(int rank, int step, const WorkAmount& amount) const {
    if (machine_.known != nullptr)
      return {amount.pairs, machine_.known->compute[static_cast<int>(pass_)][place(rank, step)]};
    double effective = amount.computed;
    if (!machine_.speed.empty()) effective /= machine_.speed[rank];
    if (machine_.jitter > 0)
      effective *=
          1 + machine_.jitter * jitter_draw(machine_.seed, JitterOf::compute, pass_, rank, step);
    return {amount.pairs, seconds_of(effective) + (amount.pairs > 0 ? machine_.step_s : 0)};
  }
  // Return seconds, rounded as compute_seconds() in core/cost/time.h rounds them.
  double seconds_of(double effective_pairs) const {
    return flops_a_pair_ * effective_pairs / flops_a_second_;
  }
  // Return how long a hop takes.
  double hop_seconds(const Hop& hop) const {
    if (machine_.known != nullptr) {
      const std::vector<double>& known =
          machine_.known->hop[static_cast<int>(pass_)][static_cast<int>(hop.payload)]
                             [static_cast<int>(hop.way)];
      const std::size_t at = place(hop.step, hop.sender);
      if (at < known.size() && !std::isnan(known[at])) return known[at];
    }
    const double seconds = path_of(hop).seconds(hop.bytes);
    if (!(machine_.hop_jitter > 0)) return seconds;
    const JitterOf what = hop.payload == Payload::kv ? JitterOf::kv_hop : JitterOf::gradient_hop;
    // A rank's two hops of one step draw different random numbers.
    const int step = hop.step + (hop.way == Way::between_nodes ? world_size_ : 0);
    return seconds *
           (1 + machine_.hop_jitter * jitter_draw(machine_.seed, what, pass_, hop.sender, step));
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
    if (has_events_ && is_recorded(rank)) record_compute(rank, step, owner, begin, computation);
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
    if (has_events_) record_hop(hop, span);
  }
  // Record what had to wait for the end of the pass: with two ways, all hops.
  void end_pass();
  // Count the steps of the pass at whose end every rank's blocks moved on, from a rank's numbers of
  // hops. But in an all-gather, a block and its gradient move on at the end of the same step.
  void hopped(int kv_hops, int gradient_hops) {
    const int steps = job_.scheme == Scheme::allgather ? kv_hops + gradient_hops
                                                       : std::max(kv_hops, gradient_hops);
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
  SimulatedRank& at(int rank) { return result.ranks[rank]; }
  Path path_of(const Hop& hop) const {
    if (job_.scheme == Scheme::ulysses) return machine_.path_to_all(hop.sender);
    if (job_.scheme != Scheme::two_level &&
        (job_.scheme == Scheme::ring || job_.scheme == Scheme::allgather || job_.nodes == 1))
      return machine_.path_to_next(hop.sender);
    const int per_node = world_size_ / job_.nodes;
    const int from = hop.sender / per_node, to = hop.receiver / per_node;
    return from == to ? machine_.path_to_next_here(hop.sender)
                      : machine_.path_to_next_node(hop.sender);
  }
  std::size_t place(int row, int column) const {
    return static_cast<std::size_t>(row) * world_size_ + column;
  }
  bool is_recorded(int rank) const { return request_.recorded[rank]; }
  // Send `event` to the sink. Slices of a lane never overlap, whatever rounding does.
  void give(int rank, TraceEvent& event, TimeSpan span);
  void record_compute(int rank, int step, int owner, double begin, const Computation& computation);
  void record_wait(int rank, int step, int owner, Payload payload, TimeSpan span, int waiting_for);
  void record_hop(Hop hop, TimeSpan span);
  void give_hop(int rank, Lane lane, const Hop& hop, TimeSpan span);

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
  bool has_events_, numbers_hops_;
  std::int64_t moved_hops_ = 0;
  std::vector<std::int64_t> lane_ends_ns_;  // [rank][lane]: end of the last slice
  // A rank's hops of different ways run at the same time, but a recording has one lane for sends and
  // one for receives, whose slices must not overlap. Hops of the ring are shown as they are. A hop
  // between nodes is shown in the longest part of its time in which the lane is free, or as a slice
  // of no length if there is none.
  struct Slice {
    TimeSpan span;
    Hop hop;
  };
  std::vector<std::vector<Slice>> slices_[2][2];  // two-level: [send, recv][way][rank]
};

// Return `seconds` in nanoseconds, at most about 292 years.
std::int64_t to_ns(double seconds);

// Return how much of `gap` lies in any of `spans`, which this function sorts.
double covered(TimeSpan gap, std::vector<TimeSpan>& spans);

}  // namespace ringscope
