#include "core/sim/ring_times.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "core/ring/ring.h"

namespace ringscope {
namespace {

class Gathering {
 public:
  Gathering(Account& account, bool in_step, bool with_path)
      : account_(account),
        in_step_(in_step),
        with_causes_(with_path && !in_step),
        n_(account.world_size()),
        now_(static_cast<std::size_t>(n_), 0),
        busy_until_(now_),
        hops_(now_.size()),
        left_last_(now_.size(), false) {}

  // Run a pass from where the ranks are. Return when the last one ends.
  double run() {
    const bool backward = account_.pass() == Pass::backward;
    busy_until_ = now_;
    for (int step = 0; step + 1 < n_; ++step) hop(Payload::kv, step);
    for (int rank = 0; rank < n_; ++rank) wait(rank, 0, rank, Payload::kv);
    gathered_leaving_[backward ? 1 : 0] = left_last_;
    compute();
    for (int step = 0; backward && step + 1 < n_; ++step) {
      hop(Payload::dkv, step);
      for (int rank = 0; rank < n_; ++rank)
        wait(rank, step, RingSchedule{rank, n_}.owner(step + 2), Payload::dkv);
    }
    for (int rank = 0; rank < n_; ++rank) {
      wait(rank, n_ - 1, RingSchedule{rank, n_}.owner(n_ - 1), Payload::kv);  // only in step
      account_.ended(rank, now_[at(rank)]);
    }
    if (n_ > 1) account_.hopped(backward ? 2 * (n_ - 1) : n_ - 1);
    return now_[at(slowest())];
  }

  // Start counting time anew at `origin`.
  void count_from(double origin) {
    level_ -= origin;
    for (double& now : now_) now -= origin;
  }

  CriticalPath take_path() {
    if (!in_step_) follow(slowest());
    std::vector<int> ranks =
        in_step_ ? std::vector<int>(visited_.rbegin(), visited_.rend()) : std::move(visited_);
    std::vector<bool> seen(now_.size(), false);
    for (const int rank : ranks) {
      if (!seen[at(rank)]) path_.ranks.push_back(rank);
      seen[at(rank)] = true;
    }
    return std::move(path_);
  }

 private:
  static std::size_t at(int i) { return static_cast<std::size_t>(i); }
  int next(int rank) const { return rank == n_ - 1 ? 0 : rank + 1; }
  int previous(int rank) const { return rank == 0 ? n_ - 1 : rank - 1; }
  int slowest() const {
    return static_cast<int>(std::max_element(now_.begin(), now_.end()) - now_.begin());
  }

  Hop hop_into(int rank, Payload payload, int step) const {
    const int sender = previous(rank);
    const int owner = RingSchedule{sender, n_}.owner(payload == Payload::kv ? step : step + 1);
    return {payload, step, sender, rank, owner, account_.block_bytes(payload, owner)};
  }
  double seconds(const Hop& hop) const {
    return account_.hop_seconds(account_.machine().path_to_next(hop.sender), hop.payload,
                                hop.sender, hop.step, hop.bytes);
  }

  // Send a hop into every rank, after both halves of the hop before.
  void hop(Payload payload, int step) {
    for (int rank = 0; rank < n_; ++rank) {
      const Hop hop = hop_into(rank, payload, step);
      const double sender_ready = now_[at(hop.sender)], ready = now_[at(rank)];
      const double begin = std::max(sender_ready, ready);
      hops_[at(rank)] = {begin, begin + seconds(hop)};
      account_.moved(hop, hops_[at(rank)]);
      if (with_causes_) {
        const bool by_sender = sender_ready >= ready;
        causes(payload).push_back({by_sender, left_last_[at(by_sender ? hop.sender : rank)]});
      }
    }
    for (int rank = 0; rank < n_; ++rank) {
      const TimeSpan in = hops_[at(rank)], out = hops_[at(next(rank))];
      const double end = std::max(in.end, out.end);
      account_.exposed(rank, covered({now_[at(rank)], end}, in, out));
      now_[at(rank)] = end;
      left_last_[at(rank)] = out.end > in.end;
    }
    if (in_step_) path_.hop_s += level();
  }

  void compute() {
    const bool forward = account_.pass() == Pass::forward;
    std::vector<double> most_pairs(forward ? at(n_) : 0, 0);  // of each step
    double all_pairs = 0;
    for (int rank = 0; rank < n_; ++rank) {
      const double begin = now_[at(rank)];
      Sum sum;
      for (int step = 0; step < n_; ++step) {
        const int owner = RingSchedule{rank, n_}.owner(step);
        Computation mine = account_.computation(rank, step, owner);
        const double step_begin = begin + seconds(sum);
        sum.add(mine);
        now_[at(rank)] = begin + seconds(sum);
        mine.seconds = now_[at(rank)] - step_begin;
        account_.computed(rank, step, owner, step_begin, mine);
        if (forward) most_pairs[at(step)] = std::max(most_pairs[at(step)], mine.pairs);
        all_pairs += mine.pairs;
      }
    }
    if (forward)
      account_.step_of(all_pairs, std::accumulate(most_pairs.begin(), most_pairs.end(), 0.0));
    busy_until_ = now_;
    if (in_step_) path_.compute_s += level();
  }

  // What a rank has computed. Time follows from the sum of pairs, as in the closed form, because a
  // sum of times would be rounded differently.
  struct Sum {
    double effective_pairs = 0, other_s = 0;

    void add(const Computation& computation) {
      effective_pairs += computation.effective_pairs;
      other_s += computation.other_s;
    }
  };
  double seconds(const Sum& sum) const {
    return account_.seconds_of(sum.effective_pairs) + sum.other_s;
  }

  // Record what the rank has waited for since it last did something.
  void wait(int rank, int step, int owner, Payload payload) {
    account_.waited(rank, step, owner, payload, {busy_until_[at(rank)], now_[at(rank)]},
                    left_last_[at(rank)] ? next(rank) : previous(rank));
    busy_until_[at(rank)] = now_[at(rank)];
  }

  // Make all ranks wait for the slowest. Return how long that is after the last call.
  double level() {
    const int last = slowest();
    const double now = now_[at(last)], seconds = now - level_;
    if (seconds > 0) visited_.push_back(last);
    std::fill(now_.begin(), now_.end(), now);
    level_ = now;
    return seconds;
  }

  // The cause of a hop: which of sender and receiver was ready last, and whether that rank's
  // previous hop ended by sending, not receiving.
  struct Cause {
    bool by_sender;
    bool by_leaving;
  };
  std::vector<Cause>& causes(Payload payload) {
    return causes_[account_.pass() == Pass::forward ? 0 : 1 + static_cast<int>(payload)];
  }

  // Follow the causes from the end of `last` back through its pass, and through the pass before.
  void follow(int last) {
    int rank = last;
    for (bool is_over = false; !is_over;) {
      const bool backward = account_.pass() == Pass::backward;
      if (backward) rank = follow_hops(Payload::dkv, rank, left_last_[at(rank)]);
      visited_.push_back(rank);
      Sum sum;
      for (int step = 0; step < n_; ++step)
        sum.add(account_.computation(rank, step, RingSchedule{rank, n_}.owner(step)));
      path_.compute_s += seconds(sum);
      rank = follow_hops(Payload::kv, rank, gathered_leaving_[backward ? 1 : 0][at(rank)]);
      if (backward) {
        account_.begin_pass(Pass::forward, 0);
      } else {
        is_over = true;
      }
    }
  }

  // Follow all hops back from `rank`. Return the rank where the chain of hops began.
  int follow_hops(Payload payload, int rank, bool by_leaving) {
    for (int step = n_ - 2; step >= 0; --step) {
      const int into = by_leaving ? next(rank) : rank;
      const Hop hop = hop_into(into, payload, step);
      path_.hop_s += seconds(hop);
      visited_.push_back(into);
      visited_.push_back(hop.sender);
      const Cause cause = causes(payload)[at(step) * at(n_) + at(into)];
      rank = cause.by_sender ? hop.sender : into;
      by_leaving = cause.by_leaving;
    }
    return rank;
  }

  Account& account_;
  bool in_step_;
  bool with_causes_;
  int n_;
  std::vector<double> now_;         // per rank: end of what it did so far
  std::vector<double> busy_until_;  // per rank: end of what it did before it began to wait
  std::vector<TimeSpan> hops_;      // into each rank
  std::vector<bool> left_last_;     // whether the last hop out of a rank ended after that into it
  double level_ = 0;
  std::vector<Cause> causes_[3];           // forward, backward's blocks, gradients: [step][rank]
  std::vector<bool> gathered_leaving_[2];  // left_last_ before computing
  std::vector<int> visited_;
  CriticalPath path_;
};

}  // namespace

void simulate_allgather(Account& account, bool in_step, bool with_path) {
  Gathering gathering(account, in_step, with_path);
  Simulation& result = account.result;
  result.forward_s = gathering.run();
  if (account.job().backward) {
    gathering.count_from(result.forward_s);
    account.begin_pass(Pass::backward, result.forward_s);
    result.backward_s = gathering.run();
  }
  if (with_path) result.path = gathering.take_path();
}

}  // namespace ringscope
