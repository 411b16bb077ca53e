#include "core/decode/generate_cost.h"

#include <algorithm>

#include "core/attention/blockwise.h"
#include "core/attention/vector.h"
#include "core/decode/kv_shard.h"
#include "core/ring/rank_memory.h"

namespace ringscope {
namespace {

constexpr double kFloatBytes = sizeof(float);

// What the model keeps of `tokens` rows, and what its layers share, in values of f32.
double model_values(const ModelShape& shape, Index tokens) {
  const auto width = static_cast<double>(shape.width), hidden = static_cast<double>(shape.hidden);
  const auto heads = static_cast<double>(shape.num_heads);
  const auto dim = static_cast<double>(shape.head_dim);
  const double queries = heads * dim, keys = static_cast<double>(shape.num_heads_kv) * dim;
  const double attention = 2 * queries + 2 * keys + 3 * heads;  // row_sum is f64
  const double layer = 4 * width + 2 + attention + 2 * hidden;
  const double shared = width + 2 * queries + 2 * keys + 3 * hidden;
  const double ends = 3 * width + 1 + static_cast<double>(shape.vocab);
  return static_cast<double>(tokens) * (static_cast<double>(shape.layers) * layer + shared + ends);
}

double shard_bytes(const ModelShape& shape, Index rows) {
  const Index page = KvShard::kPageRows * shape.num_heads_kv *
                     (shape.head_dim + round_up(shape.head_dim, kVectorWidth));
  return kFloatBytes * static_cast<double>(shape.layers) *
         static_cast<double>(ceil_div(rows, KvShard::kPageRows)) * static_cast<double>(page);
}

}  // namespace

WireCount prefill_wire(const ModelShape& shape, const Partition& prompt) {
  Index blocks = 0;
  for (int rank = 0; rank < prompt.world_size; ++rank)
    if (prompt.rows_of(rank).size() > 0) ++blocks;  // an empty one takes no message
  const Index trips = shape.layers * (prompt.world_size - 1);
  const Index row_bytes = 2 * shape.num_heads_kv * shape.head_dim * Index{sizeof(float)};
  return {trips * blocks, trips * prompt.seqlen * row_bytes};
}

WireCount handover_wire(const ModelShape& shape, int world_size) {
  // Half of a merge of one head that is as long as all logits, lse included.
  const MergeCost there_and_back = merge_cost(MergeKind::tree, 1, shape.vocab - 1, world_size);
  return {there_and_back.hop_messages / 2, there_and_back.hop_bytes / 2};
}

WireCount decode_wire(const ModelShape& shape, MergeKind merge, Index bytes, int world_size) {
  const MergeCost cost = merge_cost(merge, shape.num_heads, shape.head_dim, world_size);
  const Index merges = shape.layers * (bytes - 1);
  return {merges * cost.hop_messages, merges * cost.hop_bytes};
}

double generating_bytes(const ModelShape& shape, const Partition& prompt, Index bytes, int rank) {
  const RingProblem problem{attention_params(shape, 1), {}, prompt};
  const Index rows = prompt.rows_of(rank).size();
  const auto weights = static_cast<double>(ModelWeights(shape).layout.size());
  const double store = 2 * kFloatBytes * weights;  // a gradient stands beside each
  const double ring =
      static_cast<double>(RankMemory::predicted_bytes(problem, rank, Scheme::ring, true, 2) +
                          BlockwiseScratch::bytes(shape.head_dim, true));
  const double prefill = ring + kFloatBytes * model_values(shape, rows) + shard_bytes(shape, rows);
  const Index generated = ceil_div(max_of(bytes - 1 - rank, 0), prompt.world_size);
  return store + std::max(prefill, shard_bytes(shape, rows + generated));
}

}  // namespace ringscope
