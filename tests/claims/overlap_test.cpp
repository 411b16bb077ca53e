// Tests when communication hides behind computation: the sources' inequality, its examples, and the
// effect of slow or unsteady links.

#include "core/tools/cost/amounts.h"
#include "core/tools/cost/balance.h"
#include "core/tools/cost/time.h"
#include "tests/claims/claim.h"
#include "tests/claims/jobs.h"

namespace ringscope::claims {
namespace overlap_test {

double threshold(const Problem& job, const Rates& rates) {
  return threshold_rows(job, rates, Pass::forward, least_share(job, balance_of(job)));
}

Problem full() { return job_of(32, 32, 65536, 8); }

CLAIM(C30, HiddenFromFOverBRowsOn, holds_if, "S0, S3", "S0, Arithmetic Complexity; S3, entry 3") {
  const Rates rates = peak(kA100, 300e9);
  const double ratio = kA100 / 300e9;
  const Problem causal = job_of(32, 32, 65536, 8, "causal", kZigzag);
  Problem f32 = full();
  f32.dtype = DType::f32;
  const double c = 1000, d = 128;
  return {
      "A step computes 4 d c^2 / F seconds and sends 4 c d / B, so communication hides when c >= F "
      "/ B.",
      "This is true for a full mask, 2-byte values, as many KV heads as query heads, and B one "
      "way. Then "
      "an A100 with 300 GB/s needs {2} rows. A balanced causal mask halves the work and doubles "
      "that ({3}); 4-byte values double it; grouped heads divide it ({5} with 8 KV heads for 32).",
      {Figure("microseconds to send a block, c = 1,000, d = 128, 300 GB/s",
              1e6 * hop_seconds(job_of(1, 1, 8000, 8), rates, Pass::forward, c),
              near(1e6 * 4 * c * d / 300e9, 1e-9), {"K alone", 1e6 * 2 * c * d / 300e9},
              1e6 * 4 * c * d / 300e9),
       Figure("microseconds to compute a step, 312 TFLOP/s",
              1e6 * compute_seconds(job_of(1, 1, 8000, 8), rates, Pass::forward, c * c),
              near(1e6 * 4 * d * c * c / kA100, 1e-9),
              {"one of the two products", 1e6 * 2 * d * c * c / kA100},
              1e6 * 4 * d * c * c / kA100),
       Figure("least rows per rank, full mask", threshold(full(), rates), near(ratio, 1e-6),
              {"one of the two products", threshold(full(), peak(kA100 * 2, 300e9))}, ratio),
       Figure("the same, causal in 2N chunks", threshold(causal, rates), near(2 * ratio, 0.5),
              {"full mask", threshold(full(), rates)}, ratio),
       Figure("full mask, f32", threshold(f32, rates), near(2 * ratio, 1e-6),
              {"bf16", threshold(full(), rates)}, ratio),
       Figure("full mask, 8 KV heads for 32", threshold(job_of(32, 8, 65536, 8), rates),
              near(ratio / 4, 1e-6),
              {"K and V repeated for every query head", threshold(full(), rates)}, ratio)}};
}

CLAIM(C31, S1CountsOneOfTwoProducts, wrong, "S1", "part two, 7.1") {
  const Rates s1 = peak(kA100, 600e9);
  const double claimed = kA100 * 2 / 600e9;
  const double compute = compute_seconds(full(), s1, Pass::forward, claimed * claimed);
  const double hop = hop_seconds(full(), s1, Pass::forward, claimed);
  return {
      "A step computes 2 c^2 d FLOPs per head, so c >= F e / B, about 1,024 tokens on an A100 "
      "with 600 GB/s.",
      "Q K^T and P V are two products, 4 c^2 d: half of that, {0} tokens, hides the hop, and at "
      "S1's threshold computing takes {1} times as long as sending. (S1's formula gives 1,040, not "
      "1,024; and 600 GB/s are both directions: C33.)",
      {Figure("least rows per rank", threshold(full(), s1), near(520, 1e-6),
              {"one of the two products", 2 * threshold(full(), s1)}, claimed),
       Figure("computing over sending at S1's threshold", compute / hop, near(2, 1e-9),
              {"one of the two products", compute / 2 / hop}, 1)}};
}

CLAIM(C32, ExampleTakes14Milliseconds, wrong, "S1", "part two, 12.4") {
  const Rates s1 = peak(kA100, 600e9);
  const Problem job = job_of(32, 32, 131072, 8);
  const double c = job.max_rows();
  const double compute = 1e3 * compute_seconds(job, s1, Pass::forward, c * c);
  const double hop = 1e3 * hop_seconds(job, s1, Pass::forward, c);
  return {
      "With 131,072 tokens on 8 GPUs, 32 heads of 128, a step computes 8.59 ms and sends 0.22 ms, "
      "a ratio of 39.3.",
      "The listing above these numbers computes {0} ms, {2} ms and 15.8. With both products a step "
      "takes {1} ms, {3} times the hop. The conclusion, that sending is hidden, holds.",
      {Figure("ms a step by S1's own formula, one product", compute / 2, near(7.05, 0.005),
              {"both products", compute}, 8.59),
       Figure("ms a step, both products", compute, near(14.09, 0.01), {"one product", compute / 2},
              8.59),
       Figure("ms a hop", hop, near(0.447, 0.001), {"K alone", hop / 2}, 0.22),
       Figure("computing over sending, both products", compute / hop, near(31.5, 0.05),
              {"one product", compute / 2 / hop}, 39.3)}};
}

CLAIM(C33, NvlinkIsCountedBothWays, holds_if, "S3", "entry 3, worked example") {
  const Gpu a100 = find_gpu("A100"), h100 = find_gpu("H100");
  const auto one_way = [](const Gpu& gpu, const char* link) {
    return threshold(full(), peak(gpu.peak_flops(DType::bf16), find_link(link).bytes_per_s));
  };
  const double a = threshold(full(), peak(kA100, 600e9)),
               h = threshold(full(), peak(989.4e12, 900e9));
  return {
      "F / B is 520 tokens for an A100 (312 TFLOP/s, 600 GB/s) and 1,100 for an H100 (about 1,000 "
      "TFLOP/s, 900 GB/s).",
      "The divisions are right, but NVLink's 600 and 900 GB/s are both directions together, and a "
      "ring sends one way: {2} and {3} tokens.",
      {Figure("A100, both directions counted", a, near(520, 1e-6), {"one product", 2 * a}, 520),
       Figure("H100, both directions counted", h, near(1100, 1), {"one product", 2 * h}, 1100),
       Figure("A100, NVLink 3 one way", one_way(a100, "NVLink3"), near(1040, 1e-6),
              {"NVLink 4", one_way(a100, "NVLink4")}, 520),
       Figure("H100, NVLink 4 one way", one_way(h100, "NVLink4"), near(2200, 2),
              {"NVLink 3", one_way(h100, "NVLink3")}, 1100)}};
}

CLAIM(C40, MillionTokensTakeSixSecondsARank, wrong, "S4", "part 3, Communication Complexity") {
  const Problem job = job_of(32, 32, 1'000'000, 8);
  const Rates rates = peak(kA100, 200e9);
  const double rank = compute_seconds(job, rates, Pass::forward, balance_of(job).mean_rank);
  const double sent = traffic_of(job, 0).forward_bytes / 200e9;
  const double s4 = 125e3 * 125e3 * 4096 / kA100;
  return {
      "A million tokens on 8 GPUs: communication takes 0.04 s at 200 GB/s, and computing 1 to 2 s "
      "at the H100's 312 TFLOP/s.",
      "K and V are two: {0} s. A rank computes 4 c S d FLOPs, {1} s in all and {2} s per round; "
      "S4's formula, c^2 d, gives {3} s. 312 TFLOP/s is an A100, an H100 has {4}. That "
      "communication hides is true.",
      {Figure("s that a rank sends", sent, near(0.0717, 1e-4), {"K alone", sent / 2}, 0.04),
       Figure("s that a rank computes", rank, near(6.56, 0.01),
              {"one product in multiply-adds", rank / 4}, refuted("1 to 2")),
       Figure("s that a round computes", rank / 8, near(0.82, 0.005), {"all rounds", rank},
              refuted("1 to 2")),
       Figure("s by S4's formula", s4, near(0.205, 0.001), {"for all rounds", 8 * s4},
              refuted("1 to 2")),
       Figure("TFLOP/s of an H100, 16-bit, dense", find_gpu("H100").peak_flops(DType::bf16) / 1e12,
              near(989.4, 0.5), {"an A100", find_gpu("A100").peak_flops(DType::bf16) / 1e12},
              312)}};
}

// Return how long a ring of n takes, over the n that it computes. Blocks take 1 to compute and
// `hop` to send, under a full mask, with two KV buffers per rank. On `slow` links a hop takes 2.
double stretch(int n, double hop, int slow = 0, double hop_jitter = 0) {
  const Problem job = job_of(1, 1, 1000 * n, n);
  Machine machine;
  machine.world_size = n;
  const double bytes = kv_hop_bytes(job);
  machine.rates = peak(flops_of_pairs(job.shape, 1e6, Pass::forward), bytes / hop);
  machine.to_next.assign(static_cast<std::size_t>(n), {bytes / hop, 0});
  for (int k = 0; k < slow; ++k) machine.to_next[static_cast<std::size_t>(k)] = {bytes / 2, 0};
  machine.hop_jitter = hop_jitter;
  machine.seed = 51;
  return simulate({.job = job, .pace = Pace::buffers}, Work(job), machine).wall_s() / n;
}

CLAIM(C51, SlowestLinkSetsThePace, holds, "S3",
      "entry 3, edge cases; algorithm 1, failure modes; Section 11") {
  const double one_slow = stretch(8, 0.5, 1), all_slow = stretch(8, 0.5, 8);
  const double mean = stretch(8, (7 * 0.5 + 2) / 8);
  constexpr double kJitter = 0.2;  // a hop takes 1.2 times as long on average, some twice as long
  const auto lost = [](double larger) { return stretch(16, 1 / larger, 0, kJitter) - 1; };
  return {
      "A ring is as fast as its slowest link, and jitter has to be absorbed by blocks larger than "
      "the threshold.",
      "Simulated with two buffers per rank: one link of 8 that takes twice a step's computing "
      "costs "
      "as much as 8 such links, because every block but one has to pass it. With hops that take "
      "1.2 times their nominal time on average, by chance (exponentially), blocks at the threshold "
      "cost {1} more time on 16 ranks, and blocks twice as large {2}.",
      {Figure("time with one slow link over that with 8", one_slow / all_slow, near(1, 1e-9),
              {"the links' mean", mean / all_slow}, 1),
       Figure("time lost to jitter, blocks at the threshold", lost(1), {0.3, 0.45},
              {"no jitter", stretch(16, 1) - 1}, "some", Shown::percent),
       Figure("the same, blocks twice as large", lost(2), {0, 0.01},
              {"1.1 times as large", lost(1.1)}, "none", Shown::percent)}};
}

// Compare four buffers with step by step in a causal ring of 8 whose ranks compute for as long as
// they like.
double buffered_over_in_step(double jitter) {
  const Problem job = [] {
    Problem with_four = job_of(32, 32, 8 * 4096, 8, "causal");
    with_four.kv_buffers = 4;
    return with_four;
  }();
  Machine machine;
  machine.world_size = 8;
  machine.rates = peak(kA100, 300e9);
  machine.jitter = jitter;
  const auto wall = [&](Pace pace) {
    return simulate({.job = job, .pace = pace}, Work(job), machine).wall_s();
  };
  return wall(Pace::buffers) / wall(Pace::in_step);
}

CLAIM(C71, WithoutBarriersTheLastRankIsAsSlow, holds_if, "S3",
      "Section 5.2; Section 11, future research 3") {
  const Balance balance = balance_of(job_of(1, 1, 8 * 4096, 8, "causal"));
  return {
      "The imbalance costs so much because the ring is synchronous, each iteration waiting for the "
      "slowest device; an asynchronous ring would hide stragglers.",
      "It hides chance, not this imbalance: with contiguous causal ranks the slowest is the last "
      "one in every step, "
      "so its own work takes {0} of the time that waiting for the slowest at every step takes, and "
      "a simulated ring with four buffers takes {1} of the time of one in step. Only another "
      "partition helps. Stragglers by chance are another matter, and there S3 is right: where "
      "computing takes twice as long on average, exponentially, {2} are left.",
      {Figure("slowest rank's whole work over the sum of the steps' slowest",
              balance.slowest_rank / balance.slowest_steps(), exactly(1),
              {"the mean rank's", balance.mean_rank / balance.slowest_steps()}, refuted("less"),
              Shown::percent),
       Figure("simulated time, four buffers over step by step", buffered_over_in_step(0),
              near(1, 1e-9), {"with jitter", buffered_over_in_step(1)}, refuted("less"),
              Shown::percent),
       Figure("the same with jitter", buffered_over_in_step(1), {0.6, 0.95},
              {"without", buffered_over_in_step(0)}, "less", Shown::percent)}};
}

CLAIM(C72, SoftmaxWorkGrowsWithTheScores, wrong, "S0", "Arithmetic Complexity") {
  const double c = 4096, d = 128;
  const Problem job = job_of(1, 1, 8 * 4096, 8);
  const Partition partition = job.partition_of_sequence();
  const auto scores = static_cast<double>(
      Region{job.mask.for_seqlen(8 * 4096), partition.rows_of(1), partition.rows_of(0)}.pairs());
  return {"A step's softmax, with maximum and sum, takes 2 c d operations.",
          "Every score of the block has its exp: {0} of them at c = 4,096, and as many "
          "subtractions, additions and comparisons; 2 c d, for rescaling A, comes on top. S0's "
          "conclusion stands, since even 4 operations per score are {1} of the FLOPs of the two "
          "products (but exps are far slower than those).",
          {Figure("exps of a step, c = 4,096", scores, exactly(c * c),
                  {"one for each value of A, twice", 2 * c * d}, 2 * c * d),
           Figure("4 operations per score over the products' FLOPs",
                  4 * scores / flops_of_pairs(job.shape, scores, Pass::forward), near(1 / d, 1e-12),
                  {"one product in multiply-adds",
                   16 * scores / flops_of_pairs(job.shape, scores, Pass::forward)},
                  kNothing, Shown::percent)}};
}

}  // namespace overlap_test
}  // namespace ringscope::claims
