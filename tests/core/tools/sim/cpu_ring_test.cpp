// A ring on this machine's processors, by made-up figures: sums that must come out.
#include "core/tools/sim/simulate.h"

#include <gtest/gtest.h>

#include <memory>
#include <numeric>

#include "core/attention/tile_product.h"

namespace ringscope {
namespace {

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

TEST(CpuRing, FiguresCountForAsManyProcessorsAsRanks) {
  const Problem job = job_of(2, "causal", PartitionKind::contiguous, false);
  // The second rank has a whole block and half of one.
  const Simulation run = simulated(job, some_figures(), 4);
  const double longest = std::max(run.ranks[0].compute_s, run.ranks[1].compute_s);
  EXPECT_GT(run.wall_s(), longest);
  EXPECT_LT(run.wall_s(), 1.3 * longest);
}

}  // namespace
}  // namespace ringscope
