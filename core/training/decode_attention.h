// The KV cache of a growing text, split across the ranks, and its attention; other layers are in
// generate.h. A shard holds the prompt's rows that the partition gave its rank, and every N-th
// position after the prompt. So the prompt stays where the prefill left it, and what is generated
// spreads evenly under any partition: after any number of tokens two ranks differ by at most one.
//
// Rows lie in pages of kPageRows. A new row goes into the last page or opens one, so nothing moves.
// They ascend by global position, so the rows that a query may attend are one interval here, too.
#pragma once

#include <vector>

#include "core/attention/views.h"
#include "core/base/buffer.h"
#include "core/base/math.h"
#include "core/problem/mask.h"
#include "core/problem/partition.h"
#include "core/training/merge.h"

namespace ringscope {

class KvShard {
 public:
  static constexpr Index kPageRows = 128;

  // Start empty. `params` and `prompt` are the same on every rank.
  KvShard(const AttentionParams& params, const Partition& prompt, int rank, MemoryMeter* meter);

  // Return the rank that holds `position`, which lies after the prompt.
  static int home_of(const Partition& prompt, Index position) {
    return static_cast<int>((position - prompt.seqlen) % prompt.world_size);
  }

  // Store this rank's rows of the prompt; call it first, and once. k (already rotated) is [batch,
  // local rows, num_heads_kv, head_dim], and v the same with head_dim_v.
  void fill(const float* k, const float* v);
  // Take the key and value of the next position, [batch, num_heads_kv, head_dim] and [..,
  // head_dim_v], and keep them on its home rank. Every rank calls it for every position.
  void append(const float* k, const float* v);

  Index positions() const { return positions_; }  // of all ranks, so the number of the next one
  Index rows() const { return rows_; }            // of this rank
  Index bytes() const;                            // of its pages
  // Return the local rows whose positions lie in `positions`.
  Interval rows_within(Interval positions) const {
    return {rows_below(positions.first), rows_below(positions.last)};
  }

  // Return the keys or values of page p, sequence b and kv head h. Keys are transposed, [head_dim,
  // kPageRows], so that one query's scores lie side by side. Values are [kPageRows,
  // value_stride()], padded to whole vectors. Both hold NaN beyond rows().
  const float* keys(Index p, Index b, Index h) const { return pages_[p].data() + key_offset(b, h); }
  const float* values(Index p, Index b, Index h) const {
    return pages_[p].data() + value_offset(b, h);
  }
  Index value_stride() const { return value_stride_; }
  // Return what to multiply weights by, so that no sum of values overflows (large_values.h).
  double weight_unit() const;

 private:
  Index key_offset(Index b, Index h) const {
    return (b * params_.num_heads_kv + h) * params_.head_dim * kPageRows;
  }
  Index value_offset(Index b, Index h) const {
    return key_offset(params_.batch, 0) +
           (b * params_.num_heads_kv + h) * value_stride_ * kPageRows;
  }
  Index rows_below(Index position) const;
  // Add the first of `rows` rows, in each sequence of the batch.
  void add_row(const float* k, const float* v, Index rows);

  AttentionParams params_;
  Partition prompt_;
  int rank_;
  MemoryMeter* meter_;
  Index value_stride_;
  Index positions_ = 0;
  Index rows_ = 0;
  bool has_large_values_ = false;
  std::vector<Buffer<float>> pages_;
};

// ---
// Attention of the newest position's query over a sequence that is split across the ranks.
//
// A decode step has one query and as many keys as there are positions, so the query goes to the
// keys. Every rank attends its own keys with it, and the results are merged (merge.h). A step takes
// as long as reading the shards, which N ranks divide by N. Rotating K and V as in the prefill
// would move all of it over links, which are slower than memory, to answer one query. Masks are
// those of the prefill.

class DecodeAttention {
 public:
  DecodeAttention(const AttentionParams& params, int world_size, MemoryMeter* meter);

  // Compute out [batch, num_heads, head_dim_v] and lse [batch, num_heads], unless it is null. q
  // [batch, num_heads, head_dim] is the same on every rank, and may stand anywhere: `keys` are the
  // positions that it may attend (Mask::allowed_keys). Without any key, out is 0 and lse is -inf, or
  // the head's sink. All ranks call it, and get the same bits. Throw RunError when a peer fails.
  void operator()(Communicator& comm, const KvShard& shard, Interval keys, const float* q,
                  float* out, float* lse);

  // Compute this rank's partial [batch * num_heads, head_dim_v + 1], as in Merger; no sink is in it.
  void attend_shard(const KvShard& shard, Interval keys, const float* q, float* partial);

 private:
  // Attend the rows `rows` of one page, for the query heads of one kv head, by weights in a unit.
  void attend_page(const float* keys, const float* values, Index value_stride, Interval rows,
                   float unit, const float* q, float* partial);

  AttentionParams params_;
  Merger merger_;
  Buffer<float> partial_;
  Buffer<float> scores_;   // [group, kPageRows], in whole vectors
  Buffer<float> row_max_;  // [group]
  Buffer<double> row_sum_;
};

}  // namespace ringscope
