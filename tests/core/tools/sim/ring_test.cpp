// Rings worked out by hand: what buffers hide and what they can't, links that differ, the balance
// ceiling; and machines that can't be.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <numeric>

#include "core/attention/tile_product.h"
#include "core/base/error.h"
#include "core/tools/sim/machine.h"
#include "core/tools/sim/simulate.h"

namespace ringscope {
namespace {

// A step of full attention takes 1 s and a hop `hop` s: 10 rows a rank, 100 pairs of 4 flops each,
// blocks of 80 bytes.
struct Ring {
  Problem job;
  Machine machine;

  explicit Ring(int world_size, double hop, bool backward = false) {
    job.shape = {1, 1, 1, 10 * world_size, 1};
    job.world_size = world_size;
    job.backward = backward;
    machine.world_size = world_size;
    machine.rates = {400, 1000, 80 / hop, 0};
  }

  Simulation in_step() const { return simulate({.job = job}, Work(job), machine); }
  Simulation with(int kv_buffers) const {
    Problem buffered = job;
    buffered.kv_buffers = kv_buffers;
    return simulate({buffered, Pace::buffers}, Work(job), machine);
  }
};

constexpr double kFree = 1e-300;  // seconds of a hop

TEST(Ring, ComputesAndMovesAtOnce) {
  EXPECT_DOUBLE_EQ(Ring(4, 0.5).in_step().wall_s(), 4);
  EXPECT_DOUBLE_EQ(Ring(4, 0.5).with(2).wall_s(), 4);
  // A step under way at each hop, and the last step.
  EXPECT_DOUBLE_EQ(Ring(4, 3).in_step().wall_s(), 3 * 3 + 1);
  EXPECT_DOUBLE_EQ(Ring(4, 3).with(2).wall_s(), 3 * 3 + 1);
  EXPECT_DOUBLE_EQ(Ring(4, 3).with(2).exposed_s(), 3 * 2);
}

TEST(Ring, BackwardMovesGradientsBehindTheirBlocks) {
  // Blocks of 0.25 s, f32 gradients as large, and steps of 1 s.
  EXPECT_DOUBLE_EQ(Ring(4, 0.25, true).in_step().backward_s, 4 + 0.25);
  EXPECT_DOUBLE_EQ(Ring(4, 0.25, true).with(2).backward_s, 4 + 0.25);
  // Of 3 s: a block, two times both, the last gradients.
  EXPECT_DOUBLE_EQ(Ring(4, 3, true).in_step().backward_s, 3 + 6 + 6 + 3 + 3);
}

TEST(Ring, LastsAsLongAsItsSlowestLinkInStep) {
  Ring ring(4, 0.5);
  ring.machine.to_next = {{160, 0}, {20, 0}, {160, 0}, {160, 0.25}};
  EXPECT_DOUBLE_EQ(ring.in_step().wall_s(), 3 * 4 + 1);
  // Every block but one crosses it; the ranks behind wait for three of them.
  EXPECT_DOUBLE_EQ(ring.with(2).wall_s(), 3 * 4 + 1);
}

// A rank that is late once is waited for by whoever has no block to go on with; with buffers for all
// blocks nobody waits, and only work that is much by chance alone is left.
TEST(Ring, BuffersHideChanceAsFarAsTheyReach) {
  constexpr int kRanks = 32;
  constexpr double kJitter = 4;
  Ring ring(kRanks, kFree);
  ring.machine.jitter = kJitter;
  ring.machine.seed = 4;
  const auto seconds = [](int rank, int step) {
    return 1 + kJitter * jitter_draw(4, JitterOf::compute, Pass::forward, rank, step);
  };
  double most_work = 0, in_step = 0;
  for (int i = 0; i < kRanks; ++i) {
    double work = 0, slowest = 0;
    for (int k = 0; k < kRanks; ++k) {
      work += seconds(i, k);
      slowest = std::max(slowest, seconds(k, i));
    }
    most_work = std::max(most_work, work);
    in_step += slowest;
  }
  EXPECT_NEAR(ring.in_step().wall_s(), in_step, 1e-9);
  double before = in_step;
  for (const int buffers : {2, 3, 4, 5, 9}) {
    const double wall = ring.with(buffers).wall_s();
    EXPECT_LT(wall, before - 1) << buffers;
    before = wall;
  }
  EXPECT_NEAR(ring.with(kRanks).wall_s(), most_work, 1e-9);
}

TEST(Ring, BuffersDoNotHideARankThatIsAlwaysSlow) {
  Ring ring(8, kFree);
  ring.machine.speed.assign(8, 1);
  ring.machine.speed[5] = 0.5;
  for (const int buffers : {2, 3, 8, 100}) EXPECT_DOUBLE_EQ(ring.with(buffers).wall_s(), 16);
  EXPECT_DOUBLE_EQ(ring.in_step().wall_s(), 16);
  const CriticalPath path = ring.with(4).path;
  EXPECT_EQ(path.ranks.front(), 5);
  EXPECT_DOUBLE_EQ(path.compute_s, 16);
}

// Blocks far ahead stand before gradients on the same link. With eight buffers all seven go first,
// 3.5 s; the first gradient then arrives at 4 s, and only when it is added do the six steps begin
// that are left, and the last gradient goes home. With two it goes after the second block.
TEST(Ring, BuffersMayHoldGradientsUp) {
  const Ring ring(8, 0.5, true);
  EXPECT_DOUBLE_EQ(ring.with(2).backward_s, 8 + 0.5);
  EXPECT_DOUBLE_EQ(ring.with(8).backward_s, 7 * 0.5 + 0.5 + 6 + 0.5);
}

TEST(Ring, AStepCostsARankWhatItCostsBesides) {
  Ring ring(4, kFree);
  ring.machine.step_s = 0.5;
  EXPECT_DOUBLE_EQ(ring.with(2).wall_s(), 6);
  ring.job.mask = MaskSpec::parse("documents:10,10,10,10");  // one step a rank has pairs
  EXPECT_DOUBLE_EQ(ring.with(2).wall_s(), 1.5);
}

TEST(Simulation, RefusesMachinesThatCanNotBe) {
  const Ring good(4, 1);
  const auto refused = [&](const char* what, auto&& spoil) {
    Ring bad = good;
    spoil(bad.machine);
    EXPECT_THROW(bad.with(2), InputError) << what;
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  refused("fewer ranks", [](Machine& machine) { machine.world_size = 3; });
  refused("no flops", [](Machine& machine) { machine.rates.forward_flops = 0; });
  refused("bandwidth nan", [&](Machine& machine) { machine.rates.bytes_per_s = nan; });
  refused("latency below 0", [](Machine& machine) { machine.rates.latency_s = -1; });
  refused("three speeds", [](Machine& machine) { machine.speed = {1, 1, 1}; });
  refused("no speed", [](Machine& machine) {
    machine.speed.assign(4, 1);
    machine.speed[3] = 0;
  });
  refused("bandwidth below 0", [](Machine& machine) {
    machine.to_next = {{1, 0}, {1, 0}, {1, 0}, {-1, 0}};
  });
  refused("jitter below 0", [](Machine& machine) { machine.jitter = -0.5; });
  refused("jitter nan", [&](Machine& machine) { machine.hop_jitter = nan; });
  EXPECT_THROW(good.with(1), InputError);
  EXPECT_THROW(simulate({.job = good.job}, Work(Ring(5, 1).job), good.machine), InputError);
}

// ---
// A ring on this machine's processors, by made-up figures: sums that must come out.

CpuFigures some_figures() {
  CpuFigures figures;
  figures.forward = {1e-9, 5e-8, 3e-8, 2e-7, 1e-9};
  figures.backward = {3e-9, 7e-8, 4e-8, 5e-7, 2e-9};
  figures.add_s = 1e-10;
  figures.start_s = 2e-5;
  figures.hops = {1e-5, 1e-10};
  return figures;
}

Problem job_of(int world_size, const char* mask, PartitionKind partition, bool backward) {
  Problem job;
  job.shape = {2, 6, 2, 1000, 40};  // three query heads read one of keys
  job.mask = MaskSpec::parse(mask);
  job.world_size = world_size;
  job.partition = partition;
  job.backward = backward;
  return job;
}

double sum(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

Machine machine_of(const Problem& job, const CpuFigures& figures, int cores) {
  Machine machine;
  machine.world_size = job.world_size;
  machine.rates = {1, 1, 1, 0};
  machine.cores = cores;
  machine.cpu = std::make_shared<const CpuFigures>(figures);
  return machine;
}

Simulation simulated(const Problem& job, const CpuFigures& figures, int cores) {
  return simulate({job, Pace::buffers}, Work(job), machine_of(job, figures, cores));
}

TEST(CpuRing, EveryFigureCountsAsOftenAsItsPartHappens) {
  const Problem job = job_of(4, "full", PartitionKind::striped, true);
  const TaskGraph graph = graph_of(job, {.hosts_compute = true});
  const auto total = [&](auto&& set) {
    CpuFigures figures;
    set(figures);
    return sum(durations_on(graph, job, machine_of(job, figures, 4)));
  };
  constexpr double kHeads = 12, kHeadsKv = 4, kDim = 40, kSeqlen = 1000;
  // 250 rows a rank, all of them full tiles: one tile of keys, columns in whole vectors.
  const double columns = static_cast<double>(round_up(250, kVectorWidth));
  EXPECT_DOUBLE_EQ(total([](CpuFigures& f) { f.forward.pair_s = 1; }),
                   kHeads * kSeqlen * 4 * columns);
  EXPECT_DOUBLE_EQ(total([](CpuFigures& f) { f.backward.row_s = 1; }), kHeads * kSeqlen * 4);
  EXPECT_DOUBLE_EQ(total([](CpuFigures& f) { f.forward.partial_row_s = 1; }), 0);
  EXPECT_DOUBLE_EQ(total([](CpuFigures& f) { f.backward.key_s = 1; }), kHeadsKv * kSeqlen * 4);
  EXPECT_DOUBLE_EQ(total([](CpuFigures& f) { f.forward.value_s = 1; }), kHeads * kSeqlen * kDim);
  EXPECT_DOUBLE_EQ(total([](CpuFigures& f) { f.start_s = 1; }), 4);
  // Forward 3 hops a rank, backward 3 of blocks and 4 of gradients.
  EXPECT_DOUBLE_EQ(total([](CpuFigures& f) { f.hops.hop_s = 1; }), 4 * (3 + 3 + 4));
  EXPECT_DOUBLE_EQ(total([](CpuFigures& f) { f.hops.byte_s = 1; }),
                   2 * kHeadsKv * kSeqlen * kDim * 4 * (3 + 3 + 4));
  EXPECT_DOUBLE_EQ(total([](CpuFigures& f) { f.add_s = 1; }), 2 * kHeadsKv * kSeqlen * kDim * 3);
}

TEST(CpuRing, OneProcessorDoesOneThingAfterTheOther) {
  for (const PartitionKind partition : kAllPartitions)
    for (const bool backward : {false, true})
      for (const int n : {1, 2, 5}) {
        const Problem job = job_of(n, "causal", partition, backward);
        const CpuFigures figures = some_figures();
        const TaskGraph graph = graph_of(job, {.hosts_compute = true});
        const double work = sum(durations_on(graph, job, machine_of(job, figures, 1)));
        // There is always somebody who can go on, so that it never stands still.
        EXPECT_NEAR(simulated(job, figures, 1).wall_s(), work, 1e-9 * work)
            << name_of(partition) << " of " << n;
        const double on_two = simulated(job, figures, 2).wall_s();
        EXPECT_GE(on_two * (1 + 1e-9), work / 2);
        EXPECT_LE(on_two, work * (1 + 1e-9));
      }
}

}  // namespace
}  // namespace ringscope
