#include "core/sim/search/chunks.h"

namespace ringscope {

Chunks::Chunks(const Mask& mask, Index rows, Granularity granularity)
    : mask_(mask), rows_(rows), granularity_(granularity) {
  for (Index first = 0; first < mask.seqlen; first += rows) {
    first_.push_back(mask.allowed_keys(first));
    last_.push_back(mask.allowed_keys(min_of(first + rows, mask.seqlen) - 1));
  }
}

// The ends of the rows' intervals never decrease from row to row.
Chunks::Allowed Chunks::allowed(int queries, int keys) const {
  const Interval k = positions(keys);
  const Interval &first = first_[queries], &last = last_[queries];
  if (last.last <= k.first || k.last <= first.first) return Allowed::none;
  return last.first <= k.first && k.last <= first.last ? Allowed::all : Allowed::some;
}

Region Chunks::region(int queries, int keys) const {
  const auto rows = [this](int chunk) {
    const Interval here = positions(chunk);
    return LocalRows{{{here.first, 1, here.size()}, {mask_.seqlen, 1, 0}}};
  };
  return {mask_, rows(queries), rows(keys)};
}

template <class Count>
Index Chunks::pairs_or(int queries, int keys, Count&& of_some) const {
  switch (allowed(queries, keys)) {
    case Allowed::none:
      return 0;
    case Allowed::all:
      return positions(queries).size() * positions(keys).size();
    default:
      return of_some(region(queries, keys));
  }
}

Index Chunks::pairs(int queries, int keys) const {
  return pairs_or(queries, keys, [](const Region& region) { return region.pairs(); });
}

Index Chunks::computed_pairs(int queries, int keys) const {
  return pairs_or(queries, keys, [this](const Region& region) {
    return ringscope::computed_pairs(region, granularity_);
  });
}

}  // namespace ringscope
