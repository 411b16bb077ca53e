#include "core/decode/kv_shard.h"

#include <algorithm>

namespace ringscope {

KvShard::KvShard(const AttentionParams& params, const Partition& prompt, int rank,
                 MemoryMeter* meter)
    : params_(params),
      prompt_(prompt),
      rank_(rank),
      meter_(meter),
      value_stride_(round_up(params.head_dim, kVectorWidth)) {}

void KvShard::fill(const float* k, const float* v) {
  const Index rows = prompt_.rows_of(rank_).size();
  for (Index row = 0; row < rows; ++row)
    add_row(k + row * params_.head_dim, v + row * params_.head_dim, rows * params_.head_dim);
  positions_ = prompt_.seqlen;
}

// [append
void KvShard::append(const float* k, const float* v) {
  if (home_of(prompt_, positions_) == rank_) add_row(k, v, params_.head_dim);
  ++positions_;
}
// append]

void KvShard::add_row(const float* k, const float* v, Index head_stride) {
  const Index d = params_.head_dim, row = rows_ % kPageRows;
  // A vector that begins inside the last key row may be loaded to its end: values lie behind.
  static_assert(kPageRows % kVectorWidth == 0);
  if (row == 0) pages_.emplace_back(meter_, value_offset(params_.batch, 0));
  float* const page = pages_.back().data();
  for (Index b = 0; b < params_.batch; ++b)
    for (Index h = 0; h < params_.num_heads_kv; ++h, k += head_stride, v += head_stride) {
      float* const keys = page + key_offset(b, h) + row;
      for (Index i = 0; i < d; ++i) keys[i * kPageRows] = k[i];
      std::copy_n(v, d, page + value_offset(b, h) + row * value_stride_);
    }
  ++rows_;
}

Index KvShard::bytes() const {
  Index bytes = 0;
  for (const Buffer<float>& page : pages_) bytes += page.bytes();
  return bytes;
}

Index KvShard::rows_below(Index position) const {
  const Index n = prompt_.world_size;
  const LocalRows of_prompt = prompt_.rows_of(rank_);
  const Run generated{prompt_.seqlen + rank_, n, rows_ - of_prompt.size()};
  return of_prompt.rows_below(position) + generated.rows_below(position);
}

}  // namespace ringscope
