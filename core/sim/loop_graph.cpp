#include "core/sim/loop_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "core/base/error.h"
#include "core/ring/forwarding_backend.h"
#include "core/ring/loop_counts.h"
#include "core/ring/problem.h"
#include "core/ring/schemes.h"

namespace ringscope {

namespace {

using TaskKind = LoopTask::Kind;

// Stands for a task that a rank asked for.
class AskedTask : public PendingOperation {
 public:
  explicit AskedTask(std::int32_t its_number) : number(its_number) {}
  bool done() const override { return false; }
  void wait() override {}
  TransferTimes times() const override { return {}; }

  const std::int32_t number;
};

// Writes down the tasks that one rank's loop asks for. They come after tasks of their own rank.
class LoopWriter : public Communicator, public IdleBackend {
 public:
  LoopWriter(std::vector<LoopTask>& tasks, const Problem& job, const Granularity& granularity,
             int rank)
      : tasks_(tasks),
        job_(job),
        granularity_(granularity),
        rank_(rank),
        share_(share_of_heads(job.shape, 1, 0)) {}

  int rank() const override { return rank_; }
  int world_size() const override { return job_.world_size; }
  Completion exchange(const Exchange& hop, std::initializer_list<Completion> after) override {
    const Completion written = write({.kind = TaskKind::hop,
                                      .pass = hop.pass,
                                      .payload = hop.payload,
                                      .step = hop.step,
                                      .owner = hop.send_owner,
                                      .bytes = static_cast<double>(hop.send_bytes),
                                      .way = hop.way,
                                      .to = hop.receiver(rank_, job_.world_size),
                                      .from = hop.sender(rank_, job_.world_size)},
                                     after);
    if (last_computed_ >= 0) tasks_.back().posted_after = {last_computed_};
    return written;
  }

  Completion attend(const StepInfo& step, const Region& region, const QueryBlock&, const KvBlock&,
                    const SoftmaxState&, const Completion& after) override {
    last_step_ = step.step;
    return compute(TaskKind::attend, step, after, work_of(region));
  }
  Completion attend_backward(const StepInfo& step, const Region& region, const QueryBlock&,
                             const KvBlock&, const BackwardState&, const KvGradient&,
                             const Completion& after) override {
    return compute(TaskKind::attend, step, after, work_of(region));
  }
  void use_heads(const HeadShare& share) override { share_ = share; }
  void await(const StepInfo& step, Payload payload, const Completion& after) override {
    if (after != nullptr) compute(TaskKind::await, step, after, {}, payload);
  }

 private:
  Completion around(BlockOperation which, const StepInfo* step, const Completion& after,
                    const Start&) override {
    switch (which) {
      case BlockOperation::begin:
        return compute(TaskKind::begin, {.kv_owner = rank_}, nullptr);
      case BlockOperation::begin_backward:
        return compute(TaskKind::begin, {.pass = Pass::backward, .kv_owner = rank_}, nullptr);
      case BlockOperation::finish:
        return compute(TaskKind::finish, {.step = last_step_, .kv_owner = rank_}, nullptr);
      case BlockOperation::finish_backward:
        return compute(TaskKind::finish, {step->pass, step->step, rank_, true}, after);
      default:
        return compute(TaskKind::add, *step, after);
    }
  }

  // Write a computation. It also comes after the one before it.
  Completion compute(TaskKind kind, const StepInfo& step, const Completion& after,
                     const WorkAmount& work = {}, Payload payload = Payload::kv) {
    if (kind == TaskKind::add || (kind == TaskKind::finish && after != nullptr))
      payload = Payload::dkv;
    const Completion written = write({.kind = kind,
                                      .pass = step.pass,
                                      .payload = payload,
                                      .step = step.step,
                                      .owner = step.kv_owner,
                                      .work = work},
                                     {after});
    if (last_computed_ >= 0) tasks_.back().after.push_back(last_computed_);
    last_computed_ = static_cast<std::int32_t>(tasks_.size()) - 1;
    return written;
  }

  Completion write(LoopTask task, std::initializer_list<Completion> after) {
    task.rank = rank_;
    for (const Completion& earlier : after)
      if (earlier != nullptr) task.after.push_back(static_cast<const AskedTask&>(*earlier).number);
    tasks_.push_back(std::move(task));
    return std::make_shared<AskedTask>(static_cast<std::int32_t>(tasks_.size()) - 1);
  }

  WorkAmount work_of(const Region& region) const {
    const auto part =
        static_cast<double>(share_.num_heads) / static_cast<double>(job_.shape.num_heads);
    const double pairs = part * static_cast<double>(region.pairs());
    if (granularity_.rows == 1 && granularity_.keys == 1) return {pairs, pairs};
    return {pairs, part * static_cast<double>(computed_pairs(region, granularity_))};
  }

  std::vector<LoopTask>& tasks_;
  const Problem& job_;
  Granularity granularity_;
  int rank_;
  HeadShare share_;
  int last_step_ = 0;
  std::int32_t last_computed_ = -1;
};

// Join the ranks' tasks `own`: a hop comes after what either of its ends comes after.
std::vector<LoopTask> joined(const std::vector<LoopTask>& own, int world_size) {
  std::vector<std::vector<std::int32_t>> hops(world_size);  // [rank][hop]: its task
  std::vector<std::size_t> hop_of(own.size());
  for (std::size_t i = 0; i < own.size(); ++i) {
    if (!own[i].is_hop()) continue;
    hop_of[i] = hops[own[i].rank].size();
    hops[own[i].rank].push_back(static_cast<std::int32_t>(i));
  }
  std::vector<LoopTask> tasks = own;
  for (std::size_t i = 0; i < own.size(); ++i) {
    LoopTask& task = tasks[i];
    const auto add_side = [&](const LoopTask& side) {
      for (const std::int32_t earlier : side.after) {
        task.after.push_back(earlier);
        // A hop ends by both halves, so also wait for the sender's hop of the same number.
        const LoopTask& awaited = own[earlier];
        if (awaited.is_hop()) task.after.push_back(hops[awaited.from].at(hop_of[earlier]));
      }
      task.posted_after.insert(task.posted_after.end(), side.posted_after.begin(),
                               side.posted_after.end());
    };
    task.after.clear();
    task.posted_after.clear();
    add_side(own[i]);
    if (!task.is_hop()) continue;
    add_side(own[hops[task.to].at(hop_of[i])]);
    const auto& before = hops[task.rank];
    for (std::size_t hop = hop_of[i]; hop-- > 0;)
      if (own[before[hop]].way == task.way) {
        task.after.push_back(before[hop]);
        break;
      }
  }
  return tasks;
}

std::vector<std::int32_t> order_of(const std::vector<LoopTask>& tasks) {
  std::vector<std::int32_t> missing(tasks.size(), 0), order;
  std::vector<std::vector<std::int32_t>> followers(tasks.size());
  const auto link = [&](std::size_t task, const std::vector<std::int32_t>& after) {
    for (const std::int32_t earlier : after)
      followers[earlier].push_back(static_cast<std::int32_t>(task));
    missing[task] += static_cast<std::int32_t>(after.size());
  };
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    link(i, tasks[i].after);
    link(i, tasks[i].posted_after);
  }
  order.reserve(tasks.size());
  for (std::size_t i = 0; i < tasks.size(); ++i)
    if (missing[i] == 0) order.push_back(static_cast<std::int32_t>(i));
  for (std::size_t done = 0; done < order.size(); ++done)
    for (const std::int32_t follower : followers[order[done]])
      if (--missing[follower] == 0) order.push_back(follower);
  // A cycle means that ranks wait for each other forever.
  if (order.size() < tasks.size()) throw RunError("the ranks of the loop wait for each other");
  return order;
}

void check_graph(const Problem& job) {
  check_scheme(job);
  if (job.world_size > kMostGraphRanks)
    throw InputError(
        fmt::format("world-size: {} ranks are too many to follow task by task; "
                    "accepted: 1 to {}",
                    job.world_size, kMostGraphRanks));
}

}  // namespace

Computation computation_of(const Account& account, const LoopTask& task) {
  // The account's own amounts may be of a searched partition, which the loops don't know.
  return is_plain(account.job()) || account.job().scheme == Scheme::two_level
             ? account.computation(task.rank, task.step, task.owner)
             : account.computation(task.rank, task.step, task.work);
}

Hop hop_of(const LoopTask& task) {
  return {task.payload, task.step, task.rank, task.to, task.owner, task.bytes, task.way};
}

LoopGraph graph_of_loops(const Problem& job, const Granularity& granularity) {
  check_graph(job);
  const RingProblem problem = job.ring_problem();
  std::vector<LoopTask> tasks;
  for (int rank = 0; rank < job.world_size; ++rank) {
    NoMemory nowhere;
    RankMemory memory(job, rank, nowhere);
    LoopWriter seams(tasks, job, granularity, rank);
    run_forward(job.scheme, seams, seams, problem, memory);
    if (job.backward) run_backward(job.scheme, seams, seams, problem, memory);
  }
  LoopGraph graph;
  graph.world_size = job.world_size;
  graph.tasks = joined(tasks, job.world_size);
  graph.order = order_of(graph.tasks);
  return graph;
}

namespace {

// Return how much of the union of `transfers` lies outside `computing`, which is in order and has
// no overlaps.
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

  // Write the books of a pass. Return the end of the slowest rank.
  double keep() {
    const auto n = static_cast<std::size_t>(graph_.world_size);
    std::vector<std::vector<TimeSpan>> transfers(n), computing(n);
    std::vector<double> idle_since(n, 0), pairs_of(n * n, 0);  // pairs_of: [step][rank]
    double end = 0, all_pairs = 0;
    int hops[2] = {0, 0};  // of rank 0, by payload
    for (std::size_t i = 0; i < graph_.tasks.size(); ++i) {
      const LoopTask& task = graph_.tasks[i];
      if (task.pass != account_.pass()) continue;
      const TimeSpan span{times_.tasks[i].begin, times_.tasks[i].end};
      const auto rank = static_cast<std::size_t>(task.rank);
      if (task.is_hop()) {
        account_.moved(hop_of(task), span);
        transfers[rank].push_back(span);
        transfers[task.to].push_back(span);
        hops[static_cast<int>(task.payload)] += task.rank == 0 ? 1 : 0;
        continue;
      }
      if (task.kind == TaskKind::begin) idle_since[rank] = span.begin;
      account_.waited(task.rank, task.step, task.owner, task.payload,
                      {idle_since[rank], span.begin}, awaited_by(task));
      if (task.kind == TaskKind::attend) {
        const Computation alone = computation_of(account_, task);
        const double pairs = alone.pairs;
        account_.computed(task.rank, task.step, task.owner, span.begin,
                          {pairs, span.seconds(), alone.seconds});
        computing[rank].push_back(span);
        all_pairs += pairs;
        pairs_of[static_cast<std::size_t>(task.step) * n + rank] += pairs;
      }
      if (task.kind == TaskKind::finish) account_.ended(task.rank, span.end);
      idle_since[rank] = span.end;
      end = std::max(end, span.end);
    }
    for (std::size_t r = 0; r < n; ++r)
      account_.exposed(static_cast<int>(r), time_outside(std::move(transfers[r]), computing[r]));
    account_.hopped(hops[static_cast<int>(Payload::kv)], hops[static_cast<int>(Payload::dkv)]);
    double most_pairs = 0;  // of the slowest rank, step by step
    for (auto step = pairs_of.begin(); step != pairs_of.end(); step += graph_.world_size)
      most_pairs += *std::max_element(step, step + graph_.world_size);
    if (account_.pass() == Pass::forward) account_.step_of(all_pairs, most_pairs);
    account_.end_pass();
    return end;
  }

 private:
  // Return the neighbour whose half of the awaited hop came last, or the rank itself without a hop.
  int awaited_by(const LoopTask& task) const {
    int awaited = task.rank;
    double latest = 0;
    for (const std::int32_t earlier : task.after) {
      const LoopTask& hop = graph_.tasks[earlier];
      const double end = times_.tasks[earlier].end;
      if (!hop.is_hop() || (awaited != task.rank && end <= latest)) continue;
      awaited = hop.rank == task.rank ? hop.to : hop.rank;
      latest = end;
    }
    return awaited;
  }

  Account& account_;
  const LoopGraph& graph_;
  const LoopTimes& times_;
};

// Follow the path back from the task that ends last, always to the earlier task that ended last.
CriticalPath path_of(const LoopGraph& graph, const LoopTimes& times) {
  const auto absolute = [&](std::size_t task, double time) {
    return graph.tasks[task].pass == Pass::forward ? time : times.forward_s + time;
  };
  const auto end_of = [&](std::size_t task) { return absolute(task, times.tasks[task].end); };
  CriticalPath path;
  std::vector<bool> seen(graph.world_size, false);
  std::size_t task = 0;
  for (std::size_t i = 0; i < graph.tasks.size(); ++i)
    if (end_of(i) > end_of(task)) task = i;
  for (;;) {
    const LoopTask& here = graph.tasks[task];
    const double seconds = times.tasks[task].end - times.tasks[task].begin;
    (here.is_hop() ? path.hop_s : path.compute_s) += seconds;
    if (!seen[here.rank]) path.ranks.push_back(here.rank);
    seen[here.rank] = true;
    const std::size_t none = graph.tasks.size();
    std::size_t latest = none;
    for (const auto* after : {&here.after, &here.posted_after})
      for (const std::int32_t earlier : *after) {
        const auto e = static_cast<std::size_t>(earlier);
        // Apart from rounding, this is the task whose end is this one's beginning.
        if (end_of(e) > absolute(task, times.tasks[task].begin) && graph.tasks[e].pass == here.pass)
          continue;
        if (latest == none || end_of(e) > end_of(latest)) latest = e;
      }
    if (latest == none) return path;
    task = latest;
  }
}

}  // namespace

void write_results(Account& account, const LoopGraph& graph, const LoopTimes& times,
                   bool with_path) {
  PassBooks books(account, graph, times);
  account.begin_pass(Pass::forward, 0);
  account.result.forward_s = books.keep();
  if (account.job().backward) {
    account.begin_pass(Pass::backward, times.forward_s);
    account.result.backward_s = books.keep();
  }
  if (with_path) account.result.path = path_of(graph, times);
}

}  // namespace ringscope
