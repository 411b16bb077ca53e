// How much a rank has to do with a KV block: pairs that the mask allows, and what a kernel computes
// for them, which goes by tiles.
//
// Counting the pairs of one (rank, owner) takes longer than a simulation has for it, but a rank's
// work is the same for whole stretches of owners (owner_stretches.h), so it is counted once for
// each: a few numbers a rank, except under masks of very many documents.
#pragma once

#include <cstdint>
#include <vector>

#include "core/cost/job.h"
#include "core/problem/region.h"

namespace ringscope {

// A kernel takes `rows` query rows at once, and of the keys that any of them may attend whole groups
// of `keys`. {1, 1}: nothing but allowed pairs. {128, 128}: whole tiles, as the GPU kernels. Where
// rows or keys end before a tile does, so does its work.
struct Granularity {
  Index rows = 1;
  Index keys = 1;
};

// For every batch entry and head.
struct WorkAmount {
  double pairs = 0;
  double computed = 0;  // at least pairs
};

// What is computed of a region, O(rows / granularity.rows).
Index computed_pairs(const Region& region, const Granularity& granularity);

class Work {
 public:
  // Of a partition by formula. Throws InputError for a mask that does not fit and a granularity
  // below 1.
  explicit Work(const Job& job, Granularity granularity = {});
  // Of any other: [rank][owner] pairs, and those computed. Tables of world_size^2. Throws InputError
  // for tables of other sizes.
  Work(std::vector<Index> rows, std::vector<double> pairs, std::vector<double> computed);

  int world_size() const { return static_cast<int>(rows_.size()); }
  Index rows(int rank) const { return rows_[static_cast<std::size_t>(rank)]; }
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
    if (is_table_)
      return static_cast<std::size_t>(rank) * rows_.size() + static_cast<std::size_t>(owner);
    std::size_t low = begins_of_[static_cast<std::size_t>(rank)];
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
  // Of stretch k of rank r, at begins_of_[r] + k: its first owner, and its work. Of a table, work
  // only. begins_of_ is empty where there are too many stretches to keep.
  std::vector<std::size_t> begins_of_;
  std::vector<std::int32_t> begins_;
  std::vector<double> pairs_, computed_;  // the latter empty where it would be the same
  // Where they come from.
  MaskSpec mask_spec_;
  Partition partition_;
  Granularity granularity_;
};

}  // namespace ringscope
