#include <algorithm>
#include <utility>
#include <vector>

#include "core/cost/time.h"
#include "core/sim/ring_times.h"

namespace ringscope {
namespace {

struct SlowestRank {
  double seconds = 0;
  int rank = 0;
};

// Hops of one payload from every rank, which all begin together.
struct Round {
  bool is_there = false;
  Way way = Way::here;
  Payload payload = Payload::kv;
  int step = 0;               // of the senders
  std::vector<int> owner;     // by sender
  std::vector<double> takes;  // by sender, in seconds
  double begin = 0;
  SlowestRank slowest;
};

class TwoLevelInStep {
 public:
  TwoLevelInStep(Account& account, TwoLevelHops& hops, bool with_path)
      : account_(account),
        hops_(hops),
        with_path_(with_path),
        n_(account.world_size()),
        nodes_(account.job().nodes),
        places_(n_ / nodes_),
        computing_(at(n_)),
        idle_from_(at(n_)) {
    for (Round* round : {&gradients_here_, &blocks_here_, &gradients_between_, &blocks_between_}) {
      round->owner.resize(at(n_));
      round->takes.resize(at(n_));
    }
    for (int rank = 0; rank < n_; ++rank) ranks_.push_back({rank, nodes_, places_});
  }

  // Run a pass and return its seconds.
  double run(double origin_s) {
    const bool backward = account_.pass() == Pass::backward;
    double begin = 0;
    for (int outer = 0; outer < nodes_; ++outer) {
      begin_round(gradients_between_, backward && outer > 0, Way::next_node, Payload::dkv,
                  {outer - 1, places_ - 1}, begin);
      begin_round(blocks_between_, outer < nodes_ - 1, Way::next_node, Payload::kv, {outer, 0},
                  begin + gradients_between_.slowest.seconds);
      begin += turn(outer, begin);
    }
    // Now the sums are on their way home.
    if (backward && nodes_ > 1) begin += last_hop(Way::next_node, begin);
    if (backward && places_ > 1) begin += last_hop(Way::here, begin);
    for (int rank = 0; rank < n_; ++rank) account_.ended(rank, begin);
    if (n_ > 1) account_.hopped(!backward ? n_ - 1 : n_ + (nodes_ > 1 && places_ > 1 ? 1 : 0));
    hops_.end_pass(origin_s);
    return begin;
  }

  // Return the path with ranks from the last to the first, without repeats.
  CriticalPath take_path() {
    CriticalPath path = path_;
    path.ranks.clear();
    std::vector<bool> seen(at(n_), false);
    for (auto rank = path_.ranks.rbegin(); rank != path_.ranks.rend(); ++rank) {
      if (!seen[at(*rank)]) path.ranks.push_back(*rank);
      seen[at(*rank)] = true;
    }
    return path;
  }

 private:
  struct Step {
    int outer = 0, inner = 0;
  };

  static std::size_t at(int i) { return static_cast<std::size_t>(i); }
  int number(Step step) const { return step.outer * places_ + step.inner; }
  int next(Way way, int rank) const {
    return way == Way::here ? ranks_[at(rank)].next_here() : ranks_[at(rank)].next_node();
  }
  int previous(Way way, int rank) const {
    return way == Way::here ? ranks_[at(rank)].previous_here() : ranks_[at(rank)].previous_node();
  }

  // Run an outer step and return its seconds.
  double turn(int outer, double begin) {
    const double moving = gradients_between_.slowest.seconds + blocks_between_.slowest.seconds;
    const double compute_before = path_.compute_s, hops_before = path_.hop_s;
    const std::size_t ranks_before = path_.ranks.size();
    double seconds = 0;
    for (int inner = 0; inner < places_; ++inner) seconds += step({outer, inner}, begin + seconds);
    if (moving > seconds) {
      // The path did not run through the node, but through the hops between nodes.
      path_.compute_s = compute_before;
      path_.hop_s = hops_before;
      path_.ranks.resize(ranks_before);
      follow_hops(gradients_between_, blocks_between_);
      const Round& last = later_slow(gradients_between_, blocks_between_);
      for (int rank = 0; rank < n_; ++rank)
        wait(rank, number({std::min(outer + 1, nodes_ - 1), 0}), begin + moving, last);
    }
    return std::max(seconds, moving);
  }

  double step(Step step, double begin) {
    const bool backward = account_.pass() == Pass::backward;
    const SlowestRank work = compute(step, begin);
    begin_round(gradients_here_, backward && step.inner > 0, Way::here, Payload::dkv,
                {step.outer, step.inner - 1}, begin);
    begin_round(blocks_here_, step.inner < places_ - 1, Way::here, Payload::kv, step,
                begin + gradients_here_.slowest.seconds);
    const double moving = gradients_here_.slowest.seconds + blocks_here_.slowest.seconds;
    const double seconds = std::max(work.seconds, moving);
    const bool is_computing = work.seconds >= moving;
    if (is_computing) {
      path_.compute_s += work.seconds;
      visit(work.rank);
    } else {
      follow_hops(gradients_here_, blocks_here_);
    }
    const int next_step = std::min(number(step) + 1, n_ - 1);
    const Round& last = later_slow(gradients_here_, blocks_here_);
    for (int rank = 0; rank < n_; ++rank) {
      if (is_computing) {
        wait(rank, next_step, begin + seconds, work.rank);
      } else {
        wait(rank, next_step, begin + seconds, last);
      }
    }
    return seconds;
  }

  SlowestRank compute(Step step, double begin) {
    SlowestRank slowest;
    double all_pairs = 0, most_pairs = 0;
    for (int rank = 0; rank < n_; ++rank) {
      const int owner = ranks_[at(rank)].owner(step.outer, step.inner);
      const Computation mine = account_.computation(rank, number(step), owner);
      computing_[at(rank)] = mine;
      account_.computed(rank, number(step), owner, begin, mine);
      idle_from_[at(rank)] = begin + mine.seconds;
      all_pairs += mine.pairs;
      most_pairs = std::max(most_pairs, mine.pairs);
      if (mine.seconds > slowest.seconds) slowest = {mine.seconds, rank};
    }
    if (account_.pass() == Pass::forward) account_.step_of(all_pairs, most_pairs);
    return slowest;
  }

  // Send what the senders attend at `step`.
  void begin_round(Round& round, bool is_there, Way way, Payload payload, Step step, double begin,
                   bool is_last = false) {
    const int ways = way == Way::here ? places_ : nodes_;
    round.is_there = is_there && ways > 1;
    round.slowest = {};
    if (!round.is_there) return;
    round.way = way;
    round.payload = payload;
    round.step = number(step);
    round.begin = begin;
    // A rank's two hops of one step draw different random numbers.
    const bool is_second = is_last || (way == Way::next_node && payload == Payload::kv);
    const int draw = round.step + (is_second ? n_ : 0);
    for (int rank = 0; rank < n_; ++rank) {
      const TwoLevelSchedule& mine = ranks_[at(rank)];
      const int owner = is_last ? next(way, rank) : mine.owner(step.outer, step.inner);
      const Path path = way == Way::here ? account_.machine().path_to_next_here(rank)
                                         : account_.machine().path_to_next_node(rank);
      const double bytes = account_.block_bytes(payload, owner);
      const double takes = account_.hop_seconds(path, payload, rank, draw, bytes);
      round.owner[at(rank)] = owner;
      round.takes[at(rank)] = takes;
      if (takes > round.slowest.seconds) round.slowest = {takes, rank};
      hops_.moved(way, {payload, round.step, rank, next(way, rank), owner, bytes},
                  {begin, begin + takes});
    }
  }

  // Send the last sums after all else is over and return the seconds. Between nodes they are those
  // of the last step. A hop inside the node that follows goes to the owner, the next place's rank.
  double last_hop(Way way, double begin) {
    const bool is_second = way == Way::here && nodes_ > 1;
    Round& round = way == Way::here ? gradients_here_ : gradients_between_;
    for (Round* other : {&gradients_here_, &blocks_here_, &gradients_between_, &blocks_between_})
      other->is_there = false;
    begin_round(round, true, way, Payload::dkv, {nodes_ - 1, places_ - 1}, begin, is_second);
    idle_from_.assign(idle_from_.size(), begin);
    follow_hops(round, blocks_here_);
    for (int rank = 0; rank < n_; ++rank) wait(rank, n_ - 1, begin + round.slowest.seconds, round);
    return round.slowest.seconds;
  }

  // Return the round with the slower hop, of two that follow each other.
  static const Round& later_slow(const Round& first, const Round& second) {
    return second.is_there && second.slowest.seconds >= first.slowest.seconds ? second : first;
  }

  // Wait until `end`, for the slowest hop of a round or for another rank's computation.
  void wait(int rank, int step, double end, const Round& round) {
    const int slowest = round.slowest.rank;
    wait(rank, step, end, slowest == rank ? previous(round.way, rank) : slowest, round.payload);
  }
  void wait(int rank, int step, double end, int waiting_for, Payload payload = Payload::kv) {
    const TimeSpan gap{idle_from_[at(rank)], end};
    if (!(gap.end > gap.begin)) return;
    idle_from_[at(rank)] = end;
    open_.clear();
    for (const Round* round :
         {&gradients_here_, &blocks_here_, &gradients_between_, &blocks_between_}) {
      if (!round->is_there) continue;
      const double takes =
          std::max(round->takes[at(rank)], round->takes[at(previous(round->way, rank))]);
      open_.push_back({round->begin, round->begin + takes});
    }
    account_.exposed(rank, covered(gap, open_));
    const int outer = step / places_, inner = step % places_;
    account_.waited(rank, step, ranks_[at(rank)].owner(outer, inner), payload, gap, waiting_for);
  }

  void follow_hops(const Round& first, const Round& second) {
    for (const Round* round : {&first, &second}) {
      if (!round->is_there) continue;
      path_.hop_s += round->slowest.seconds;
      visit(round->slowest.rank);
    }
  }
  void visit(int rank) {
    if (with_path_) path_.ranks.push_back(rank);
  }

  Account& account_;
  TwoLevelHops& hops_;
  bool with_path_;
  int n_, nodes_, places_;
  std::vector<TwoLevelSchedule> ranks_;
  std::vector<Computation> computing_;
  std::vector<double> idle_from_;
  Round gradients_here_, blocks_here_, gradients_between_, blocks_between_;
  std::vector<TimeSpan> open_;
  CriticalPath path_;  // its ranks are all visited ones, first to last
};

}  // namespace

void simulate_two_level_in_step(Account& account, TwoLevelHops& hops, bool with_path) {
  TwoLevelInStep ring(account, hops, with_path);
  account.result.forward_s = ring.run(0);
  if (account.job().backward) {
    account.begin_pass(Pass::backward, account.result.forward_s);
    account.result.backward_s = ring.run(account.result.forward_s);
  }
  if (with_path) account.result.path = ring.take_path();
}

}  // namespace ringscope
