// Tests what the sources say of the work of each rank under a causal mask: their counts of pairs,
// and the imbalance.
#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "core/tools/cost/balance.h"
#include "tests/claims/claim.h"
#include "tests/claims/jobs.h"

namespace ringscope::claims {
namespace {

Problem causal(int n, Index rows, PartitionKind partition = kContiguous) {
  return job_of(1, 1, n * rows, n, "causal", partition);
}

// Count the pairs of a rank's queries with an owner's keys.
double pairs(const Problem& job, int rank, int owner) {
  const Partition partition = job.partition_of_sequence();
  return static_cast<double>(Region{job.mask.for_seqlen(job.shape.seqlen), partition.rows_of(rank),
                                    partition.rows_of(owner)}
                                 .pairs());
}

double pairs_of_rank(const Problem& job, int rank) {
  double sum = 0;
  for (int owner = 0; owner < job.world_size; ++owner) sum += pairs(job, rank, owner);
  return sum;
}

// Return the difference between the ranks with the most and the fewest pairs.
double spread(const Problem& job) {
  std::vector<double> work;
  for (int rank = 0; rank < job.world_size; ++rank) work.push_back(pairs_of_rank(job, rank));
  const auto [least, most] = std::ranges::minmax_element(work);
  return *most - *least;
}

CLAIM(C19, LastOverFirstIsTwoNMinusOne, holds_if, "S1", "part one, 5.2") {
  const auto ratio = [](int n, PartitionKind partition) {
    const Problem job = causal(n, 4096, partition);
    return pairs_of_rank(job, n - 1) / pairs_of_rank(job, 0);
  };
  // S1's sums are c(2S - c + 1)/2 over c(c + 1)/2.
  const auto by_sums = [](double n) { return (2 * n * 4096 - 4096 + 1) / (4096 + 1); };
  return {
      "With contiguous causal ranks the last one has about 2N times the work of the first, 16 "
      "times for 8 ranks.",
      "2N - 1 times, since half of the last rank's own block is masked: {0} for 8 ranks and {1} "
      "for 2. S1's sums, c(2S - c + 1)/2 over c(c + 1)/2, say the same; rounding the first to S^2 "
      "/ N, as if nothing of that block were masked, is what makes 2N. For many ranks the "
      "difference does not matter.",
      {Figure("last over first rank, 8 ranks of 4,096 rows", ratio(8, kContiguous),
              near(by_sums(8), 1e-9), {"2N chunks", ratio(8, kZigzag)}, 16),
       Figure("2 ranks", ratio(2, kContiguous), near(by_sums(2), 1e-9),
              {"2N chunks", ratio(2, kZigzag)}, 4),
       Figure("1,024 ranks, over 2N", ratio(1024, kContiguous) / 2048, near(1, 1e-3),
              {"striped", ratio(1024, kStriped) / 2048}, 1)}};
}

// Return the ceiling if every diagonal block counted as a whole one.
double ceiling_with_whole_blocks(double n) { return (n + 1) / (2 * n); }

CLAIM(C20, ContiguousCausalReaches53PercentOnEightRanks, holds_if, "S3", "Section 1; Section 5.2") {
  const auto lost = [](int n) { return 1 - balance_of(causal(n, 4096)).ceiling(); };
  // (N c + 1) / ((2N - 1) c + 1), from the slowest rank of every step.
  const auto by_formula = [](double n, double c) { return (n * c + 1) / ((2 * n - 1) * c + 1); };
  return {
      "Contiguous ranks lose roughly half of the throughput under a causal mask.",
      "They reach N / (2N - 1) of it: the slowest rank of every step but the first has a whole "
      "block to do. That loses a third on 2 ranks, {1} on 8 (so 53.3 % are left at best, and a "
      "ring measured at 52 % has lost nearly all of it to imbalance), and half only in the limit.",
      {Figure("lost on 2 ranks", lost(2), near(1 - by_formula(2, 4096), 1e-12),
              {"diagonal blocks counted whole", 1 - ceiling_with_whole_blocks(2)}, 0.5,
              Shown::percent),
       Figure("lost on 8 ranks", lost(8), near(1 - by_formula(8, 4096), 1e-12),
              {"diagonal blocks counted whole", 1 - ceiling_with_whole_blocks(8)}, 0.5,
              Shown::percent),
       Figure("lost on 1,024 ranks", lost(1024), near(0.5, 1e-3),
              {"striped", 1 - balance_of(causal(1024, 4096, kStriped)).ceiling()}, 0.5,
              Shown::percent)}};
}

// Count the (i, j) of 4 striped ranks of c rows whose pairs, counted one by one, are not what
// `formula` says.
double striped_exceptions(Index c, const std::function<Index(int, int)>& formula) {
  double count = 0;
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 4; ++j) {
      Index seen = 0;
      for (Index q = 0; q < c; ++q)
        for (Index k = 0; k < c; ++k) seen += j + 4 * k <= i + 4 * q ? 1 : 0;
      count += seen != formula(i, j) ? 1 : 0;
    }
  return count;
}

CLAIM(C21, StripedWorkIsATriangleWithOrWithoutDiagonal, holds, "S3", "entry 5") {
  const auto exceptions = [](auto with_diagonal) {
    double count = 0;
    for (const Index c : {1, 2, 5, 16})
      count += striped_exceptions(
          c, [&](int i, int j) { return with_diagonal(i, j) ? c * (c + 1) / 2 : c * (c - 1) / 2; });
    return count;
  };
  return {
      "A striped rank i has c(c+1)/2 pairs with block j if i >= j, and c(c-1)/2 if i < j.",
      "The formula is exact for every pair of ranks and every c tried.",
      {Figure("exceptions among all i, j of 4 ranks, c = 1, 2, 5, 16, counted one by one",
              exceptions([](int i, int j) { return i >= j; }), exactly(0),
              {"i > j for i >= j", exceptions([](int i, int j) { return i > j; })}, 0),
       Figure("most less least over the least, c = 4,096",
              pairs(causal(8, 4096, kStriped), 7, 0) / pairs(causal(8, 4096, kStriped), 0, 7) - 1,
              near(4097.0 / 4095 - 1, 1e-12),
              {"contiguous, rank 1 with block 0 against itself",
               pairs(causal(8, 4096), 1, 0) / pairs(causal(8, 4096), 1, 1) - 1},
              4097.0 / 4095 - 1)}};
}

CLAIM(C22, QueryFourSeesKeyTwoOnly, wrong, "S3", "algorithm 2, hand-traced example") {
  const auto seen = [](const char* mask) {
    const Problem job = job_of(1, 1, 8, 4, mask, kStriped);
    const Partition partition = job.partition_of_sequence();
    const Region region{job.mask.for_seqlen(8), partition.rows_of(0), partition.rows_of(2)};
    return static_cast<double>(region.pairs({1, 2}, {0, 2}));
  };
  return {
      "With 8 tokens striped over 4 devices, at iteration 2 device 0 holds keys 2 and 6, and its "
      "query 4 sees both.",
      "Query 4 sees {0} of them, key 2; key 6 lies after it. S3's own formula has c(c-1)/2 = 1 for "
      "this.",
      {Figure("keys among 2 and 6 that query 4 sees", seen("causal"), exactly(1),
              {"no mask", seen("full")}, 2)}};
}

CLAIM(C23, FoldExampleIsEvenForEvenFolds, holds_if, "S1", "part one, 6.1; part two, 2.3") {
  const auto sum_of_rank_0 = [](PartitionKind kind) {
    const LocalRows rows = Partition{kind, 16, 4}.rows_of(0);
    double positions = 0;
    for (Index i = 0; i < rows.size(); ++i)
      positions += static_cast<double>(rows.global_position(i));
    return positions;
  };
  return {
      "Folding deals 16 tokens out to 4 GPUs as {0, 7, 8, 15} and so on, so that all have "
      "positions that add up to 30.",
      "They do, because 16 tokens make an even number of folds. 12 tokens make three, and the "
      "ranks differ by {2} pairs of some 20.",
      {Figure("sum of rank 0's positions, 16 tokens", sum_of_rank_0(kFold), exactly(30),
              {"striped", sum_of_rank_0(kStriped)}, 30),
       Figure("most less least pairs of a rank, 16 tokens", spread(causal(4, 4, kFold)), exactly(0),
              {"striped", spread(causal(4, 4, kStriped))}, 0),
       Figure("the same, 12 tokens", spread(causal(4, 3, kFold)), exactly(3),
              {"16 tokens", spread(causal(4, 4, kFold))}, 0)}};
}

CLAIM(C24, BalancedRanksHaveTheMean, holds_if, "S1", "part one, 6.2; part two, 2.1") {
  const auto off = [](const Problem& job) {
    const auto s = static_cast<double>(job.shape.seqlen);
    double most = 0;
    for (int rank = 0; rank < job.world_size; ++rank)
      most = std::max(most, std::abs(pairs_of_rank(job, rank) - s * (s + 1) / 2 / job.world_size));
    return most;
  };
  return {
      "Folded, every rank has S(S+1)/2 / N pairs, near-perfect balance.",
      "This is exact for an even number of folds, and for 2N chunks as well. An odd number leaves "
      "the last fold without a partner, in which neighbouring ranks differ by a pair: a rank is "
      "off the mean by up to (N - 1) / 2, however long the sequence. Totals alone don't show that "
      "a ring is balanced, because it waits at every step; but the slowest rank's pairs, added up "
      "over the steps, are the mean as well (folded, to 0.1 %).",
      {Figure("most that a folded rank is off, 64 positions on 4 ranks", off(causal(4, 16, kFold)),
              exactly(0), {"striped", off(causal(4, 16, kStriped))}, 0),
       Figure("the same with 2N chunks", off(causal(4, 16, kZigzag)), exactly(0),
              {"contiguous", off(causal(4, 16))}, 0),
       Figure("folded, 12 positions, three folds", off(causal(4, 3, kFold)), exactly(1.5),
              {"four folds", off(causal(4, 4, kFold))}, 0),
       Figure("folded, 80 positions on 16 ranks, five folds", off(causal(16, 5, kFold)),
              exactly((16 - 1) / 2.0), {"six folds", off(causal(16, 6, kFold))}, 0),
       Figure("slowest ranks' pairs over the mean, by steps, 2N chunks, 8 ranks",
              1 / balance_of(causal(8, 4096, kZigzag)).ceiling(), near(1, 1e-12),
              {"contiguous", 1 / balance_of(causal(8, 4096)).ceiling()}),
       Figure("the same, folded", 1 / balance_of(causal(8, 4096, kFold)).ceiling(), {1, 1.001},
              {"contiguous", 1 / balance_of(causal(8, 4096)).ceiling()})}};
}

}  // namespace
}  // namespace ringscope::claims
