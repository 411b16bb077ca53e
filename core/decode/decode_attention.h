// One rank's share of the keys and values of a sequence that grows: of the prompt the rows that the
// partition gave it, whatever the partition, and of the positions after it every N-th. So the
// prompt stays where the prefill left it, and whichever way it was dealt out, what is generated
// spreads evenly: after any number of tokens two ranks differ by at most one of them.
//
// Rows lie in pages of kPageRows. A new row goes into the last page, or opens one; nothing that is
// there is moved, and at most one page is not full. A rank's rows ascend by global position, first
// the prompt's and then the new ones, so what a query may attend is one interval of rows here, too.
#pragma once

#include <vector>

#include "core/attention/tile_product.h"
#include "core/attention/views.h"
#include "core/base/buffer.h"
#include "core/decode/merge.h"
#include "core/problem/mask.h"
#include "core/problem/partition.h"

namespace ringscope {

class KvShard {
 public:
  static constexpr Index kPageRows = 128;

  // Holds nothing yet. `params` and `prompt` are the same on every rank.
  KvShard(const AttentionParams& params, const Partition& prompt, int rank, MemoryMeter* meter);

  // The rank that holds `position`, which is not of the prompt.
  static int home_of(const Partition& prompt, Index position) {
    return static_cast<int>((position - prompt.seqlen) % prompt.world_size);
  }

  // This rank's rows of the prompt; comes first, and once. k (with positions turned in) and v:
  // [batch, num_heads_kv, local rows, head_dim].
  void fill(const float* k, const float* v);
  // The next position's key and value, [batch, num_heads_kv, head_dim] each: kept where it is at
  // home. Every rank calls it for every position.
  void append(const float* k, const float* v);

  Index positions() const { return positions_; }  // of all ranks: the next one's number
  Index rows() const { return rows_; }            // of this rank
  Index bytes() const;                            // of its pages
  // The local rows whose positions lie in `positions`.
  Interval rows_within(Interval positions) const {
    return {rows_below(positions.first), rows_below(positions.last)};
  }

  // Of page p, sequence b and kv head h. Keys are transposed, [head_dim, kPageRows], so that one
  // query's scores come out side by side; values are [kPageRows, value_stride()], padded to whole
  // vectors. Beyond rows() both hold NaN.
  const float* keys(Index p, Index b, Index h) const { return pages_[p].data() + key_offset(b, h); }
  const float* values(Index p, Index b, Index h) const {
    return pages_[p].data() + value_offset(b, h);
  }
  Index value_stride() const { return value_stride_; }

 private:
  Index key_offset(Index b, Index h) const {
    return (b * params_.num_heads_kv + h) * params_.head_dim * kPageRows;
  }
  Index value_offset(Index b, Index h) const {
    return key_offset(params_.batch, 0) +
           (b * params_.num_heads_kv + h) * value_stride_ * kPageRows;
  }
  Index rows_below(Index position) const;
  // Row r of every head from k + head * head_stride, likewise v.
  void add_row(const float* k, const float* v, Index head_stride);

  AttentionParams params_;
  Partition prompt_;
  int rank_;
  MemoryMeter* meter_;
  Index value_stride_;
  Index positions_ = 0;
  Index rows_ = 0;
  std::vector<Buffer<float>> pages_;
};

// ---
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
