#include "core/tools/sim/searched.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "core/base/error.h"

namespace ringscope {
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
