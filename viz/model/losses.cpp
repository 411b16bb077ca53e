#include "viz/model/losses.h"

#include <algorithm>
#include <array>
#include <utility>

#include "viz/model/loss_pieces.h"

// One sweep over the pieces of all ranks in order of time adds up their headings. A chain of ranks
// that wait for each other costs one visit a change of heading, not one a piece.

namespace ringscope::viz {

namespace {

// Beyond so many ranks, a table of ranks by ranks is left out.
constexpr std::size_t kMaxWaitTable = 2048;

using Totals = std::array<std::int64_t, kHeadingCount>;

// The headings of all ranks at one time, moved on from piece to piece.
class Sweep {
 public:
  Sweep(std::size_t ranks, std::int64_t begin_ns) : states_(ranks), totals_(ranks) {
    for (State& state : states_) state.since_ns = begin_ns;
  }

  // Pieces that begin at one time, together: none of them may see another's past.
  void apply(const LossPiece* first, const LossPiece* last) {
    const std::int64_t now = first->begin_ns;
    for (const LossPiece* piece = first; piece != last; ++piece) leave(piece->rank);
    for (const LossPiece* piece = first; piece != last; ++piece) {
      // Ranks that wait for each other in a circle contradict the order of hops.
      const bool circle = piece->follows >= 0 && leads_to(piece->follows, piece->rank);
      at(piece->rank).own = piece->heading;
      if (piece->follows >= 0 && !circle) follow(piece->rank, piece->follows);
    }
    for (const LossPiece* piece = first; piece != last; ++piece) settle(piece->rank, now);
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

  // Brings the headings of `rank`, and of all that follow it, up to date.
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

int LossReport::longest_waiting_rank() const {
  const auto longest =
      std::max_element(ranks.begin(), ranks.end(),
                       [](const RankLoss& a, const RankLoss& b) { return a.wait_ns < b.wait_ns; });
  if (longest == ranks.end() || longest->wait_ns == 0) return -1;
  return static_cast<int>(longest - ranks.begin());
}

int LossReport::waited_for_most(int rank) const {
  if (rank < 0 || rank >= static_cast<int>(ranks.size())) return -1;
  const std::vector<std::int64_t>& by_rank = ranks[static_cast<std::size_t>(rank)].waited_for_ns;
  const auto most = std::max_element(by_rank.begin(), by_rank.end());
  return most == by_rank.end() || *most == 0 ? -1 : static_cast<int>(most - by_rank.begin());
}

LossReport losses_of(const Trace& trace) {
  LossReport report;
  if (!trace.is_ring()) return report;
  const std::vector<LossPiece> pieces = loss_pieces(trace);
  Sweep sweep(trace.ranks.size(), trace.begin_ns);
  for (std::size_t i = 0; i < pieces.size();) {
    std::size_t end = i;
    while (end < pieces.size() && pieces[end].begin_ns == pieces[i].begin_ns) ++end;
    sweep.apply(&pieces[i], &pieces[i] + (end - i));
    i = end;
  }

  report.wall_ns = trace.wall_ns();
  for (const auto& total : sweep.totals(trace.end_ns)) {
    const auto of = [&](Heading heading) { return total[static_cast<std::size_t>(heading)]; };
    RankLoss& loss = report.ranks.emplace_back();
    loss.compute_ns = of(Heading::compute);
    loss.imbalance_ns = of(Heading::imbalance);
    loss.late_ns = of(Heading::late);
    loss.link_ns = of(Heading::link);
    loss.overhead_ns = of(Heading::overhead);
  }
  const std::size_t ranks = trace.ranks.size();
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    RankLoss& loss = report.ranks[rank];
    if (ranks <= kMaxWaitTable) loss.waited_for_ns.resize(ranks);
    for (const Slice& wait : trace.slices_of(static_cast<int>(rank), ringscope::Lane::wait)) {
      loss.wait_ns += wait.duration_ns();
      if (wait.peer >= 0 && static_cast<std::size_t>(wait.peer) < loss.waited_for_ns.size())
        loss.waited_for_ns[static_cast<std::size_t>(wait.peer)] += wait.duration_ns();
    }
  }
  return report;
}

}  // namespace ringscope::viz
