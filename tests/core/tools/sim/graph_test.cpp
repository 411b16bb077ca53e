// The graph of the real loops: its tasks, what they wait for, and an order of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "core/base/error.h"
#include "core/tools/sim/graph.h"
#include "core/tools/sim/simulate.h"

namespace ringscope {
namespace {

using Kind = Task::Kind;

Problem job_of(int world_size, bool backward, int kv_buffers = 2,
               PartitionKind partition = PartitionKind::contiguous) {
  Problem job;
  job.shape = {2, 4, 2, 16 * world_size + 3, 32};
  job.mask = MaskSpec::parse("causal");
  job.world_size = world_size;
  job.backward = backward;
  job.kv_buffers = kv_buffers;
  job.partition = partition;
  return job;
}

std::size_t find(const TaskGraph& graph, Kind kind, Pass pass, Payload payload, int rank,
                 int step) {
  const auto found = std::find_if(graph.tasks.begin(), graph.tasks.end(), [&](const Task& task) {
    return task.kind == kind && task.pass == pass && task.rank == rank && task.step == step &&
           (!task.is_hop() || task.payload == payload);
  });
  if (found == graph.tasks.end()) throw RunError("no such task");
  return static_cast<std::size_t>(found - graph.tasks.begin());
}

// "hopkv r2 t0" and the like: what a task comes directly after; meetings as what they join.
std::set<std::string> after(const TaskGraph& graph, std::size_t task) {
  std::set<std::string> names;
  for (const std::int32_t number : graph.earlier(task)) {
    const Task& earlier = graph.tasks[static_cast<std::size_t>(number)];
    if (earlier.kind == Kind::meeting) {
      names.merge(after(graph, static_cast<std::size_t>(number)));
      continue;
    }
    constexpr const char* kinds[] = {"begin", "attend", "add", "await", "finish", "hop"};
    const std::string what = earlier.is_hop() ? std::string(name_of(earlier.payload)) : "";
    names.insert(std::string(kinds[static_cast<int>(earlier.kind)]) + what + " r" +
                 std::to_string(earlier.rank) + " t" + std::to_string(earlier.step));
  }
  return names;
}

using Names = std::set<std::string>;

TEST(Graph, AHopWaitsForBothOfItsRanks) {
  const TaskGraph graph = graph_of(job_of(4, false));
  EXPECT_EQ(after(graph, find(graph, Kind::hop, Pass::forward, Payload::kv, 1, 0)), Names{});
  // Block t + 1 comes where t - 1 was, once t is there and has left: rank 1's and 2's hops before,
  // each both halves, and the link's.
  EXPECT_EQ(after(graph, find(graph, Kind::hop, Pass::forward, Payload::kv, 1, 2)),
            (Names{"hopkv r0 t1", "hopkv r1 t1", "hopkv r2 t1", "attend r1 t1", "attend r2 t1"}));
  EXPECT_EQ(after(graph, find(graph, Kind::attend, Pass::forward, Payload::kv, 1, 2)),
            (Names{"hopkv r0 t1", "hopkv r1 t1", "attend r1 t1"}));
}

TEST(Graph, AHostThatComputesPostsItsHopsAfterwards) {
  const TaskGraph graph = graph_of(job_of(4, false), {.hosts_compute = true});
  EXPECT_EQ(after(graph, find(graph, Kind::hop, Pass::forward, Payload::kv, 1, 0)),
            (Names{"begin r1 t0", "begin r2 t0"}));
}

TEST(Graph, MoreBuffersWaitForEarlierBlocks) {
  const TaskGraph graph = graph_of(job_of(6, false, 4));
  // To step 5, into the buffer of step 1.
  EXPECT_EQ(after(graph, find(graph, Kind::hop, Pass::forward, Payload::kv, 0, 4)),
            (Names{"hopkv r5 t3", "hopkv r0 t3", "hopkv r1 t3", "attend r0 t1", "attend r1 t1"}));
}

TEST(Graph, GradientsFollowTheirBlocks) {
  const TaskGraph graph = graph_of(job_of(3, true));
  EXPECT_EQ(after(graph, find(graph, Kind::hop, Pass::backward, Payload::dkv, 0, 1)),
            (Names{"add r0 t1", "add r1 t1", "hopkv r0 t1"}));
  EXPECT_EQ(after(graph, find(graph, Kind::add, Pass::backward, Payload::dkv, 0, 1)),
            (Names{"attend r0 t1", "hopdkv r2 t0", "hopdkv r0 t0"}));
  EXPECT_EQ(after(graph, find(graph, Kind::finish, Pass::backward, Payload::dkv, 0, 2)),
            (Names{"add r0 t2", "hopdkv r2 t2", "hopdkv r0 t2"}));
  EXPECT_EQ(after(graph, find(graph, Kind::begin, Pass::backward, Payload::kv, 0, 0)),
            (Names{"finish r0 t2"}));
}

// In step, hops begin when all ranks have computed, and a step when all hops are over.
TEST(Graph, RanksInStepMeet) {
  const TaskGraph graph = graph_of(job_of(3, false), {.in_step = true});
  const Names computed{"attend r0 t0", "attend r1 t0", "attend r2 t0"};
  const Names moved{"hopkv r0 t0", "hopkv r1 t0", "hopkv r2 t0"};
  Names both = computed;
  both.insert(moved.begin(), moved.end());
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(after(graph, find(graph, Kind::hop, Pass::forward, Payload::kv, rank, 1)), both);
    EXPECT_EQ(after(graph, find(graph, Kind::attend, Pass::forward, Payload::kv, rank, 1)), both);
    EXPECT_EQ(after(graph, find(graph, Kind::finish, Pass::forward, Payload::kv, rank, 2)),
              (Names{"attend r0 t2", "attend r1 t2", "attend r2 t2"}));
  }
}

TEST(Graph, TasksFollowInOrderWhatTheyWaitFor) {
  for (const char* scheme : {"ring", "allgather", "allgather:2", "ulysses", "two-level:2",
                             "bidirectional", "pass-q", "hybrid:2", "mesh:2x2"})
    for (const bool in_step : {false, true}) {
      Problem job = job_of(4, true);
      job.shape.num_heads_kv = 4;
      set_scheme(job, scheme);
      const bool has_paces =
          job.scheme == scheme_named("ring") || job.scheme == scheme_named("two-level");
      if (in_step && !has_paces) continue;
      SCOPED_TRACE(scheme);
      const TaskGraph graph = graph_of(job, {.in_step = in_step, .hosts_compute = !in_step});
      std::vector<bool> is_over(graph.tasks.size(), false);
      bool is_backward = false;
      ASSERT_EQ(graph.order.size(), graph.tasks.size());
      for (const std::int32_t number : graph.order) {
        const auto i = static_cast<std::size_t>(number);
        for (const std::int32_t earlier : graph.earlier(i))
          ASSERT_TRUE(is_over[static_cast<std::size_t>(earlier)]);
        ASSERT_FALSE(is_over[i]);
        is_over[i] = true;
        if (graph.tasks[i].pass == Pass::backward) is_backward = true;
        EXPECT_EQ(graph.tasks[i].pass == Pass::backward, is_backward);
      }
    }
}

TEST(Graph, RefusesTooManyRanksAndTasks) {
  Problem job = job_of(4, false);
  job.world_size = kMostSimulatedRanks + 1;
  EXPECT_THROW(graph_of(job), InputError);
  job.world_size = kMostSimulatedRanks;
  job.shape = {1, 64, 64, 4096, 8};
  for (const char* scheme : {"hybrid:64", "hybrid:8", "multi-ring:4", "pass-q", "allgather:8"}) {
    set_scheme(job, scheme);
    job.backward = true;
    EXPECT_GT(expected_tasks(job), kMostTasks) << scheme;
  }
  set_scheme(job, "ring");
  EXPECT_LT(expected_tasks(job), kMostTasks);
}

// What refuses a job before its graph is made doesn't refuse jobs whose graph can be made.
TEST(Graph, HasTheExpectedTasks) {
  for (const char* scheme : {"ring", "bidirectional", "multi-ring:3", "pass-q", "allgather:2",
                             "hybrid:2", "two-level:2", "groupcast", "tree", "ulysses", "mesh:2x4"})
    for (const bool backward : {false, true}) {
      Problem job = job_of(8, backward);
      job.shape.num_heads = job.shape.num_heads_kv = 8;
      set_scheme(job, scheme);
      const double tasks = static_cast<double>(graph_of(job).tasks.size());
      EXPECT_LE(expected_tasks(job), 1.25 * tasks) << scheme << ", backward: " << backward;
    }
}

// ---
// When tasks run: by graphs small enough to be followed by hand, and by what holds for all of them.

// Computations that wait for what `after` says.
TaskGraph graph_of_tasks(const std::vector<std::vector<std::int32_t>>& after) {
  TaskGraph graph;
  graph.world_size = static_cast<int>(after.size());
  for (const std::vector<std::int32_t>& earlier : after) {
    graph.tasks.push_back({.rank = static_cast<std::int32_t>(graph.tasks.size())});
    graph.edges.insert(graph.edges.end(), earlier.begin(), earlier.end());
    graph.edge_begins.push_back(static_cast<std::uint32_t>(graph.edges.size()));
  }
  return graph;
}
TaskGraph independent(int tasks) {
  return graph_of_tasks(std::vector<std::vector<std::int32_t>>(static_cast<std::size_t>(tasks)));
}

TEST(Evaluate, ATaskBeginsWhenTheLastThatItWaitsForEnds) {
  // Two chains that join: 1 + 2 and 4, then 3.
  const TaskGraph graph = graph_of_tasks({{}, {0}, {}, {1, 2}});
  const TaskTimes times = evaluate(graph, {1, 2, 4, 3});
  EXPECT_EQ(times.begin, (std::vector<double>{0, 1, 0, 4}));
  EXPECT_EQ(times.end, (std::vector<double>{1, 3, 4, 7}));
  EXPECT_EQ(times.wall_s(), 7);
  const CriticalPath path = critical_path(graph, times);
  EXPECT_EQ(path.ranks, (std::vector<int>{3, 2}));
  EXPECT_EQ(path.compute_s, 7);
  EXPECT_EQ(awaited_by(graph, times, 3), 3);  // no hop
}

TEST(Evaluate, BackwardTimesCountFromTheSlowestForwardPass) {
  TaskGraph graph = graph_of_tasks({{}, {}, {0}, {1, 2}});
  graph.tasks[2].pass = graph.tasks[3].pass = Pass::backward;
  const TaskTimes times = evaluate(graph, {1, 5, 1, 2});
  EXPECT_EQ(times.forward_s, 5);
  EXPECT_EQ(times.begin[2], -4);
  EXPECT_EQ(times.begin[3], 0);
  EXPECT_EQ(times.backward_s, 2);
}

TEST(Evaluate, HopsAreOnThePathAndAwaited) {
  TaskGraph graph = graph_of_tasks({{}, {0}, {1}, {1}});
  graph.tasks[1] = {.kind = Task::Kind::hop, .rank = 0, .to = 2};
  graph.tasks[3].rank = 0;
  const TaskTimes times = evaluate(graph, {1, 4, 2, 1});
  const CriticalPath path = critical_path(graph, times);
  EXPECT_EQ(path.ranks, (std::vector<int>{2, 0}));
  EXPECT_EQ(path.hop_s, 4);
  EXPECT_EQ(path.compute_s, 3);
  EXPECT_EQ(awaited_by(graph, times, 2), 0);
  EXPECT_EQ(awaited_by(graph, times, 3), 2);  // the sender waits for the receiver
}

// All messages take as long, so the first stands for them; its sender waits for what it receives.
TEST(Evaluate, RanksInStepWaitForTheSlowestMessage) {
  Problem job;
  job.shape = {1, 1, 1, 40, 1};
  job.world_size = 4;
  Machine machine;
  machine.world_size = 4;
  machine.rates = {1e9, 1e9, 1, 0};
  const SimulatedRun run = run_of({job}, Work(job), machine);
  for (std::size_t i = 0; i < run.graph.tasks.size(); ++i)
    if (const Task& task = run.graph.tasks[i]; task.kind == Task::Kind::attend && task.step > 0) {
      EXPECT_EQ(awaited_by(run.graph, run.times, i), task.rank == 0 ? 3 : 0);
    }
}

TEST(SharedCores, NobodyGetsMoreThanOneProcessor) {
  // On two: 2/3 each until 1.5, then one each.
  const TaskTimes times = evaluate(independent(3), {1, 2, 4}, {2});
  EXPECT_DOUBLE_EQ(times.end[0], 1.5);
  EXPECT_DOUBLE_EQ(times.end[1], 2.5);
  EXPECT_DOUBLE_EQ(times.end[2], 4.5);
}

TEST(SharedCores, WhoComesLaterSharesFromThenOn) {
  const TaskGraph graph = graph_of_tasks({{}, {}, {0}});
  // 0 and 1 have half each until 2; then 1, who has had 1 of 4, and 2.
  const TaskTimes times = evaluate(graph, {1, 4, 2}, {1});
  EXPECT_DOUBLE_EQ(times.end[0], 2);
  EXPECT_DOUBLE_EQ(times.begin[2], 2);
  EXPECT_DOUBLE_EQ(times.end[2], 6);
  EXPECT_DOUBLE_EQ(times.end[1], 7);
}

TEST(SharedCores, HopsMoveBesideProcessorsOrOnThem) {
  TaskGraph graph = independent(2);
  graph.tasks[1].kind = Task::Kind::hop;
  const TaskTimes beside = evaluate(graph, {2, 1}, {1, false});
  EXPECT_DOUBLE_EQ(beside.end[0], 2);
  EXPECT_DOUBLE_EQ(beside.end[1], 1);
  const TaskTimes on = evaluate(graph, {2, 1}, {1, true});
  EXPECT_DOUBLE_EQ(on.end[1], 2);
  EXPECT_DOUBLE_EQ(on.end[0], 3);
}

Problem job_of(int world_size, const char* mask) {
  Problem job;
  job.shape = {1, 2, 2, 32 * world_size, 16};
  job.mask = MaskSpec::parse(mask);
  job.world_size = world_size;
  return job;
}

Machine machine_of(int world_size, int cores) {
  Machine machine;
  machine.world_size = world_size;
  machine.rates = {1e9, 1e9, 1e8, 1e-6};
  machine.jitter = 0.3;
  machine.cores = cores;
  return machine;
}

// A processor for each rank is one of its own, also for the event simulation.
TEST(SharedCores, AsManyAsRanksAreProcessorsOfTheirOwn) {
  for (const char* mask : {"full", "causal"})
    for (const int n : {1, 2, 7}) {
      Problem job = job_of(n, mask);
      job.backward = true;
      const TaskGraph graph = graph_of(job, {.hosts_compute = true});
      const std::vector<double> seconds = durations_on(graph, job, machine_of(n, n));
      const TaskTimes own = evaluate(graph, seconds), shared = evaluate(graph, seconds, {n});
      EXPECT_EQ(shared.forward_s, own.forward_s);
      for (std::size_t i = 0; i < graph.tasks.size(); ++i)
        EXPECT_NEAR(shared.end[i], own.end[i], 1e-12 * own.wall_s());
    }
}

TEST(SharedCores, NeverBeatsTheWorkNorProcessorsOfTheirOwn) {
  for (const bool backward : {false, true})
    for (const int cores : {1, 2, 3}) {
      Problem job = job_of(6, "causal");
      job.backward = backward;
      const Machine machine = machine_of(6, cores);
      const SimulatedRun run = run_of({job, Pace::buffers}, Work(job), machine);
      double work_s = 0;
      for (std::size_t i = 0; i < run.seconds.size(); ++i)
        work_s += run.graph.tasks[i].is_hop() ? 0 : run.seconds[i];
      const TaskTimes own = evaluate(run.graph, run.seconds);
      EXPECT_GE(run.times.wall_s() * (1 + 1e-12), work_s / cores);
      EXPECT_GE(run.times.forward_s * (1 + 1e-12), own.forward_s);
      const CriticalPath path = critical_path(run.graph, run.times);
      EXPECT_NEAR(path.compute_s + path.hop_s, run.times.wall_s(), 1e-12 * run.times.wall_s());
      EXPECT_GE(path.compute_s, 0);
      if (cores == 1) {  // then hops hide, mostly
        EXPECT_LE(run.times.wall_s(), work_s * 1.2);
      }
    }
}

}  // namespace
}  // namespace ringscope
