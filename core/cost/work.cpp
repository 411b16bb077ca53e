#include "core/cost/work.h"

#include <vector>

#include "core/attention/tiles.h"
#include "core/problem/region.h"

namespace ringscope {

double total_pairs(const Problem& job) {
  const Mask mask = job.mask.for_seqlen(job.shape.seqlen);
  const LocalRows all = Partition{PartitionKind::contiguous, job.shape.seqlen, 1}.rows_of(0);
  return static_cast<double>(Region{mask, all, all}.pairs());
}

TileAmounts tile_amounts(const Region& region) {
  TileAmounts amounts;
  const Index queries = region.queries.size(), keys = region.keys.size();
  std::vector<bool> is_loaded(static_cast<std::size_t>(ceil_div(keys, kTileKeys)), false);
  for (Index row = 0; row < queries; row += kTileRows) {
    const Interval rows{row, min_of(row + kTileRows, queries)};
    // All rows' intervals lie between the first row's begin and the last row's end.
    const Interval first = region.allowed_rows(rows.first);
    const Interval last = region.allowed_rows(rows.last - 1);
    if (first.first >= last.last) continue;
    for (Index tile = first.first / kTileKeys; tile * kTileKeys < last.last; ++tile) {
      const Interval tile_keys{tile * kTileKeys, min_of((tile + 1) * kTileKeys, keys)};
      const TileMask mask(region, rows, tile_keys);
      if (mask.tile_class == TileClass::empty) continue;
      const auto count = static_cast<double>(rows.size());
      amounts.pairs += count * static_cast<double>(mask.vector_columns().size());
      amounts.rows += count;
      if (mask.tile_class == TileClass::partial) amounts.partial_rows += count;
      if (is_loaded[static_cast<std::size_t>(tile)]) continue;
      is_loaded[static_cast<std::size_t>(tile)] = true;
      amounts.keys += static_cast<double>(tile_keys.size());
    }
  }
  return amounts;
}

}  // namespace ringscope
