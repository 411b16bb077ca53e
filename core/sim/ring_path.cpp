#include "core/sim/ring_path.h"

#include <algorithm>

#include "core/ring/ring.h"

namespace ringscope {
namespace {

class Follower {
 public:
  Follower(Account& account, const RingCauses& forward, const RingCauses& backward)
      : account_(account),
        forward_(forward),
        backward_(backward),
        n_(account.world_size()),
        buffers_(std::min(account.job().kv_buffers, std::max(n_, 2))),
        seen_(static_cast<std::size_t>(n_), false) {}

  CriticalPath follow(int last) {
    const bool backward = !backward_.empty();
    begin(backward ? Pass::backward : Pass::forward);
    if (!backward) {
      here_ = {Kind::attend, last, n_ - 1};
    } else {
      here_ = n_ > 1 ? Place{Kind::gradient, last, n_ - 1} : Place{Kind::sum, last, 0};
    }
    while (!is_over_) step_back();
    return std::move(path_);
  }

 private:
  enum class Kind { attend, sum, block, gradient };
  // The computation of (rank, step), the sum after it, the hop that brings `rank` the block of
  // `step`, or the hop that brings it the sum of `step`.
  struct Place {
    Kind kind;
    int rank, step;
  };

  int previous(int rank) const { return RingSchedule{rank, n_}.recv_rank(); }
  int next(int rank) const { return RingSchedule{rank, n_}.send_rank(); }

  void begin(Pass pass) {
    account_.begin_pass(pass, 0);
    causes_ = pass == Pass::forward ? &forward_ : &backward_;
  }

  void visit(int rank) {
    if (seen_[static_cast<std::size_t>(rank)]) return;
    seen_[static_cast<std::size_t>(rank)] = true;
    path_.ranks.push_back(rank);
  }

  void add_hop(Payload payload, int receiver, int step) {
    const int sender = previous(receiver);
    const int owner = RingSchedule{sender, n_}.owner(step);
    path_.hop_s += account_.hop_seconds(account_.machine().path_to_next(sender), payload, sender,
                                        step, account_.block_bytes(payload, owner));
    visit(receiver);
    visit(sender);
  }

  // Continue where the pass of `rank` began.
  void pass_before(int rank) {
    if (causes_ == &forward_) {
      is_over_ = true;
    } else {
      begin(Pass::forward);
      here_ = {Kind::attend, rank, n_ - 1};
    }
  }

  void block_of(int rank, int step, ReadyBy by) {
    if (step == 0) return pass_before(rank);
    here_ = {Kind::block, by == ReadyBy::hop_in ? rank : next(rank), step};
  }

  void step_back() {
    const auto [kind, rank, step] = here_;
    switch (kind) {
      case Kind::attend: {
        const int owner = RingSchedule{rank, n_}.owner(step);
        path_.compute_s += account_.computation(rank, step, owner).seconds;
        visit(rank);
        if (step == 0) return pass_before(rank);
        const int cause = causes_->attend(rank, step);
        if (cause == 0) {
          here_ = {causes_ == &forward_ ? Kind::attend : Kind::sum, rank, step - 1};
        } else {
          block_of(rank, step, static_cast<ReadyBy>(cause - 1));
        }
        return;
      }
      case Kind::sum: {
        const int cause = causes_->sum(rank, step);
        if (cause == 0) {
          here_.kind = Kind::attend;
        } else {
          const bool is_in = static_cast<ReadyBy>(cause - 1) == ReadyBy::hop_in;
          here_ = {Kind::gradient, is_in ? rank : next(rank), step - 1};
        }
        return;
      }
      case Kind::block: {
        add_hop(Payload::kv, rank, step - 1);
        const int cause = causes_->block(rank, step);
        if (cause == 0) {
          here_ = {Kind::gradient, rank, step - buffers_};
          return;
        }
        const auto by = static_cast<ReadyBy>((cause - 1) % 3);
        const int side =
            (cause - 1) / 3 == static_cast<int>(HopSide::sender) ? previous(rank) : rank;
        if (by == ReadyBy::attended) {
          here_ = {Kind::attend, side, step - buffers_};
        } else {
          block_of(side, step - 1, by);
        }
        return;
      }
      case Kind::gradient: {
        add_hop(Payload::dkv, rank, step);
        const int cause = causes_->gradient(rank, step);
        if (cause == 0) {
          here_ = {Kind::block, rank, std::min(step + buffers_ - 1, n_ - 1)};
        } else {
          const bool is_sender = cause - 1 == static_cast<int>(HopSide::sender);
          here_ = {Kind::sum, is_sender ? previous(rank) : rank, step};
        }
        return;
      }
    }
  }

  Account& account_;
  const RingCauses &forward_, &backward_;
  int n_;
  int buffers_;
  const RingCauses* causes_ = nullptr;
  Place here_{};
  bool is_over_ = false;
  std::vector<bool> seen_;
  CriticalPath path_;
};

}  // namespace

CriticalPath follow_ring(Account& account, const RingCauses& forward, const RingCauses& backward,
                         int last) {
  return Follower(account, forward, backward).follow(last);
}

}  // namespace ringscope
