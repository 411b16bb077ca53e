// Tests how much memory a rank needs by the sources' accounts.
#include <algorithm>

#include "core/tools/cost/amounts.h"
#include "core/tools/cost/choices.h"
#include "tests/claims/claim.h"
#include "tests/claims/jobs.h"
#include "tests/schemes.h"

namespace ringscope::claims {
namespace {

Problem with(Problem job, const Scheme* scheme) {
  job.scheme = scheme;
  return job;
}

CLAIM(C34, S0CountsSixTensors, holds_if, "S0", "Memory Complexity") {
  const Problem job = job_of(1, 1, 65536, 8);
  const double values = query_values(job.shape, job.max_rows());
  double tensors = 0;
  for (const MemoryPart& p : memory_parts(job, job.max_rows()))
    if (p.name != "row statistics" && p.name != "tile scratch") tensors += p.bytes;
  return {
      "A rank of c rows holds 6 d c values, 12 d c bytes in 16 bits: Q, the output, the K and V at "
      "hand, and the K and V coming in.",
      "This is true where the output is kept in 16 bits. An output that is summed up in f32, as it "
      "must be (C46), makes it {2} d c bytes here, besides a few numbers per row.",
      {Figure("values over d c", ring_values_of_s0(job.shape, job.max_rows()) / values, exactly(6),
              {"nothing coming in",
               (ring_values_of_s0(job.shape, job.max_rows()) - 2 * values) / values},
              6),
       Figure("bytes over d c, output in 16 bits",
              ring_values_of_s0(job.shape, job.max_rows()) * 2 / values, exactly(12),
              {"4-byte values", ring_values_of_s0(job.shape, job.max_rows()) * 4 / values}, 12),
       Figure("bytes over d c of this project's tensors, output in f32", tensors / values,
              exactly(14), {"output in 16 bits", (tensors - 2 * values) / values}, 12)}};
}

CLAIM(C35, SixBchAreValues, wrong, "S3", "entry 4") {
  const AttentionShape shape{1, 32, 32, 1'000'000, 128};
  const double values = ring_values_of_s0(shape, 31'250), unit = query_values(shape, 31'250);
  return {
      "A device of a ring needs 6 b c H d bytes per layer, 0.77 GB for a million tokens of width "
      "4,096 "
      "on 32 devices; the 6 stands for Q, K, V and the running maximum, sum and output.",
      "6 b c H d is the number of values; in 16 bits they take {0} GB. And the 6 is Q, the output, "
      "and K and V twice: what S3 lists makes {1} tensors and two numbers per row and head, and "
      "leaves out the block that is coming in.",
      {Figure("GB per layer on one of 32 devices", values * 2 / 1e9, near(1.536, 1e-9),
              {"a value taken for a byte", values / 1e9}, 0.768),
       Figure("tensors of b c H d values in S3's list: Q, K, V, running output",
              (values - 2 * unit) / unit, exactly(4),
              {"the incoming K and V counted", values / unit}, 6)}};
}

CLAIM(C39, KeysOfAMillionTokensAreEightGigabytes, wrong, "S4",
      "part 3, Memory Complexity Per GPU") {
  const double values = kv_values({1, 32, 32, 1'000'000, 128}, 1e6);
  return {"The keys of a million tokens of width 4,096 take 4 GB, and so do the values.",
          "4,096 values are 8,192 bytes in 16 bits, which S4 itself puts in for its transfer time: "
          "{0} GB of keys, and as much of values.",
          {Figure("GB of keys in 16 bits", values * 2 / 1e9, near(8.192, 1e-9),
                  {"a byte a value", values / 1e9}, 4)}};
}

CLAIM(C43, OnlyAMaterialisedBlockFallsWithTheSquare, holds_if, "S2", "Complexity Analysis") {
  const auto block_bytes = [](Index rows) { return score_matrix_bytes({1, 32, 32, rows, 128}, 2); };
  const auto bill = [](int n) { return peak_bytes(job_of(32, 32, 131072, n)); };
  const auto trained = [](Index seqlen) {
    Problem job = job_of(32, 8, seqlen, 8);
    job.backward = true;
    return job;
  };
  double growth = 0;
  for (const Scheme* scheme : kAllSchemes)
    growth = std::max(growth, peak_bytes(with(trained(131072), scheme)) /
                                  peak_bytes(with(trained(65536), scheme)));
  return {
      "The attention matrix that a rank holds falls with the square of the number of ranks.",
      "This is true of a rank that writes out the scores of its queries and one block: {0} times "
      "less on 8 ranks. A tiled kernel never holds that block, and then a rank's memory falls with "
      "the number of ranks: {1} times less on 16 ranks than on 2. No scheme here holds anything "
      "that grows with the square of the rows.",
      {Figure("scores of one rank over a block's, 1 rank over 8",
              block_bytes(65536) / block_bytes(65536 / 8), exactly(64),
              {"only the queries dealt out", block_bytes(65536) / (block_bytes(65536 / 8) * 8)},
              64),
       Figure("a rank's whole memory, tiled, 2 ranks over 16", bill(2) / bill(16), near(8, 0.01),
              {"with the scores of a block",
               (bill(2) + block_bytes(131072 / 2)) / (bill(16) + block_bytes(131072 / 16))},
              64),
       Figure(
           "most that any scheme's memory grows by when the rows double, backward included", growth,
           {1.99, 2},
           {"with the scores of a block", (peak_bytes(trained(131072)) + block_bytes(16384)) /
                                              (peak_bytes(trained(65536)) + block_bytes(8192))})}};
}

CLAIM(C52, NRanksHoldNTimesTheContextOfTwo, holds_if, "S3", "Section 9, Key quantitative results") {
  const auto longest = [](int n, const Scheme* scheme) {
    return static_cast<double>(largest_seqlen(with(job_of(32, 32, 1, n), scheme), 1e9));
  };
  const auto ring = [&](int n) { return longest(n, scheme_named("ring")); };
  return {"N devices take sequences up to N times as long as one.",
          "From two ranks on the longest sequence grows with their number: 64 ranks hold {0} times "
          "that of 2. One rank alone needs no block that comes in, so 64 ranks hold {1} times its "
          "sequence (1 GB per rank, 32 heads of 128, bf16).",
          {Figure("longest sequence, 64 ranks over 2", ring(64) / ring(2), near(32, 0.05),
                  {"all K and V gathered",
                   longest(64, scheme_named("allgather")) / longest(2, scheme_named("allgather"))},
                  32),
           Figure("longest sequence, 64 ranks over 1", ring(64) / ring(1),
                  near(64.0 * (10 * 128 + 16) / (14 * 128 + 16), 0.01),
                  {"one rank made to hold two blocks", 2 * ring(64) / ring(2)}, 64)}};
}

CLAIM(C54, DoubleBufferingCostsAThird, wrong, "S0, S4",
      "S0, Memory Complexity, the note on flash attention; S4, part 3, Memory Complexity Per GPU "
      "(reduction by P)") {
  const AttentionShape shape{1, 32, 32, 65536, 128};
  const double one = 4 * query_values(shape, 65536), ring = ring_values_of_s0(shape, 65536.0 / 8);
  return {
      "On a ring, each of N devices needs 1/N of a single device's memory, or less.",
      "By S0's own account one device holds Q, K, V and the output, 4 d S values, and a rank of "
      "the ring 6 d S / N, because a second K and V are coming in. That is N / 1.5 times less, {0} "
      "times for 8 ranks. N times less takes a single buffer, and then there is no overlap. Where "
      "a matrix of scores is written out, the saving is more than N-fold (C43), but S0 claims it "
      "for flash attention too.",
      {Figure("values of one device over those of one of 8 ranks", one / ring, near(8 / 1.5, 1e-9),
              {"a single buffer for K and V", one / (ring - 2 * kv_values(shape, 65536.0 / 8))},
              8)}};
}

}  // namespace
}  // namespace ringscope::claims
