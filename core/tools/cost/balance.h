// Predict in closed form how evenly the work is spread over ranks and steps. Nothing is timed.
//
// At step t rank r attends the block of owner (r - t) mod N. The number of pairs follows from mask
// and partition (core/problem/region.h). A ring whose ranks wait for each other after every step
// takes as long as the slowest rank's work, summed over steps. For the causal mask and c rows per
// rank, one step of a rank computes:
//
//   contiguous   slowest: c(c+1)/2 at step 0, then c^2, always on rank N-1.
//                mean / slowest = (N c + 1) / ((2N - 1) c + 1), or N / (2N - 1) for large c:
//                53.3 % at N = 8 (claim C20). S3 says "roughly half". Counting the diagonal
//                blocks as whole ones gives (N + 1) / (2N), 56.25 %, instead.
//   striped      c(c+1)/2 or c(c-1)/2 (S3, C21)
//   zigzag       c(c+1)/2 at step 0, then c^2/2 (C24)
//   fold         always about c^2/2; the fold decides which half of the diagonal counts
#pragma once

#include <functional>
#include <vector>

#include "core/ring/problem.h"

namespace ringscope {

// Of a plan and a simulation: a ring of as many ranks has some 6 million tasks (core/tools/sim/graph.h).
inline constexpr int kMostSimulatedRanks = 1024;

struct StepWork {
  double slowest = 0;   // pairs of the slowest rank
  bool has_hop = true;  // false only for the last step, after which no KV block moves
};

struct Balance {
  std::vector<StepWork> steps;
  double mean_rank = 0;     // pairs: total_pairs / world_size
  double slowest_rank = 0;  // pairs, summed over steps
  bool sampled = false;

  double slowest_steps() const;  // sum over steps of the slowest rank's pairs
  double ceiling() const;        // mean / slowest, summed over steps
  double imbalance() const;      // slowest rank / mean
};

// Return the balance of a ring of which `ranks` are counted; `work` is that of a rank with an owner's block.
Balance balance_of_steps(int world_size, const std::vector<int>& ranks,
                         const std::function<double(int rank, int owner)>& work);

// Return the pairs of each (rank, step) for schemes ring and allgather; they equal a run's
// predicted_pairs(). Ulysses has one entry, of total_pairs / world_size pairs, because every rank does
// equal work on its share of the heads. Of many ranks under a mask of many documents only some are
// counted, and the result is `sampled`; mean_rank is always exact. Throw InputError for a mask that
// doesn't fit.
Balance balance_of(const Problem& job);

}  // namespace ringscope
