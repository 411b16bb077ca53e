// Find which owners' blocks give a rank the same work.
//
// A rank's work with a block follows from where the key intervals of its queries begin and end
// among the block's rows, and from the number of rows. Below a bound p of an interval, owner o has
// so many rows:
//
//   contiguous, zigzag   none or all of a chunk, unless the chunk contains p
//   striped              floor(p / N) + [o < p mod N]
//   fold                 2 floor(p / 2N) + [o < p mod 2N] + [2N-1-o < p mod 2N]
//
// Where positions are dealt out by a table, or the mask is in pieces, each owner is a stretch.
//
// From owner to owner this changes only at one or two of them. Bounds are constant or move along
// with their query, piece by piece. Moving on by the stride of the rows changes no remainder, and
// in chunks a piece crosses few of them.
#pragma once

#include <vector>

#include "core/problem/mask.h"
#include "core/problem/partition.h"

namespace ringscope {

// A stretch ends before the next one's first owner.
struct OwnerStretch {
  int first_owner = 0;
  Index pairs = 0;  // with each owner's block
};

class OwnerStretches {
 public:
  // What `mask` points to must outlive this object. O(world_size).
  OwnerStretches(const Mask& mask, const Partition& partition);

  // Return the stretches of owners with which `rank` has the same work, ascending from owner 0, in
  // O(documents that the rank's rows lie in, and chunks that their intervals cross). The result is
  // valid until the next call.
  const std::vector<OwnerStretch>& of(int rank);

 private:
  void add_pieces(Interval document, const Run& queries);
  void add_bounds(Index first, Index last, Index pairs_a_key);
  void add_chunk(Index chunk);
  void add(Index owner, Index change);
  void count_pairs(int rank);
  Index chunks() const;
  Index chunk_of(Index position) const;
  bool is_counted_one_by_one() const {
    return partition_.kind == PartitionKind::dealt || mask_.is_in_pieces();
  }
  bool is_in_chunks() const {
    return partition_.kind == PartitionKind::contiguous || partition_.kind == PartitionKind::zigzag;
  }

  Mask mask_;
  Partition partition_;
  std::vector<int> begins_;     // without 0, in any order
  std::vector<bool> is_begin_;  // [owner]
  std::vector<Index> change_;   // [owner]: change of pairs from the owner before; unused in chunks
  std::vector<OwnerStretch> stretches_;
};

}  // namespace ringscope
