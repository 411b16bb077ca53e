#include "core/tools/sim/work.h"

#include <algorithm>
#include <numeric>

#include "core/base/error.h"

namespace ringscope {
namespace {

// Count the keys of a query tile in whole groups, each once. Rows come in ascending order, so the
// ends of their intervals never decrease.
class GroupCounter {
 public:
  GroupCounter(const Region& region, Index keys_a_group)
      : region_(region), keys_a_group_(keys_a_group) {}

  // Add rows [begin, end), of which there is at least one. Take them at once if their intervals
  // leave no group out between the first and the last one, and otherwise in halves.
  void take(Index begin, Index end) {
    const Interval first = region_.allowed_rows(begin), last = region_.allowed_rows(end - 1);
    if (first.first >= last.last) return;
    const bool join =
        first.size() > 0 && last.size() > 0 && group_of(last.first) <= group_of(first.last - 1) + 1;
    if (join || end - begin == 1) return add(group_of(first.first), group_of(last.last - 1) + 1);
    const Index middle = begin + (end - begin) / 2;
    take(begin, middle);
    take(middle, end);
  }

  Index keys() const { return keys_; }

 private:
  Index group_of(Index key) const { return key / keys_a_group_; }
  void add(Index from, Index to) {
    from = max_of(from, next_);
    if (from >= to) return;
    next_ = to;
    keys_ += min_of(to * keys_a_group_, region_.keys.size()) - from * keys_a_group_;
  }

  const Region& region_;
  Index keys_a_group_;
  Index next_ = 0;  // the first group that is not counted yet
  Index keys_ = 0;
};

// Return the keys of the groups that any of `rows` may attend a key of, whatever the mask.
Index keys_in_groups(const Region& region, Interval rows, Index keys_a_group) {
  std::vector<Interval> groups;
  for (Index i = rows.first; i < rows.last; ++i)
    region.for_allowed_rows(i, [&](Interval keys) {
      const Interval here{keys.first / keys_a_group, (keys.last - 1) / keys_a_group + 1};
      if (!groups.empty() && groups.back() == here) return;
      groups.push_back(here);
    });
  std::sort(groups.begin(), groups.end(),
            [](const Interval& a, const Interval& b) { return a.first < b.first; });
  Index next = 0, keys = 0;
  for (const Interval& here : groups) {
    const Index from = max_of(here.first, next);
    if (from >= here.last) continue;
    next = here.last;
    keys += min_of(next * keys_a_group, region.keys.size()) - from * keys_a_group;
  }
  return keys;
}

}  // namespace

Index computed_pairs(const Region& region, const Granularity& granularity) {
  if (granularity.rows == 1 && granularity.keys == 1) return region.pairs();
  const Index rows = region.queries.size();
  const TileClass all = region.tile_class({0, rows}, {0, region.keys.size()});
  if (all == TileClass::empty) return 0;
  if (all == TileClass::full) return rows * region.keys.size();
  Index computed = 0;
  for (Index begin = 0; begin < rows; begin += granularity.rows) {
    const Index end = min_of(begin + granularity.rows, rows);
    if (region.mask.is_in_pieces()) {
      computed += (end - begin) * keys_in_groups(region, {begin, end}, granularity.keys);
      continue;
    }
    GroupCounter groups(region, granularity.keys);
    groups.take(begin, end);
    computed += (end - begin) * groups.keys();
  }
  return computed;
}

Work::Work(const Problem& job, Granularity granularity) : granularity_(granularity) {
  const auto check = [](Index value, const char* name) {
    if (value < 1)
      throw InputError(std::string(name) + " of a tile: " + std::to_string(value) +
                       " given, at least 1 accepted");
  };
  check(granularity.rows, "rows");
  check(granularity.keys, "keys");
  validate(job.shape);
  const int n = job.world_size;
  if (n < 1 || n > kMostSimulatedRanks)
    throw InputError("world-size: " + std::to_string(n) + " given, 1 to " +
                     std::to_string(kMostSimulatedRanks) + " accepted");
  const Mask mask = job.mask.for_seqlen(job.shape.seqlen);
  const Partitions deal = job.partitions();
  const bool by_tiles = granularity.rows != 1 || granularity.keys != 1;
  max_rows_ = deal.max_rows();
  pairs_.reserve(static_cast<std::size_t>(n) * static_cast<std::size_t>(n));
  for (int rank = 0; rank < n; ++rank) {
    const LocalRows queries = deal.queries_of(rank);
    rows_.push_back(deal.rows_of(rank).size());
    for (int owner = 0; owner < n; ++owner) {
      const Region region{mask, queries, deal.rows_of(owner)};
      pairs_.push_back(static_cast<double>(region.pairs()));
      if (by_tiles)
        computed_.push_back(static_cast<double>(ringscope::computed_pairs(region, granularity)));
    }
  }
}

Balance balance_of(const Work& work, const std::vector<double>& speeds) {
  std::vector<int> all(static_cast<std::size_t>(work.world_size()));
  std::iota(all.begin(), all.end(), 0);
  return balance_of_steps(work.world_size(), all, [&](int rank, int owner) {
    return work.computed_pairs(rank, owner) / (speeds.empty() ? 1 : speeds[rank]);
  });
}

}  // namespace ringscope
