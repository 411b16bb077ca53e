// The graph of the real loops, and that what the simulator makes of rank 0's loop (loop_times.h) are
// the loops of all ranks: the same times, to the last bit.
#include "core/sim/loop_graph.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "core/base/error.h"
#include "core/sim/shared_cores.h"
#include "tests/core/sim/own_processors.h"

namespace ringscope {
namespace {

using Kind = LoopTask::Kind;

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

int count(const LoopGraph& graph, Kind kind, Pass pass) {
  return static_cast<int>(
      std::count_if(graph.tasks.begin(), graph.tasks.end(),
                    [&](const LoopTask& task) { return task.kind == kind && task.pass == pass; }));
}

const LoopTask& find(const LoopGraph& graph, Kind kind, Pass pass, Payload payload, int rank,
                     int step) {
  const auto found =
      std::find_if(graph.tasks.begin(), graph.tasks.end(), [&](const LoopTask& task) {
        return task.kind == kind && task.pass == pass && task.rank == rank && task.step == step &&
               (!task.is_hop() || task.payload == payload);
      });
  if (found == graph.tasks.end()) throw RunError("no such task");
  return *found;
}

// "hop kv 2>0" and the like: what a task comes directly after.
std::set<std::string> names_of(const LoopGraph& graph, const std::vector<std::int32_t>& after) {
  std::set<std::string> names;
  for (const std::int32_t number : after) {
    const LoopTask& task = graph.tasks[static_cast<std::size_t>(number)];
    constexpr const char* kinds[] = {"begin", "attend", "add", "await", "finish", "hop"};
    const std::string what = task.is_hop() ? std::string(name_of(task.payload)) : "";
    names.insert(std::string(kinds[static_cast<int>(task.kind)]) + what + " r" +
                 std::to_string(task.rank) + " t" + std::to_string(task.step));
  }
  return names;
}

TEST(LoopGraph, HasTheLoopsTasks) {
  for (const int n : {1, 2, 5}) {
    const LoopGraph graph = graph_of_loops(job_of(n, true));
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

TEST(LoopGraph, HopsCarryTheBlocksBytes) {
  const Problem job = job_of(3, true);  // 51 rows: 17 a rank
  const LoopGraph graph = graph_of_loops(job);
  for (const LoopTask& task : graph.tasks)
    if (task.is_hop()) {
      EXPECT_EQ(task.bytes, 2.0 * 2 * 2 * 17 * 32 * 4);
      EXPECT_EQ(task.owner, (task.rank - task.step + 3) % 3);
    }
}

TEST(LoopGraph, AHopWaitsForBothOfItsRanks) {
  const LoopGraph graph = graph_of_loops(job_of(4, false));
  const LoopTask& first = find(graph, Kind::hop, Pass::forward, Payload::kv, 1, 0);
  EXPECT_TRUE(first.after.empty());
  EXPECT_EQ(names_of(graph, first.posted_after),
            (std::set<std::string>{"begin r1 t0", "begin r2 t0"}));
  // Block t + 1 comes where t - 1 was, once t is there and has left: rank 1's and 2's hops before,
  // each both halves, and the link's.
  const LoopTask& later = find(graph, Kind::hop, Pass::forward, Payload::kv, 1, 2);
  EXPECT_EQ(names_of(graph, later.after),
            (std::set<std::string>{"hopkv r0 t1", "hopkv r1 t1", "hopkv r2 t1", "attend r1 t1",
                                   "attend r2 t1"}));
  const LoopTask& attend = find(graph, Kind::attend, Pass::forward, Payload::kv, 1, 2);
  EXPECT_EQ(names_of(graph, attend.after),
            (std::set<std::string>{"hopkv r0 t1", "hopkv r1 t1", "attend r1 t1"}));
}

TEST(LoopGraph, MoreBuffersWaitForEarlierBlocks) {
  const LoopGraph graph = graph_of_loops(job_of(6, false, 4));
  const LoopTask& hop = find(graph, Kind::hop, Pass::forward, Payload::kv, 0, 4);
  // To step 5, into the buffer of step 1.
  EXPECT_EQ(names_of(graph, hop.after),
            (std::set<std::string>{"hopkv r5 t3", "hopkv r0 t3", "hopkv r1 t3", "attend r0 t1",
                                   "attend r1 t1"}));
}

TEST(LoopGraph, GradientsFollowTheirBlocks) {
  const LoopGraph graph = graph_of_loops(job_of(3, true));
  const LoopTask& hop = find(graph, Kind::hop, Pass::backward, Payload::dkv, 0, 1);
  EXPECT_EQ(names_of(graph, hop.after),
            (std::set<std::string>{"add r0 t1", "add r1 t1", "hopkv r0 t1"}));
  const LoopTask& add = find(graph, Kind::add, Pass::backward, Payload::dkv, 0, 1);
  EXPECT_EQ(names_of(graph, add.after),
            (std::set<std::string>{"attend r0 t1", "hopdkv r2 t0", "hopdkv r0 t0"}));
  const LoopTask& home = find(graph, Kind::finish, Pass::backward, Payload::dkv, 0, 2);
  EXPECT_EQ(names_of(graph, home.after),
            (std::set<std::string>{"add r0 t2", "hopdkv r2 t2", "hopdkv r0 t2"}));
  const LoopTask& begin = find(graph, Kind::begin, Pass::backward, Payload::kv, 0, 0);
  EXPECT_EQ(names_of(graph, begin.after), (std::set<std::string>{"finish r0 t2"}));
}

// Uneven in everything that can be uneven, so that every wait of the loops decides somewhere.
Machine uneven_machine(int world_size, std::uint64_t seed, double moving) {
  Machine machine;
  machine.world_size = world_size;
  machine.rates = {1e9, 2e9, 1e8 / moving, 3e-6 * moving};
  machine.step_s = 1e-6;
  machine.jitter = 0.7;
  machine.hop_jitter = 0.9;
  machine.seed = seed;
  for (int rank = 0; rank < world_size; ++rank) {
    machine.speed.push_back(1 + 0.2 * static_cast<double>(rank % 3));
    machine.to_next.push_back({1e8 / moving * (1 + rank % 2), 1e-6 * (rank % 4)});
  }
  return machine;
}

// Ends, sums, and every event.
void expect_same_run(const Problem& job, const Machine& machine) {
  SCOPED_TRACE(std::string(name_of(job.scheme)) + " " + std::string(name_of(job.partition)) +
               ", world-size " + std::to_string(job.world_size) + ", kv-buffers " +
               std::to_string(job.kv_buffers) + ", seed " + std::to_string(machine.seed));
  const Work work(job);
  SimulationRequest request{.job = job, .pace = Pace::buffers};
  const Simulation expected = simulate(request, work, machine);

  Account account(request, work, machine);
  const LoopGraph graph = graph_of_loops(job);
  const LoopTimes times = times_on_own_processors(graph, task_seconds(graph, account));
  write_results(account, graph, times, false);
  const Simulation& mine = account.result;

  const double close = 1e-12 * expected.wall_s();
  EXPECT_EQ(mine.forward_s, expected.forward_s);
  EXPECT_EQ(mine.backward_s, expected.backward_s);
  EXPECT_EQ(mine.steps, expected.steps);
  EXPECT_DOUBLE_EQ(mine.mean_step_pairs, expected.mean_step_pairs);
  EXPECT_DOUBLE_EQ(mine.slowest_step_pairs, expected.slowest_step_pairs);
  for (std::size_t rank = 0; rank < expected.ranks.size(); ++rank) {
    const SimulatedRank &a = mine.ranks[rank], &b = expected.ranks[rank];
    EXPECT_EQ(a.end_s, b.end_s) << "rank " << rank;
    EXPECT_EQ(a.pairs, b.pairs);
    EXPECT_EQ(a.bytes_sent, b.bytes_sent);
    EXPECT_EQ(a.hops, b.hops);
    EXPECT_NEAR(a.compute_s, b.compute_s, close);
    EXPECT_NEAR(a.wait_s, b.wait_s, close) << "rank " << rank;
    // What moves between nodes before its turn is asked for later than it begins (loop_times.h).
    if (job.scheme == Scheme::two_level) {
      EXPECT_LE(b.exposed_s, a.exposed_s + close) << "rank " << rank;
    } else {
      EXPECT_NEAR(a.exposed_s, b.exposed_s, close) << "rank " << rank;
    }
  }
}

TEST(LoopGraph, TheSimulatedRingIsTheLoopThatRuns) {
  for (const int n : {1, 2, 3, 8})
    for (const int buffers : {2, 3, 8})
      for (const double moving : {0.01, 1.0, 10.0})
        for (const std::uint64_t seed : {1u, 2u}) {
          const PartitionKind partition =
              seed == 1 ? PartitionKind::contiguous : PartitionKind::fold;
          expect_same_run(job_of(n, true, buffers, partition), uneven_machine(n, seed, moving));
        }
}

TEST(LoopGraph, TheSimulatedAllGatherIsTheLoopThatRuns) {
  for (const int n : {1, 2, 3, 8})
    for (const double moving : {0.01, 1.0, 10.0}) {
      Problem job = job_of(n, true, 2, PartitionKind::zigzag);
      job.scheme = Scheme::allgather;
      expect_same_run(job, uneven_machine(n, 5, moving));
    }
}

TEST(LoopGraph, TheSimulatedTwoLevelRingIsTheLoopThatRuns) {
  for (const auto& [nodes, per_node] : {std::pair{1, 3}, {3, 1}, {2, 2}, {2, 4}, {3, 3}, {5, 2}})
    for (const int buffers : {2, 3, 9})
      for (const double moving : {0.01, 1.0, 10.0}) {
        const int n = nodes * per_node;
        Problem job = job_of(n, true, buffers, PartitionKind::zigzag);
        job.scheme = Scheme::two_level;
        job.nodes = nodes;
        Machine machine = uneven_machine(n, 6, moving);
        machine.to_next_here = machine.to_next;
        for (int rank = 0; rank < n; ++rank)
          machine.to_next_node.push_back({2e7 / moving * (1 + rank % 3), 2e-6 * (rank % 2)});
        expect_same_run(job, machine);
      }
}

TEST(LoopGraph, RefusesTooManyRanks) {
  Problem job = job_of(4, false);
  job.world_size = kMostGraphRanks + 1;
  EXPECT_THROW(graph_of_loops(job), InputError);
}

}  // namespace
}  // namespace ringscope
