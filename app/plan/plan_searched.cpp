// A partition searched for the plan's mask. It is judged beside the four fixed ones with the same
// tiles, and described in words.
#include <fmt/format.h>

#include "app/plan/plan.h"
#include "app/report/json_writer.h"
#include "app/run/report.h"
#include "core/attention/blockwise.h"
#include "core/attention/tile_product.h"
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
  Balance balance = balance_of(work);
  const LayerTime time = layer_time(ring, balance, rates);
  return {partition, std::move(balance), time};
}

}  // namespace

double SearchedRings::most_ceiling() const {
  return found.least_slowest == 0 ? 1 : ring().balance.mean_rank / found.least_slowest;
}

SearchedRings search_rings(const PlanOptions& options, const Rates& rates) {
  const Granularity tile = options.hardware.measure ? kCpuTile : kGpuTile;
  Problem job = options.job;
  job.scheme = Scheme::ring;
  SearchedRings searched{tile, search_partition({.job = job, .granularity = tile}), {}, 0};
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
  const double bytes = total_bytes(memory_parts(job, searched.rows));
  Choice choice{job, searched.ring().balance, searched.ring().time, bytes, std::nullopt};
  if (bytes > memory_bytes)
    choice.obstacle = fmt::format("memory: {:.2f} GB needed a rank, {:.2f} GB there", bytes / 1e9,
                                  memory_bytes / 1e9);
  return choice;
}

std::string searched_text(const SearchedRings& searched) {
  const SearchedPartition& found = searched.found;
  std::string text =
      fmt::format("  {:<23}{:>12}{:>12}{:>12}{:>12}{:>10}\n",
                  fmt::format("ring, tiles of {}x{}", searched.tile.rows, searched.tile.keys),
                  "in all", "compute", "imbalance", "exposed", "ceiling");
  for (const RingInTiles& ring : searched.rings)
    text += fmt::format("{} {:<23}{:>12}{:>12}{:>12}{:>12}{:>10.3f}\n",
                        &ring == &searched.ring() ? '>' : ' ', ring.partition,
                        seconds_text(ring.time.total()), seconds_text(ring.time.compute()),
                        seconds_text(ring.time.imbalance()), seconds_text(ring.time.exposed()),
                        ring.balance.ceiling());
  return text +
         fmt::format(
             "searched: {} chunks of {} positions, from {} and {} exchanges tried; ceiling at "
             "most {:.3f} for such chunks\n",
             found.rank_of_chunk.size(), found.chunk_rows, found.start, found.exchanges,
             searched.most_ceiling());
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

void put_searched(JsonWriter& json, const SearchedRings& searched) {
  const SearchedPartition& found = searched.found;
  json.key("searched");
  json.object([&] {
    json.put("tile_rows", searched.tile.rows);
    json.put("tile_keys", searched.tile.keys);
    json.put("chunk_rows", found.chunk_rows);
    json.put("start", found.start);
    json.put("exchanges", Index{found.exchanges});
    json.put("slowest_pairs", found.slowest);
    json.put("start_slowest_pairs", found.start_slowest);
    json.put("least_slowest_pairs", found.least_slowest);
    json.put("most_ceiling", searched.most_ceiling());
    json.array("rings", [&] {
      for (const RingInTiles& ring : searched.rings)
        json.object([&] {
          json.put("partition", ring.partition);
          json.put("balance_ceiling", ring.balance.ceiling());
          json.put("total_s", ring.time.total());
          json.put("compute_s", ring.time.compute());
          json.put("imbalance_s", ring.time.imbalance());
          json.put("exposed_s", ring.time.exposed());
        });
    });
    json.array("rank_of_chunk", [&] {
      for (const int rank : found.rank_of_chunk) json.value(Index{rank});
    });
  });
}

}  // namespace ringscope
