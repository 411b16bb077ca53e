#include "core/tools/sim/graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <numeric>
#include <optional>
#include <queue>
#include <utility>

#include "core/base/error.h"
#include "core/ring/loop_counts.h"
#include "core/ring/problem.h"
#include "core/ring/program.h"
#include "core/tools/cost/amounts.h"

namespace ringscope {

namespace {

using TaskKind = Task::Kind;

// What a task or a meeting waits for: a task, or a meeting, by its number. There are millions of them.
struct Wait {
  std::uint32_t number : 31;
  std::uint32_t is_meeting : 1;
};

Wait for_task(std::int32_t number) { return {static_cast<std::uint32_t>(number), 0}; }
Wait for_meeting(std::int32_t number) { return {static_cast<std::uint32_t>(number), 1}; }

// What one rank after the other writes down.
struct Written {
  // A hop's sender, whose half its rank waits for as well, and the hop before it, of the same way.
  struct Hop {
    std::int32_t task, from, before;
  };

  TaskGraph graph;
  // What each task waits for as its own rank's program has it.
  std::vector<std::uint32_t> own_begins = {0};
  std::vector<Wait> own;
  std::vector<std::int32_t> events;    // of each task: a rank's hops and meetings before it
  std::vector<std::vector<Hop>> hops;  // [rank][hop]
  // In step: before and after each event, what the meeting waits for.
  std::vector<std::vector<Wait>> meetings;

  // Make room for as many ranks, of which one is written.
  void make_room(std::size_t ranks) {
    graph.tasks.reserve(ranks * graph.tasks.size() + meetings.size());
    events.reserve(ranks * events.size());
    own_begins.reserve(ranks * own_begins.size());
    own.reserve(ranks * own.size());
  }
  std::span<const Wait> own_of(std::int32_t task) const {
    const auto i = static_cast<std::size_t>(task);
    return {own.data() + own_begins[i], own.data() + own_begins[i + 1]};
  }
  // Return the meetings before and after an event.
  static std::int32_t before(std::int32_t event) { return 2 * event; }
  static std::int32_t after(std::int32_t event) { return 2 * event + 1; }
  std::vector<Wait>& meeting(std::int32_t number) {
    const auto i = static_cast<std::size_t>(number);
    if (meetings.size() < i + 1) meetings.resize(i + 1 + (i + 1) % 2);
    return meetings[i];
  }
};

// Writes the tasks of one rank, in the order in which it asks for them.
class RankWriter {
 public:
  RankWriter(Written& written, const Problem& job, const GraphOptions& options, int rank)
      : written_(written), job_(job), options_(options), rank_(rank) {
    last_hop_.fill(-1);
    written.graph.rank_begins.push_back(next());
    written.hops.emplace_back();
  }

  // Write the rank's program. `works` are of its attentions, in their order.
  void follow(const Program& program, std::span<const WorkAmount> works) {
    std::vector<std::int32_t> task_of(program.ops.size(), -1), after;
    auto work = works.begin();
    for (std::size_t i = 0; i < program.ops.size(); ++i) {
      const Op& op = program.ops[i];
      after.clear();
      for (const std::int32_t earlier : program.after(op))
        after.push_back(task_of[static_cast<std::size_t>(earlier)]);
      Task task{.kind = kind_of(op.kind),
                .pass = op.pass,
                .payload = op.payload,
                .way = op.way,
                .step = op.step,
                .owner = op.owner,
                .to = op.to,
                .bytes = op.bytes};
      if (op.is_hop()) {
        task_of[i] = write_hop(task, op.from, after);
        continue;
      }
      if (op.kind == Op::Kind::attend) task.work = *work++;
      // An operation that awaits nothing takes no time and holds nobody up.
      if (op.kind == Op::Kind::await && after.empty()) continue;
      if (op.kind == Op::Kind::finish && op.pass == Pass::forward && options_.in_step)
        wait_for_all();
      task_of[i] = compute(task, after.empty() ? -1 : after[0]);
    }
  }

  // Write a hop, which is the last task of its event. In step, all begin together.
  std::int32_t write_hop(Task task, std::int32_t from, std::span<const std::int32_t> after) {
    std::int32_t& before = last_hop_[static_cast<int>(task.way)];
    task.number = event_;
    if (options_.in_step) {
      meet(event_, before, after);
      written_.meeting(Written::after(event_)).push_back(for_task(next()));
      before = event_;
      wait_for(for_meeting(Written::before(event_)));
    } else {
      for (const std::int32_t earlier : after) wait_for_task(earlier);
      if (options_.hosts_compute) wait_for_task(last_computed_);
    }
    written_.hops.back().push_back(
        {next(), from, options_.in_step ? -1 : std::exchange(before, next())});
    const std::int32_t hop = write(task);
    ++event_;
    return hop;
  }

  // Write a computation, which comes after the one before it and after another task (-1: none).
  std::int32_t compute(const Task& task, std::int32_t after) {
    wait_for_task(last_computed_);
    if (options_.in_step) {
      wait_in_step(after);
    } else {
      wait_for_task(after);
    }
    last_computed_ = next();
    return write(task);
  }
  // Let the next computation wait for all ranks' last ones and for `hops`.
  void wait_for_all(std::span<const std::int32_t> hops = {}) {
    meet(event_, -1, hops);
    wait_for(for_meeting(Written::before(event_)));
    ++event_;
  }

 private:
  static TaskKind kind_of(Op::Kind kind) {
    switch (kind) {
      case Op::Kind::begin:
        return TaskKind::begin;
      case Op::Kind::attend:
        return TaskKind::attend;
      case Op::Kind::add:
        return TaskKind::add;
      case Op::Kind::await:
        return TaskKind::await;
      case Op::Kind::finish:
        return TaskKind::finish;
      case Op::Kind::hop:
        break;
    }
    return TaskKind::hop;
  }

  std::int32_t next() const { return static_cast<std::int32_t>(written_.graph.tasks.size()); }
  void wait_for(Wait wait) { written_.own.push_back(wait); }
  void wait_for_task(std::int32_t task) {
    if (task >= 0) wait_for(for_task(task));
  }
  // Return the event of a hop, or -1.
  std::int32_t event_of_hop(std::int32_t task) const {
    return task >= 0 && written_.graph.tasks[task].is_hop() ? written_.events[task] : -1;
  }

  // Let the meeting before `event` wait for this rank and, said once, for the hops of an event (-1:
  // none) and those among `after`.
  void meet(std::int32_t event, std::int32_t hops, std::span<const std::int32_t> after) {
    written_.meeting(Written::after(event));
    std::vector<Wait>& meeting = written_.meeting(Written::before(event));
    if (last_computed_ >= 0) meeting.push_back(for_task(last_computed_));
    if (rank_ + 1 < job_.world_size) return;
    const auto wait_for_hops = [&](std::int32_t of_event) {
      if (of_event >= 0) meeting.push_back(for_meeting(Written::after(of_event)));
    };
    wait_for_hops(hops);
    for (const std::int32_t earlier : after) wait_for_hops(event_of_hop(earlier));
  }
  // Who waits for a hop for the first time waits for everybody; later it is over anyway.
  void wait_in_step(std::int32_t after) {
    const std::int32_t hop = event_of_hop(after);
    if (hop < 0) return;
    const auto event = static_cast<std::size_t>(hop);
    was_awaited_.resize(std::max(was_awaited_.size(), event + 1));
    if (!was_awaited_[event]) wait_for_all({&after, 1});
    was_awaited_[event] = true;
  }

  std::int32_t write(Task task) {
    TaskGraph& graph = written_.graph;
    if (static_cast<double>(graph.tasks.size()) >= kMostTasks)
      throw InputError(
          fmt::format("world-size: {} ranks of scheme {} have more than {:.0f} tasks to follow",
                      job_.world_size, job_.scheme_name(), kMostTasks));
    task.rank = rank_;
    graph.tasks.push_back(task);
    written_.events.push_back(event_);
    written_.own_begins.push_back(static_cast<std::uint32_t>(written_.own.size()));
    return next() - 1;
  }

  Written& written_;
  const Problem& job_;
  const GraphOptions& options_;
  int rank_;
  std::int32_t last_computed_ = -1;
  std::array<std::int32_t, kWays> last_hop_;  // by way: the task, or in step its event; -1: none
  std::int32_t event_ = 0;
  std::vector<bool> was_awaited_;  // by event
};

// Write the edges: a hop comes after what either of its ends comes after.
void join(Written& written) {
  TaskGraph& graph = written.graph;
  graph.edges.reserve(2 * written.own.size());
  const auto first_meeting = static_cast<std::int32_t>(graph.tasks.size());
  std::vector<std::size_t> next_hop(written.hops.size());
  std::vector<std::int32_t> place(graph.tasks.size());  // of a hop: its number among its rank's
  for (std::size_t i = 0; i < graph.tasks.size(); ++i)
    if (graph.tasks[i].is_hop())
      place[i] = static_cast<std::int32_t>(next_hop[graph.tasks[i].rank]++);
  if (std::adjacent_find(next_hop.begin(), next_hop.end(), std::not_equal_to()) != next_hop.end())
    throw RunError("the ranks of the loop wait for each other");
  const auto add_side = [&](std::int32_t task) {
    for (const Wait wait : written.own_of(task)) {
      const auto earlier = static_cast<std::int32_t>(wait.number);
      if (wait.is_meeting) {
        graph.edges.push_back(first_meeting + earlier);
        continue;
      }
      // A hop ends by both halves, so also wait for the sender's hop of the same number.
      if (const Task& awaited = graph.tasks[earlier]; awaited.is_hop()) {
        const auto at = static_cast<std::size_t>(place[earlier]);
        if (const int from = written.hops[awaited.rank][at].from; from >= 0)
          graph.edges.push_back(written.hops[from][at].task);
      }
      graph.edges.push_back(earlier);
    }
  };
  for (std::int32_t i = 0; i < first_meeting; ++i) {
    const Task& task = graph.tasks[i];
    add_side(i);
    if (task.is_hop() && written.meetings.empty()) {
      if (task.to >= 0) add_side(written.hops[task.to][place[i]].task);
      if (const std::int32_t before = written.hops[task.rank][place[i]].before; before >= 0)
        graph.edges.push_back(before);
    }
    graph.edge_begins.push_back(static_cast<std::uint32_t>(graph.edges.size()));
  }
  for (const std::vector<Wait>& meeting : written.meetings) {
    Pass pass = Pass::forward;
    for (const Wait wait : meeting) {
      const auto earlier = static_cast<std::int32_t>(wait.number);
      graph.edges.push_back(wait.is_meeting ? first_meeting + earlier : earlier);
      pass = std::max(pass, graph.tasks[graph.edges.back()].pass);
    }
    graph.tasks.push_back({.kind = TaskKind::meeting, .pass = pass, .rank = -1});
    graph.edge_begins.push_back(static_cast<std::uint32_t>(graph.edges.size()));
  }
}

// Sort the tasks by pass and by the number of events before them. All ranks have the same events in the
// same order, and what a task waits for from other ranks came before the event that it follows.
void put_in_order(Written& written) {
  TaskGraph& graph = written.graph;
  const auto ranks_tasks = static_cast<std::int32_t>(written.events.size());
  // Of an event come the meeting before it, hops, the meeting after it, and computations.
  const auto key_of = [&](std::int32_t i) -> std::size_t {
    const Task& task = graph.tasks[i];
    if (i >= ranks_tasks) {
      const std::int32_t meeting = i - ranks_tasks;
      return 4 * static_cast<std::size_t>(meeting / 2) + 1 +
             2 * static_cast<std::size_t>(meeting % 2);
    }
    return 4 * static_cast<std::size_t>(written.events[i]) + (task.is_hop() ? 2 : 0);
  };
  std::int32_t events = static_cast<std::int32_t>(written.meetings.size() / 2);
  for (const std::int32_t event : written.events) events = std::max(events, event);
  const std::size_t keys = 4 * static_cast<std::size_t>(events + 1);
  std::vector<std::int32_t> begins(2 * keys + 1, 0);
  const auto place_of = [&](std::int32_t i) {
    return key_of(i) + (graph.tasks[i].pass == Pass::backward ? keys : 0);
  };
  const auto count = static_cast<std::int32_t>(graph.tasks.size());
  for (std::int32_t i = 0; i < count; ++i) ++begins[place_of(i) + 1];
  std::partial_sum(begins.begin(), begins.end(), begins.begin());
  graph.order.resize(graph.tasks.size());
  for (std::int32_t i = 0; i < count; ++i) graph.order[begins[place_of(i)]++] = i;
}

// Let a rank do its part of an exchange of heads where they divide: exchange, compute all of its heads,
// exchange.
void all_to_alls(RankWriter& rank, const Problem& job, int r, const WorkAmount& share, Pass pass) {
  const int n = job.world_size;
  const AllToAlls bytes = all_to_alls_of(job, pass, r);
  const Payload back = pass == Pass::forward ? Payload::kv : Payload::dkv;
  const auto task = [&](TaskKind kind, int step, Payload payload = Payload::kv) {
    return Task{.kind = kind, .pass = pass, .payload = payload, .step = step, .owner = r};
  };
  const auto exchange = [&](int step, Payload payload, double sent, std::int32_t after) {
    if (n == 1) return after;
    Task hop = task(TaskKind::hop, step, payload);
    hop.to = (r + 1) % n;
    hop.bytes = sent;
    return rank.write_hop(hop, (r + n - 1) % n, {&after, after >= 0 ? 1u : 0u});
  };
  rank.compute(task(TaskKind::begin, 0), -1);
  const std::int32_t there = exchange(0, Payload::kv, bytes.there_bytes, -1);
  Task attend = task(TaskKind::attend, 0);
  attend.work = share;
  const std::int32_t attended = rank.compute(attend, there);
  rank.wait_for_all();
  rank.compute(task(TaskKind::await, 0), -1);
  const std::int32_t home = exchange(1, back, bytes.back_bytes, attended);
  rank.compute(task(TaskKind::finish, n == 1 ? 0 : 1, back), n == 1 ? -1 : home);
}

// Return a rank's share of the work of all rows, in the order of their positions, because a rank has
// them all.
WorkAmount share_of_sequence(const Problem& job, const Granularity& granularity) {
  const double pairs = total_pairs(job), n = job.world_size;
  if (granularity.rows == 1 && granularity.keys == 1) return {pairs / n, pairs / n};
  return {pairs / n, static_cast<double>(computed_pairs(job.whole_region(), granularity)) / n};
}

// Return the work of attending a region with a share of the heads.
WorkAmount work_of_share(const Region& region, const HeadShare& heads, const AttentionShape& shape,
                         const Granularity& tile) {
  const auto part = static_cast<double>(heads.num_heads) / static_cast<double>(shape.num_heads);
  const double pairs = part * static_cast<double>(region.pairs());
  if (tile.rows == 1 && tile.keys == 1) return {pairs, pairs};
  return {pairs, part * static_cast<double>(computed_pairs(region, tile))};
}

}  // namespace

bool has_paces(const Problem& job) { return job.rotates_blocks() || is_plain(job); }

double expected_tasks(const Problem& job) {
  if (job.scheme->course == Course::heads && !is_followed(job)) return 0;
  return static_cast<double>(job.world_size) * static_cast<double>(program_of(job, 0).ops.size());
}

TaskGraph graph_of(const Problem& given, const GraphOptions& asked) {
  GraphOptions options = asked;
  Problem job = given;
  const bool is_dealt_by_heads =
      job.scheme->course == Course::heads && !is_followed(job) && !options.follows_all_to_alls;
  if (options.in_step) job.kv_buffers = 2;
  options.in_step = options.in_step || is_dealt_by_heads;
  check_scheme(job);
  if (job.world_size > kMostSimulatedRanks)
    throw InputError(fmt::format("world-size: {} ranks given; accepted: 1 to {}", job.world_size,
                                 kMostSimulatedRanks));
  const RingProblem problem = job.ring_problem();
  const WorkAmount share =
      is_dealt_by_heads ? share_of_sequence(job, options.granularity) : WorkAmount{};
  // The work of whole blocks may be known.
  const Work* const known = options.work != nullptr && !job.parts_blocks() ? options.work : nullptr;
  Written written;
  written.graph.world_size = job.world_size;
  written.graph.hops_end_together = is_dealt_by_heads;
  std::vector<WorkAmount> works;
  for (int rank = 0; rank < job.world_size; ++rank) {
    RankWriter writer(written, job, options, rank);
    if (is_dealt_by_heads) {
      for (const Pass pass : kAllPasses)
        if (pass == Pass::forward || job.backward) all_to_alls(writer, job, rank, share, pass);
      continue;
    }
    works.clear();
    const auto add_work = [&](const Op& op, const Region& region, const HeadShare& heads) {
      works.push_back(known != nullptr
                          ? known->of(rank, op.owner)
                          : work_of_share(region, heads, job.shape, options.granularity));
    };
    const Program program = program_of(job, problem, rank, add_work);
    writer.follow(program, works);
    if (rank == 0) written.make_room(static_cast<std::size_t>(job.world_size));
  }
  written.graph.rank_begins.push_back(static_cast<std::int32_t>(written.graph.tasks.size()));
  join(written);
  put_in_order(written);
  return std::move(written.graph);
}

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
      // No forward task waits for a backward one, so that most need not look.
      const bool crosses =
          task.pass == Pass::backward && graph.tasks[earlier].pass == Pass::forward;
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
  // Of ranks in step whose hops end together, each waits for what it receives, unless that came earlier.
  for (std::size_t i = 0; meeting && i < graph.earlier(*meeting).size(); ++i)
    if (const auto hop = static_cast<std::size_t>(graph.earlier(*meeting)[i]);
        graph.tasks[hop].to == rank && times.end[hop] >= times.end[*latest])
      return graph.tasks[hop].rank;
  return awaited.to;
}

}  // namespace ringscope
