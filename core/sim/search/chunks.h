// A sequence cut into chunks of whole tiles, and the work of each chunk with each other. Searched
// partitions (searched.h) consist of such chunks; which rank gets which is not decided here.
//
// A chunk's length is a multiple of a tile's rows and keys, so each tile lies in one chunk. A
// rank's work with an owner's block is therefore the sum over their chunks, whatever the others
// have. Another deal only moves work between ranks and steps.
#pragma once

#include <vector>

#include "core/problem/region.h"
#include "core/sim/work.h"

namespace ringscope {

class Chunks {
 public:
  // `rows` positions per chunk are a multiple of granularity.rows and granularity.keys. The last
  // chunk may be shorter. What `mask` points to must outlive this.
  Chunks(const Mask& mask, Index rows, Granularity granularity);

  int count() const { return static_cast<int>(first_.size()); }
  Index rows() const { return rows_; }
  Interval positions(int chunk) const {
    return {chunk * rows_, min_of((chunk + 1) * rows_, mask_.seqlen)};
  }

  // Return the pairs of two chunks that the mask allows, and those that are computed.
  Index pairs(int queries, int keys) const;
  Index computed_pairs(int queries, int keys) const;

 private:
  enum class Allowed { none, some, all };
  Allowed allowed(int queries, int keys) const;
  Region region(int queries, int keys) const;
  // Return 0, the number of all pairs, or of_some(region).
  template <class Count>
  Index pairs_or(int queries, int keys, Count&& of_some) const;

  Mask mask_;
  Index rows_;
  Granularity granularity_;
  std::vector<Interval> first_, last_;  // keys of a chunk's first row and of its last
};

}  // namespace ringscope
