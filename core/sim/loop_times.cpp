#include "core/sim/loop_times.h"

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include "core/ring/forwarding_backend.h"
#include "core/ring/schemes.h"

namespace ringscope {
namespace {

// A time, and the chain of computations and hops that led to it: how much of it was computing, and
// its ranks as an entry of Chains (-1: none).
struct Moment {
  double at = 0;
  double compute_s = 0;
  int chain = -1;
};

const Moment& later(const Moment& a, const Moment& b) { return b.at > a.at ? b : a; }

// The ranks of all critical paths, as links that share their beginnings.
class Chains {
 public:
  explicit Chains(bool are_kept) : are_kept_(are_kept) {}

  void extend(Moment& moment, int rank) {
    if (!are_kept_) return;
    if (moment.chain >= 0 && links_[moment.chain].rank == rank) return;
    links_.push_back({rank, moment.chain});
    moment.chain = static_cast<int>(links_.size()) - 1;
  }

  // Return the ranks from the last to the first, without repeats.
  std::vector<int> ranks_of(const Moment& moment, int world_size) const {
    std::vector<int> ranks;
    std::vector<bool> seen(world_size, false);
    for (int link = moment.chain; link >= 0; link = links_[link].before) {
      const int rank = links_[link].rank;
      if (!seen[rank]) ranks.push_back(rank);
      seen[rank] = true;
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

// Rank `rank`'s counterpart of what rank 0 calls `of_rank_0`: ranks lie on a ring, or on a ring of
// nodes that are rings.
class Counterpart {
 public:
  Counterpart(const Problem& job, int rank)
      : per_node_(job.scheme == Scheme::two_level ? job.ranks_a_node() : job.world_size),
        nodes_(job.world_size / per_node_),
        node_(rank / per_node_),
        place_(rank % per_node_) {}

  int operator()(int of_rank_0) const {
    if (nodes_ == 1) return wrap(of_rank_0 + place_, per_node_);
    return wrap(of_rank_0 / per_node_ + node_, nodes_) * per_node_ +
           wrap(of_rank_0 % per_node_ + place_, per_node_);
  }

 private:
  static int wrap(int sum, int size) { return sum < size ? sum : sum - size; }
  int per_node_, nodes_, node_, place_;
};

// The ends of all ranks' counterparts of one operation.
class SimulatedEnd : public PendingOperation {
 public:
  explicit SimulatedEnd(const std::vector<Moment>& moments) : ends(moments) {}
  bool done() const override { return false; }
  void wait() override {}
  TransferTimes times() const override { return {}; }

  std::vector<Moment> ends;
  // Of a hop: the rank whose half came last, and whether computations have waited for it.
  std::vector<int> awaited;
  bool was_awaited = false;
};

class Simulator : public Communicator, public IdleBackend {
 public:
  Simulator(Account& account, bool in_step, bool with_path)
      : account_(account),
        in_step_(in_step),
        with_path_(with_path),
        n_(account.world_size()),
        chains_(with_path),
        now_(n_),
        begin_(now_),
        sent_(n_),
        transfers_(n_) {
    for (int rank = 0; rank < n_; ++rank) counterparts_.emplace_back(account.job(), rank);
  }

  void run() {
    Simulation& result = account_.result;
    result.forward_s = run_pass(Pass::forward);
    if (account_.job().backward) {
      // Count from the forward pass's end, so that both passes are alike.
      for (Moment& now : now_) now.at -= result.forward_s;
      account_.begin_pass(Pass::backward, result.forward_s);
      result.backward_s = run_pass(Pass::backward);
    }
    if (!with_path_) return;
    const Moment& last = now_[slowest(now_)];
    result.path = {last.compute_s, result.wall_s() - last.compute_s, chains_.ranks_of(last, n_)};
  }

  int rank() const override { return 0; }
  int world_size() const override { return n_; }
  void await(const StepInfo& step, Payload payload, const Completion& after) override {
    wait_out(step, payload, after);
  }
  Completion exchange(const Exchange& hop, std::initializer_list<Completion> after) override;

 private:
  double run_pass(Pass pass);
  Completion around(BlockOperation which, const StepInfo* step, const Completion& after,
                    const Start&) override {
    if (which == BlockOperation::attend || which == BlockOperation::attend_backward)
      return compute(*step, after);
    if (which == BlockOperation::merge || which == BlockOperation::add_dq)
      throw std::logic_error("this loop is simulated as a graph alone");
    if (step != nullptr) {
      const bool is_end = which == BlockOperation::finish_backward;
      wait_out(is_end ? StepInfo{step->pass, step->step, 0, true} : *step, Payload::dkv, after);
    }
    return now();
  }
  Completion now() const { return std::make_shared<SimulatedEnd>(now_); }
  Completion compute(const StepInfo& step, const Completion& after);
  void wait_out(const StepInfo& step, Payload payload, const Completion& after);
  void idle_until(int rank, const Moment& until, const StepInfo& step, Payload payload,
                  int awaited);
  // Keep a transfer that may overlap a later wait; forget those that can't.
  void note_transfer(int rank, TimeSpan span);
  void forget_past(int rank);

  static int slowest(const std::vector<Moment>& moments) {
    const auto is_earlier = [](const Moment& a, const Moment& b) { return a.at < b.at; };
    return static_cast<int>(std::max_element(moments.begin(), moments.end(), is_earlier) -
                            moments.begin());
  }

  Account& account_;
  bool in_step_, with_path_;
  int n_;
  Chains chains_;
  NoMemory nowhere_;
  // By rank, in seconds since the pass began:
  std::vector<Counterpart> counterparts_;
  std::vector<Moment> now_;                       // the end of what was computed last
  std::vector<Moment> begin_;                     // of the pass
  std::vector<Moment> link_free_[kWays];          // by way
  std::vector<TimeSpan> sent_;                    // the hop under way
  std::vector<std::vector<TimeSpan>> transfers_;  // that may overlap later waits
  int slowest_ = 0;                      // the rank that computed until last, in the last step
  int kv_hops_ = 0, gradient_hops_ = 0;  // of a rank
};

// Run a pass from where the ranks are. Return when the last one ends.
double Simulator::run_pass(Pass pass) {
  const Problem& job = account_.job();
  begin_ = now_;
  for (auto& way : link_free_) way = begin_;
  kv_hops_ = gradient_hops_ = 0;
  // Sizes are asked of the account: this problem has no rows, so no time is lost in counting them.
  Problem without_rows = job;
  without_rows.shape.seqlen = 0;
  without_rows.mask = {};
  without_rows.partition = PartitionKind::contiguous;
  if (in_step_) without_rows.kv_buffers = 2;
  const RingProblem empty = without_rows.ring_problem();
  RankMemory memory(without_rows, 0, nowhere_);
  if (pass == Pass::forward) {
    run_forward(job.scheme, *this, *this, empty, memory);
  } else {
    run_backward(job.scheme, *this, *this, empty, memory);
  }

  const int last = slowest(now_);
  for (int rank = 0; rank < n_; ++rank) {
    const StepInfo step{pass, n_ - 1, RingSchedule{rank, n_}.owner(n_ - 1), true};
    if (in_step_) idle_until(rank, now_[last], step, Payload::kv, last);
    account_.ended(rank, now_[rank].at);
    transfers_[rank].clear();
  }
  account_.hopped(kv_hops_, gradient_hops_);
  account_.end_pass();
  return now_[last].at;
}

Completion Simulator::exchange(const Exchange& hop, std::initializer_list<Completion> after) {
  (hop.payload == Payload::kv ? kv_hops_ : gradient_hops_) += 1;
  const auto moved = std::make_shared<SimulatedEnd>(begin_);
  std::vector<Moment>& ends = moved->ends;  // until the hops are known, when ranks are ready
  std::vector<Moment>& link_free = link_free_[static_cast<int>(hop.way)];
  // In step, all hops of a way end together, and computations have ended when the slowest has.
  Moment all_ready = later(now_[slowest_], link_free[0]);
  for (const Completion& earlier : after) {
    if (earlier == nullptr) continue;
    const auto& end = static_cast<const SimulatedEnd&>(*earlier);
    if (in_step_) {
      if (!end.awaited.empty()) all_ready = later(all_ready, end.ends[0]);
    } else {
      for (int rank = 0; rank < n_; ++rank) ends[rank] = later(ends[rank], end.ends[rank]);
    }
  }
  const int to_of_0 = hop.receiver(0, n_), from_of_0 = hop.sender(0, n_);
  for (int rank = 0; rank < n_; ++rank) {
    const int to = counterparts_[rank](to_of_0), owner = counterparts_[rank](hop.send_owner);
    Moment& end = link_free[rank];
    end = in_step_ ? all_ready : later(later(ends[rank], ends[to]), end);
    TimeSpan& span = sent_[rank];
    span.begin = end.at;
    const Hop mine{hop.payload, hop.step, rank, to, owner, account_.block_bytes(hop.payload, owner),
                   hop.way};
    end.at += account_.hop_seconds(mine);
    span.end = end.at;
    chains_.extend(end, to);
    account_.moved(mine, span);
  }
  const int last = slowest(link_free);
  moved->awaited.resize(n_);
  for (int rank = 0; rank < n_; ++rank) {
    const int to = counterparts_[rank](to_of_0), from = counterparts_[rank](from_of_0);
    note_transfer(rank, sent_[from]);
    note_transfer(rank, sent_[rank]);
    if (in_step_) continue;
    const Moment &in = link_free[from], &out = link_free[rank];
    ends[rank] = later(in, out);
    moved->awaited[rank] = out.at > in.at ? to : from;
  }
  if (in_step_) {
    const Moment end = link_free[last];
    ends.assign(n_, end);
    link_free.assign(n_, end);
    moved->awaited.assign(n_, last);
    moved->awaited[last] = counterparts_[last](from_of_0);
  }
  return moved;
}

Completion Simulator::compute(const StepInfo& step, const Completion& after) {
  wait_out(step, Payload::kv, after);
  double all_pairs = 0, most_pairs = 0;
  slowest_ = 0;
  for (int rank = 0; rank < n_; ++rank) {
    const int owner = counterparts_[rank](step.kv_owner);
    const Computation computation = account_.computation(rank, step.step, owner);
    Moment& now = now_[rank];
    account_.computed(rank, step.step, owner, now.at, computation);
    now.at += computation.seconds;
    now.compute_s += computation.seconds;
    chains_.extend(now, rank);
    if (now.at > now_[slowest_].at) slowest_ = rank;
    all_pairs += computation.pairs;
    most_pairs = std::max(most_pairs, computation.pairs);
  }
  if (step.pass == Pass::forward) account_.step_of(all_pairs, most_pairs);
  return now();
}

// Let every rank wait for its hop, if that is what it comes after.
void Simulator::wait_out(const StepInfo& step, Payload payload, const Completion& after) {
  if (after == nullptr) return;
  auto& hop = static_cast<SimulatedEnd&>(*after);
  // A computation came before in any case.
  if (hop.awaited.empty() || std::exchange(hop.was_awaited, true)) return;
  const Moment all_here = now_[slowest_];
  for (int rank = 0; rank < n_; ++rank) {
    const Moment& end = hop.ends[rank];
    const StepInfo mine{step.pass, step.step, counterparts_[rank](step.kv_owner), step.last};
    if (in_step_ && !(end.at > all_here.at)) {
      idle_until(rank, all_here, mine, payload, slowest_);
    } else {
      idle_until(rank, end, mine, payload, hop.awaited[rank]);
    }
  }
}

void Simulator::idle_until(int rank, const Moment& until, const StepInfo& step, Payload payload,
                           int awaited) {
  Moment& now = now_[rank];
  const TimeSpan gap{now.at, until.at};
  if (!(gap.end > gap.begin)) return;
  now = until;
  account_.exposed(rank, covered(gap, transfers_[rank]));
  forget_past(rank);
  account_.waited(rank, step.step, step.kv_owner, payload, gap, awaited);
}

void Simulator::note_transfer(int rank, TimeSpan span) {
  if (span.end <= now_[rank].at) return;
  std::vector<TimeSpan>& mine = transfers_[rank];
  if (!mine.empty() && mine.back().begin <= span.begin && span.begin <= mine.back().end) {
    mine.back().end = std::max(mine.back().end, span.end);
  } else {
    if (mine.size() == mine.capacity()) forget_past(rank);
    mine.push_back(span);
  }
}

void Simulator::forget_past(int rank) {
  const double now = now_[rank].at;
  std::erase_if(transfers_[rank], [now](TimeSpan span) { return span.end <= now; });
}

}  // namespace

void simulate_loop(Account& account, bool in_step, bool with_path) {
  Simulator(account, in_step, with_path).run();
}

}  // namespace ringscope
