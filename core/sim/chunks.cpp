#include "core/sim/chunks.h"

namespace ringscope {

Chunks::Chunks(const Mask& mask, Index rows, Granularity granularity)
    : mask_(mask), rows_(rows), granularity_(granularity) {
  for (Index first = 0; first < mask.seqlen; first += rows) {
    first_.push_back(mask.allowed_keys(first));
    last_.push_back(mask.allowed_keys(min_of(first + rows, mask.seqlen) - 1));
  }
}

// Both ends of the rows' intervals grow from row to row.
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

Index Chunks::pairs(int queries, int keys) const {
  switch (allowed(queries, keys)) {
    case Allowed::none:
      return 0;
    case Allowed::all:
      return positions(queries).size() * positions(keys).size();
    default:
      return region(queries, keys).pairs();
  }
}

Index Chunks::computed_pairs(int queries, int keys) const {
  switch (allowed(queries, keys)) {
    case Allowed::none:
      return 0;
    case Allowed::all:
      return positions(queries).size() * positions(keys).size();
    default:
      return ringscope::computed_pairs(region(queries, keys), granularity_);
  }
}

}  // namespace ringscope
