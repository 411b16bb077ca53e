#include <algorithm>
#include <utility>
#include <vector>

#include "core/sim/ring_times.h"

namespace ringscope {
namespace {

class InStep {
 public:
  explicit InStep(Account& account)
      : account_(account),
        n_(account.world_size()),
        computing_(static_cast<std::size_t>(n_)),
        block_(computing_.size()),
        gradient_(computing_.size()) {}

  // Run a pass and return its seconds.
  double run() {
    const bool backward = account_.pass() == Pass::backward;
    double begin = 0;
    for (int step = 0; step < n_; ++step) {
      const Slowest work = compute(step);
      Slowest gradients, blocks;
      if (n_ > 1 && backward && step > 0) gradients = hop(Payload::dkv, step - 1, gradient_);
      if (n_ > 1 && step < n_ - 1) blocks = hop(Payload::kv, step, block_);
      const double moving = blocks.seconds + gradients.seconds;
      const bool is_computing = work.seconds >= moving;
      const double seconds = std::max(work.seconds, moving);
      const int awaited = is_computing                          ? work.rank
                          : blocks.seconds >= gradients.seconds ? blocks.rank
                                                                : gradients.rank;
      write_results(step, begin, seconds, gradients.seconds, awaited);
      (is_computing ? path_.compute_s : path_.hop_s) += seconds;
      slowest_ranks_.push_back(awaited);
      begin += seconds;
    }
    if (n_ > 1 && backward) {
      const Slowest home = hop(Payload::dkv, n_ - 1, gradient_);
      for (int rank = 0; rank < n_; ++rank) {
        const double hops = std::max(gradient_[at(rank)], gradient_[at(previous(rank))]);
        move(rank, Payload::dkv, n_ - 1, begin, gradient_[at(rank)]);
        account_.exposed(rank, hops);
        account_.waited(rank, n_ - 1, rank, Payload::dkv, {begin, begin + home.seconds},
                        waiting_for(rank, home.rank));
      }
      path_.hop_s += home.seconds;
      slowest_ranks_.push_back(home.rank);
      begin += home.seconds;
    }
    for (int rank = 0; rank < n_; ++rank) account_.ended(rank, begin);
    if (n_ > 1) account_.hopped(backward ? n_ : n_ - 1);
    return begin;
  }

  // Return the path of all passes so far.
  CriticalPath take_path() {
    std::vector<bool> seen(computing_.size(), false);
    for (auto rank = slowest_ranks_.rbegin(); rank != slowest_ranks_.rend(); ++rank) {
      if (!seen[at(*rank)]) path_.ranks.push_back(*rank);
      seen[at(*rank)] = true;
    }
    return std::move(path_);
  }

 private:
  struct Slowest {
    double seconds = 0;
    int rank = 0;
  };

  static std::size_t at(int rank) { return static_cast<std::size_t>(rank); }
  int previous(int rank) const { return rank == 0 ? n_ - 1 : rank - 1; }
  int next(int rank) const { return rank == n_ - 1 ? 0 : rank + 1; }
  // A hop is listed by its sender. For the sender itself the wait is for its previous rank.
  int waiting_for(int rank, int slowest) const {
    return slowest == rank ? previous(rank) : slowest;
  }
  int owner(int rank, int step) const { return rank >= step ? rank - step : rank - step + n_; }

  Slowest compute(int step) {
    Slowest slowest;
    double all_pairs = 0, most_pairs = 0;
    for (int rank = 0; rank < n_; ++rank) {
      computing_[at(rank)] = account_.computation(rank, step, owner(rank, step));
      const Computation& mine = computing_[at(rank)];
      all_pairs += mine.pairs;
      most_pairs = std::max(most_pairs, mine.pairs);
      if (mine.seconds > slowest.seconds) slowest = {mine.seconds, rank};
    }
    if (account_.pass() == Pass::forward) account_.step_of(all_pairs, most_pairs);
    return slowest;
  }

  Slowest hop(Payload payload, int step, std::vector<double>& seconds) {
    Slowest slowest;
    for (int rank = 0; rank < n_; ++rank) {
      const double mine =
          account_.hop_seconds(account_.machine().path_to_next(rank), payload, rank, step,
                               account_.block_bytes(payload, owner(rank, step)));
      seconds[at(rank)] = mine;
      if (mine > slowest.seconds) slowest = {mine, rank};
    }
    return slowest;
  }

  void move(int rank, Payload payload, int step, double begin, double seconds) {
    const int of = owner(rank, step);
    account_.moved({payload, step, rank, next(rank), of, account_.block_bytes(payload, of)},
                   {begin, begin + seconds});
  }

  // `gradients` is the seconds that the hops of all gradients take.
  void write_results(int step, double begin, double seconds, double gradients, int awaited) {
    const bool has_blocks = step < n_ - 1;
    const bool has_gradients = account_.pass() == Pass::backward && step > 0;
    for (int rank = 0; rank < n_; ++rank) {
      const Computation& mine = computing_[at(rank)];
      account_.computed(rank, step, owner(rank, step), begin, mine);
      double exposed = 0;
      if (has_gradients) {
        move(rank, Payload::dkv, step - 1, begin, gradient_[at(rank)]);
        const double end = std::max(gradient_[at(rank)], gradient_[at(previous(rank))]);
        exposed += std::max(0.0, end - mine.seconds);
      }
      if (has_blocks) {
        move(rank, Payload::kv, step, begin + gradients, block_[at(rank)]);
        const double end = gradients + std::max(block_[at(rank)], block_[at(previous(rank))]);
        exposed += std::max(0.0, end - std::max(gradients, mine.seconds));
      }
      account_.exposed(rank, exposed);
      // In a real run this wait belongs to the step that it comes before.
      const int next_step = std::min(step + 1, n_ - 1);
      account_.waited(rank, next_step, owner(rank, next_step), Payload::kv,
                      {begin + mine.seconds, begin + seconds}, waiting_for(rank, awaited));
    }
  }

  Account& account_;
  int n_;
  std::vector<Computation> computing_;    // of a step
  std::vector<double> block_, gradient_;  // seconds of the hops from each rank
  std::vector<int> slowest_ranks_;        // the rank whose work or hop was slowest at each step
  CriticalPath path_;
};

}  // namespace

void simulate_ring_in_step(Account& account, bool with_path) {
  InStep ring(account);
  account.result.forward_s = ring.run();
  if (account.job().backward) {
    account.begin_pass(Pass::backward, account.result.forward_s);
    account.result.backward_s = ring.run();
  }
  if (with_path) account.result.path = ring.take_path();
}

}  // namespace ringscope
