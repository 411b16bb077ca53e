// How evenly the work lies on ranks and steps.
//
// At step t rank r attends the block of owner (r - t) mod N, and how many pairs that is follows in
// closed form from mask and partition (core/problem/region.h). A ring whose ranks wait for each
// other after every step takes as long as the sum over steps of the slowest rank's work. For the
// causal mask and c rows a rank:
//
//   contiguous   slowest: c(c+1)/2 at step 0, c^2 at every later one, all on rank N-1
//                mean / slowest = (N c + 1) / ((2N - 1) c + 1), that is N / (2N - 1) for large c:
//                53.3 % at N = 8 (claim C20). S3 says "roughly half"; (N + 1) / (2N), 56.25 %,
//                comes out where the diagonal blocks are taken for whole ones.
//   striped      c(c+1)/2 or c(c-1)/2 (S3, C21)
//   zigzag       c(c+1)/2 at step 0, then c^2/2 (C24)
//   fold         about c^2/2 always: which half of the diagonal counts depends on the fold
#pragma once

#include <vector>

#include "core/cost/job.h"

namespace ringscope {

// Consecutive steps that are told alike.
struct StepWork {
  double steps = 1;
  double slowest = 0;   // pairs of the rank that has most, at each of the steps
  bool has_hop = true;  // false for the last step only, after which no KV block moves
};

struct Balance {
  std::vector<StepWork> steps;
  double mean_rank = 0;     // pairs: all of them / world_size
  double slowest_rank = 0;  // pairs, over all steps
  bool sampled = false;

  double slowest_steps() const;  // sum over steps of the slowest rank's pairs
  double ceiling() const;        // mean / slowest, summed over steps
  double imbalance() const;      // slowest rank / mean
};

// Up to this many ranks (fewer under a mask of many documents) every (rank, step) is counted.
// Beyond (`sampled`), up to 96 ranks are, and of the steps as many as it takes to follow a curve
// that is straight between the edges of the mask; a step stands for its neighbours. mean_rank is
// exact always.
inline constexpr int kMostExactRanks = 128;

// Pairs of (rank, step), for schemes ring and allgather: the same as predicted_pairs() of a run. Of
// two-level rings step o G + i is inner step i of outer step o, and every step is told by itself.
// Ulysses gives every rank its share of the heads and so the same work, which is told as one step
// with total_pairs / world_size pairs. Throws InputError for a mask that does not fit seqlen.
Balance balance_of(const Job& job);

}  // namespace ringscope
