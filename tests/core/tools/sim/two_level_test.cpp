// The two-level ring: what it does, what it sends, and that its times are those of the closed form.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/ring/two_level.h"
#include "core/tools/cost/amounts.h"
#include "core/tools/cost/choices.h"
#include "core/tools/cost/time.h"
#include "tests/core/base/thrown.h"
#include "tests/core/tools/sim/random_machines.h"

namespace ringscope {
namespace {

constexpr std::pair<int, int> kTwoLevelSizes[] = {{1, 1}, {1, 5}, {5, 1}, {2, 2}, {2, 4},
                                                  {4, 2}, {3, 3}, {5, 3}, {2, 7}};

Problem two_level_job(int nodes, int places, const char* mask = "causal",
                      PartitionKind partition = PartitionKind::contiguous, bool backward = true) {
  return {.shape = {2, 4, 2, 203, 8},
          .dtype = DType::bf16,
          .mask = MaskSpec::parse(mask),
          .partition = partition,
          .world_size = nodes * places,
          .scheme = scheme_named("two-level"),
          .backward = backward,
          .nodes = nodes};
}

Machine two_level_machine(const Problem& job, const Rates& rates, const Link& between) {
  Machine machine;
  machine.world_size = job.world_size;
  machine.rates = rates;
  machine.to_next_node.assign(static_cast<std::size_t>(job.world_size),
                              {between.bytes_per_s, between.latency_s});
  return machine;
}

RandomCase random_two_level(RandomCases& cases) {
  RandomCase made = cases.next();
  while (made.job.world_size > 64 || made.job.scheme != scheme_named("two-level"))
    made = cases.next();
  return made;
}

Simulation run(const Problem& job, Pace pace, const Machine& machine) {
  return simulate({job, pace}, Work(job), machine);
}

// In step, a turn inside the nodes takes the slowest rank's steps or hops, and a hop between nodes hides
// behind it or does not.
TEST(TwoLevel, InStepTurnsLastAsLongAsStepsOrHops) {
  const Rates fast{1e9, 0.7e9, 1e12, 0}, slow{1e9, 0.7e9, 4e7, 1e-6};
  const Link fast_link{"", 1e12, 0}, slow_link{"", 2e7, 2e-6};
  for (const auto& [nodes, places] : kTwoLevelSizes)
    for (const char* mask : {"full", "causal+window:40", "causal+documents:120,83"})
      for (const Rates& rates : {fast, slow})
        for (const Link& between : {fast_link, slow_link}) {
          Problem job = two_level_job(nodes, places, mask, PartitionKind::zigzag, false);
          const Work work(job);
          const bool has_hops = places > 1, has_far_hops = nodes > 1;
          const double bytes = kv_hop_bytes(job);
          const double here = has_hops ? rates.latency_s + bytes / rates.bytes_per_s : 0,
                       far = has_far_hops ? between.latency_s + bytes / between.bytes_per_s : 0;
          double told = 0;
          for (int outer = 0; outer < nodes; ++outer) {
            double turn = 0;
            for (int inner = 0; inner < places; ++inner) {
              double slowest = 0;
              for (int rank = 0; rank < job.world_size; ++rank)
                slowest = std::max(
                    slowest,
                    work.pairs(rank, TwoLevelSchedule{rank, nodes, places}.owner(outer, inner)));
              const double computing = compute_seconds(job, rates, Pass::forward, slowest);
              turn += std::max(computing, inner + 1 < places ? here : 0);
            }
            told += std::max(turn, outer + 1 < nodes ? far : 0);
          }
          const Simulation done = run(job, Pace::in_step, two_level_machine(job, rates, between));
          ASSERT_NEAR(done.forward_s, told, 1e-13 * told) << nodes << " x " << places;
        }
}

// One node, or nodes of one rank, are a flat ring.
TEST(TwoLevel, OfOneLevelItIsTheFlatRing) {
  RandomCases cases(21);
  for (int trial = 0; trial < 150; ++trial) {
    RandomCase made = random_two_level(cases);
    Problem& job = made.job;
    job.nodes = trial % 2 == 0 ? 1 : job.world_size;
    if (job.nodes > 1) made.machine.hop_jitter = 0;  // drawn by other numbers
    RandomCase flat = made;
    flat.job.scheme = scheme_named("ring");
    flat.machine.to_next = trial % 2 == 0 ? made.machine.to_next_here : made.machine.to_next_node;
    const Simulation ours = simulated(made), ring = simulated(flat);
    SCOPED_TRACE(made.text());
    // What is drawn may be multiplied and added at once, or not, as the compiler sees fit.
    const bool is_drawn = made.machine.jitter > 0 || made.machine.hop_jitter > 0;
    const double rounding = is_drawn ? 1e-12 * ring.wall_s() : 0;
    EXPECT_NEAR(ours.forward_s, ring.forward_s, rounding);
    EXPECT_NEAR(ours.backward_s, ring.backward_s, rounding);
    for (std::size_t rank = 0; rank < ours.ranks.size(); ++rank) {
      EXPECT_NEAR(ours.ranks[rank].end_s, ring.ranks[rank].end_s, rounding);
      EXPECT_DOUBLE_EQ(ours.ranks[rank].bytes_sent, ring.ranks[rank].bytes_sent);
      EXPECT_EQ(ours.ranks[rank].hops, ring.ranks[rank].hops);
      EXPECT_NEAR(ours.ranks[rank].wait_s, ring.ranks[rank].wait_s, 1e-12);
      EXPECT_NEAR(ours.ranks[rank].exposed_s, ring.ranks[rank].exposed_s, 1e-12);
    }
  }
}

TEST(TwoLevel, RefusesNodesThatDoNotDivideAndSharedCoresInStep) {
  Problem job = two_level_job(2, 4);
  const Machine machine = two_level_machine(job, {1e9, 1e9, 1e9, 0}, {"", 1e9, 0});
  job.nodes = 3;
  EXPECT_EQ(input_error_of([&] { run(job, Pace::in_step, machine); }),
            "nodes: 3 given for 8 ranks; accepted: a number that divides them");
  job.nodes = 2;
  Machine shared = machine;
  shared.cores = 4;
  EXPECT_THROW(run(job, Pace::in_step, shared), InputError);
  EXPECT_GT(run(job, Pace::buffers, shared).wall_s(), run(job, Pace::buffers, machine).wall_s());
  shared.cores = 8;
  EXPECT_EQ(run(job, Pace::in_step, shared).wall_s(), run(job, Pace::in_step, machine).wall_s());
}

// ---
// Two-level rings by formula: memory and limits.

Problem job_of(int nodes, int places) {
  Problem job = two_level_job(nodes, places);
  job.shape = {1, 4, 2, 1023, 16};
  return job;
}

TEST(TwoLevelCost, HoldsBuffersForBothLevels) {
  const auto bytes_beside_ring = [](Problem job) {
    Problem ring = job;
    ring.scheme = scheme_named("ring");
    return peak_bytes(job) - peak_bytes(ring);
  };
  Problem job = job_of(4, 4);
  const double kv = 2 * kv_values(job.shape, 64) * 2, gradient = kv * 2;
  // Own block, two between nodes, two inside, for the ring's own and two; and two sums.
  EXPECT_EQ(bytes_beside_ring(job), 2 * kv + 2 * gradient);
  job.backward = false;
  EXPECT_EQ(bytes_beside_ring(job), 2 * kv);
  job.kv_buffers = 3;
  EXPECT_EQ(bytes_beside_ring(job), 3 * kv);
  for (const auto& [nodes, places] : {std::pair{1, 1}, {1, 6}, {6, 1}})
    EXPECT_EQ(bytes_beside_ring(job_of(nodes, places)), 0);
}

TEST(TwoLevelCost, LimitsKeepNodesEqual) {
  const Problem job = job_of(4, 2);
  EXPECT_EQ(obstacle(job, 1e12), std::nullopt);
  Problem uneven = job;
  for (const int nodes : {3, 9}) {
    uneven.nodes = nodes;
    const auto why = obstacle(uneven, 1e12);
    ASSERT_TRUE(why);
    EXPECT_NE(why->find("accepted: two-level:M with M, the nodes, one of 1, 2, 4, 8"), why->npos)
        << *why;
  }
  EXPECT_EQ(smallest_world_size(job, 1e12), 4);
  Problem twelve = job;
  twelve.world_size = 12;
  EXPECT_EQ(smallest_world_size(job, peak_bytes(twelve)), 12);
  EXPECT_EQ(smallest_world_size(job, peak_bytes(twelve) - 1), 16);
  EXPECT_EQ(smallest_world_size(job, 1), std::nullopt);
  EXPECT_GE(largest_seqlen(job, peak_bytes(job)), job.shape.seqlen);
}

// ---
// What a two-level ring records. (tests/core/ring proves the order of its messages.)

// A hop inside a node takes a second, one between nodes half of one, a step a tenth. With two
// buffers the third block from the node before comes into the first one's, which takes a second to
// be sent on; with three, at once.
TEST(TwoLevelEvents, ABlockWaitsForTheOneInItsBufferToLeave) {
  RandomCase made;
  made.pace = Pace::buffers;
  made.job = two_level_job(4, 2, "full", PartitionKind::contiguous, false);
  made.job.shape.seqlen = 8 * 25;
  const double block = kv_hop_bytes(made.job);
  const double flops = 4 * query_values(made.job.shape, 1) * 25 * 25;
  made.machine = two_level_machine(made.job, {flops / 0.1, 1, block, 0}, {"", 2 * block, 0});
  for (const int buffers : {2, 3}) {
    made.job.kv_buffers = buffers;
    for (const std::vector<TraceEvent>& events : recorded(made).events)
      for (const TraceEvent& event : events) {
        const bool is_between = event.lane == Lane::send && std::abs(event.src - event.dst) != 1;
        if (!is_between || event.step != 2) continue;
        // From 1 s to 1.5 s, shown until the next hop inside the node at 1.1 s; or from 0.5 s to
        // 1 s, beside the first one.
        EXPECT_NEAR(static_cast<double>(event.end_ns), buffers == 2 ? 1.1e9 : 1e9, 1e3);
      }
  }
}

}  // namespace
}  // namespace ringscope
