#include <algorithm>
#include <vector>

#include "core/sim/ring_path.h"
#include "core/sim/ring_times.h"

namespace ringscope {
namespace {

// One pass. A hop is listed under the rank that it comes into.
class BufferedPass {
 public:
  // `begins` is when each rank begins. `causes` may be null.
  BufferedPass(Account& account, const std::vector<double>& begins, RingCauses* causes)
      : account_(account),
        causes_(causes),
        backward_(account.pass() == Pass::backward),
        n_(account.world_size()),
        buffers_(std::min(account.job().kv_buffers, std::max(n_, 2))),
        blocks_(static_cast<std::size_t>(buffers_) * at(n_)),
        begins_(begins),
        attended_(begins),
        summed_(begins),
        ready_(at(n_)),
        ready_by_(at(n_)),
        gradients_(at(n_)),
        link_free_(begins),
        first_open_(at(n_), 0) {}

  // Run the pass. Return when each rank ends.
  const std::vector<double>& run() {
    for (int step = 0; step < n_; ++step) {
      const int last = std::min(step + buffers_ - 1, n_ - 1);
      for (int to = step == 0 ? 1 : step + buffers_ - 1; to <= last; ++to) send_blocks(to);
      attend(step);
      if (backward_) add(step);
      if (backward_ && n_ > 1) send_gradients(step);
    }
    if (n_ > 1) account_.hopped(backward_ ? n_ : n_ - 1);
    if (backward_ && n_ > 1) bring_home();
    for (int rank = 0; rank < n_; ++rank) account_.ended(rank, summed_[at(rank)]);
    return summed_;
  }

  // Return the rank of the last event of the pass: a computation, or a gradient hop into that rank.
  int last_event() const {
    int last = 0;
    for (int rank = 1; rank < n_; ++rank)
      if (end_of_event(rank) > end_of_event(last)) last = rank;
    return last;
  }

 private:
  static std::size_t at(int i) { return static_cast<std::size_t>(i); }
  int previous(int rank) const { return rank == 0 ? n_ - 1 : rank - 1; }
  int next(int rank) const { return rank == n_ - 1 ? 0 : rank + 1; }
  int owner(int rank, int step) const { return rank >= step ? rank - step : rank - step + n_; }
  TimeSpan* blocks(int step) { return blocks_.data() + at(step % buffers_) * at(n_); }
  double end_of_event(int rank) const {
    return backward_ && n_ > 1 ? gradients_[at(rank)].end : summed_[at(rank)];
  }

  double hop_seconds(Payload payload, int sender, int step, double bytes) const {
    return account_.hop_seconds(account_.machine().path_to_next(sender), payload, sender, step,
                                bytes);
  }

  // Find when each rank has the block of `step`, and by which half.
  void find_ready(int step, bool buffer_was_used) {
    const TimeSpan* const hops = blocks(step);
    for (int rank = 0; rank < n_; ++rank) {
      const double in = step == 0 ? begins_[at(rank)] : hops[rank].end;
      const double out = step == 0 ? in : hops[next(rank)].end;
      double ready = std::max(in, out);
      ReadyBy by = out > in ? ReadyBy::hop_out : ReadyBy::hop_in;
      if (buffer_was_used && attended_[at(rank)] > ready) {
        ready = attended_[at(rank)];
        by = ReadyBy::attended;
      }
      ready_[at(rank)] = ready;
      ready_by_[at(rank)] = by;
    }
  }

  // Send the blocks of step `to`.
  void send_blocks(int to) {
    // A rank asks for them when it has attended the block whose buffer they need, K steps earlier.
    find_ready(to - 1, to >= buffers_);
    TimeSpan* const hops = blocks(to);
    for (int rank = 0; rank < n_; ++rank) {
      const int sender = previous(rank), of = owner(rank, to);
      const double ready = std::max(ready_[at(sender)], ready_[at(rank)]);
      const double begin = std::max(ready, link_free_[at(rank)]);
      const double bytes = account_.block_bytes(Payload::kv, of);
      hops[rank] = {begin, begin + hop_seconds(Payload::kv, sender, to - 1, bytes)};
      link_free_[at(rank)] = hops[rank].end;
      account_.moved({Payload::kv, to - 1, sender, rank, of, bytes}, hops[rank]);
      if (causes_ == nullptr) continue;
      if (begin > ready) {
        causes_->block_after_link(rank, to);
      } else {
        const bool by_sender = ready_[at(sender)] >= ready_[at(rank)];
        causes_->block_after_side(rank, to, by_sender ? HopSide::sender : HopSide::receiver,
                                  ready_by_[at(by_sender ? sender : rank)]);
      }
    }
  }

  void attend(int step) {
    find_ready(step, false);
    double all_pairs = 0, most_pairs = 0;
    for (int rank = 0; rank < n_; ++rank) {
      const int of = owner(rank, step);
      const Computation mine = account_.computation(rank, step, of);
      all_pairs += mine.pairs;
      most_pairs = std::max(most_pairs, mine.pairs);
      const double free = summed_[at(rank)], ready = ready_[at(rank)];
      double begin = free;
      if (ready > free) {
        begin = ready;
        const TimeSpan gap{free, ready};
        const TimeSpan* const hops = blocks(step);
        if (backward_) {
          open_ = {hops[rank], hops[next(rank)], gradients_[at(rank)], gradients_[at(next(rank))]};
          account_.exposed(rank, covered(gap, open_));
        } else {
          account_.exposed(rank, covered(gap, hops[rank], hops[next(rank)]));
        }
        const bool by_out = ready_by_[at(rank)] == ReadyBy::hop_out;
        account_.waited(rank, step, of, Payload::kv, gap, by_out ? next(rank) : previous(rank));
        if (causes_ != nullptr) causes_->attend_after_hop(rank, step, ready_by_[at(rank)]);
      }
      account_.computed(rank, step, of, begin, mine);
      attended_[at(rank)] = begin + mine.seconds;
      if (!backward_) summed_[at(rank)] = attended_[at(rank)];
    }
    if (!backward_) account_.step_of(all_pairs, most_pairs);
  }

  // Wait for the sum that comes from the rank before.
  void add(int step) {
    for (int rank = 0; rank < n_; ++rank) {
      summed_[at(rank)] = attended_[at(rank)];
      if (step > 0) wait_for_gradient(rank, step, owner(rank, step));
    }
  }
  void bring_home() {
    for (int rank = 0; rank < n_; ++rank) wait_for_gradient(rank, n_, rank);
  }

  // Wait for the gradient hop of the step before.
  void wait_for_gradient(int rank, int step, int of) {
    const double in = gradients_[at(rank)].end, out = gradients_[at(next(rank))].end;
    const TimeSpan gap{summed_[at(rank)], std::max(in, out)};
    if (!(gap.end > gap.begin)) return;
    summed_[at(rank)] = gap.end;
    find_open_hops(rank, step, gap);
    account_.exposed(rank, covered(gap, open_));
    account_.waited(rank, std::min(step, n_ - 1), of, Payload::dkv, gap,
                    out > in ? next(rank) : previous(rank));
    if (causes_ != nullptr && step < n_)
      causes_->sum_after_hop(rank, step, out > in ? ReadyBy::hop_out : ReadyBy::hop_in);
  }

  // Find the hops into and out of the rank that may overlap `gap`: the gradient's, and those of
  // blocks for later steps, which follow each other.
  void find_open_hops(int rank, int step, TimeSpan gap) {
    const int other = next(rank), last = std::min(step + buffers_ - 1, n_ - 1);
    open_ = {gradients_[at(rank)], gradients_[at(other)]};
    int& first = first_open_[at(rank)];
    first = std::max(first, step + 1);
    for (; first <= last; ++first) {
      const TimeSpan* const hops = blocks(first);
      if (std::max(hops[rank].end, hops[other].end) > gap.begin) break;
    }
    for (int to = first; to <= last; ++to) {
      const TimeSpan* const hops = blocks(to);
      if (std::min(hops[rank].begin, hops[other].begin) >= gap.end) break;
      open_.push_back(hops[rank]);
      open_.push_back(hops[other]);
    }
  }

  void send_gradients(int step) {
    for (int rank = 0; rank < n_; ++rank) {
      const int sender = previous(rank), of = owner(sender, step);
      const double ready = std::max(summed_[at(sender)], summed_[at(rank)]);
      const double begin = std::max(ready, link_free_[at(rank)]);
      const double bytes = account_.block_bytes(Payload::dkv, of);
      const TimeSpan hop{begin, begin + hop_seconds(Payload::dkv, sender, step, bytes)};
      gradients_[at(rank)] = hop;
      link_free_[at(rank)] = hop.end;
      account_.moved({Payload::dkv, step, sender, rank, of, bytes}, hop);
      if (causes_ == nullptr) continue;
      if (begin > ready) {
        causes_->gradient_after_link(rank, step);
      } else {
        const bool by_sender = summed_[at(sender)] >= summed_[at(rank)];
        causes_->gradient_after_side(rank, step, by_sender ? HopSide::sender : HopSide::receiver);
      }
    }
  }

  Account& account_;
  RingCauses* causes_;
  bool backward_;
  int n_;
  int buffers_;
  std::vector<TimeSpan> blocks_;  // [step % buffers][rank]: the hops that bring them
  const std::vector<double>& begins_;
  std::vector<double> attended_;  // per rank: end of its last computation
  std::vector<double> summed_;    // per rank: when the incoming sum was added
  std::vector<double> ready_;     // see find_ready()
  std::vector<ReadyBy> ready_by_;
  std::vector<TimeSpan> gradients_;  // the last hops
  std::vector<double> link_free_;
  std::vector<int> first_open_;  // step of the first block whose hops may not have ended
  std::vector<TimeSpan> open_;
};

}  // namespace

void simulate_ring_with_buffers(Account& account, bool with_path) {
  const int n = account.world_size();
  RingCauses forward, backward;
  if (with_path) forward = RingCauses(n);
  const std::vector<double> at_once(static_cast<std::size_t>(n), 0);
  BufferedPass forward_pass(account, at_once, with_path ? &forward : nullptr);
  std::vector<double> ends = forward_pass.run();
  int last = forward_pass.last_event();
  account.result.forward_s = *std::max_element(ends.begin(), ends.end());
  if (account.job().backward) {
    // Count from the forward pass's end, so that both passes are alike.
    for (double& end : ends) end -= account.result.forward_s;
    account.begin_pass(Pass::backward, account.result.forward_s);
    if (with_path) backward = RingCauses(n);
    BufferedPass backward_pass(account, ends, with_path ? &backward : nullptr);
    const std::vector<double>& homes = backward_pass.run();
    last = backward_pass.last_event();
    account.result.backward_s = *std::max_element(homes.begin(), homes.end());
  }
  if (with_path) account.result.path = follow_ring(account, forward, backward, last);
}

}  // namespace ringscope
