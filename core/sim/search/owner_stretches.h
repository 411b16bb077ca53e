// Which owners' blocks give a rank the same work.
//
// What a rank has to do with a block follows from where its queries' intervals of keys begin and
// end in the block's rows, and from how many rows there are. A bound p of an interval has, of owner
// o's rows,
//
//   contiguous, zigzag   none or all of a chunk below it, unless the chunk is the one that holds p
//   striped              floor(p / N) + [o < p mod N]
//   fold                 2 floor(p / 2N) + [o < p mod 2N] + [2N-1-o < p mod 2N]
//
// so over the owners it only changes at one or two of them. Bounds are constants or move along with
// their query, piece by piece; moving on by the stride of the rows changes no remainder, and in
// chunks a piece crosses few of them.
#pragma once

#include <vector>

#include "core/problem/mask.h"
#include "core/problem/partition.h"

namespace ringscope {

// Up to the next one's first owner.
struct OwnerStretch {
  int first_owner = 0;
  Index pairs = 0;  // with each owner's block
};

class OwnerStretches {
 public:
  // What `mask` points to must outlive this. O(world_size).
  OwnerStretches(const Mask& mask, const Partition& partition);

  // Stretches of owners with all of whom `rank` has the same to do, ascending; the first begins with
  // 0. O(documents that the rank's rows lie in, and chunks that their intervals cross). Valid until
  // the next call.
  const std::vector<OwnerStretch>& of(int rank);

 private:
  void add_pieces(Interval document, const Run& queries);
  void add_bounds(Index first, Index last, Index pairs_a_key);
  void add_chunk(Index chunk);
  void add(Index owner, Index change);
  void count_pairs(int rank);
  Index chunks() const;
  Index chunk_of(Index position) const;
  bool is_in_chunks() const {
    return partition_.kind == PartitionKind::contiguous || partition_.kind == PartitionKind::zigzag;
  }

  Mask mask_;
  Partition partition_;
  std::vector<int> begins_;     // without 0, in any order
  std::vector<bool> is_begin_;  // [owner]
  std::vector<Index> change_;   // [owner] of pairs, from the owner before; not of chunks
  std::vector<OwnerStretch> stretches_;
};

}  // namespace ringscope
