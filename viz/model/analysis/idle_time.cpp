#include "viz/model/analysis/idle_time.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "viz/model/analysis/dependencies.h"
#include "viz/model/analysis/training_step.h"

// Ranks' time is cut into pieces by what it is lost to. A piece of waiting for a rank that waits
// itself names that rank instead of a heading, because the reason changes with time. One sweep over
// the pieces of all ranks in order of time follows it and adds up the headings. A chain of ranks that
// wait for each other costs one visit per change of heading, not one per piece.

namespace ringscope::viz {

namespace {

// An IdlePiece lasts from `begin_ns` until the rank's next piece.
struct IdlePiece {
  std::int64_t begin_ns = 0;
  int rank = 0;
  int follows = -1;  // if >= 0, the waiting rank whose heading counts instead of `heading`
  Heading heading = Heading::overhead;
};

// Work is what one rank has to compute, for comparing it with another.
struct Work {
  std::int64_t pairs = 0;                // in all
  std::vector<std::int64_t> time_up_to;  // durations of compute slices, up to and including each
  std::vector<std::pair<std::int64_t, std::int64_t>> by_step;  // (step on the axis, pairs up to it)
  std::int64_t end_ns = 0;                                     // end of the last slice
};

std::int64_t step_key(const Slice& slice) {
  return (slice.pass == Pass::backward ? std::int64_t{1} << 32 : 0) + slice.step;
}

Work work_of(const std::vector<Slice>& computes, std::int64_t begin_ns) {
  Work work;
  work.end_ns = begin_ns;
  std::int64_t time = 0;
  for (const Slice& slice : computes) {
    work.pairs = saturating_sum(work.pairs, slice.pairs);
    work.time_up_to.push_back(time += slice.duration_ns());
    work.by_step.emplace_back(step_key(slice), slice.pairs);
    work.end_ns = slice.end_ns;
  }
  std::sort(work.by_step.begin(), work.by_step.end());
  std::int64_t sum = 0;
  for (auto& [step, up_to] : work.by_step) up_to = sum = saturating_sum(sum, up_to);
  return work;
}

// Return the pairs of all steps up to and including `step`, and of that step alone.
std::pair<std::int64_t, std::int64_t> pairs_at(const Work& work, std::int64_t step) {
  const auto sum_before = [&](std::int64_t key) -> std::int64_t {
    const auto at = std::partition_point(work.by_step.begin(), work.by_step.end(),
                                         [key](const auto& x) { return x.first < key; });
    return at == work.by_step.begin() ? 0 : std::prev(at)->second;
  };
  const std::int64_t sum = sum_before(step + 1);
  return {sum, sum - sum_before(step)};
}

// Return `part` / `whole` of `ns`, for 0 <= part <= whole.
std::int64_t scaled(std::int64_t ns, std::int64_t part, std::int64_t whole) {
  if (whole <= 0) return 0;
  return static_cast<std::int64_t>(static_cast<long double>(ns) * static_cast<long double>(part) /
                                   static_cast<long double>(whole));
}

// Makes all ranks' pieces by time. Each rank's cover the whole recording.
class Pieces {
 public:
  explicit Pieces(const Trace& trace) : trace_(trace), dependencies_(trace) {
    for (int rank = 0; rank < ranks(); ++rank)
      work_.push_back(work_of(dependencies_.slices(rank, RingLane::compute), trace.begin_ns));
  }

  std::vector<IdlePiece> all() {
    for (int rank = 0; rank < ranks(); ++rank) cut_rank(rank);
    std::stable_sort(pieces_.begin(), pieces_.end(), [](const IdlePiece& a, const IdlePiece& b) {
      return a.begin_ns < b.begin_ns;
    });
    return std::move(pieces_);
  }

 private:
  int ranks() const { return static_cast<int>(trace_.ranks.size()); }
  bool is_rank(int rank) const { return rank >= 0 && rank < ranks(); }
  const Work& work(int rank) const { return work_[static_cast<std::size_t>(rank)]; }

  // Add a piece. Pieces of a rank come in order of time, and empty ones are dropped.
  void add(std::int64_t begin, std::int64_t end, int rank, Heading heading, int follows = -1) {
    if (begin < end) pieces_.push_back({begin, rank, follows, heading});
  }

  void cut_rank(int rank) {
    const std::vector<Slice>& computes = dependencies_.slices(rank, RingLane::compute);
    const std::vector<Slice>& waits = dependencies_.slices(rank, RingLane::wait);
    std::int64_t now = trace_.begin_ns;
    std::size_t wait = 0;
    peer_compute_ = peer_wait_ = recv_ = 0;
    at_ring_.clear();
    if (trace_.has_model()) at_ring_ = ring_stretches(trace_, rank);
    const auto fill_until = [&](std::int64_t until) {
      for (; wait < waits.size() && waits[wait].begin_ns < until; ++wait) {
        const std::int64_t begin = std::max(now, waits[wait].begin_ns);
        const std::int64_t end = std::min(waits[wait].end_ns, until);
        add_rest(now, begin, rank);
        now = begin;
        if (begin < end) cut_wait(rank, waits[wait], begin, end);
        now = std::max(now, end);
        if (waits[wait].end_ns > until) return;  // it goes on after the compute slice
      }
      add_rest(now, until, rank);
      now = std::max(now, until);
    };
    for (const Slice& slice : computes) {
      fill_until(slice.begin_ns);
      add(slice.begin_ns, slice.end_ns, rank, Heading::compute);
      now = std::max(now, slice.end_ns);
    }
    fill_until(std::max(now, waits.empty() ? now : waits.back().end_ns));
    if (trace_.has_model()) {
      add_rest(now, trace_.end_ns, rank);
    } else {
      cut_tail(rank, now);
    }
  }

  // [begin, end): add the time in which `rank` neither attends nor waits. Outside the ring of a
  // training step it computes the rest of the model or takes part in adding up gradients.
  void add_rest(std::int64_t begin, std::int64_t end, int rank) {
    for (const Stretch& ring : at_ring_) {
      add_elsewhere(begin, std::min(end, ring.begin_ns), rank);
      begin = std::max(begin, std::min(end, ring.begin_ns));
      add(begin, std::min(end, ring.end_ns), rank, Heading::overhead);
      begin = std::max(begin, std::min(end, ring.end_ns));
    }
    if (trace_.has_model()) {
      add_elsewhere(begin, end, rank);
    } else {
      add(begin, end, rank, Heading::overhead);
    }
  }

  void add_elsewhere(std::int64_t begin, std::int64_t end, int rank) {
    const std::vector<Slice>& parts = model_slices(trace_, rank);
    for (std::size_t i = advanced(parts, 0, begin); i < parts.size(); ++i) {
      if (parts[i].begin_ns >= end) break;
      if (parts[i].kind != Kind::communication) continue;
      add(begin, parts[i].begin_ns, rank, Heading::compute);
      begin = std::max(begin, parts[i].begin_ns);
      add(begin, std::min(end, parts[i].end_ns), rank, Heading::link);
      begin = std::max(begin, std::min(end, parts[i].end_ns));
    }
    add(begin, end, rank, Heading::compute);
  }

  // Cut a wait hop by hop, because its block comes after all that the link still has to bring.
  void cut_wait(int rank, const Slice& wait, std::int64_t begin, std::int64_t end) {
    const std::vector<Slice>& recvs = dependencies_.slices(rank, RingLane::recv);
    const std::optional<std::uint32_t> awaited = dependencies_.awaited(rank, wait);
    if (!awaited) {
      cut_pending(rank, wait.peer, begin, end);
      return;
    }
    while (recv_ < recvs.size() && recvs[recv_].end_ns <= begin) ++recv_;
    for (std::size_t i = recv_; i <= *awaited && begin < end; ++i) {
      const Transfer transfer = transfer_of(trace_, recvs[i]);
      const auto until = [&](std::int64_t ns) {
        const std::int64_t from = begin;
        begin = std::max(begin, std::min(ns, end));
        return std::pair(from, begin);
      };
      const std::optional<std::int64_t> ready =
          is_rank(transfer.src) ? dependencies_.ready_ns(transfer.src, recvs[i]) : std::nullopt;
      const auto [blocked, free] =
          until(std::min(ready.value_or(transfer.begin_ns), transfer.begin_ns));
      cut_pending(rank, transfer.src, blocked, free);
      // From here on the sender could send.
      const auto [both_away, one_there] =
          until(std::min(transfer.send_begin_ns, transfer.recv_begin_ns));
      add(both_away, one_there, rank, Heading::overhead);
      const auto [alone, both_there] = until(transfer.begin_ns);
      add(alone, both_there, rank,
          transfer.recv_begin_ns < transfer.send_begin_ns ? Heading::late : Heading::overhead);
      const auto [under_way, arrived] = until(transfer.end_ns);
      add(under_way, arrived, rank, Heading::link);
    }
    cut_rest(rank, wait.peer, begin, end);
  }

  // [begin, end): cut up the time in which `rank` waits on although its block is there. In a
  // simulation in step that is for the slowest rank or hop, whose sender the wait names.
  void cut_rest(int rank, int peer, std::int64_t begin, std::int64_t end) {
    if (begin >= end) return;
    if (trace_.run->backend != "sim" || !is_rank(peer) || peer == rank)
      return add(begin, end, rank, Heading::overhead);
    const std::vector<Slice>& sends = dependencies_.slices(peer, RingLane::send);
    for (std::size_t i = advanced(sends, 0, begin); i < sends.size() && begin < end; ++i) {
      if (sends[i].begin_ns >= end) break;
      cut_pending(rank, peer, begin, sends[i].begin_ns);
      begin = std::max(begin, sends[i].begin_ns);
      const std::int64_t until = std::min(end, sends[i].end_ns);
      add(begin, until, rank, Heading::link);
      begin = std::max(begin, until);
    }
    cut_pending(rank, peer, begin, end);
  }

  // [begin, end): cut up the time in which `rank` waits for `peer`, which is not ready to send.
  void cut_pending(int rank, int peer, std::int64_t begin, std::int64_t end) {
    if (begin >= end) return;
    if (!is_rank(peer) || peer == rank) {
      add(begin, end, rank, Heading::late);
      return;
    }
    const std::vector<Slice>& computes = dependencies_.slices(peer, RingLane::compute);
    const std::vector<Slice>& waits = dependencies_.slices(peer, RingLane::wait);
    peer_compute_ = advanced(computes, peer_compute_, begin);
    peer_wait_ = advanced(waits, peer_wait_, begin);
    std::size_t compute = peer_compute_, wait = peer_wait_;
    while (begin < end) {
      while (compute < computes.size() && computes[compute].end_ns <= begin) ++compute;
      while (wait < waits.size() && waits[wait].end_ns <= begin) ++wait;
      const bool computing = compute < computes.size() && computes[compute].begin_ns <= begin;
      const bool waiting = wait < waits.size() && waits[wait].begin_ns <= begin;
      std::int64_t until = end;
      if (compute < computes.size())
        until = std::min(until, computing ? computes[compute].end_ns : computes[compute].begin_ns);
      if (computing) {
        const std::int64_t excess = std::clamp(excess_begin(rank, peer, compute), begin, until);
        add(begin, excess, rank, Heading::late);
        add(excess, until, rank, Heading::imbalance);
      } else {
        if (wait < waits.size())
          until = std::min(until, waiting ? waits[wait].end_ns : waits[wait].begin_ns);
        add(begin, until, rank, Heading::late, waiting ? peer : -1);
      }
      begin = until;
    }
  }

  // Return where to go on looking in a peer's slices. That is mostly a little further than last
  // time, but a wait may name another peer.
  static std::size_t advanced(const std::vector<Slice>& slices, std::size_t from,
                              std::int64_t begin) {
    if (from > slices.size() || (from > 0 && slices[from - 1].end_ns > begin)) from = 0;
    if (from < slices.size() && slices[from].end_ns > begin) return from;
    const auto at =
        std::partition_point(slices.begin() + static_cast<std::ptrdiff_t>(from), slices.end(),
                             [begin](const Slice& s) { return s.end_ns <= begin; });
    return static_cast<std::size_t>(at - slices.begin());
  }

  // Return when, within a compute slice of `peer`, it begins with its excess of pairs over `rank`:
  // the larger of that in this step and in all up to it. Excess pairs are assumed to come last.
  std::int64_t excess_begin(int rank, int peer, std::size_t compute) const {
    const Slice& slice = dependencies_.slices(peer, RingLane::compute)[compute];
    const auto [mine_up_to, mine] = pairs_at(work(rank), step_key(slice));
    const auto [peers_up_to, peers] = pairs_at(work(peer), step_key(slice));
    const std::int64_t excess =
        std::clamp<std::int64_t>(std::max(peers - mine, peers_up_to - mine_up_to), 0, slice.pairs);
    return slice.end_ns - scaled(slice.duration_ns(), excess, slice.pairs);
  }

  // Cut a rank's time after its last slice, from `begin` to the recording's end.
  void cut_tail(int rank, std::int64_t begin) {
    std::int64_t last = begin;
    std::vector<std::pair<std::int64_t, std::int64_t>> uneven;
    for (int peer = 0; peer < ranks(); ++peer) {
      if (peer == rank || work(peer).end_ns <= begin) continue;
      last = std::max(last, work(peer).end_ns);
      if (work(peer).pairs > work(rank).pairs)
        uneven.emplace_back(total_excess_begin(rank, peer), work(peer).end_ns);
    }
    std::sort(uneven.begin(), uneven.end());
    for (const auto& [from, to] : uneven) {
      add(begin, from, rank, Heading::late);
      begin = std::max(begin, from);
      add(begin, to, rank, Heading::imbalance);
      begin = std::max(begin, to);
    }
    add(begin, last, rank, Heading::late);
    add(last, trace_.end_ns, rank, Heading::overhead);
  }

  // Return when `peer` begins with its excess of pairs over `rank` in all, assumed to come last.
  std::int64_t total_excess_begin(int rank, int peer) const {
    const Work& theirs = work(peer);
    const std::int64_t total = theirs.time_up_to.back();
    const std::int64_t before =
        total - scaled(total, theirs.pairs - work(rank).pairs, theirs.pairs);
    const auto at = std::upper_bound(theirs.time_up_to.begin(), theirs.time_up_to.end(), before);
    if (at == theirs.time_up_to.end()) return theirs.end_ns;
    const Slice& slice = dependencies_.slices(
        peer, RingLane::compute)[static_cast<std::size_t>(at - theirs.time_up_to.begin())];
    return slice.end_ns - (*at - before);
  }

  const Trace& trace_;
  Dependencies dependencies_;
  std::vector<Work> work_;
  std::vector<IdlePiece> pieces_;
  std::vector<Stretch> at_ring_;  // when the rank of cut_rank is at the ring of a training step
  std::size_t peer_compute_ = 0, peer_wait_ = 0, recv_ = 0;  // how far cut_rank has come
};

// A table of ranks by ranks is left out beyond so many ranks.
constexpr std::size_t kMaxWaitTable = 2048;

using Totals = decltype(RankIdle::ns);

// A Sweep holds the headings of all ranks at one time, and moves on from piece to piece.
class Sweep {
 public:
  Sweep(std::size_t ranks, std::int64_t begin_ns) : states_(ranks), totals_(ranks) {
    for (State& state : states_) state.since_ns = begin_ns;
  }

  // Apply all pieces that begin at one time together, because none may see another's past.
  void apply(const IdlePiece* first, const IdlePiece* last) {
    const std::int64_t now = first->begin_ns;
    for (const IdlePiece* piece = first; piece != last; ++piece) leave(piece->rank);
    for (const IdlePiece* piece = first; piece != last; ++piece) {
      // Ranks that wait for each other in a circle contradict the order of hops.
      const bool circle = piece->follows >= 0 && leads_to(piece->follows, piece->rank);
      at(piece->rank).own = piece->heading;
      if (piece->follows >= 0 && !circle) follow(piece->rank, piece->follows);
    }
    for (const IdlePiece* piece = first; piece != last; ++piece) settle(piece->rank, now);
  }

  std::vector<Totals> totals(std::int64_t end_ns) {
    for (std::size_t rank = 0; rank < states_.size(); ++rank) count(static_cast<int>(rank), end_ns);
    return std::move(totals_);
  }

 private:
  struct State {
    Heading own = Heading::overhead;
    Heading heading = Heading::overhead;
    std::int64_t since_ns = 0;  // when `heading` began
    int follows = -1;
    int follower = -1, next = -1, previous = -1;  // list of the ranks that follow this one
  };
  State& at(int rank) { return states_[static_cast<std::size_t>(rank)]; }

  void leave(int rank) {
    State& state = at(rank);
    if (state.follows < 0) return;
    if (state.previous >= 0) at(state.previous).next = state.next;
    if (state.previous < 0) at(state.follows).follower = state.next;
    if (state.next >= 0) at(state.next).previous = state.previous;
    state.follows = state.next = state.previous = -1;
  }
  void follow(int rank, int other) {
    State& state = at(rank);
    state.follows = other;
    state.next = at(other).follower;
    if (state.next >= 0) at(state.next).previous = rank;
    at(other).follower = rank;
  }
  bool leads_to(int rank, int goal) {
    while (rank >= 0 && rank != goal) rank = at(rank).follows;
    return rank == goal;
  }

  void count(int rank, std::int64_t now) {
    State& state = at(rank);
    totals_[static_cast<std::size_t>(rank)][static_cast<std::size_t>(state.heading)] +=
        now - state.since_ns;
    state.since_ns = now;
  }

  // Bring the headings of `rank`, and of all that follow it, up to date.
  void settle(int rank, std::int64_t now) {
    open_.assign(1, rank);
    while (!open_.empty()) {
      const int next = open_.back();
      open_.pop_back();
      State& state = at(next);
      Heading heading = state.own;
      if (state.follows >= 0) {
        heading = at(state.follows).heading;
        if (heading == Heading::compute || heading == Heading::overhead) heading = Heading::late;
      }
      if (heading == state.heading) continue;
      count(next, now);
      state.heading = heading;
      for (int f = state.follower; f >= 0; f = at(f).next) open_.push_back(f);
    }
  }

  std::vector<State> states_;
  std::vector<Totals> totals_;
  std::vector<int> open_;
};

}  // namespace

double IdleReport::total_ns(Heading heading) const {
  double sum = 0;
  for (const RankIdle& rank : ranks) sum += static_cast<double>(rank[heading]);
  return sum;
}

int IdleReport::longest_waiting_rank() const {
  const auto longest =
      std::max_element(ranks.begin(), ranks.end(),
                       [](const RankIdle& a, const RankIdle& b) { return a.wait_ns < b.wait_ns; });
  if (longest == ranks.end() || longest->wait_ns == 0) return -1;
  return static_cast<int>(longest - ranks.begin());
}

int IdleReport::waited_for_most(int rank) const {
  if (rank < 0 || rank >= static_cast<int>(ranks.size())) return -1;
  const std::vector<std::int64_t>& by_rank = ranks[static_cast<std::size_t>(rank)].waited_for_ns;
  const auto most = std::max_element(by_rank.begin(), by_rank.end());
  return most == by_rank.end() || *most == 0 ? -1 : static_cast<int>(most - by_rank.begin());
}

IdleReport idle_of(const Trace& trace) {
  IdleReport report;
  if (!trace.is_ring()) return report;
  const std::vector<IdlePiece> pieces = Pieces(trace).all();
  Sweep sweep(trace.ranks.size(), trace.begin_ns);
  for (std::size_t i = 0; i < pieces.size();) {
    std::size_t end = i;
    while (end < pieces.size() && pieces[end].begin_ns == pieces[i].begin_ns) ++end;
    sweep.apply(&pieces[i], &pieces[i] + (end - i));
    i = end;
  }

  report.wall_ns = trace.wall_ns();
  for (const Totals& totals : sweep.totals(trace.end_ns)) report.ranks.emplace_back().ns = totals;
  const std::size_t ranks = trace.ranks.size();
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    RankIdle& rank_idle = report.ranks[rank];
    if (ranks <= kMaxWaitTable) rank_idle.waited_for_ns.resize(ranks);
    for (const Slice& wait : trace.slices_of(static_cast<int>(rank), RingLane::wait)) {
      rank_idle.wait_ns += wait.duration_ns();
      if (wait.peer >= 0 && static_cast<std::size_t>(wait.peer) < rank_idle.waited_for_ns.size())
        rank_idle.waited_for_ns[static_cast<std::size_t>(wait.peer)] += wait.duration_ns();
    }
  }
  return report;
}

}  // namespace ringscope::viz
