// What the sources say of cost, recomputed: formulas and worked examples.
#include <gtest/gtest.h>

#include <cmath>

#include "core/cost/flops.h"
#include "core/cost/layer_time.h"
#include "core/cost/limits.h"
#include "core/cost/memory.h"
#include "core/cost/overlap.h"
#include "core/cost/traffic.h"
#include "core/ring/run.h"
#include "core/trace/summary.h"
#include "tests/attention/random_problem.h"

namespace ringscope {
namespace {

Job job_of_heads(Index heads, Index heads_kv, Index seqlen, int world_size,
                 const char* mask = "full", PartitionKind partition = PartitionKind::contiguous) {
  return {.shape = {1, heads, heads_kv, seqlen, 128},
          .dtype = DType::bf16,
          .mask = MaskSpec::parse(mask),
          .partition = partition,
          .world_size = world_size};
}

// A machine at its peak, as the sources assume.
Rates peak(double flops, double bytes_per_s) { return {flops, flops, bytes_per_s, 0}; }

double threshold(const Job& job, const Rates& rates) {
  return threshold_rows(job, rates, Pass::forward, least_share(job, balance_of(job)));
}

// C20 (S3: "roughly half"): contiguous ranks under a causal mask reach N / (2N - 1) of the ideal
// speed, 53.3 % at N = 8; exactly (N c + 1) / ((2N - 1) c + 1). Formula and a real run agree.
TEST(C20_ContiguousCausal, Reaches53PercentOnEightRanks) {
  for (const int n : {1, 2, 3, 8, 64})
    for (const Index c : {1, 7, 4096}) {
      const Job job = job_of_heads(1, 1, n * c, n, "causal");
      const auto rows = static_cast<double>(c);
      EXPECT_NEAR(balance_of(job).ceiling(), (n * rows + 1) / ((2.0 * n - 1) * rows + 1), 1e-12);
    }
  const Job large = job_of_heads(1, 1, 8 * 100'000, 8, "causal");
  EXPECT_NEAR(balance_of(large).ceiling(), 8.0 / 15, 1e-5);

  const AttentionShape shape{1, 1, 1, 8 * 32, 4};
  const Tensors<float> in = random_tensors(shape, 72);
  RingConfig config;
  config.shape = shape;
  config.mask = MaskSpec::parse("causal");
  config.world_size = 8;
  const RunSummary run = summarize(run_on_threads(config, {in.q, in.k, in.v, {}}).recording);
  EXPECT_NEAR(run.balance_ceiling, (8 * 32 + 1) / (15.0 * 32 + 1), 1e-12);
  // Taking diagonal blocks for whole ones would give (N + 1) / (2N), 56.25 %.
  EXPECT_LT(run.balance_ceiling, 0.54);
}

// C20: the same from the time of a layer: without communication, compute / total is the ceiling.
TEST(C20_ContiguousCausal, TakesThatMuchLonger) {
  const Job job = job_of_heads(32, 32, 8 * 4096, 8, "causal");
  const PassTime time = layer_time(job, balance_of(job), peak(312e12, 1e30)).forward;
  EXPECT_NEAR(time.compute / time.total(), 0.5334, 1e-4);
}

// C24 (S1): balanced partitions have their critical path at the mean, step by step.
TEST(C24_Balanced, CriticalPathIsTheMean) {
  const Job zigzag = job_of_heads(1, 1, 8 * 4096, 8, "causal", PartitionKind::zigzag);
  EXPECT_DOUBLE_EQ(balance_of(zigzag).ceiling(), 1);
  const Job striped = job_of_heads(1, 1, 8 * 4096, 8, "causal", PartitionKind::striped);
  EXPECT_NEAR(balance_of(striped).ceiling(), 1, 1e-3);
  EXPECT_LT(balance_of(striped).ceiling(), 1);
}

// C27 (S1): ring and all-gather send (N - 1)/N of K and V from every rank, in N - 1 hops where S1
// counts N. C29 (S2): that hardly depends on N a rank; over all ranks it grows with N - 1.
TEST(C27_C29_Volume, IsThatOfNMinusOneBlocks) {
  double in_all_on_two = 0;
  for (const int n : {2, 8, 64}) {
    Job job = job_of_heads(32, 32, 65536, n);
    const double kv = 2.0 * 65536 * 32 * 128 * 2;
    for (const JobScheme scheme : {JobScheme::ring, JobScheme::allgather}) {
      job.scheme = scheme;
      EXPECT_DOUBLE_EQ(traffic_of(job, 0).forward_bytes, kv * (n - 1) / n);
      EXPECT_EQ(traffic_of(job, 0).hops, n - 1);
    }
    double in_all = 0;
    for (int rank = 0; rank < n; ++rank) in_all += traffic_of(job, rank).forward_bytes;
    if (n == 2) in_all_on_two = in_all;
    EXPECT_DOUBLE_EQ(in_all, in_all_on_two * (n - 1));
  }
}

// C30 (S0, S3): hidden when c >= F/B, for full masks and 2-byte values; twice that for balanced
// causal steps; G/H of it with grouped heads.
TEST(C30_Threshold, IsFlopsOverBytes) {
  const Rates a100 = peak(312e12, 300e9);
  EXPECT_DOUBLE_EQ(threshold(job_of_heads(32, 32, 65536, 8), a100), 1040);
  EXPECT_NEAR(threshold(job_of_heads(32, 32, 65536, 8, "causal", PartitionKind::zigzag), a100),
              2 * 1040, 0.5);
  EXPECT_DOUBLE_EQ(threshold(job_of_heads(32, 8, 65536, 8), a100), 1040 / 4.0);
  Job f32 = job_of_heads(32, 32, 65536, 8);
  f32.dtype = DType::f32;
  EXPECT_DOUBLE_EQ(threshold(f32, a100), 2 * 1040);
}

// C30: the inequality's two sides as S0 writes them.
TEST(C30_Threshold, BothSidesAreS0s) {
  const Job job = job_of_heads(1, 1, 8 * 1000, 8);
  const Rates rates = peak(312e12, 300e9);
  const double c = 1000, d = 128;
  EXPECT_DOUBLE_EQ(hop_seconds(job, rates, Pass::forward, c), 4 * c * d / 300e9);
  EXPECT_DOUBLE_EQ(compute_seconds(job, rates, Pass::forward, c * c), 4 * d * c * c / 312e12);
}

// C31 (S1, part two, 7.1): c >= F sizeof / B counts one of the two products: with both, half of its
// 1,024 (1,040 by its own numbers) tokens hide it, and at its threshold compute takes twice as long
// as the hop.
TEST(C31_OverlapCondition, IsTwiceTooMuch) {
  const Rates s1 = peak(312e12, 600e9);
  const Job job = job_of_heads(32, 32, 131072, 8);
  const double claimed = 312e12 * 2 / 600e9;
  EXPECT_DOUBLE_EQ(claimed, 1040);
  EXPECT_DOUBLE_EQ(threshold(job, s1), claimed / 2);
  EXPECT_DOUBLE_EQ(compute_seconds(job, s1, Pass::forward, claimed * claimed),
                   2 * hop_seconds(job, s1, Pass::forward, claimed));
}

// C32 (S1, part two, 12.4): 131,072 tokens on 8 ranks: 8.59 ms and 0.22 ms printed; with both
// products 14.1 ms a step, by its own formula 7.05 ms, and 0.447 ms a hop.
TEST(C32_Example, Takes14MillisecondsAStep) {
  const Rates s1 = peak(312e12, 600e9);
  const Job job = job_of_heads(32, 32, 131072, 8);
  const double c = job.max_rows();
  const double compute = compute_seconds(job, s1, Pass::forward, c * c);
  const double hop = hop_seconds(job, s1, Pass::forward, c);
  EXPECT_NEAR(compute, 14.1e-3, 0.01e-3);
  EXPECT_NEAR(compute / 2, 7.05e-3, 0.005e-3);
  EXPECT_NEAR(hop, 0.447e-3, 0.001e-3);
  EXPECT_NEAR(compute / 2 / hop, 15.8, 0.05);
  EXPECT_GT(std::abs(compute / 2 - 8.59e-3), 1e-3);
  EXPECT_GT(std::abs(hop - 0.22e-3), 0.2e-3);
}

// C33 (S3): 520 and 1,100 tokens follow from both directions of NVLink; a ring uses one: 1,040,
// 2,200.
TEST(C33_Thresholds, DoubleWithOneDirectionOfNvlink) {
  const Job job = job_of_heads(32, 32, 65536, 8);
  EXPECT_DOUBLE_EQ(threshold(job, peak(312e12, 600e9)), 520);
  EXPECT_NEAR(threshold(job, peak(989.4e12, 900e9)), 1100, 1);
  const Gpu a100 = find_gpu("A100"), h100 = find_gpu("H100");
  const double a100_peak = a100.peak_flops(DType::bf16), h100_peak = h100.peak_flops(DType::bf16);
  EXPECT_DOUBLE_EQ(threshold(job, peak(a100_peak, find_link("NVLink3").bytes_per_s)), 1040);
  EXPECT_NEAR(threshold(job, peak(h100_peak, find_link("NVLink4").bytes_per_s)), 2200, 2);
}

// C34 (S0): 6 d c values, 12 d c bytes. C35 (S3) prints the same number as bytes: its 0.77 GB for a
// million tokens on 32 ranks are 1.54 GB.
TEST(C34_C35_Memory, IsSixValuesForARow) {
  const AttentionShape shape{1, 1, 1, 1'000'000, 4096};
  EXPECT_EQ(ring_values_of_s0(shape, 31'250), 6.0 * 31'250 * 4096);
  EXPECT_NEAR(2 * ring_values_of_s0(shape, 31'250), 1.54e9, 0.01e9);
  // This project's bill, which sums the output up in f32, is that and 2 d c more, and statistics.
  Job job{.shape = shape, .dtype = DType::bf16, .world_size = 32};
  double tensors = 0;
  for (const MemoryPart& part : memory_parts(job, 31'250))
    if (part.name != "row statistics" && part.name != "tile scratch") tensors += part.bytes;
  EXPECT_EQ(tensors, 12.0 * 31'250 * 4096 + 2.0 * 31'250 * 4096);
}

// C36 (S3, entry 4): naive scores of a million tokens take 64 TB in 2-byte values with 32 heads,
// not the 8 PB that come out with the width, 4,096, in the heads' place.
TEST(C36_Scores, Take64Terabytes) {
  EXPECT_EQ(score_matrix_bytes({1, 32, 32, 1'000'000, 128}, 2), 64e12);
  EXPECT_EQ(score_matrix_bytes({1, 4096, 4096, 1'000'000, 1}, 2), 8.192e15);
}

// C39 (S4): a million keys of width 4,096 take 8.2 GB in 2-byte values, not 4. C40: a rank of 8 at
// 312 TFLOP/s computes 6.6 s, 0.82 s a step; it sends 7/8 of K and V, 16.4 GB, where S4 counts one
// of them.
TEST(C39_C40_Example, TakesSixSecondsARank) {
  const Job job{.shape = {1, 32, 32, 1'000'000, 128}, .dtype = DType::bf16, .world_size = 8};
  EXPECT_NEAR(kv_values(job.shape, 1e6) * 2, 8.2e9, 0.01e9);
  const Rates rates = peak(312e12, 200e9);
  const double rank = compute_seconds(job, rates, Pass::forward, balance_of(job).mean_rank);
  EXPECT_NEAR(rank, 6.6, 0.05);
  EXPECT_NEAR(rank / 8, 0.82, 0.005);
  EXPECT_DOUBLE_EQ(traffic_of(job, 0).forward_bytes, 2 * 8.192e9 * 7 / 8);
}

// C41 (S4, part 4): 8 positions, 2 ranks, width 4: S4's 512 "FLOPs" are multiply-adds, 1,024 FLOPs;
// its 48 values a rank leave out the incoming block and the output: 96.
TEST(C41_Example, CountsMultiplyAdds) {
  const Job job{.shape = {1, 1, 1, 8, 4}, .world_size = 2};
  EXPECT_EQ(flops_of_pairs(job.shape, total_pairs(job), Pass::forward), 2 * 512);
  EXPECT_EQ(ring_values_of_s0(job.shape, 4), 48 + 2 * 4 * 4 + 4 * 4);
}

// C42 (S4): the ring computes as much as one device. Contiguous causal ranks that compute masked
// blocks compute N / ((N + 1) / 2) times as much as those that skip them whole.
TEST(C42_TotalWork, StaysTheSame) {
  for (const int n : {1, 2, 8})
    EXPECT_EQ(balance_of(job_of_heads(1, 1, 4096, n, "causal")).mean_rank * n, 4096.0 * 4097 / 2);
}

// C43 (S2): no part of the bill grows with rows x rows: twice the rows are less than twice the
// bytes.
TEST(C43_Memory, IsLinearInTheRows) {
  for (const JobScheme scheme : kAllJobSchemes) {
    Job job = job_of_heads(32, 8, 65536, 8);
    job.scheme = scheme;
    job.backward = true;
    const double once = peak_bytes(job);
    job.shape.seqlen *= 2;
    EXPECT_LE(peak_bytes(job), 2 * once);
    EXPECT_GT(peak_bytes(job), 1.99 * once);
  }
}

// C48 (S1, part two, 12.3): kv heads alone travel: with G for H heads, G/H of the bytes.
TEST(C48_GroupedHeads, SendTheirShare) {
  const double all = traffic_of(job_of_heads(32, 32, 65536, 8), 0).forward_bytes;
  for (const Index heads_kv : {1, 4, 8})
    EXPECT_DOUBLE_EQ(traffic_of(job_of_heads(32, heads_kv, 65536, 8), 0).forward_bytes,
                     all * static_cast<double>(heads_kv) / 32);
}

// C52 (S3: "up to N times longer"): N ranks hold N times the context of one, but for the second KV
// block that one rank does not need: from two ranks on it is N/2 times that of two.
TEST(C52_Context, GrowsWithTheRanks) {
  const auto longest = [](int n) {
    return static_cast<double>(largest_seqlen(job_of_heads(32, 32, 1, n), 1e9));
  };
  EXPECT_LT(longest(2), 2 * longest(1));
  EXPECT_GT(longest(2), 1.4 * longest(1));
  for (const int n : {4, 8, 64}) EXPECT_NEAR(longest(n) / longest(2), n / 2.0, 1e-2);
}

}  // namespace
}  // namespace ringscope
