#include "core/training/decode_attention.h"

#include <algorithm>
#include <cmath>

#include "core/attention/large_values.h"
#include "core/attention/online_softmax.h"
#include "core/attention/tile_product.h"

namespace ringscope {

KvShard::KvShard(const AttentionParams& params, const Partition& prompt, int rank,
                 MemoryMeter* meter)
    : params_(params),
      prompt_(prompt),
      rank_(rank),
      meter_(meter),
      value_stride_(round_up(params.value_dim(), kVectorWidth)) {}

void KvShard::fill(const float* k, const float* v) {
  const Index rows = prompt_.rows_of(rank_).size(), heads = params_.num_heads_kv;
  const Index key = heads * params_.head_dim, value = heads * params_.value_dim();
  for (Index row = 0; row < rows; ++row) add_row(k + row * key, v + row * value, rows);
  positions_ = prompt_.seqlen;
}

// [append
void KvShard::append(const float* k, const float* v) {
  if (home_of(prompt_, positions_) == rank_) add_row(k, v, 1);
  ++positions_;
}
// append]

void KvShard::add_row(const float* k, const float* v, Index rows) {
  const Index d = params_.head_dim, d_v = params_.value_dim(), row = rows_ % kPageRows;
  // A vector that begins inside the last key row is safe to load whole: values lie behind.
  static_assert(kPageRows % kVectorWidth == 0);
  if (row == 0) pages_.emplace_back(meter_, value_offset(params_.batch, 0));
  float* const page = pages_.back().data();
  for (Index b = 0; b < params_.batch; ++b)
    for (Index h = 0; h < params_.num_heads_kv; ++h) {
      const Index head = b * rows * params_.num_heads_kv + h;
      float* const keys = page + key_offset(b, h) + row;
      for (Index i = 0; i < d; ++i) keys[i * kPageRows] = k[head * d + i];
      const float* const value = v + head * d_v;
      std::copy_n(value, d_v, page + value_offset(b, h) + row * value_stride_);
      for (Index i = 0; i < d_v; ++i) has_large_values_ |= std::fabs(value[i]) >= kLargeValue;
    }
  ++rows_;
}

Index KvShard::bytes() const {
  Index bytes = 0;
  for (const Buffer<float>& page : pages_) bytes += page.bytes();
  return bytes;
}

double KvShard::weight_unit() const { return has_large_values_ ? lowered_weight(rows_) : 1.0; }

Index KvShard::rows_below(Index position) const {
  const Index n = prompt_.world_size;
  const LocalRows of_prompt = prompt_.rows_of(rank_);
  const Run generated{prompt_.seqlen + rank_, n, rows_ - of_prompt.size()};
  return of_prompt.rows_below(position) + generated.rows_below(position);
}

DecodeAttention::DecodeAttention(const AttentionParams& params, int world_size, MemoryMeter* meter)
    : params_(params),
      merger_(params, world_size, meter),
      partial_(meter, row_values(params, 1) * (params.value_dim() + 1)),
      scores_(meter, params.group_size() * KvShard::kPageRows),
      row_max_(meter, params.group_size()),
      row_sum_(meter, params.group_size()) {}

void DecodeAttention::operator()(Communicator& comm, const KvShard& shard, Interval keys,
                                 const float* q, float* out, float* lse) {
  attend_shard(shard, keys, q, partial_.data());
  merger_.merge(comm, partial_.data());
  const Index d_v = params_.value_dim();
  const float* from = partial_.data();
  for (Index h = 0; h < row_values(params_, 1); ++h, from += d_v + 1) {
    // A sink joins the sum of all ranks' keys, as one more result, whose output is 0.
    const double sink =
        params_.sink_logits != nullptr ? params_.sink_of(h, 1) : kMinusInfinity<double>;
    double with_sink = from[d_v];
    merge_by_lse<double>(with_sink, {}, sink, {});
    const double weight = rescale_factor<double>(from[d_v], with_sink);
    for (Index x = 0; x < d_v; ++x) out[h * d_v + x] = static_cast<float>(weight * from[x]);
    if (lse != nullptr) lse[h] = static_cast<float>(with_sink);
  }
}

void DecodeAttention::attend_shard(const KvShard& shard, Interval keys, const float* q,
                                   float* partial) {
  constexpr Index kPage = KvShard::kPageRows;
  const Index d = params_.head_dim, width = params_.value_dim() + 1, group = params_.group_size();
  const Interval rows = shard.rows_within(keys);
  const auto unit = static_cast<float>(shard.weight_unit());
  std::fill_n(partial, row_values(params_, 1) * width, 0.0f);
  for (Index b = 0; b < params_.batch; ++b)
    for (Index h = 0; h < params_.num_heads_kv; ++h, q += group * d, partial += group * width) {
      row_max_.fill(kMinusInfinity<float>);
      row_sum_.fill(0);
      for (Index p = rows.first / kPage; p * kPage < rows.last; ++p)
        attend_page(shard.keys(p, b, h), shard.values(p, b, h), shard.value_stride(),
                    {max_of(rows.first - p * kPage, 0), min_of(rows.last - p * kPage, kPage)}, unit,
                    q, partial);
      for (Index g = 0; g < group; ++g) {
        float* const out = partial + g * width;
        const double sum = row_sum_[g];
        for (Index x = 0; x < width - 1 && sum != 0; ++x) out[x] = mean_of_values(out[x] / sum);
        out[width - 1] = static_cast<float>(lse_of(RowState<double>{row_max_[g], sum / unit}));
      }
    }
}

void DecodeAttention::attend_page(const float* keys, const float* values, Index value_stride,
                                  Interval rows, float unit, const float* q, float* partial) {
  constexpr Index kPage = KvShard::kPageRows;
  const Index d = params_.head_dim, d_v = params_.value_dim(), group = params_.group_size();
  const Index count = rows.size();
  if (count == 0) return;
  tile_product<Store::overwrite>({q, d, 1}, keys + rows.first, kPage, scores_.data(), kPage, group,
                                 count, d);
  const auto scale = static_cast<float>(params_.softmax_scale),
             cap = static_cast<float>(params_.softcap);
  for (Index g = 0; g < group; ++g) {
    float* const scores = scores_.data() + g * kPage;
    float* const out = partial + g * (d_v + 1);
    float largest = row_max_[g];
    for (Index j = 0; j < count; ++j) {
      scores[j] *= scale;
      if (cap > 0) scores[j] = cap * std::tanh(scores[j] / cap);
      largest = std::fmax(largest, scores[j]);
    }
    const float factor = rescale_factor(row_max_[g], largest);
    const float largest_or_0 = largest == kMinusInfinity<float> ? 0.0f : largest;
    double sum = 0;
    for (Index j = 0; j < count; j += kVectorWidth) {
      const Index lanes = min_of(kVectorWidth, count - j);
      const Vector weights = exp_of(load_first(scores + j, lanes) - largest_or_0) * unit;
      store_first(scores + j, weights, lanes);
      sum += sum_of_lanes(load_first(scores + j, lanes));
    }
    row_sum_[g] = row_sum_[g] * factor + sum;
    row_max_[g] = largest;
    for (Index x = 0; x < d_v; ++x) out[x] *= factor;
  }
  tile_product<Store::accumulate>({scores_.data(), kPage, 1}, values + rows.first * value_stride,
                                  value_stride, partial, d_v + 1, group, d_v, count);
}

}  // namespace ringscope
