// How much work a rank has with a KV block: the pairs that the mask allows, and the pairs that a
// kernel computes for them, tile by tile.
//
// Counting the pairs of every (rank, owner) would take too long, but a rank's work is the same for
// whole stretches of owners (owner_stretches.h). It is counted once per stretch, which gives a few
// numbers per rank, except under masks of very many documents.
#pragma once

#include <cstdint>
#include <vector>

#include "core/problem/region.h"
#include "core/ring/problem.h"

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
  // Count the work of a partition by formula. Throw InputError for a mask that does not fit and a
  // granularity below 1.
  explicit Work(const Problem& job, Granularity granularity = {});
  // Take the work of any other partition from tables [rank][owner] of pairs and of computed pairs.
  // Throw InputError for tables that do not have world_size^2 entries.
  Work(std::vector<Index> rows, std::vector<double> pairs, std::vector<double> computed);

  int world_size() const { return static_cast<int>(rows_.size()); }
  Index rows(int rank) const { return rows_[rank]; }
  Index max_rows() const { return max_rows_; }
  const Granularity& granularity() const { return granularity_; }  // of a table: {1, 1}

  WorkAmount of(int rank, int owner) const {
    if (begins_of_.empty()) return counted(rank, owner);
    const std::size_t stretch = stretch_of(rank, owner);
    const double pairs = pairs_[stretch];
    return {pairs, computed_.empty() ? pairs : computed_[stretch]};
  }
  double pairs(int rank, int owner) const { return of(rank, owner).pairs; }
  double computed_pairs(int rank, int owner) const { return of(rank, owner).computed; }

 private:
  WorkAmount counted(int rank, int owner) const;

  std::size_t stretch_of(int rank, int owner) const {
    if (is_table_) return static_cast<std::size_t>(rank) * rows_.size() + owner;
    std::size_t low = begins_of_[rank];
    std::size_t count = begins_of_[static_cast<std::size_t>(rank) + 1] - low;
    while (count > 1) {
      const std::size_t half = count / 2;
      low = begins_[low + half] <= owner ? low + half : low;
      count -= half;
    }
    return low;
  }

  std::vector<Index> rows_;
  Index max_rows_ = 0;
  bool is_table_ = false;
  // Stretch k of rank r is at begins_of_[r] + k: its first owner and its work. A table has no first
  // owners. begins_of_ is empty when there are too many stretches to keep.
  std::vector<std::size_t> begins_of_;
  std::vector<std::int32_t> begins_;
  std::vector<double> pairs_, computed_;  // computed_ is empty when it would be the same
  // What the stretches are counted from.
  MaskSpec mask_spec_;
  PartitionSpec partition_spec_;
  Partition partition_;  // points into partition_spec_, whose tables are shared by all copies
  Granularity granularity_;
};

}  // namespace ringscope
