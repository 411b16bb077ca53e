// The two-level ring: what it does, what it sends, and that its times are those of the closed form.
#include "core/ring/two_level.h"

#include <gtest/gtest.h>

#include <set>

#include "core/base/error.h"
#include "core/tools/cost/amounts.h"
#include "core/tools/cost/time.h"
#include "core/tools/sim/cluster.h"
#include "tests/core/tools/sim/two_level_cases.h"

namespace ringscope {
namespace {

Simulation run(const Problem& job, Pace pace, const Machine& machine) {
  return simulate({job, pace}, Work(job), machine);
}

TEST(TwoLevel, EveryRankAttendsEveryBlockOnceAndGetsItFromWhereItWas) {
  for (const auto& [nodes, places] : kTwoLevelSizes)
    for (int rank = 0; rank < nodes * places; ++rank) {
      const TwoLevelSchedule mine{rank, nodes, places};
      const TwoLevelSchedule before{mine.previous_here(), nodes, places};
      const TwoLevelSchedule node_before{mine.previous_node(), nodes, places};
      EXPECT_EQ(before.next_here(), rank);
      EXPECT_EQ(node_before.next_node(), rank);
      EXPECT_EQ(mine.owner(0, 0), rank);
      std::set<int> owners;
      for (int outer = 0; outer < nodes; ++outer)
        for (int inner = 0; inner < places; ++inner) {
          owners.insert(mine.owner(outer, inner));
          if (inner > 0) {
            EXPECT_EQ(mine.owner(outer, inner), before.owner(outer, inner - 1));
          } else if (outer > 0) {
            EXPECT_EQ(mine.owner(outer, 0), node_before.owner(outer - 1, 0));
          }
        }
      EXPECT_EQ(static_cast<int>(owners.size()), nodes * places);
    }
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
    flat.job.scheme = Scheme::ring;
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

// A step takes 1 ms; a hop inside a node 0.5 ms, one between nodes 5 ms: it hides behind the eight
// steps of a turn, and behind one it does not, although a flat ring has a NIC for itself.
TEST(TwoLevel, HidesSlowLinksThatAFlatRingCanNot) {
  Problem job = two_level_job(4, 8, "full", PartitionKind::contiguous, false);
  job.shape.seqlen = 32 * 8;
  const double block = kv_hop_bytes(job);
  Rates rates{1, 1, block / 0.5e-3, 0};
  rates.forward_flops = 4 * query_values(job.shape, 1) * 64 / 1e-3;
  const Cluster cluster{32, 4, {"", block / 0.5e-3, 0}, {"", block / 5e-3, 0}, 8};
  const auto wall = [&](Scheme scheme, Pace pace) {
    job.scheme = scheme;
    return run(job, pace, machine_on(cluster, rates, scheme)).wall_s();
  };
  for (const Pace pace : {Pace::in_step, Pace::buffers}) {
    EXPECT_NEAR(wall(Scheme::two_level, pace), 32e-3, 1e-9);
    EXPECT_GT(wall(Scheme::ring, pace), 31 * 5e-3);
  }
}

TEST(TwoLevel, RefusesNodesThatDoNotDivideAndSharedCoresInStep) {
  Problem job = two_level_job(2, 4);
  const Machine machine = two_level_machine(job, {1e9, 1e9, 1e9, 0}, {"", 1e9, 0});
  job.nodes = 3;
  try {
    run(job, Pace::in_step, machine);
    ADD_FAILURE();
  } catch (const InputError& error) {
    EXPECT_EQ(std::string(error.what()),
              "nodes: 3 given for 8 ranks; accepted: a number that divides them");
  }
  job.nodes = 2;
  Machine shared = machine;
  shared.cores = 4;
  EXPECT_THROW(run(job, Pace::in_step, shared), InputError);
  EXPECT_GT(run(job, Pace::buffers, shared).wall_s(), run(job, Pace::buffers, machine).wall_s());
  shared.cores = 8;
  EXPECT_EQ(run(job, Pace::in_step, shared).wall_s(), run(job, Pace::in_step, machine).wall_s());
}

}  // namespace
}  // namespace ringscope
