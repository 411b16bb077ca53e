#include "core/tools/cost/amounts.h"

#include <vector>

#include "core/attention/tiles.h"
#include "core/ring/loop_counts.h"
#include "core/tools/cost/time.h"

namespace ringscope {

double total_pairs(const Problem& job) { return static_cast<double>(job.whole_region().pairs()); }

TileAmounts tile_amounts(const Region& region) {
  TileAmounts amounts;
  const Index queries = region.queries.size(), keys = region.keys.size();
  std::vector<bool> is_loaded(static_cast<std::size_t>(ceil_div(keys, kTileKeys)), false);
  for (Index row = 0; row < queries; row += kTileRows) {
    const Interval rows{row, min_of(row + kTileRows, queries)};
    // All rows' intervals lie between the first row's begin and the last row's end, but for a mask
    // in pieces.
    Interval hull{0, keys};
    if (!region.mask.is_in_pieces())
      hull = {region.allowed_rows(rows.first).first, region.allowed_rows(rows.last - 1).last};
    for (Index tile = hull.first / kTileKeys; tile * kTileKeys < hull.last; ++tile) {
      const Interval tile_keys{tile * kTileKeys, min_of((tile + 1) * kTileKeys, keys)};
      const TileMask mask(region, rows, tile_keys);
      if (mask.tile_class == TileClass::empty) continue;
      const auto count = static_cast<double>(rows.size());
      amounts.pairs += count * static_cast<double>(mask.vector_columns().size());
      amounts.rows += count;
      if (mask.tile_class == TileClass::partial) amounts.partial_rows += count;
      if (is_loaded[tile]) continue;
      is_loaded[tile] = true;
      amounts.keys += static_cast<double>(tile_keys.size());
    }
  }
  return amounts;
}

namespace {

constexpr double kGradientBytes = 4;  // per value of a travelling dK or dV: f32

double rows_of(const Problem& job, int rank) { return static_cast<double>(job.rows(rank)); }

}  // namespace

Traffic traffic_of(const Problem& job, int rank) {
  if (job.world_size == 1) return {};
  if (job.scheme->course == Course::heads && !is_followed(job)) {
    const auto bytes = [&](Pass pass) {
      const AllToAlls both = all_to_alls_of(job, pass, rank);
      return both.there_bytes + both.back_bytes;
    };
    return {bytes(Pass::forward), job.backward ? bytes(Pass::backward) : 0,
            job.backward ? 4.0 : 2.0};
  }
  const LoopCounts counts = count_loop(job, rank, false);
  Traffic traffic{counts.forward_bytes, counts.backward_bytes, double(counts.messages)};
  if (is_followed(job)) return traffic;
  // In a ring a block and its gradient move on at the end of the same step, after the last step the
  // gradient alone, and from node to node once more. An all-gather gathers blocks and scatters gradients
  // in two separate rounds.
  const double n = job.world_size, turns = job.nodes > 1 && job.nodes < n;
  const bool gathers = job.scheme->course == Course::gathers;
  traffic.hops = n - 1;
  if (job.backward)
    traffic.hops += gathers ? 2 * (n - 1) : n + (job.scheme->course == Course::turns ? turns : 0);
  return traffic;
}

int busiest_sender(const Problem& job) {
  int busiest = 0;
  double most = -1;
  for (int rank = 0; rank < job.world_size && job.parts_blocks(); ++rank)
    if (const double bytes = traffic_of(job, rank).bytes(); bytes > most) {
      most = bytes;
      busiest = rank;
    }
  return busiest;
}

AllToAlls all_to_alls_of(const Problem& job, Pass pass, int rank) {
  if (job.world_size == 1) return {};
  const double mine = rows_of(job, rank), others = static_cast<double>(job.shape.seqlen) - mine;
  const auto my_queries = static_cast<double>(job.query_rows(rank));
  const double other_queries = static_cast<double>(job.shape.queries()) - my_queries;
  const double n = job.world_size;
  const AttentionShape& s = job.shape;
  // (N-1)/N of the heads of its own rows go there, and its share of those of the others' rows back.
  const bool forward = pass == Pass::forward;
  const double there =
      forward ? query_values(s, my_queries) + block_values(s, mine) : out_values(s, my_queries);
  const double back = forward ? out_values(s, other_queries)
                              : query_values(s, other_queries) + block_values(s, others);
  return {there * job.storage_bytes() * (n - 1) / n, back * job.storage_bytes() / n};
}

double kv_hop_bytes(const Problem& job) {
  if (job.world_size == 1) return 0;
  return block_values(job.shape, job.max_rows()) * job.storage_bytes();
}

double gradient_hop_bytes(const Problem& job) {
  if (job.world_size == 1) return 0;
  return block_values(job.shape, job.max_rows()) * kGradientBytes;
}

double peak_bytes(const Problem& job) {
  return total_bytes(memory_parts(job, job.max_query_rows(), job.max_rows()));
}

}  // namespace ringscope
