// A sequence cut into chunks of whole tiles, and what each of them has to do with each: the grains
// that a searched partition (searched.h) is made of.
//
// Rows of a tile lie in one chunk, and so do its keys, because a chunk's length is a multiple of
// both. So what a rank has to do with an owner's block is a sum over their chunks, whoever else has
// which: dealing chunks out otherwise moves work from rank to rank and from step to step, and
// neither makes nor saves any.
#pragma once

#include <vector>

#include "core/problem/region.h"
#include "core/sim/work.h"

namespace ringscope {

class Chunks {
 public:
  // `rows`: positions of a chunk, a multiple of granularity.rows and granularity.keys; the last one
  // may be shorter. What `mask` points to must outlive this.
  Chunks(const Mask& mask, Index rows, Granularity granularity);

  int count() const { return static_cast<int>(first_.size()); }
  Index rows() const { return rows_; }
  Interval positions(int chunk) const {
    return {chunk * rows_, min_of((chunk + 1) * rows_, mask_.seqlen)};
  }

  // Of `queries`' rows with `keys`' rows: pairs that the mask allows, and those that are computed.
  Index pairs(int queries, int keys) const;
  Index computed_pairs(int queries, int keys) const;

 private:
  enum class Allowed { none, some, all };
  Allowed allowed(int queries, int keys) const;
  Region region(int queries, int keys) const;
  // None of the pairs, all of them, or of_some(region).
  template <class Count>
  Index pairs_or(int queries, int keys, Count&& of_some) const;

  Mask mask_;
  Index rows_;
  Granularity granularity_;
  std::vector<Interval> first_, last_;  // keys of a chunk's first row, and of its last
};

}  // namespace ringscope
