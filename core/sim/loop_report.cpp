#include "core/sim/loop_report.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace ringscope {
namespace {

using Kind = LoopTask::Kind;

// How much of `transfers`, as a union, lies outside of `computing`. The latter in order, without
// overlaps.
double time_outside(std::vector<TimeSpan> transfers, const std::vector<TimeSpan>& computing) {
  std::sort(transfers.begin(), transfers.end(),
            [](const TimeSpan& a, const TimeSpan& b) { return a.begin < b.begin; });
  double outside = 0, until = 0;
  bool is_first = true;
  std::size_t next = 0;  // the first computation that may still overlap
  for (const TimeSpan& span : transfers) {
    double from = is_first ? span.begin : std::max(span.begin, until);
    is_first = false;
    if (from >= span.end) continue;
    until = span.end;
    while (next < computing.size() && computing[next].end <= from) ++next;
    for (std::size_t i = next; i < computing.size() && computing[i].begin < span.end; ++i) {
      outside += std::max(0.0, computing[i].begin - from);
      from = std::max(from, std::min(computing[i].end, span.end));
    }
    outside += std::max(0.0, span.end - from);
  }
  return outside;
}

class PassBooks {
 public:
  PassBooks(Account& account, const LoopGraph& graph, const LoopTimes& times)
      : account_(account), graph_(graph), times_(times) {}

  // Returns the end of the slowest rank.
  double keep() {
    const auto n = static_cast<std::size_t>(graph_.world_size);
    std::vector<std::vector<TimeSpan>> transfers(n), computing(n);
    std::vector<double> idle_since(n, 0);
    double end = 0;
    int hops_of_rank_0 = 0, steps_of_hops = 0;
    for (std::size_t i = 0; i < graph_.tasks.size(); ++i) {
      const LoopTask& task = graph_.tasks[i];
      if (task.pass != account_.pass()) continue;
      const TimeSpan span{times_.tasks[i].begin, times_.tasks[i].end};
      const auto rank = static_cast<std::size_t>(task.rank);
      if (task.is_hop()) {
        const int receiver = (task.rank + 1) % graph_.world_size;
        account_.moved({task.payload, task.step, task.rank, receiver, task.owner, task.bytes},
                       span);
        transfers[rank].push_back(span);
        transfers[static_cast<std::size_t>(receiver)].push_back(span);
        hops_of_rank_0 += task.rank == 0 ? 1 : 0;
        steps_of_hops = std::max(steps_of_hops, task.step + 1);
        continue;
      }
      if (task.kind == Kind::begin) idle_since[rank] = span.begin;
      account_.waited(task.rank, task.step, task.owner, task.payload,
                      {idle_since[rank], span.begin}, awaited_by(task));
      if (task.kind == Kind::attend) {
        const double pairs = account_.computation(task.rank, task.step, task.owner).pairs;
        account_.computed(task.rank, task.step, task.owner, span.begin, {pairs, span.seconds()});
        computing[rank].push_back(span);
      }
      if (task.kind == Kind::finish) account_.ended(task.rank, span.end);
      idle_since[rank] = span.end;
      end = std::max(end, span.end);
    }
    for (std::size_t r = 0; r < n; ++r)
      account_.exposed(static_cast<int>(r), time_outside(std::move(transfers[r]), computing[r]));
    // In a ring a block and its gradient move on at the end of one step.
    const bool is_ring = account_.job().scheme == JobScheme::ring;
    account_.hopped(is_ring ? steps_of_hops : hops_of_rank_0);
    return end;
  }

 private:
  // Of the ends of a hop, whose half came last.
  int awaited_by(const LoopTask& task) const {
    int awaited = task.rank;
    double latest = 0;
    for (const std::int32_t earlier : task.after) {
      const LoopTask& hop = graph_.tasks[static_cast<std::size_t>(earlier)];
      const double end = times_.tasks[static_cast<std::size_t>(earlier)].end;
      if (!hop.is_hop() || (awaited != task.rank && end <= latest)) continue;
      awaited = hop.rank == task.rank ? (task.rank + 1) % graph_.world_size : hop.rank;
      latest = end;
    }
    return awaited;
  }

  Account& account_;
  const LoopGraph& graph_;
  const LoopTimes& times_;
};

void count_steps(Account& account) {
  const int n = account.world_size();
  for (int step = 0; step < n; ++step) {
    double all = 0, slowest = 0;
    for (int rank = 0; rank < n; ++rank) {
      const int owner = rank >= step ? rank - step : rank - step + n;
      const double pairs = account.computation(rank, step, owner).pairs;
      all += pairs;
      slowest = std::max(slowest, pairs);
    }
    account.step_of(all, slowest);
  }
}

// Back from the task that ends last, each time to the one that was waited for longest.
CriticalPath path_of(const LoopGraph& graph, const LoopTimes& times) {
  const auto absolute = [&](std::size_t task, double time) {
    return graph.tasks[task].pass == Pass::forward ? time : times.forward_s + time;
  };
  const auto end_of = [&](std::size_t task) { return absolute(task, times.tasks[task].end); };
  CriticalPath path;
  std::vector<bool> seen(static_cast<std::size_t>(graph.world_size), false);
  std::size_t task = 0;
  for (std::size_t i = 0; i < graph.tasks.size(); ++i)
    if (end_of(i) > end_of(task)) task = i;
  for (;;) {
    const LoopTask& here = graph.tasks[task];
    const double seconds = times.tasks[task].end - times.tasks[task].begin;
    (here.is_hop() ? path.hop_s : path.compute_s) += seconds;
    if (!seen[static_cast<std::size_t>(here.rank)]) path.ranks.push_back(here.rank);
    seen[static_cast<std::size_t>(here.rank)] = true;
    const std::size_t none = graph.tasks.size();
    std::size_t latest = none;
    for (const auto* after : {&here.after, &here.posted_after})
      for (const std::int32_t earlier : *after) {
        const auto e = static_cast<std::size_t>(earlier);
        // Rounding apart, the one whose end is this one's beginning.
        if (end_of(e) > absolute(task, times.tasks[task].begin) && graph.tasks[e].pass == here.pass)
          continue;
        if (latest == none || end_of(e) > end_of(latest)) latest = e;
      }
    if (latest == none) return path;
    task = latest;
  }
}

}  // namespace

void keep_books(Account& account, const LoopGraph& graph, const LoopTimes& times, bool with_path) {
  PassBooks books(account, graph, times);
  account.begin_pass(Pass::forward, 0);
  count_steps(account);
  account.result.forward_s = books.keep();
  if (account.job().backward) {
    account.begin_pass(Pass::backward, times.forward_s);
    account.result.backward_s = books.keep();
  }
  if (with_path) account.result.path = path_of(graph, times);
}

}  // namespace ringscope
