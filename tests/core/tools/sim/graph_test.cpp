// The graph of the real loops: its tasks, what they wait for, and an order of them.
#include "core/tools/sim/graph.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "core/base/error.h"
#include "core/tools/cost/amounts.h"

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

int count(const TaskGraph& graph, Kind kind, Pass pass) {
  return static_cast<int>(
      std::count_if(graph.tasks.begin(), graph.tasks.end(),
                    [&](const Task& task) { return task.kind == kind && task.pass == pass; }));
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

TEST(Graph, HasTheLoopsTasks) {
  for (const int n : {1, 2, 5}) {
    const TaskGraph graph = graph_of(job_of(n, true));
    EXPECT_EQ(count(graph, Kind::begin, Pass::forward), n);
    EXPECT_EQ(count(graph, Kind::attend, Pass::forward), n * n);
    EXPECT_EQ(count(graph, Kind::finish, Pass::forward), n);
    EXPECT_EQ(count(graph, Kind::hop, Pass::forward), n * (n - 1));
    EXPECT_EQ(count(graph, Kind::attend, Pass::backward), n * n);
    EXPECT_EQ(count(graph, Kind::add, Pass::backward), n * (n - 1));
    EXPECT_EQ(count(graph, Kind::hop, Pass::backward), n == 1 ? 0 : n * (2 * n - 1));
    EXPECT_EQ(graph.order.size(), graph.tasks.size());
  }
}

TEST(Graph, HopsCarryTheBlocksBytes) {
  const Problem job = job_of(3, true);  // 51 rows: 17 a rank
  const TaskGraph graph = graph_of(job);
  for (const Task& task : graph.tasks)
    if (task.is_hop()) {
      EXPECT_EQ(task.bytes, 2.0 * 2 * 2 * 17 * 32 * 4);
      EXPECT_EQ(task.owner, (task.rank - task.step + 3) % 3);
    }
}

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

// Where heads divide, Ulysses is an all-to-all, a computation and another one.
TEST(Graph, DealingOutHeadsIsTwoMessagesARankAndPass) {
  Problem job = job_of(4, true);
  job.scheme = Scheme::ulysses;
  job.shape.num_heads_kv = 4;
  const TaskGraph graph = graph_of(job);
  for (const Pass pass : kAllPasses) {
    EXPECT_EQ(count(graph, Kind::hop, pass), 2 * 4);
    EXPECT_EQ(count(graph, Kind::attend, pass), 4);
  }
  double pairs = 0;
  for (const Task& task : graph.tasks)
    if (task.pass == Pass::forward) pairs += task.work.pairs;
  EXPECT_DOUBLE_EQ(pairs, total_pairs(job));
}

TEST(Graph, TasksFollowInOrderWhatTheyWaitFor) {
  for (const char* scheme : {"ring", "allgather", "allgather:2", "ulysses", "two-level:2",
                             "bidirectional", "pass-q", "hybrid:2", "mesh:2x2"})
    for (const bool in_step : {false, true}) {
      Problem job = job_of(4, true);
      job.shape.num_heads_kv = 4;
      set_scheme(job, scheme);
      const bool has_paces = job.scheme == Scheme::ring || job.scheme == Scheme::two_level;
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
  set_scheme(job, "hybrid:64");
  EXPECT_GT(least_tasks(job), kMostTasks);
}

}  // namespace
}  // namespace ringscope
