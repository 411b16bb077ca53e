#include "core/sim/shared_cores.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <utility>

#include "core/base/error.h"
#include "core/cost/amounts.h"
#include "core/ring/loop_counts.h"

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
  SharedRun(const LoopGraph& graph, const TaskCosts& costs, int cores)
      : graph_(graph),
        costs_(costs),
        processors_(cores),
        times_(graph.tasks.size()),
        missing_(graph.tasks.size(), 0),
        followers_(graph.tasks.size()) {
    for (std::size_t i = 0; i < graph.tasks.size(); ++i)
      for (const auto* after : {&graph.tasks[i].after, &graph.tasks[i].posted_after}) {
        for (const std::int32_t earlier : *after)
          followers_[earlier].push_back(static_cast<std::int32_t>(i));
        missing_[i] += static_cast<std::int32_t>(after->size());
      }
  }

  std::vector<TaskTime> run() {
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
    return std::move(times_);
  }

 private:
  void begin(std::int32_t task) {
    const double seconds = costs_.seconds[task];
    times_[task].begin = processors_.now();
    if (graph_.tasks[task].is_hop() && !costs_.hops_take_processors) {
      links_.push({processors_.now() + seconds, task});
    } else {
      processors_.begin(task, seconds);
    }
  }
  void end(std::int32_t task) {
    times_[task].end = processors_.now();
    for (const std::int32_t follower : followers_[task])
      if (--missing_[follower] == 0) begin(follower);
  }

  const LoopGraph& graph_;
  const TaskCosts& costs_;
  SharedClock processors_;
  Ends links_;
  std::vector<TaskTime> times_;
  std::vector<std::int32_t> missing_;
  std::vector<std::vector<std::int32_t>> followers_;
};

}  // namespace

LoopTimes times_on_shared_cores(const LoopGraph& graph, const TaskCosts& costs, int cores) {
  if (cores < 1)
    throw InputError("cores: " + std::to_string(cores) + " given, at least 1 accepted");
  LoopTimes times{SharedRun(graph, costs, cores).run(), 0};
  for (std::size_t i = 0; i < times.tasks.size(); ++i)
    if (graph.tasks[i].pass == Pass::forward && !graph.tasks[i].is_hop())
      times.forward_s = std::max(times.forward_s, times.tasks[i].end);
  for (std::size_t i = 0; i < times.tasks.size(); ++i)
    if (graph.tasks[i].pass == Pass::backward) {
      times.tasks[i].begin -= times.forward_s;
      times.tasks[i].end -= times.forward_s;
    }
  return times;
}

std::vector<double> task_seconds(const LoopGraph& graph, Account& account) {
  std::vector<double> seconds(graph.tasks.size(), 0);
  for (const Pass pass : {Pass::forward, Pass::backward}) {
    account.begin_pass(pass, 0);
    for (std::size_t i = 0; i < seconds.size(); ++i) {
      const LoopTask& task = graph.tasks[i];
      if (task.pass != pass) continue;
      if (task.kind == LoopTask::Kind::attend) seconds[i] = computation_of(account, task).seconds;
      if (task.is_hop()) seconds[i] = account.hop_seconds(hop_of(task));
    }
  }
  account.begin_pass(Pass::forward, 0);
  return seconds;
}

Simulation simulate_on_shared_cores(const SimulationRequest& request, const Work& work,
                                    const Machine& machine) {
  if (request.job.scheme == Scheme::ring && request.pace == Pace::in_step)
    throw InputError("cores: ranks that share them are in no step; accepted: with buffers");
  Account account(request, work, machine);
  const LoopGraph graph =
      graph_of_loops(request.job, is_plain(request.job) ? Granularity{} : account.granularity());
  const TaskCosts costs = machine.cpu != nullptr ? cpu_costs(graph, request.job, *machine.cpu)
                                                 : TaskCosts{task_seconds(graph, account), false};
  const bool follows_gpus = machine.cores == 0 && !is_plain(request.job);
  const int cores = follows_gpus ? machine.world_size : machine.cores;
  write_results(account, graph, times_on_shared_cores(graph, costs, cores), request.with_path);
  return std::move(account.result);
}

TaskCosts cpu_costs(const LoopGraph& graph, const Problem& job, const CpuFigures& figures) {
  const AttentionShape& shape = job.shape;
  const double query_heads = row_values(shape, 1);
  const double kv_heads = query_heads / static_cast<double>(shape.group_size());
  const Mask mask = job.mask.for_seqlen(shape.seqlen);
  const Partition partition = job.partition_of_sequence();
  const auto n = static_cast<std::size_t>(job.world_size);

  std::vector<TileAmounts> amounts;  // [rank][owner]
  amounts.reserve(n * n);
  for (int rank = 0; rank < job.world_size; ++rank)
    for (int owner = 0; owner < job.world_size; ++owner)
      amounts.push_back(tile_amounts({mask, partition.rows_of(rank), partition.rows_of(owner)}));

  const auto attend = [&](const LoopTask& task) {
    const KernelFigures& kernel = figures.kernel(task.pass);
    const TileAmounts& block = amounts[static_cast<std::size_t>(task.rank) * n + task.owner];
    return kernel.seconds(block, query_heads, kv_heads);
  };
  const auto rows_of = [&](int rank) {
    return static_cast<double>(partition.rows_of(rank).size());
  };
  TaskCosts costs{std::vector<double>(graph.tasks.size(), 0), true};
  for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
    using Kind = LoopTask::Kind;
    const LoopTask& task = graph.tasks[i];
    double& seconds = costs.seconds[i];
    switch (task.kind) {
      case Kind::await:
        break;
      case Kind::begin:
        seconds = task.pass == Pass::forward ? figures.start_s : 0;
        break;
      case Kind::attend:
        seconds = attend(task);
        break;
      case Kind::add:
        seconds = figures.add_s * 2 * kv_values(shape, rows_of(task.owner));
        break;
      case Kind::finish:
        seconds = figures.kernel(task.pass).value_s * query_values(shape, rows_of(task.rank));
        break;
      case Kind::hop:
        seconds = figures.hops.hop_s + figures.hops.byte_s * task.bytes;
        break;
    }
  }
  return costs;
}

}  // namespace ringscope
