// A partition searched for the plan's mask. It is judged beside the four fixed ones with the same
// tiles, and described in words.
#include <fmt/format.h>

#include "app/plan/plan.h"
#include "core/attention/blockwise.h"
#include "core/attention/tile_product.h"
#include "core/base/text.h"
#include "core/cost/choices.h"
#include "core/sim/scenario.h"

namespace ringscope {
namespace {

constexpr Granularity kGpuTile = {128, 128};
constexpr Granularity kCpuTile = {kTileRows, kVectorWidth};  // of the measured kernel

// Return the cost of a ring whose hops carry the block of the rank with most rows.
RingInTiles ring_of(std::string_view partition, const Work& work, const Problem& job,
                    const Rates& rates) {
  Problem ring = job;
  ring.scheme = Scheme::ring;
  ring.shape.seqlen = work.max_rows() * job.world_size;
  Balance balance = balance_of(work, job.speeds);
  const LayerTime time = layer_time(ring, balance, rates);
  return {partition, std::move(balance), time};
}

// Return the rings' times, of which the last one's row is marked.
std::vector<Fields> ring_fields(const SearchedRings& searched) {
  std::vector<Fields> rings;
  for (const RingInTiles& ring : searched.rings) {
    const double ceiling = ring.balance.ceiling();
    const char mark = &ring == &searched.ring() ? '>' : ' ';
    rings.push_back(
        Fields{{"partition", ring.partition,
                fmt::format("  ring, tiles of {}x{}", searched.tile.rows, searched.tile.keys), -25,
                [mark](std::string_view name) { return fmt::format("{} {}", mark, name); }},
               {"balance_ceiling", ceiling}} +
        time_fields(ring.time) + Fields{{"", ceiling, "ceiling", 10, ratio_text}});
  }
  return rings;
}

}  // namespace

double SearchedRings::most_ceiling() const {
  if (by_speed || found.least_slowest == 0) return 1;
  return ring().balance.mean_rank / found.least_slowest;
}

SearchedRings search_rings(const PlanOptions& options, const Rates& rates) {
  const Granularity tile = options.hardware.measure ? kCpuTile : kGpuTile;
  Problem job = options.job;
  job.scheme = Scheme::ring;
  if (are_equal(job.speeds)) job.speeds.clear();
  SearchedRings searched{.tile = tile,
                         .found = search_partition({.job = job, .granularity = tile}),
                         .rings = {},
                         .by_speed = !job.speeds.empty()};
  for (const PartitionKind kind : kAllPartitions) {
    job.partition = kind;
    searched.rings.push_back(ring_of(name_of(kind), Work(job, tile), job, rates));
  }
  searched.rings.push_back(ring_of(kSearched, searched.found.work, job, rates));
  searched.rows = static_cast<double>(searched.found.work.max_rows());
  return searched;
}

Choice choice_of(const SearchedRings& searched, const PlanOptions& options, double memory_bytes) {
  Problem job = options.job;
  job.scheme = Scheme::ring;
  job.partition = PartitionKind::contiguous;
  const double bytes = total_bytes(memory_bill(options, job, searched.rows));
  Choice choice{job, searched.ring().balance, searched.ring().time, bytes, std::nullopt};
  if (bytes > memory_bytes)
    choice.obstacle =
        fmt::format("memory: {} needed a rank, {} there", gib_text(bytes), gib_text(memory_bytes));
  return choice;
}

std::string searched_text(const SearchedRings& searched) {
  const SearchedPartition& found = searched.found;
  const std::string text = table_text(ring_fields(searched));
  return text +
         fmt::format(
             "searched: {} chunks of {} positions, from {} and {} exchanges tried; ceiling at "
             "most {:.3f} for such chunks; the slowest ranks take at most {:.1f} % longer than in "
             "the best deal\n",
             found.rank_of_chunk.size(), found.chunk_rows, found.start, found.exchanges,
             searched.most_ceiling(), 100 * found.bound().gap());
}

std::string searched_explanation(const SearchedRings& searched) {
  const SearchedPartition& found = searched.found;
  return fmt::format(
      "searched          = least found sum over steps of the slowest rank's tiles x {} x {}\n"
      "                  = {:.6g} pairs, from {:.6g}, at least {:.6g}   [exchanges of chunks "
      "between "
      "ranks; S3 calls other masks open]\n"
      "                    compute and imbalance count pairs of whole tiles, allowed or not\n",
      searched.tile.rows, searched.tile.keys, found.slowest, found.start_slowest,
      found.least_slowest);
}

Fields searched_fields(const SearchedRings& searched) {
  const SearchedPartition& found = searched.found;
  return {{"tile_rows", searched.tile.rows},
          {"tile_keys", searched.tile.keys},
          {"chunk_rows", found.chunk_rows},
          {"start", found.start},
          {"exchanges", found.exchanges},
          {"slowest_pairs", found.slowest},
          {"start_slowest_pairs", found.start_slowest},
          {"least_slowest_pairs", found.least_slowest},
          {"most_ceiling", searched.most_ceiling()},
          {"rings", ring_fields(searched)},
          {"rank_of_chunk", found.rank_of_chunk}};
}

}  // namespace ringscope
