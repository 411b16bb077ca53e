// How much work a rank has with a KV block: the pairs that the mask allows, and the pairs that a
// kernel computes for them, tile by tile.
#pragma once

#include <cstdint>
#include <vector>

#include "core/problem/region.h"
#include "core/ring/problem.h"
#include "core/tools/cost/balance.h"

namespace ringscope {

// A kernel's tile: it takes `rows` query rows at once and, of the keys that any of them may attend,
// whole groups of `keys`. {1, 1} counts allowed pairs only, {128, 128} whole tiles as the GPU
// kernels do. Where rows or keys end inside a tile, so does its work.
struct Granularity {
  Index rows = 1;
  Index keys = 1;
};

// Per batch entry and head.
struct WorkAmount {
  double pairs = 0;
  double computed = 0;  // at least `pairs`
};

// Return the pairs that a kernel computes of a region, in O(rows / granularity.rows), and in
// O(rows) under a mask in pieces.
Index computed_pairs(const Region& region, const Granularity& granularity);

class Work {
 public:
  // Count the work of a partition by formula. Throw InputError for a mask that does not fit, a
  // granularity below 1, and too many ranks.
  explicit Work(const Problem& job, Granularity granularity = {});

  int world_size() const { return static_cast<int>(rows_.size()); }
  Index rows(int rank) const { return rows_[rank]; }
  Index max_rows() const { return max_rows_; }
  const Granularity& granularity() const { return granularity_; }

  WorkAmount of(int rank, int owner) const {
    const std::size_t at = static_cast<std::size_t>(rank) * rows_.size() + owner;
    return {pairs_[at], computed_.empty() ? pairs_[at] : computed_[at]};
  }
  double pairs(int rank, int owner) const { return of(rank, owner).pairs; }
  double computed_pairs(int rank, int owner) const { return of(rank, owner).computed; }

 private:
  std::vector<Index> rows_;
  Index max_rows_ = 0;
  std::vector<double> pairs_, computed_;  // [rank][owner]; computed_ is empty if it is the same
  Granularity granularity_;
};

// Return how evenly a ring's computed pairs are spread over ranks and steps. Those of a rank of
// speed s count 1/s.
Balance balance_of(const Work& work, const std::vector<double>& speeds = {});

// ---
// A partition made for a job's mask and the speeds of its ranks: windows, prefixes, documents and
// unequal ranks, for which no fixed one is made. Chunks of whole tiles are dealt out, the one with
// most work first, each to the rank where it makes the work of all (rank, step) of a ring most even.
// Then the fixed partitions are judged by the same measure, the slowest rank's computed pairs summed
// over steps, and the best of all is taken: a searched partition is never worse than a fixed one.

inline constexpr std::string_view kSearched = "searched";
inline constexpr int kMostSearchedRanks = 256;

// Deal out a partition of any kind. A searched one is for the job's speeds and for kernels that
// compute `tile`s. Throw InputError as Problem::deal_out(), and for a search for too many ranks.
void deal_out(Problem& job, Granularity tile);

}  // namespace ringscope
