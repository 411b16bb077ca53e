#include <algorithm>
#include <utility>
#include <vector>

#include "core/cost/time.h"
#include "core/sim/ring_times.h"

namespace ringscope {
namespace {

// A time and the chain of events that led to it: how much of it was computing, and its ranks as an
// entry of Chains (-1 when none is kept).
struct Moment {
  double at = 0;
  double compute_s = 0;
  int chain = -1;
};

const Moment& later(const Moment& a, const Moment& b) { return b.at > a.at ? b : a; }

class Chains {
 public:
  explicit Chains(bool are_kept) : are_kept_(are_kept) {}

  void extend(Moment& moment, int rank) {
    if (!are_kept_) return;
    if (moment.chain >= 0 && links_[static_cast<std::size_t>(moment.chain)].rank == rank) return;
    links_.push_back({rank, moment.chain});
    moment.chain = static_cast<int>(links_.size()) - 1;
  }

  // Return the ranks from the last to the first, without repeats.
  std::vector<int> ranks_of(const Moment& moment, int world_size) const {
    std::vector<int> ranks;
    std::vector<bool> seen(static_cast<std::size_t>(world_size), false);
    for (int at = moment.chain; at >= 0; at = links_[static_cast<std::size_t>(at)].before) {
      const int rank = links_[static_cast<std::size_t>(at)].rank;
      if (!seen[static_cast<std::size_t>(rank)]) ranks.push_back(rank);
      seen[static_cast<std::size_t>(rank)] = true;
    }
    return ranks;
  }

 private:
  struct Link {
    int rank, before;
  };
  bool are_kept_;
  std::vector<Link> links_;
};

// The links of one way: the ranks before and after each rank, and when the link into it is free.
struct Links {
  Way way = Way::here;
  std::vector<int> from, to;
  std::vector<Moment> free;
};

// One hop of every rank, listed under the rank that it comes into. A rank is busy until all that it
// sends and receives has moved.
struct Hops {
  const Links* links = nullptr;
  std::vector<double> begins;
  std::vector<Moment> ends;

  TimeSpan span(int rank) const {
    const auto i = static_cast<std::size_t>(rank);
    return {begins[i], ends[i].at};
  }
  // Return when `rank` has both received and sent.
  const Moment& end(int rank) const {
    const auto i = static_cast<std::size_t>(rank);
    return later(ends[i], ends[static_cast<std::size_t>(links->to[i])]);
  }
  double first_begin(int rank) const {
    const auto i = static_cast<std::size_t>(rank);
    return std::min(begins[i], begins[static_cast<std::size_t>(links->to[i])]);
  }
  bool is_end_by_sending(int rank) const {
    const auto i = static_cast<std::size_t>(rank);
    return ends[static_cast<std::size_t>(links->to[i])].at > ends[i].at;
  }
};

// One pass.
class TwoLevelBufferedPass {
 public:
  TwoLevelBufferedPass(Account& account, TwoLevelHops& hops, Chains& chains,
                       std::vector<Moment> begins)
      : account_(account),
        hops_(hops),
        chains_(chains),
        backward_(account.pass() == Pass::backward),
        n_(account.world_size()),
        nodes_(account.job().nodes),
        places_(n_ / nodes_),
        buffers_here_(std::min(account.job().kv_buffers, std::max(n_, 2))),
        buffers_between_(std::min(account.job().kv_buffers, std::max(nodes_, 2))),
        begins_(std::move(begins)),
        now_(begins_),
        attended_(begins_),
        left_(begins_),
        ready_(begins_),
        here_{Way::here, {}, {}, begins_},
        between_{Way::next_node, {}, {}, begins_},
        first_open_here_(begins_.size(), 0),
        first_open_between_(begins_.size(), 0) {
    for (int rank = 0; rank < n_; ++rank) {
      const TwoLevelSchedule mine{rank, nodes_, places_};
      ranks_.push_back(mine);
      here_.from.push_back(mine.previous_here());
      here_.to.push_back(mine.next_here());
      between_.from.push_back(mine.previous_node());
      between_.to.push_back(mine.next_node());
    }
    Hops none{&here_, {}, begins_};
    for (const Moment& begin : begins_) none.begins.push_back(begin.at);
    last_here_ = gradients_here_ = none;
    blocks_here_.assign(at(buffers_here_), none);
    none.links = &between_;
    gradients_between_ = none;
    blocks_between_.assign(at(buffers_between_), none);
  }
  TwoLevelBufferedPass(const TwoLevelBufferedPass&) = delete;
  TwoLevelBufferedPass& operator=(const TwoLevelBufferedPass&) = delete;

  // Run the pass. Return when each rank ends.
  const std::vector<Moment>& run() {
    for (int step = 0; step < n_; ++step) {
      const int outer = step / places_, inner = step % places_;
      if (inner == 0) send_between_until(outer);
      send_here_until(step);
      attend(step, outer, inner);
      if (!backward_) continue;
      add(step, outer, inner);
      send_sums(step, inner);
    }
    if (backward_ && n_ > 1) bring_home();
    if (n_ > 1) account_.hopped(!backward_ ? n_ - 1 : n_ + (nodes_ > 1 && places_ > 1 ? 1 : 0));
    for (int rank = 0; rank < n_; ++rank) account_.ended(rank, now_[at(rank)].at);
    return now_;
  }

 private:
  static std::size_t at(int i) { return static_cast<std::size_t>(i); }
  int owner(int rank, int step) const {
    return ranks_[at(rank)].owner(step / places_, step % places_);
  }

  // Return the hops that bring the block of a step other than the first.
  Hops& bringing(int step) {
    return step % places_ == 0 ? blocks_between_[at(step / places_ % buffers_between_)]
                               : blocks_here_[at(step % buffers_here_)];
  }
  // Return when a rank has the block of `step` and has finished sending in the same hop.
  const Moment& there(int rank, int step) {
    return step == 0 ? begins_[at(rank)] : bringing(step).end(rank);
  }

  // Send hops, which begin when both of their ranks are `ready_` and the link is free.
  void send(Hops& hops, Links& links, Payload payload, int step, bool is_last = false) {
    const bool is_here = links.way == Way::here;
    // A rank's two hops of one step draw different random numbers.
    const bool is_second = is_last || (!is_here && payload == Payload::kv);
    for (int rank = 0; rank < n_; ++rank) {
      const int sender = links.from[at(rank)];
      const int of = is_last ? rank : owner(sender, step);
      Moment moment = later(later(ready_[at(sender)], ready_[at(rank)]), links.free[at(rank)]);
      const Path path = is_here ? account_.machine().path_to_next_here(sender)
                                : account_.machine().path_to_next_node(sender);
      const double bytes = account_.block_bytes(payload, of);
      hops.begins[at(rank)] = moment.at;
      moment.at += account_.hop_seconds(path, payload, sender, step + (is_second ? n_ : 0), bytes);
      chains_.extend(moment, rank);
      hops.ends[at(rank)] = links.free[at(rank)] = moment;
      hops_.moved(links.way, {payload, step, sender, rank, of, bytes}, hops.span(rank));
    }
  }

  // At the beginning of an outer step, ask for all blocks whose buffers are free, or will be when
  // the blocks in them have been attended and sent on.
  void send_between_until(int outer) {
    const int last = std::min(outer + buffers_between_ - 1, nodes_ - 1);
    for (int to = outer == 0 ? 1 : outer + buffers_between_ - 1; to <= last; ++to) {
      for (int rank = 0; rank < n_; ++rank) {
        const Moment& has_block = there(rank, (to - 1) * places_);
        ready_[at(rank)] = to < buffers_between_ ? has_block : later(has_block, left_[at(rank)]);
      }
      send(blocks_between_[at(to % buffers_between_)], between_, Payload::kv, (to - 1) * places_);
      asked_for_between_ = to;
    }
  }

  void send_here_until(int step) {
    const int last = std::min(step + buffers_here_ - 1, n_ - 1);
    for (int to = step == 0 ? 1 : step + buffers_here_ - 1; to <= last; ++to) {
      if (to % places_ == 0) continue;  // it comes from the previous node
      // The previous turn's last hop inside the node may not be over when the next turn begins.
      const bool is_new_turn = to % places_ == 1 && to > places_;
      for (int rank = 0; rank < n_; ++rank) {
        Moment ready = there(rank, to - 1);
        if (is_new_turn) ready = later(ready, last_here_.end(rank));
        if (to >= buffers_here_) ready = later(ready, attended_[at(rank)]);
        ready_[at(rank)] = ready;
      }
      Hops& hops = blocks_here_[at(to % buffers_here_)];
      send(hops, here_, Payload::kv, to - 1);
      last_here_.ends = hops.ends;
      asked_for_here_ = to;
    }
  }

  void attend(int step, int outer, int inner) {
    double all_pairs = 0, most_pairs = 0;
    for (int rank = 0; rank < n_; ++rank) {
      const int of = ranks_[at(rank)].owner(outer, inner);
      if (step > 0) wait(rank, step, of, Payload::kv, bringing(step));
      Moment& now = now_[at(rank)];
      if (inner == 1) left_[at(rank)] = later(left_[at(rank)], there(rank, step));
      const Computation mine = account_.computation(rank, step, of);
      account_.computed(rank, step, of, now.at, mine);
      all_pairs += mine.pairs;
      most_pairs = std::max(most_pairs, mine.pairs);
      now.at += mine.seconds;
      now.compute_s += mine.seconds;
      chains_.extend(now, rank);
      attended_[at(rank)] = now;
      if (inner == 0) left_[at(rank)] = now;
    }
    if (!backward_) account_.step_of(all_pairs, most_pairs);
  }

  // Add what was summed before this step: by the earlier ranks of the node, and at its last rank
  // also by the earlier nodes.
  void add(int step, int outer, int inner) {
    for (int rank = 0; rank < n_; ++rank) {
      const int of = ranks_[at(rank)].owner(outer, inner);
      if (inner > 0) wait(rank, step, of, Payload::dkv, gradients_here_);
      if (inner == places_ - 1 && outer > 0) wait(rank, step, of, Payload::dkv, gradients_between_);
    }
  }

  void send_sums(int step, int inner) {
    if (n_ == 1) return;
    ready_ = now_;
    if (nodes_ == 1 || inner < places_ - 1) {
      send(gradients_here_, here_, Payload::dkv, step);
    } else {
      send(gradients_between_, between_, Payload::dkv, step);
    }
  }

  void bring_home() {
    for (int rank = 0; rank < n_; ++rank)
      wait(rank, n_ - 1, rank, Payload::dkv, nodes_ > 1 ? gradients_between_ : gradients_here_);
    if (nodes_ == 1 || places_ == 1) return;
    ready_ = now_;
    send(gradients_here_, here_, Payload::dkv, n_ - 1, true);
    for (int rank = 0; rank < n_; ++rank) wait(rank, n_ - 1, rank, Payload::dkv, gradients_here_);
  }

  // Wait until `rank` has finished a hop.
  void wait(int rank, int step, int of, Payload payload, const Hops& hops) {
    const Moment& until = hops.end(rank);
    const TimeSpan gap{now_[at(rank)].at, until.at};
    if (!(gap.end > gap.begin)) return;
    now_[at(rank)] = until;
    open_.clear();
    add_open(gradients_here_, rank, gap);
    add_open(gradients_between_, rank, gap);
    add_open_blocks(Way::here, rank, gap);
    add_open_blocks(Way::next_node, rank, gap);
    account_.exposed(rank, covered(gap, open_));
    account_.waited(
        rank, step, of, payload, gap,
        hops.is_end_by_sending(rank) ? hops.links->to[at(rank)] : hops.links->from[at(rank)]);
  }
  // Add the hops into and out of the rank that overlap `gap`.
  void add_open(const Hops& hops, int rank, TimeSpan gap) {
    for (const int into : {rank, hops.links->to[at(rank)]})
      if (const TimeSpan span = hops.span(into); span.begin < gap.end && span.end > gap.begin)
        open_.push_back(span);
  }
  // Add those that bring blocks, by step or by outer step. They follow each other.
  void add_open_blocks(Way way, int rank, TimeSpan gap) {
    const bool is_here = way == Way::here;
    const int last = is_here ? asked_for_here_ : asked_for_between_;
    const int buffers = is_here ? buffers_here_ : buffers_between_;
    int& first = is_here ? first_open_here_[at(rank)] : first_open_between_[at(rank)];
    first = std::max({first, last - buffers + 1, 1});
    for (int k = first; k <= last; ++k) {
      if (is_here && k % places_ == 0) continue;
      const Hops& hops = is_here ? blocks_here_[at(k % buffers)] : blocks_between_[at(k % buffers)];
      // It overlaps no later gap either.
      if (hops.end(rank).at <= gap.begin) first = k + 1;
      if (hops.first_begin(rank) >= gap.end) break;
      add_open(hops, rank, gap);
    }
  }

  Account& account_;
  TwoLevelHops& hops_;
  Chains& chains_;
  bool backward_;
  int n_, nodes_, places_;
  int buffers_here_, buffers_between_;
  std::vector<TwoLevelSchedule> ranks_;
  std::vector<Moment> begins_;
  std::vector<Moment> now_;       // per rank: how far it is
  std::vector<Moment> attended_;  // per rank: end of its last computation
  std::vector<Moment> left_;  // when the last block from another node was attended and sent on here
  std::vector<Moment> ready_;
  Links here_, between_;
  std::vector<Hops> blocks_here_, blocks_between_;  // [step or outer step % buffers]
  Hops last_here_;                                  // each rank's last block hops inside the node
  Hops gradients_here_, gradients_between_;         // the last ones
  int asked_for_here_ = 0, asked_for_between_ = 0;  // step and outer step of the last blocks
  // Per rank: step and outer step of the first block whose hop may not be over.
  std::vector<int> first_open_here_, first_open_between_;
  std::vector<TimeSpan> open_;
};

double slowest(const std::vector<Moment>& moments) {
  double last = moments.front().at;
  for (const Moment& moment : moments) last = std::max(last, moment.at);
  return last;
}

}  // namespace

void simulate_two_level_with_buffers(Account& account, TwoLevelHops& hops, bool with_path) {
  Chains chains(with_path);
  std::vector<Moment> ends =
      TwoLevelBufferedPass(account, hops, chains, std::vector<Moment>(account.result.ranks.size()))
          .run();
  hops.end_pass(0);
  double wall = account.result.forward_s = slowest(ends);
  if (account.job().backward) {
    // Count from the forward pass's end, so that both passes are alike.
    for (Moment& end : ends) end.at -= account.result.forward_s;
    account.begin_pass(Pass::backward, account.result.forward_s);
    ends = TwoLevelBufferedPass(account, hops, chains, std::move(ends)).run();
    hops.end_pass(account.result.forward_s);
    account.result.backward_s = slowest(ends);
    wall += account.result.backward_s;
  }
  if (!with_path) return;
  const Moment& last = *std::max_element(
      ends.begin(), ends.end(), [](const Moment& a, const Moment& b) { return a.at < b.at; });
  account.result.path = {last.compute_s, wall - last.compute_s,
                         chains.ranks_of(last, account.world_size())};
}

}  // namespace ringscope
