#include "core/tools/cost/balance.h"

#include <algorithm>
#include <numeric>

#include "core/problem/region.h"
#include "core/ring/ring.h"
#include "core/tools/cost/amounts.h"

namespace ringscope {
namespace {

constexpr Index kMostEffort = 1'200'000;  // about 100 ms

// Return the cost of counting one (rank, step), relative to a mask without documents. Rows of a
// striped or folded region visit every document, those of a chunk only the ones that they meet.
Index effort_of(const Problem& job, const Mask& mask) {
  switch (job.partition) {
    case PartitionKind::dealt:
      return 1;  // samples would not do, because ranks need not be alike
    case PartitionKind::striped:
      return 1 + mask.num_documents;
    case PartitionKind::fold:
      return 1 + 4 * mask.num_documents;
    default:
      return 1 + 4 * (mask.num_documents / job.world_size);
  }
}

// Return the ranks to count. A quarter of them lie at either end, where a window or zigzag's chunks
// begin and stop, and the others are spread evenly.
std::vector<int> ranks_of(const Problem& job, const Mask& mask) {
  const Index n = job.world_size, fit = kMostEffort / (n * effort_of(job, mask));
  const bool are_alike = job.partition != PartitionKind::dealt && mask.num_slices == 0;
  const Index count = are_alike ? clamp(fit, 4, n) : n;
  if (count >= n) {
    std::vector<int> all(static_cast<std::size_t>(n));
    std::iota(all.begin(), all.end(), 0);
    return all;
  }
  const Index at_ends = count / 4, between = count - 2 * at_ends;
  std::vector<int> ranks;
  for (Index k = 0; k < at_ends; ++k) ranks.push_back(static_cast<int>(k));
  for (Index k = 0; k < between; ++k)
    ranks.push_back(static_cast<int>(at_ends + (n - 2 * at_ends) * (2 * k + 1) / (2 * between)));
  for (Index k = at_ends; k > 0; --k) ranks.push_back(static_cast<int>(n - k));
  return ranks;
}

}  // namespace

double Balance::slowest_steps() const {
  double total = 0;
  for (const StepWork& step : steps) total += step.slowest;
  return total;
}

double Balance::ceiling() const {
  const double slowest = slowest_steps();
  return slowest == 0 ? 1 : mean_rank / slowest;
}

double Balance::imbalance() const { return mean_rank == 0 ? 1 : slowest_rank / mean_rank; }

Balance balance_of_steps(int world_size, const std::vector<int>& ranks,
                         const std::function<double(int rank, int owner)>& work) {
  Balance balance;
  std::vector<double> totals(ranks.size(), 0);
  for (int step = 0; step < world_size; ++step) {
    double slowest = 0;
    for (std::size_t k = 0; k < ranks.size(); ++k) {
      const double now = work(ranks[k], RingSchedule{ranks[k], world_size}.owner(step));
      slowest = std::max(slowest, now);
      totals[k] += now;
    }
    balance.steps.push_back({slowest, step != world_size - 1});
  }
  balance.slowest_rank = *std::max_element(totals.begin(), totals.end());
  balance.mean_rank =
      std::accumulate(totals.begin(), totals.end(), 0.0) / static_cast<double>(ranks.size());
  return balance;
}

Balance balance_of(const Problem& job) {
  const int n = job.world_size;
  const double mean = total_pairs(job) / n;
  if (job.scheme->course == Course::heads) return {{{mean, false}}, mean, mean};
  const Mask mask = job.mask.for_seqlen(job.shape.seqlen);
  const Partitions deal = job.partitions();
  const std::vector<int> ranks = ranks_of(job, mask);
  Balance balance = balance_of_steps(n, ranks, [&](int rank, int owner) {
    return static_cast<double>(Region{mask, deal.queries_of(rank), deal.rows_of(owner)}.pairs());
  });
  balance.sampled = std::ssize(ranks) < n;
  balance.mean_rank = mean;
  // Samples may miss the slowest rank, but its work is never below the mean.
  balance.slowest_rank = std::max(balance.slowest_rank, mean);
  if (const double missed = mean / balance.slowest_steps(); missed > 1)
    for (StepWork& step : balance.steps) step.slowest *= missed;
  return balance;
}

}  // namespace ringscope
