#include "core/tools/sim/work.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
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

namespace {

struct Table {
  Table(Index rows, Index columns) : width(columns), values(rows * columns) {}
  double& at(Index row, Index column) { return values[row * width + column]; }

  Index width;
  std::vector<double> values;
};

struct GreedyDeal {
  Index chunks, ranks;
  std::vector<double> speed;
  Table work{chunks, chunks};  // of a chunk's rows with another's keys
  // Of a chunk's rows with a rank's keys, of a rank's rows with a chunk's keys, and of a rank's rows
  // with an owner's keys.
  Table with_keys{chunks, ranks}, with_rows{chunks, ranks}, dealt{ranks, ranks};

  // Return how much the sum over all (rank, owner) of work squared / speed grows with a chunk more.
  double growth(Index chunk, Index rank) {
    const auto growth_of = [&](Index worker, Index owner, double more) {
      return more * (2 * dealt.at(worker, owner) + more) / speed[worker];
    };
    double sum = growth_of(
        rank, rank, work.at(chunk, chunk) + with_keys.at(chunk, rank) + with_rows.at(chunk, rank));
    for (Index other = 0; other < ranks; ++other)
      if (other != rank)
        sum += growth_of(rank, other, with_keys.at(chunk, other)) +
               growth_of(other, rank, with_rows.at(chunk, other));
    return sum;
  }

  // Give a chunk to a rank (sign 1), or take it back (-1), when both tables have its own work.
  void move(Index chunk, Index rank, int sign) {
    dealt.at(rank, rank) += work.at(chunk, chunk);
    for (Index other = 0; other < ranks; ++other) {
      dealt.at(rank, other) += sign * with_keys.at(chunk, other);
      dealt.at(other, rank) += sign * with_rows.at(chunk, other);
    }
    for (Index c = 0; c < chunks; ++c) {
      with_keys.at(c, rank) += sign * work.at(c, chunk);
      with_rows.at(c, rank) += sign * work.at(chunk, c);
    }
  }
};

std::vector<DealtRun> greedy_runs(const Problem& job, Granularity tile) {
  const Index seqlen = job.shape.seqlen, n = job.world_size;
  // Of whole tiles and 128 positions, or less where ranks would get few; 1024 chunks at most.
  const Index rows = round_up(max_of(min_of(128, ceil_div(seqlen, 64 * n)), ceil_div(seqlen, 1024)),
                              std::lcm(tile.rows, tile.keys));
  const Mask mask = job.mask.for_seqlen(seqlen);
  std::vector<DealtRun> runs;
  for (Index first = 0; first < seqlen; first += rows)
    runs.push_back({0, min_of(rows, seqlen - first)});
  GreedyDeal deal{std::ssize(runs), n, job.speeds.empty() ? std::vector<double>(n, 1) : job.speeds};
  std::vector<double> weight(runs.size());
  const auto rows_of = [&](Index chunk) {
    return LocalRows{{{chunk * rows, 1, runs[chunk].count}}, false};
  };
  for (Index q = 0; q < deal.chunks; ++q)
    for (Index k = 0; k < deal.chunks; ++k) {
      deal.work.at(q, k) =
          static_cast<double>(computed_pairs({mask, rows_of(q), rows_of(k)}, tile));
      weight[q] += deal.work.at(q, k);
      weight[k] += deal.work.at(q, k);
    }
  std::vector<Index> order(runs.size()), held(n);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](Index a, Index b) { return weight[a] > weight[b]; });
  const bool are_equal = std::adjacent_find(deal.speed.begin(), deal.speed.end(),
                                            std::not_equal_to()) == deal.speed.end();
  // Where a chunk more hardly counts, it leaves room to think twice.
  const Index even = ceil_div(deal.chunks, n), room = deal.chunks >= 64 * n ? 1 : 0;
  for (int round = 0; round < 3; ++round)
    for (const Index chunk : order) {
      if (round > 0) {
        --held[runs[chunk].rank];
        deal.move(chunk, runs[chunk].rank, -1);
      }
      double least = std::numeric_limits<double>::infinity();
      for (int rank = 0; rank < n; ++rank) {
        if (are_equal && held[rank] >= even + (round > 0 ? room : 0)) continue;
        const double growth = deal.growth(chunk, rank);
        if (!(growth < least)) continue;
        least = growth;
        runs[chunk].rank = rank;
      }
      ++held[runs[chunk].rank];
      deal.move(chunk, runs[chunk].rank, 1);
    }
  return runs;
}

}  // namespace

void deal_out(Problem& job, Granularity tile) {
  if (!job.partition.is_searched()) return job.deal_out();
  if (job.deals_queries_apart())
    throw InputError(
        "given where queries are dealt out apart from keys; accepted: another partition");
  if (job.world_size > kMostSearchedRanks)
    throw InputError(fmt::format("{} ranks given; accepted: up to {} for a searched partition",
                                 job.world_size, kMostSearchedRanks));
  std::vector<PartitionSpec> deals(std::begin(kAllPartitions), std::end(kAllPartitions));
  if (job.mask.for_seqlen(job.shape.seqlen).num_documents > 0)
    for (const char* name : {"documents:contiguous", "documents:zigzag"})
      deals.push_back(PartitionSpec::parse(name));
  deals.push_back(PartitionSpec::dealt("greedy", greedy_runs(job, tile), job.world_size));
  double least = std::numeric_limits<double>::infinity();
  for (const PartitionSpec& deal : deals) {
    Problem tried = job;
    tried.partition = deal;
    if (deal.assignment() == nullptr) tried.deal_out();
    const double slowest = balance_of(Work(tried, tile), job.speeds).slowest_steps();
    if (!(slowest < least)) continue;
    least = slowest;
    job.partition.take(tried.partition);
  }
}

}  // namespace ringscope
