#include "core/cost/balance.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "core/cost/flops.h"
#include "core/partition/region.h"
#include "core/ring/schedule.h"

namespace ringscope {
namespace {

constexpr int kSampledRanks = 96;
constexpr int kStretches = 32;      // that steps are first cut into
constexpr double kStraight = 1e-3;  // of the largest value, how far a stretch may bend

// What counting the pairs of one (rank, step) takes, in units of a mask without documents.
int effort_of(const Mask& mask) {
  return static_cast<int>(min_of(1 + mask.num_documents / 16, 64));
}

bool can_count_all(const Mask& mask, int world_size) {
  return Index{world_size} * world_size * effort_of(mask) <=
         Index{kMostExactRanks} * kMostExactRanks;
}

// The ranks that are looked at: a quarter of them at either end, where a window or zigzag's chunks
// begin and stop, the others spread evenly.
std::vector<int> ranks_of(const Mask& mask, int world_size) {
  std::vector<int> ranks;
  if (can_count_all(mask, world_size)) {
    for (int rank = 0; rank < world_size; ++rank) ranks.push_back(rank);
    return ranks;
  }
  const int count = std::min(world_size, std::max(kSampledRanks / effort_of(mask), 4));
  const int at_ends = count / 4, between = count - 2 * at_ends;
  for (int k = 0; k < at_ends; ++k) ranks.push_back(k);
  for (int k = 0; k < between; ++k)
    ranks.push_back(
        at_ends + static_cast<int>(Index{world_size - 2 * at_ends} * (2 * k + 1) / (2 * between)));
  for (int k = at_ends; k > 0; --k) ranks.push_back(world_size - k);
  return ranks;
}

// Counts pairs at chosen steps.
class Counter {
 public:
  explicit Counter(const Job& job)
      : world_size_(job.world_size),
        mask_(job.mask.for_seqlen(job.shape.seqlen)),
        partition_(job.partition_of_sequence()),
        ranks_(ranks_of(mask_, job.world_size)),
        totals_(ranks_.size(), 0) {}

  // Every step by itself.
  void count_all() {
    for (int step = 0; step < world_size_; ++step) take(step, at(step), 1);
  }

  // Steps [first, last), 0 < last - first: told by the middle one where the stretch is straight,
  // and otherwise in halves, so that an edge of the mask is found to the step.
  void count_stretch(int first, int last) {
    const int count = last - first, middle = first + count / 2;
    const std::vector<double>& here = at(middle);
    const double begin = slowest(at(first)), end = slowest(at(last - 1));
    const double bend = std::abs(slowest(here) - (begin + end) / 2);
    // Of an even number of steps the middle lies half a step behind.
    const double half_step = std::abs(end - begin) / (2 * count);
    if (count <= 2 || bend > half_step + kStraight * std::max({begin, end, slowest(here)})) {
      if (count == 1) return take(first, here, 1);
      count_stretch(first, middle);
      return count_stretch(middle, last);
    }
    take(middle, here, count);
  }

  bool is_exact() const { return static_cast<int>(ranks_.size()) == world_size_; }
  std::vector<StepWork> take_steps() { return std::move(steps_); }
  double slowest_rank() const { return slowest(totals_); }

 private:
  static double slowest(const std::vector<double>& pairs) {
    return *std::max_element(pairs.begin(), pairs.end());
  }

  // Of each rank that is looked at.
  const std::vector<double>& at(int step) {
    std::vector<double>& pairs = seen_[step];
    if (!pairs.empty()) return pairs;
    for (const int rank : ranks_) {
      const int owner = RingSchedule{rank, world_size_}.owner(step);
      pairs.push_back(static_cast<double>(
          Region{mask_, partition_.rows_of(rank), partition_.rows_of(owner)}.pairs()));
    }
    return pairs;
  }

  void take(int step, const std::vector<double>& pairs, double steps) {
    steps_.push_back({steps, slowest(pairs), step != world_size_ - 1});
    for (std::size_t k = 0; k < pairs.size(); ++k) totals_[k] += steps * pairs[k];
  }

  int world_size_;
  Mask mask_;
  Partition partition_;
  std::vector<int> ranks_;
  std::map<int, std::vector<double>> seen_;  // by step
  std::vector<double> totals_;
  std::vector<StepWork> steps_;
};

}  // namespace

double Balance::slowest_steps() const {
  double total = 0;
  for (const StepWork& step : steps) total += step.steps * step.slowest;
  return total;
}

double Balance::ceiling() const {
  const double slowest = slowest_steps();
  return slowest == 0 ? 1 : mean_rank / slowest;
}

double Balance::imbalance() const { return mean_rank == 0 ? 1 : slowest_rank / mean_rank; }

Balance balance_of(const Job& job) {
  Balance balance;
  balance.mean_rank = total_pairs(job) / job.world_size;
  if (job.scheme == JobScheme::ulysses) {
    balance.slowest_rank = balance.mean_rank;
    balance.steps.push_back({1, balance.mean_rank, false});
    return balance;
  }

  const int n = job.world_size;
  Counter counter(job);
  balance.sampled = !counter.is_exact();
  if (!balance.sampled) {
    counter.count_all();
  } else {
    // The first step and the last differ from all others in what is sent beside them.
    counter.count_stretch(0, 1);
    for (int k = 0; k < kStretches; ++k)
      counter.count_stretch(1 + static_cast<int>(Index{n - 2} * k / kStretches),
                            1 + static_cast<int>(Index{n - 2} * (k + 1) / kStretches));
    counter.count_stretch(n - 1, n);
  }
  balance.steps = counter.take_steps();
  // Samples may miss the slowest rank, which is never below the mean.
  balance.slowest_rank = std::max(counter.slowest_rank(), balance.mean_rank);
  if (const double missed = balance.mean_rank / balance.slowest_steps(); missed > 1)
    for (StepWork& step : balance.steps) step.slowest *= missed;
  return balance;
}

}  // namespace ringscope
