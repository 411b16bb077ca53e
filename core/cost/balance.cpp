#include "core/cost/balance.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "core/cost/amounts.h"
#include "core/cost/time.h"
#include "core/problem/region.h"
#include "core/ring/two_level.h"

namespace ringscope {
namespace {

// How finely to sample when not every (rank, step) is counted.
struct Sample {
  int ranks = 96;
  int stretches = 32;      // number of parts that the steps are first divided into
  double straight = 1e-3;  // largest deviation of a stretch from a line, relative to its values
};

constexpr Index kMostEffort = 160'000;  // about 10 ms

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

bool can_count_all(const Problem& job, const Mask& mask) {
  const Index n = job.world_size;
  if (job.partition == PartitionKind::dealt || mask.num_slices > 0) return true;
  return n <= 2 || (n <= kMostExactRanks && n * n * effort_of(job, mask) <= kMostEffort);
}

// Return a coarser sample for masks that take long to count.
Sample sample_of(const Problem& job, const Mask& mask) {
  Sample sample;
  const Index regions = kMostEffort / effort_of(job, mask);
  if (regions >= Index{sample.ranks} * 3 * sample.stretches) return sample;
  sample.stretches = 4;
  sample.straight = 0.02;
  sample.ranks = static_cast<int>(clamp(regions / (3 * sample.stretches), 4, sample.ranks));
  return sample;
}

// Return the ranks to count. A quarter of them lie at either end, where a window or zigzag's chunks
// begin and stop, and the others are spread evenly.
std::vector<int> ranks_of(const Problem& job, const Mask& mask) {
  const int world_size = job.world_size;
  std::vector<int> ranks;
  if (can_count_all(job, mask)) {
    for (int rank = 0; rank < world_size; ++rank) ranks.push_back(rank);
    return ranks;
  }
  const int count = std::min(world_size, sample_of(job, mask).ranks);
  const int at_ends = count / 4, between = count - 2 * at_ends;
  for (int k = 0; k < at_ends; ++k) ranks.push_back(k);
  for (int k = 0; k < between; ++k)
    ranks.push_back(
        at_ends + static_cast<int>(Index{world_size - 2 * at_ends} * (2 * k + 1) / (2 * between)));
  for (int k = at_ends; k > 0; --k) ranks.push_back(world_size - k);
  return ranks;
}

// Count the pairs of the sampled ranks at chosen steps.
class Counter {
 public:
  explicit Counter(const Problem& job)
      : world_size_(job.world_size),
        nodes_(job.scheme == Scheme::two_level ? job.world_size / job.ranks_a_node() : 1),
        mask_(job.mask.for_seqlen(job.shape.seqlen)),
        partition_(job.partition_of_sequence()),
        sample_(sample_of(job, mask_)),
        ranks_(ranks_of(job, mask_)),
        totals_(ranks_.size(), 0) {}

  // Count every step by itself.
  void count_all() {
    for (int step = 0; step < world_size_; ++step) take(step, at(step), 1);
  }

  // Count steps [first, last). The middle step stands for all of them when the stretch is straight.
  // Otherwise count both halves, which finds an edge of the mask to the step.
  void count_stretch(int first, int last) {
    if (first == last) return;  // there are fewer steps than stretches
    const int count = last - first, middle = first + count / 2;
    const std::vector<double>& here = at(middle);
    const double begin = slowest(at(first)), end = slowest(at(last - 1));
    const double bend = std::abs(slowest(here) - (begin + end) / 2);
    // With an even number of steps, `middle` lies half a step after the centre.
    const double half_step = std::abs(end - begin) / (2 * count);
    if (count <= 2 || bend > half_step + sample_.straight * std::max({begin, end, slowest(here)})) {
      if (count == 1) return take(first, here, 1);
      count_stretch(first, middle);
      return count_stretch(middle, last);
    }
    take(middle, here, count);
  }

  // Count steps [first, last) in as many parts as the sample has.
  void count_stretches(int first, int last) {
    const Index steps = last - first, parts = sample_.stretches;
    for (Index k = 0; k < parts; ++k)
      count_stretch(first + static_cast<int>(steps * k / parts),
                    first + static_cast<int>(steps * (k + 1) / parts));
  }

  // Count a two-level ring. Its steps form curves: either one inner step over all outer steps, or
  // the inner steps of one outer step. Use the kind with fewer. Each step gets an entry.
  void count_curves() {
    const int places = world_size_ / nodes_;
    const bool by_place = places < nodes_;
    const int length = by_place ? nodes_ : places;
    steps_.resize(static_cast<std::size_t>(world_size_));
    for (int curve = 0; curve < world_size_ / length; ++curve) {
      curve_ = by_place ? Curve{curve, places} : Curve{curve * places, 1};
      seen_.clear();
      count_stretches(0, length);
    }
  }

  bool is_exact() const { return static_cast<int>(ranks_.size()) == world_size_; }
  std::vector<StepWork> take_steps() { return std::move(steps_); }
  double slowest_rank() const { return slowest(totals_); }

 private:
  static double slowest(const std::vector<double>& pairs) {
    return *std::max_element(pairs.begin(), pairs.end());
  }

  // Steps that are `stride` apart.
  struct Curve {
    int first = 0, stride = 1;
    int told = 0;  // number of steps with an entry
    int step(int k) const { return first + k * stride; }
  };

  int owner(int rank, int step) const {
    if (nodes_ == 1) return RingSchedule{rank, world_size_}.owner(step);
    const int places = world_size_ / nodes_;
    return TwoLevelSchedule{rank, nodes_, places}.owner(step / places, step % places);
  }

  // Return the pairs of each counted rank at `step`, which counts along the curve if there is one.
  const std::vector<double>& at(int step) {
    std::vector<double>& pairs = seen_[step];
    if (!pairs.empty()) return pairs;
    for (const int rank : ranks_) {
      const int owner = this->owner(rank, curve_ ? curve_->step(step) : step);
      pairs.push_back(static_cast<double>(
          Region{mask_, partition_.rows_of(rank), partition_.rows_of(owner)}.pairs()));
    }
    return pairs;
  }

  void take(int step, const std::vector<double>& pairs, double steps) {
    if (curve_) {
      for (int k = 0; k < static_cast<int>(steps); ++k) {
        const int here = curve_->step(curve_->told++);
        steps_[here] = {1, slowest(pairs), here != world_size_ - 1};
      }
    } else {
      steps_.push_back({steps, slowest(pairs), step != world_size_ - 1});
    }
    for (std::size_t k = 0; k < pairs.size(); ++k) totals_[k] += steps * pairs[k];
  }

  int world_size_;
  int nodes_;
  Mask mask_;
  Partition partition_;
  Sample sample_;
  std::vector<int> ranks_;
  std::map<int, std::vector<double>> seen_;  // by step
  std::vector<double> totals_;
  std::vector<StepWork> steps_;
  std::optional<Curve> curve_;
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

Balance balance_of(const Problem& job) {
  Balance balance;
  balance.mean_rank = total_pairs(job) / job.world_size;
  if (job.scheme == Scheme::ulysses) {
    balance.slowest_rank = balance.mean_rank;
    balance.steps.push_back({1, balance.mean_rank, false});
    return balance;
  }

  const int n = job.world_size;
  Counter counter(job);
  balance.sampled = !counter.is_exact();
  if (!balance.sampled) {
    counter.count_all();
  } else if (job.scheme == Scheme::two_level && job.nodes > 1) {
    counter.count_curves();
  } else {
    // The first and the last step differ from all others in what is sent beside them.
    counter.count_stretch(0, 1);
    counter.count_stretches(1, n - 1);
    counter.count_stretch(n - 1, n);
  }
  balance.steps = counter.take_steps();
  // Samples may miss the slowest rank, but its work is never below the mean.
  balance.slowest_rank = std::max(counter.slowest_rank(), balance.mean_rank);
  if (const double missed = balance.mean_rank / balance.slowest_steps(); missed > 1)
    for (StepWork& step : balance.steps) step.slowest *= missed;
  return balance;
}

}  // namespace ringscope
