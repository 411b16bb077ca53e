#include "core/tools/sim/evaluate.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>
#include <queue>
#include <utility>

namespace ringscope {

namespace {

// Ends of tasks, the earliest first and, at equal times, the lowest task first.
using End = std::pair<double, std::int32_t>;
using Ends = std::priority_queue<End, std::vector<End>, std::greater<>>;

// The processors. All tasks get an equal share, so the order of their ends does not change when
// others come and go. The clock `now_ - behind_` runs at the rate of a task's share of a processor.
// By that clock every task takes its own seconds.
class SharedClock {
 public:
  explicit SharedClock(int cores) : cores_(cores) {}

  double now() const { return now_; }
  bool is_idle() const { return ends_.empty(); }

  void begin(std::int32_t task, double seconds) { ends_.push({now_ - behind_ + seconds, task}); }
  // Return when the next task ends if nothing changes until then.
  double next_end() const { return when(ends_.top().first); }
  // Advance to `time`, at most next_end().
  void go_to(double time) {
    const double share = share_of_task();
    if (share < 1) behind_ += (time - now_) * (1 - share);
    now_ = time;
  }
  // Advance to next_end(). Return the task that ends there.
  std::int32_t end_next() {
    const auto [end, task] = ends_.top();
    const double time = when(end);
    if (share_of_task() < 1) behind_ = time - end;
    now_ = time;
    ends_.pop();
    return task;
  }

 private:
  double share_of_task() const {
    const auto tasks = static_cast<double>(ends_.size());
    return tasks <= cores_ ? 1 : cores_ / tasks;
  }
  double when(double end) const {
    const double share = share_of_task();
    if (share == 1) return std::max(now_, end + behind_);
    return now_ + std::max(0.0, end - (now_ - behind_)) / share;
  }

  int cores_;
  double now_ = 0;
  double behind_ = 0;  // how far this clock lags behind
  Ends ends_;          // by this clock
};

class SharedRun {
 public:
  SharedRun(const TaskGraph& graph, const std::vector<double>& seconds,
            const Processors& processors, TaskTimes& times)
      : graph_(graph),
        seconds_(seconds),
        hops_take_processors_(processors.move_blocks),
        processors_(processors.count),
        times_(times),
        missing_(graph.tasks.size(), 0),
        follower_begins_(graph.tasks.size() + 1, 0),
        followers_(graph.edges.size()) {
    for (const std::int32_t earlier : graph.edges) ++follower_begins_[earlier + 1];
    std::partial_sum(follower_begins_.begin(), follower_begins_.end(), follower_begins_.begin());
    std::vector<std::uint32_t> next = follower_begins_;
    for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
      missing_[i] = static_cast<std::int32_t>(graph.earlier(i).size());
      for (const std::int32_t earlier : graph.earlier(i))
        followers_[next[earlier]++] = static_cast<std::int32_t>(i);
    }
  }

  void run() {
    for (std::size_t i = 0; i < missing_.size(); ++i)
      if (missing_[i] == 0) begin(static_cast<std::int32_t>(i));
    while (!processors_.is_idle() || !links_.empty()) {
      const bool is_hop = processors_.is_idle() ||
                          (!links_.empty() && links_.top().first <= processors_.next_end());
      if (is_hop) {
        const auto [time, hop] = links_.top();
        links_.pop();
        processors_.go_to(time);
        end(hop);
      } else {
        end(processors_.end_next());
      }
    }
  }

 private:
  void begin(std::int32_t task) {
    times_.begin[task] = processors_.now();
    if (graph_.tasks[task].is_hop() && !hops_take_processors_) {
      links_.push({processors_.now() + seconds_[task], task});
    } else {
      processors_.begin(task, seconds_[task]);
    }
  }
  void end(std::int32_t task) {
    times_.end[task] = processors_.now();
    for (std::uint32_t i = follower_begins_[task]; i < follower_begins_[task + 1]; ++i)
      if (--missing_[followers_[i]] == 0) begin(followers_[i]);
  }

  const TaskGraph& graph_;
  const std::vector<double>& seconds_;
  bool hops_take_processors_;
  SharedClock processors_;
  Ends links_;
  TaskTimes& times_;
  std::vector<std::int32_t> missing_;
  std::vector<std::uint32_t> follower_begins_;
  std::vector<std::int32_t> followers_;
};

void take_end(const Task& task, double end, TaskTimes& times) {
  double& pass_s = task.pass == Pass::forward ? times.forward_s : times.backward_s;
  if (!task.is_hop()) pass_s = std::max(pass_s, end);
}

void follow(const TaskGraph& graph, const std::vector<double>& seconds, TaskTimes& times) {
  for (std::size_t k = 0; k < graph.tasks.size(); ++k) {
    const std::size_t i = graph.order.empty() ? k : static_cast<std::size_t>(graph.order[k]);
    const Task& task = graph.tasks[i];
    bool is_first = true;
    double begin = 0;
    for (const std::int32_t earlier : graph.earlier(i)) {
      const bool crosses = graph.tasks[earlier].pass != task.pass;
      const double end = times.end[earlier] - (crosses ? times.forward_s : 0);
      begin = is_first ? end : std::max(begin, end);
      is_first = false;
    }
    times.begin[i] = begin;
    times.end[i] = begin + seconds[i];
    take_end(task, times.end[i], times);
  }
}

// Return the task that `task` waited for last, the first of several; none if it waited for none.
std::optional<std::size_t> latest_before(const TaskGraph& graph, const TaskTimes& times,
                                         std::size_t task, bool only_hops = false) {
  const Pass pass = graph.tasks[task].pass;
  const auto end_of = [&](std::size_t earlier) {
    return times.end[earlier] - (graph.tasks[earlier].pass != pass ? times.forward_s : 0);
  };
  std::optional<std::size_t> latest;
  for (const std::int32_t number : graph.earlier(task)) {
    const auto earlier = static_cast<std::size_t>(number);
    const Task::Kind kind = graph.tasks[earlier].kind;
    if (only_hops && kind != Task::Kind::hop && kind != Task::Kind::meeting) continue;
    if (!latest || end_of(earlier) > end_of(*latest)) latest = earlier;
  }
  return latest;
}

}  // namespace

TaskTimes evaluate(const TaskGraph& graph, const std::vector<double>& seconds,
                   const Processors& processors) {
  TaskTimes times{std::vector<double>(graph.tasks.size()), std::vector<double>(graph.tasks.size())};
  if (processors.count == 0) {
    follow(graph, seconds, times);
    return times;
  }
  SharedRun(graph, seconds, processors, times).run();
  for (std::size_t i = 0; i < graph.tasks.size(); ++i)
    if (graph.tasks[i].pass == Pass::forward) take_end(graph.tasks[i], times.end[i], times);
  for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
    if (graph.tasks[i].pass == Pass::forward) continue;
    times.begin[i] -= times.forward_s;
    times.end[i] -= times.forward_s;
    take_end(graph.tasks[i], times.end[i], times);
  }
  return times;
}

// Follow the path back from the task that ends last, always to the earlier task that ended last.
CriticalPath critical_path(const TaskGraph& graph, const TaskTimes& times) {
  const auto end_of = [&](std::size_t task) {
    return times.end[task] + (graph.tasks[task].pass == Pass::forward ? 0 : times.forward_s);
  };
  CriticalPath path;
  std::vector<bool> seen(static_cast<std::size_t>(graph.world_size), false);
  std::optional<std::size_t> here = 0;
  for (std::size_t i = 0; i < graph.tasks.size(); ++i)
    if (!graph.tasks[i].is_hop() && end_of(i) > end_of(*here)) here = i;
  for (; here; here = latest_before(graph, times, *here)) {
    const Task& task = graph.tasks[*here];
    const bool is_work = task.is_hop() || task.kind == Task::Kind::attend;
    if (!is_work && !(times.seconds(*here) > 0)) continue;
    if (task.is_hop()) path.hop_s += times.seconds(*here);
    // A hop is its receiver's who waits for it, but the slowest sender's in an all-to-all.
    const int rank = task.is_message() && !graph.hops_end_together ? task.to : task.rank;
    if (!seen[static_cast<std::size_t>(rank)]) path.ranks.push_back(rank);
    seen[static_cast<std::size_t>(rank)] = true;
  }
  path.compute_s = times.wall_s() - path.hop_s;
  return path;
}

int awaited_by(const TaskGraph& graph, const TaskTimes& times, std::size_t task) {
  const int rank = graph.tasks[task].rank;
  std::optional<std::size_t> latest = latest_before(graph, times, task, true), meeting;
  while (latest && graph.tasks[*latest].kind == Task::Kind::meeting)
    latest = latest_before(graph, times, *(meeting = latest));
  if (!latest) return rank;
  const Task& awaited = graph.tasks[*latest];
  if (!awaited.is_message() || awaited.rank != rank) return awaited.rank;
  // Of ranks in step whose hops end together, each waits for what it receives.
  for (std::size_t i = 0; meeting && i < graph.earlier(*meeting).size(); ++i)
    if (const Task& hop = graph.tasks[static_cast<std::size_t>(graph.earlier(*meeting)[i])];
        hop.to == rank)
      return hop.rank;
  return awaited.to;
}

}  // namespace ringscope
