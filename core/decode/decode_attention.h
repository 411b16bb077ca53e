// Attention of the newest position's query over a sequence that is spread over the ranks.
//
// A decode step has one query and as many keys as there are positions, so the query is what travels
// cheaply, and keys stay where they are: every rank attends its own with the same query, and the
// ranks' results are merged (merge.h). Each key and value is read once for a handful of operations
// (2 a value and query head of its group), so a step lasts as long as reading the shards takes, and
// that is what N ranks divide by N. Rotating K and V as in the prefill would move all of it over
// links, which are slower than memory, to answer one query.
//
// Masks are those of the prefill: what a query may attend is an interval of positions.
#pragma once

#include "core/decode/kv_shard.h"
#include "core/decode/merge.h"

namespace ringscope {

class DecodeAttention {
 public:
  DecodeAttention(MergeKind kind, const AttentionParams& params, int world_size,
                  MemoryMeter* meter);

  // q: [batch, num_heads, head_dim], the same on every rank; `keys`: the positions that it may
  // attend (Mask::allowed_keys). out: of q's shape; lse: [batch, num_heads], or null. Without any
  // key out is 0 and lse -inf. All ranks call it, and get the same bits. Throws RunError when a
  // peer fails.
  void operator()(Communicator& comm, const KvShard& shard, Interval keys, const float* q,
                  float* out, float* lse);

  // This rank's share of it: partial [batch * num_heads, head_dim + 1] as Merger's.
  void attend_shard(const KvShard& shard, Interval keys, const float* q, float* partial);

 private:
  // One page's rows `rows`, for the query heads of one kv head.
  void attend_page(const float* keys, const float* values, Index value_stride, Interval rows,
                   const float* q, float* partial);

  AttentionParams params_;
  Merger merger_;
  Buffer<float> partial_;
  Buffer<float> scores_;   // [group, kPageRows], whole vectors
  Buffer<float> row_max_;  // [group]
  Buffer<double> row_sum_;
};

}  // namespace ringscope
