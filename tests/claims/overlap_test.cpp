// When communication hides behind computation: the sources' inequality, its examples, and what
// slow or unsteady links do to it.
#include <algorithm>
#include <cmath>
#include <vector>

#include "core/cost/amounts.h"
#include "core/cost/balance.h"
#include "core/cost/time.h"
#include "tests/claims/claim.h"
#include "tests/claims/jobs.h"

namespace ringscope::claims {
namespace overlap_test {

constexpr auto kZigzag = PartitionKind::zigzag;

double threshold(const Problem& job, const Rates& rates) {
  return threshold_rows(job, rates, Pass::forward, least_share(job, balance_of(job)));
}

Problem full() { return job_of(32, 32, 65536, 8); }

CLAIM(C30, HiddenFromFOverBRowsOn) {
  const Rates rates = peak(kA100, 300e9);
  const double ratio = kA100 / 300e9;
  const Problem causal = job_of(32, 32, 65536, 8, "causal", kZigzag);
  Problem f32 = full();
  f32.dtype = DType::f32;
  const double c = 1000, d = 128;
  return {.verdict = Verdict::holds_if,
          .claim =
              "A step computes 4 d c^2 / F seconds and sends 4 c d / B, so communication hides "
              "when c >= F / B.",
          .source = "S0, S3",
          .place = "S0, Arithmetic Complexity; S3, entry 3",
          .correct =
              "True for a full mask, 2-byte values, as many kv heads as heads, and B one way. "
              "Then an A100 with 300 GB/s needs {2} rows. A balanced causal mask halves the "
              "work and doubles that ({3}); 4-byte values double it; grouped heads divide it "
              "({5} with 8 kv heads for 32).",
          .figures = {
              {.what = "microseconds to send a block, c = 1,000, d = 128, 300 GB/s",
               .value = 1e6 * hop_seconds(job_of(1, 1, 8000, 8), rates, Pass::forward, c),
               .right = near(1e6 * 4 * c * d / 300e9, 1e-9),
               .claimed = 1e6 * 4 * c * d / 300e9,
               .broken = {"K alone", 1e6 * 2 * c * d / 300e9}},
              {.what = "microseconds to compute a step, 312 TFLOP/s",
               .value = 1e6 * compute_seconds(job_of(1, 1, 8000, 8), rates, Pass::forward, c * c),
               .right = near(1e6 * 4 * d * c * c / kA100, 1e-9),
               .claimed = 1e6 * 4 * d * c * c / kA100,
               .broken = {"one of the two products", 1e6 * 2 * d * c * c / kA100}},
              {.what = "least rows a rank, full mask",
               .value = threshold(full(), rates),
               .right = near(ratio, 1e-6),
               .claimed = ratio,
               .broken = {"one of the two products", threshold(full(), peak(kA100 * 2, 300e9))}},
              {.what = "the same, causal in 2N chunks",
               .value = threshold(causal, rates),
               .right = near(2 * ratio, 0.5),
               .claimed = ratio,
               .broken = {"full mask", threshold(full(), rates)}},
              {.what = "full mask, f32",
               .value = threshold(f32, rates),
               .right = near(2 * ratio, 1e-6),
               .claimed = ratio,
               .broken = {"bf16", threshold(full(), rates)}},
              {.what = "full mask, 8 kv heads for 32",
               .value = threshold(job_of(32, 8, 65536, 8), rates),
               .right = near(ratio / 4, 1e-6),
               .claimed = ratio,
               .broken = {"K and V repeated for every query head", threshold(full(), rates)}}}};
}

CLAIM(C31, S1CountsOneOfTwoProducts) {
  const Rates s1 = peak(kA100, 600e9);
  const double claimed = kA100 * 2 / 600e9;
  const double compute = compute_seconds(full(), s1, Pass::forward, claimed * claimed);
  const double hop = hop_seconds(full(), s1, Pass::forward, claimed);
  return {.verdict = Verdict::wrong,
          .claim =
              "A step computes 2 c^2 d FLOPs a head, so c >= F sizeof / B, about 1,024 tokens "
              "on an A100 with 600 GB/s.",
          .source = "S1",
          .place = "part two, 7.1",
          .correct =
              "Q K^T and P V are two products, 4 c^2 d: half of that, {0} tokens, hides the "
              "hop, and at S1's threshold computing takes {1} times as long as sending. (S1's "
              "formula gives 1,040, not 1,024; and 600 GB/s are both directions: C33.)",
          .figures = {{.what = "least rows a rank",
                       .value = threshold(full(), s1),
                       .right = near(520, 1e-6),
                       .claimed = claimed,
                       .broken = {"one of the two products", 2 * threshold(full(), s1)}},
                      {.what = "computing over sending at S1's threshold",
                       .value = compute / hop,
                       .right = near(2, 1e-9),
                       .claimed = 1,
                       .broken = {"one of the two products", compute / 2 / hop}}}};
}

CLAIM(C32, ExampleTakes14Milliseconds) {
  const Rates s1 = peak(kA100, 600e9);
  const Problem job = job_of(32, 32, 131072, 8);
  const double c = job.max_rows();
  const double compute = 1e3 * compute_seconds(job, s1, Pass::forward, c * c);
  const double hop = 1e3 * hop_seconds(job, s1, Pass::forward, c);
  return {.verdict = Verdict::wrong,
          .claim =
              "With 131,072 tokens on 8 GPUs, 32 heads of 128, a step computes 8.59 ms and "
              "sends 0.22 ms, a ratio of 39.3.",
          .source = "S1",
          .place = "part two, 12.4",
          .correct =
              "The listing above these numbers computes {0} ms, {2} ms and 15.8. "
              "With both products a step takes {1} ms, {3} times the hop. The conclusion, that "
              "sending is hidden, holds.",
          .figures = {{.what = "ms a step by S1's own formula, one product",
                       .value = compute / 2,
                       .right = near(7.05, 0.005),
                       .claimed = 8.59,
                       .broken = {"both products", compute}},
                      {.what = "ms a step, both products",
                       .value = compute,
                       .right = near(14.09, 0.01),
                       .claimed = 8.59,
                       .broken = {"one product", compute / 2}},
                      {.what = "ms a hop",
                       .value = hop,
                       .right = near(0.447, 0.001),
                       .claimed = 0.22,
                       .broken = {"K alone", hop / 2}},
                      {.what = "computing over sending, both products",
                       .value = compute / hop,
                       .right = near(31.5, 0.05),
                       .claimed = 39.3,
                       .broken = {"one product", compute / 2 / hop}}}};
}

CLAIM(C33, NvlinkIsCountedBothWays) {
  const Gpu a100 = find_gpu("A100"), h100 = find_gpu("H100");
  const auto one_way = [](const Gpu& gpu, const char* link) {
    return threshold(full(), peak(gpu.peak_flops(DType::bf16), find_link(link).bytes_per_s));
  };
  const double a = threshold(full(), peak(kA100, 600e9)),
               h = threshold(full(), peak(989.4e12, 900e9));
  return {.verdict = Verdict::holds_if,
          .claim =
              "F / B is 520 tokens for an A100 (312 TFLOP/s, 600 GB/s) and 1,100 for an H100 "
              "(about 1,000 TFLOP/s, 900 GB/s).",
          .source = "S3",
          .place = "entry 3, worked example",
          .correct =
              "The divisions are right, but NVLink's 600 and 900 GB/s are both directions "
              "together, and a ring sends one way: {2} and {3} tokens.",
          .figures = {{.what = "A100, both directions counted",
                       .value = a,
                       .right = near(520, 1e-6),
                       .claimed = 520,
                       .broken = {"one product", 2 * a}},
                      {.what = "H100, both directions counted",
                       .value = h,
                       .right = near(1100, 1),
                       .claimed = 1100,
                       .broken = {"one product", 2 * h}},
                      {.what = "A100, NVLink 3 one way",
                       .value = one_way(a100, "NVLink3"),
                       .right = near(1040, 1e-6),
                       .claimed = 520,
                       .broken = {"NVLink 4", one_way(a100, "NVLink4")}},
                      {.what = "H100, NVLink 4 one way",
                       .value = one_way(h100, "NVLink4"),
                       .right = near(2200, 2),
                       .claimed = 1100,
                       .broken = {"NVLink 3", one_way(h100, "NVLink3")}}}};
}

CLAIM(C40, MillionTokensTakeSixSecondsARank) {
  const Problem job = job_of(32, 32, 1'000'000, 8);
  const Rates rates = peak(kA100, 200e9);
  const double rank = compute_seconds(job, rates, Pass::forward, balance_of(job).mean_rank);
  const double sent = traffic_of(job, 0).forward_bytes / 200e9;
  const double s4 = 125e3 * 125e3 * 4096 / kA100;
  return {.verdict = Verdict::wrong,
          .claim =
              "A million tokens on 8 GPUs: communication takes 0.04 s at 200 GB/s, and computing "
              "1 to 2 s at the H100's 312 TFLOP/s.",
          .source = "S4",
          .place = "part 3, Communication Complexity",
          .correct =
              "K and V are two: {0} s. A rank computes 4 (n/P) n d FLOPs, {1} s in all and {2} "
              "s a round; S4's formula, (n/P)^2 d, gives {3} s. 312 TFLOP/s is an A100, an H100 "
              "has {4}. That communication hides is true.",
          .figures = {{.what = "s that a rank sends",
                       .value = sent,
                       .right = near(0.0717, 1e-4),
                       .claimed = 0.04,
                       .broken = {"K alone", sent / 2}},
                      {.what = "s that a rank computes",
                       .value = rank,
                       .right = near(6.56, 0.01),
                       .claimed_words = "1 to 2",
                       .supports_words = false,
                       .broken = {"one product in multiply-adds", rank / 4}},
                      {.what = "s that a round computes",
                       .value = rank / 8,
                       .right = near(0.82, 0.005),
                       .claimed_words = "1 to 2",
                       .supports_words = false,
                       .broken = {"all rounds", rank}},
                      {.what = "s by S4's formula",
                       .value = s4,
                       .right = near(0.205, 0.001),
                       .claimed_words = "1 to 2",
                       .supports_words = false,
                       .broken = {"for all rounds", 8 * s4}},
                      {.what = "TFLOP/s of an H100, 16-bit, dense",
                       .value = find_gpu("H100").peak_flops(DType::bf16) / 1e12,
                       .right = near(989.4, 0.5),
                       .claimed = 312,
                       .broken = {"an A100", find_gpu("A100").peak_flops(DType::bf16) / 1e12}}}};
}

// Blocks that take 1 to compute and `hop` to send, under a full mask, with two KV buffers a rank:
// how long a ring of n takes, over the n that it computes. Of `slow` links a hop takes 2.
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

CLAIM(C51, SlowestLinkSetsThePace) {
  const double one_slow = stretch(8, 0.5, 1), all_slow = stretch(8, 0.5, 8);
  const double mean = stretch(8, (7 * 0.5 + 2) / 8);
  constexpr double kJitter = 0.2;  // a hop takes 1.2 times as long on average, some twice as long
  const auto lost = [](double larger) { return stretch(16, 1 / larger, 0, kJitter) - 1; };
  return {
      .verdict = Verdict::holds,
      .claim =
          "A ring is as fast as its slowest link, and jitter has to be absorbed by blocks "
          "larger than the threshold.",
      .source = "S3",
      .place = "entry 3, edge cases; algorithm 1, failure modes; Section 11",
      .correct =
          "Simulated with two buffers a rank: one link of 8 that takes twice a step's computing "
          "costs as much as 8 such links, because every block but one has to pass it. With hops "
          "that take 1.2 times their nominal time on average, by chance (exponentially), blocks "
          "at the threshold cost {1} more time on 16 ranks, and blocks twice as large {2}.",
      .figures = {{.what = "time with one slow link over that with 8",
                   .value = one_slow / all_slow,
                   .right = near(1, 1e-9),
                   .claimed = 1,
                   .broken = {"the links' mean", mean / all_slow}},
                  {.what = "time lost to jitter, blocks at the threshold",
                   .value = lost(1),
                   .right = {0.3, 0.45},
                   .claimed_words = "some",
                   .broken = {"no jitter", stretch(16, 1) - 1},
                   .shown = Shown::percent},
                  {.what = "the same, blocks twice as large",
                   .value = lost(2),
                   .right = {0, 0.01},
                   .claimed_words = "none",
                   .broken = {"1.1 times as large", lost(1.1)},
                   .shown = Shown::percent}}};
}

// A causal ring of 8 whose ranks compute for as long as they like: four buffers against step by step.
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

CLAIM(C71, WithoutBarriersTheLastRankIsAsSlow) {
  const Balance balance = balance_of(job_of(1, 1, 8 * 4096, 8, "causal"));
  return {
      .verdict = Verdict::wrong,
      .claim =
          "The imbalance costs so much because the ring is synchronous, each iteration "
          "waiting for the slowest device; an asynchronous ring would hide stragglers.",
      .source = "S3",
      .place = "Section 5.2; Section 11, future research 3",
      .correct =
          "Not this imbalance: with contiguous causal ranks the slowest is the last one "
          "in every step, so its own work takes {0} of the time that waiting for the "
          "slowest at every step takes, and a simulated ring with four buffers takes {1} of the "
          "time of one in step. Only another partition helps. What buffers do hide is chance: "
          "where computing takes twice as long on average, exponentially, {2} are left.",
      .figures = {{.what = "slowest rank's whole work over the sum of the steps' slowest",
                   .value = balance.slowest_rank / balance.slowest_steps(),
                   .right = exactly(1),
                   .claimed_words = "less",
                   .supports_words = false,
                   .broken = {"the mean rank's", balance.mean_rank / balance.slowest_steps()},
                   .shown = Shown::percent},
                  {.what = "simulated time, four buffers over step by step",
                   .value = buffered_over_in_step(0),
                   .right = near(1, 1e-9),
                   .claimed_words = "less",
                   .supports_words = false,
                   .broken = {"with jitter", buffered_over_in_step(1)},
                   .shown = Shown::percent},
                  {.what = "the same with jitter",
                   .value = buffered_over_in_step(1),
                   .right = {0.6, 0.95},
                   .claimed_words = "less",
                   .broken = {"without", buffered_over_in_step(0)},
                   .shown = Shown::percent}}};
}

CLAIM(C72, SoftmaxWorkGrowsWithTheScores) {
  const double c = 4096, d = 128;
  const Problem job = job_of(1, 1, 8 * 4096, 8);
  const Partition partition = job.partition_of_sequence();
  const auto scores = static_cast<double>(
      Region{job.mask.for_seqlen(8 * 4096), partition.rows_of(1), partition.rows_of(0)}.pairs());
  return {.verdict = Verdict::wrong,
          .claim = "A step's softmax, with maximum and sum, takes 2 c d operations.",
          .source = "S0",
          .place = "Arithmetic Complexity",
          .correct =
              "Every score of the block has its exp: {0} of them at c = 4,096, and as many "
              "subtractions, additions and comparisons; 2 c d, for rescaling A, comes on "
              "top. S0's conclusion stands, since even 4 operations a score are {1} of the "
              "FLOPs of the two products (but exps are far slower than those).",
          .figures = {{.what = "exps of a step, c = 4,096",
                       .value = scores,
                       .right = exactly(c * c),
                       .claimed = 2 * c * d,
                       .broken = {"one for each value of A, twice", 2 * c * d}},
                      {.what = "4 operations a score over the products' FLOPs",
                       .value = 4 * scores / flops_of_pairs(job.shape, scores, Pass::forward),
                       .right = near(1 / d, 1e-12),
                       .broken = {"one product in multiply-adds",
                                  16 * scores / flops_of_pairs(job.shape, scores, Pass::forward)},
                       .shown = Shown::percent}}};
}

CLAIM(C73, HeadroomIsTwoToFour) {
  const Rates one_way = peak(kA100, 300e9);
  const double s3 = threshold(full(), peak(kA100, 600e9));
  const double causal = threshold(job_of(32, 32, 65536, 8, "causal", kZigzag), one_way);
  return {.verdict = Verdict::holds_if,
          .claim =
              "Blocks of 4,096 or 8,192 tokens are 8 to 16 times an A100's threshold of 520, "
              "which leaves room for jitter.",
          .source = "S3",
          .place = "Section 11, author-side rebuttal",
          .correct =
              "By that threshold, yes. Causal, which is what the text is about, and with "
              "one direction of the link, the threshold is four times as high, and 4,096 "
              "tokens leave a factor of {1}.",
          .figures = {{.what = "4,096 over the threshold, full mask, both directions counted",
                       .value = 4096 / s3,
                       .right = near(7.88, 0.15),
                       .claimed = 8,
                       .broken = {"one product", 4096 / (2 * s3)}},
                      {.what = "the same, causal in 2N chunks, one way",
                       .value = 4096 / causal,
                       .right = near(4096.0 / 2080, 0.01),
                       .claimed = 8,
                       .broken = {"full mask", 4096 / threshold(full(), one_way)}}}};
}

CLAIM(C74, DecodingIsLinearInTheCache) {
  const AttentionShape shape{1, 1, 1, 65536, 128};
  const auto flops = [&](double keys) { return flops_of_pairs(shape, keys, Pass::forward); };
  return {
      .verdict = Verdict::holds,
      .claim =
          "Decoding a token takes O(c d) on each device, and sending the query around is "
          "far less than sending K and V.",
      .source = "S3",
      .place = "Section 5.3; Section 8D",
      .correct =
          "4 c d FLOPs, and a block of K and V is 2 c times the query: {1} for 8,192 "
          "cached positions a device.",
      .figures = {{.what = "FLOPs of one query, 16,384 over 8,192 keys",
                   .value = flops(16384) / flops(8192),
                   .right = exactly(2),
                   .claimed = 2,
                   .broken = {"a block of queries", flops(16384.0 * 16384) / flops(8192.0 * 8192)}},
                  {.what = "values of K and V over those of a query",
                   .value = 2 * kv_values(shape, 8192.0) / query_values(shape, 1.0),
                   .right = exactly(2 * 8192),
                   .claimed_words = "dramatic",
                   .broken = {"a block of queries",
                              2 * kv_values(shape, 8192.0) / query_values(shape, 8192.0)}}}};
}

}  // namespace overlap_test
}  // namespace ringscope::claims
