#include "viz/model/loss_pieces.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "viz/model/dependencies.h"
#include "viz/model/saturating.h"
#include "viz/model/training_step.h"

namespace ringscope::viz {

namespace {

// What one rank has to compute, for comparing it with another.
struct Work {
  std::int64_t pairs = 0;                // in all
  std::vector<std::int64_t> time_up_to;  // durations of compute slices, up to and with each
  std::vector<std::pair<std::int64_t, std::int64_t>> by_step;  // (step on the axis, pairs up to it)
  std::int64_t end_ns = 0;                                     // of the last one
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

// Pairs of all steps up to and with `step`, and of that step alone.
std::pair<std::int64_t, std::int64_t> pairs_at(const Work& work, std::int64_t step) {
  const auto sum_before = [&](std::int64_t key) -> std::int64_t {
    const auto at = std::partition_point(work.by_step.begin(), work.by_step.end(),
                                         [key](const auto& x) { return x.first < key; });
    return at == work.by_step.begin() ? 0 : std::prev(at)->second;
  };
  const std::int64_t sum = sum_before(step + 1);
  return {sum, sum - sum_before(step)};
}

// `part` / `whole` of `ns`, for 0 <= part <= whole.
std::int64_t scaled(std::int64_t ns, std::int64_t part, std::int64_t whole) {
  if (whole <= 0) return 0;
  return static_cast<std::int64_t>(static_cast<long double>(ns) * static_cast<long double>(part) /
                                   static_cast<long double>(whole));
}

class Pieces {
 public:
  explicit Pieces(const Trace& trace) : trace_(trace), dependencies_(trace) {
    for (int rank = 0; rank < ranks(); ++rank)
      work_.push_back(work_of(dependencies_.slices(rank, RingLane::compute), trace.begin_ns));
  }

  // All ranks' pieces by time; each rank's cover the whole recording.
  std::vector<LossPiece> all() {
    for (int rank = 0; rank < ranks(); ++rank) cut_rank(rank);
    std::stable_sort(pieces_.begin(), pieces_.end(), [](const LossPiece& a, const LossPiece& b) {
      return a.begin_ns < b.begin_ns;
    });
    return std::move(pieces_);
  }

 private:
  int ranks() const { return static_cast<int>(trace_.ranks.size()); }
  bool is_rank(int rank) const { return rank >= 0 && rank < ranks(); }
  const Work& work(int rank) const { return work_[static_cast<std::size_t>(rank)]; }

  // Pieces of a rank are added in order of time; one with nothing after it before the next is
  // worth nothing.
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
        if (waits[wait].end_ns > until) return;  // goes on after the compute slice
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

  // [begin, end), in which `rank` neither attends nor waits. Of a training step: outside of the ring
  // it computes the rest of the model, or takes part in adding up gradients.
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

  // A wait, hop by hop: what it is for comes after all that the rank's link still has to bring.
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
    add(begin, end, rank, Heading::overhead);
  }

  // [begin, end), in which `rank` waits for `peer`, which is not ready to send.
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

  // Where to go on looking in a peer's slices: mostly a little further than last time, but a wait
  // may name another peer.
  static std::size_t advanced(const std::vector<Slice>& slices, std::size_t from,
                              std::int64_t begin) {
    if (from > slices.size() || (from > 0 && slices[from - 1].end_ns > begin)) from = 0;
    if (from < slices.size() && slices[from].end_ns > begin) return from;
    const auto at =
        std::partition_point(slices.begin() + static_cast<std::ptrdiff_t>(from), slices.end(),
                             [begin](const Slice& s) { return s.end_ns <= begin; });
    return static_cast<std::size_t>(at - slices.begin());
  }

  // When, within a compute slice of `peer`, it begins with the pairs that it has more than `rank`,
  // in this step or in all up to it, whichever is more. They are taken to come last.
  std::int64_t excess_begin(int rank, int peer, std::size_t compute) const {
    const Slice& slice = dependencies_.slices(peer, RingLane::compute)[compute];
    const auto [mine_up_to, mine] = pairs_at(work(rank), step_key(slice));
    const auto [peers_up_to, peers] = pairs_at(work(peer), step_key(slice));
    const std::int64_t excess =
        std::clamp<std::int64_t>(std::max(peers - mine, peers_up_to - mine_up_to), 0, slice.pairs);
    return slice.end_ns - scaled(slice.duration_ns(), excess, slice.pairs);
  }

  // What a rank's time after its last slice is for: from `begin` to the recording's end.
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

  // When `peer` begins with the pairs that it has more than `rank` in all, taken to come last.
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
  std::vector<LossPiece> pieces_;
  std::vector<Stretch> at_ring_;  // of a training step: when the rank of cut_rank is
  std::size_t peer_compute_ = 0, peer_wait_ = 0, recv_ = 0;  // how far cut_rank has come
};

}  // namespace

std::vector<LossPiece> loss_pieces(const Trace& trace) { return Pieces(trace).all(); }

}  // namespace ringscope::viz
