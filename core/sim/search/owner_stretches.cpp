#include "core/sim/search/owner_stretches.h"

#include <algorithm>

#include "core/problem/region.h"

namespace ringscope {

OwnerStretches::OwnerStretches(const Mask& mask, const Partition& partition)
    : mask_(mask),
      partition_(partition),
      is_begin_(static_cast<std::size_t>(partition.world_size), false),
      change_(is_begin_.size(), 0) {}

const std::vector<OwnerStretch>& OwnerStretches::of(int rank) {
  if (is_counted_one_by_one()) {
    for (int owner = 1; owner < partition_.world_size; ++owner) add(owner, 0);
    count_pairs(rank);
    return stretches_;
  }
  // A stretch begins where blocks become shorter.
  if (is_in_chunks()) {
    add_chunk(partition_.seqlen % chunks());
  } else {
    add_bounds(partition_.seqlen, partition_.seqlen, 0);
  }
  for (const Run& run : partition_.rows_of(rank).runs)
    for (Index begin = 0; begin < run.count;) {
      const Interval document = mask_.document(mask_.document_of(run.position(begin)));
      const Index end = run.rows_below(document.last);
      add_pieces(document, run.slice(begin, end));
      begin = end;
    }
  count_pairs(rank);
  return stretches_;
}

// Add the pieces of `queries`, which all lie in `document`. Along a piece each bound of the
// interval is constant or moves along (as in core/problem/region.h).
void OwnerStretches::add_pieces(Interval document, const Run& queries) {
  const Index cuts[] = {document.first + mask_.window - 1, document.last - mask_.window,
                        mask_.prefix - mask_.window, mask_.prefix - 1};
  for (Index begin = 0; begin < queries.count;) {
    Index end = queries.count;
    for (const Index cut : cuts) {
      const Index at = queries.rows_below(cut);
      if (at > begin) end = min_of(end, at);
    }
    const Interval first = mask_.allowed_keys(queries.position(begin), document);
    const Interval last = mask_.allowed_keys(queries.position(end - 1), document);
    add_bounds(first.first, last.first, begin - end);
    add_bounds(first.last, last.last, end - begin);
    begin = end;
  }
}

// Add the bounds of a piece: from `first` to `last`, in steps of the rows' stride, or both the
// same. One key more below them changes the pairs by `pairs_a_key`.
void OwnerStretches::add_bounds(Index first, Index last, Index pairs_a_key) {
  const Index n = partition_.world_size;
  if (is_in_chunks()) {
    // Go up to the chunk after p's own, because a stretch may begin there.
    for (Index chunk = chunk_of(first); chunk <= chunk_of(last) + 1; ++chunk) add_chunk(chunk);
  } else if (partition_.kind == PartitionKind::striped) {
    add(first % n, -pairs_a_key);
  } else {
    const Index remainder = first % (2 * n);
    remainder < n ? add(remainder, -pairs_a_key) : add(2 * n - remainder, pairs_a_key);
  }
}

// The chunks on both sides of the start of `chunk` may give different work. In zigzag, the chunk
// before 2N-1-r belongs to rank r+1.
void OwnerStretches::add_chunk(Index chunk) {
  const Index n = partition_.world_size;
  add(partition_.kind == PartitionKind::zigzag && chunk >= n ? 2 * n - chunk : chunk, 0);
}

void OwnerStretches::add(Index owner, Index change) {
  if (owner <= 0 || owner >= partition_.world_size) return;
  change_[owner] += change;
  if (is_begin_[owner]) return;
  is_begin_[owner] = true;
  begins_.push_back(static_cast<int>(owner));
}

void OwnerStretches::count_pairs(int rank) {
  const LocalRows queries = partition_.rows_of(rank);
  const auto pairs_with = [&](int owner) {
    return Region{mask_, queries, partition_.rows_of(owner)}.pairs();
  };
  stretches_.assign(1, {0, pairs_with(0)});
  std::sort(begins_.begin(), begins_.end());
  for (const int owner : begins_) {
    stretches_.push_back({owner, is_in_chunks() || is_counted_one_by_one()
                                     ? pairs_with(owner)
                                     : stretches_.back().pairs + change_[owner]});
    is_begin_[owner] = false;
    change_[owner] = 0;
  }
  begins_.clear();
}

Index OwnerStretches::chunks() const {
  return Index{partition_.world_size} * (partition_.kind == PartitionKind::zigzag ? 2 : 1);
}

Index OwnerStretches::chunk_of(Index position) const {
  const Index length = partition_.seqlen / chunks(), longer = partition_.seqlen % chunks();
  if (position < longer * (length + 1)) return position / (length + 1);
  return length == 0 ? chunks() : longer + (position - longer * (length + 1)) / length;
}

}  // namespace ringscope
