// The shape of one attention problem, the numbers of values in its tensors, and the check that its
// sizes don't overflow.
#pragma once

#include <string>
#include <type_traits>

#include "core/base/error.h"
#include "core/base/math.h"

namespace ringscope {

// The largest sequence. It keeps every product of two positions within 64 bits, in which positions
// and pair counts are kept.
inline constexpr Index kMaxSeqlen = Index{1} << 31;

// The sizes of the tensors, in C order: Q, K [batch, heads, seqlen, head_dim], and V, out with
// value_dim() values in a row. Query head h reads kv head h / (num_heads / num_heads_kv). There may be
// fewer queries than keys: query i stands at position first_query() + i, and Q, out, lse have queries()
// rows. All else that is called seqlen counts keys.
struct AttentionShape {
  Index batch = 1;
  Index num_heads = 1;
  Index num_heads_kv = 1;
  Index seqlen = 1;
  Index head_dim = 1;
  Index head_dim_v = 0;  // of V and out; 0: head_dim
  Index seqlen_q = 0;    // queries; 0: seqlen
  Index q_offset = -1;   // position of query 0; -1: the queries are the last positions

  Index group_size() const { return num_heads / num_heads_kv; }
  constexpr Index value_dim() const { return head_dim_v > 0 ? head_dim_v : head_dim; }
  constexpr Index queries() const { return seqlen_q > 0 ? seqlen_q : seqlen; }
  constexpr Index first_query() const { return q_offset >= 0 ? q_offset : seqlen - queries(); }
  // Return whether each position has a query.
  constexpr bool is_square() const { return queries() == seqlen; }
  // Return the width of K and V together, halved: what decides costs where the two differ.
  constexpr Index mean_width() const { return ceil_div(head_dim + value_dim(), 2); }
  bool operator==(const AttentionShape&) const = default;
};

// Return the number of values in `rows` rows of a tensor with one value per row and query head
// (row_values), of Q, of out, of K, and of a KV block, which is K and V. Amounts are Index for whole
// rows. As double they can't overflow for any shape that validate() accepts, and are exact up to 2^53.
template <class Rows>
constexpr auto row_values(const AttentionShape& s, Rows rows) {
  using Number = std::conditional_t<std::is_floating_point_v<Rows>, double, Index>;
  return static_cast<Number>(s.batch) * static_cast<Number>(s.num_heads) * rows;
}
template <class Rows>
constexpr auto query_values(const AttentionShape& s, Rows rows) {
  const auto values = row_values(s, rows);
  return values * static_cast<decltype(values)>(s.head_dim);
}
template <class Rows>
constexpr auto out_values(const AttentionShape& s, Rows rows) {
  const auto values = row_values(s, rows);
  return values * static_cast<decltype(values)>(s.value_dim());
}
template <class Rows>
constexpr auto kv_values(const AttentionShape& s, Rows rows) {
  const auto values = query_values(s, rows);
  return values / static_cast<decltype(values)>(s.group_size());
}
template <class Rows>
constexpr auto block_values(const AttentionShape& s, Rows rows) {
  const auto values = query_values(s, rows) + out_values(s, rows);
  return values / static_cast<decltype(values)>(s.group_size());
}

// Throw InputError unless every size is at least 1, heads divide by kv heads, seqlen is at most
// kMaxSeqlen, each query stands at one of its positions, and the bytes of every tensor (as f64) fit in 64 bits.
inline void validate(const AttentionShape& shape) {
  require_between("batch", shape.batch, 1);
  require_between("heads", shape.num_heads, 1);
  require_between("heads-kv", shape.num_heads_kv, 1);
  require_between("seqlen", shape.seqlen, 1);
  require_between("head-dim", shape.head_dim, 1);
  require_between("head-dim-v", shape.value_dim(), 1);
  if (shape.num_heads % shape.num_heads_kv != 0)
    throw InputError("heads-kv: " + std::to_string(shape.num_heads_kv) +
                     " given, a divisor of heads (" + std::to_string(shape.num_heads) +
                     ") accepted");
  if (shape.seqlen > kMaxSeqlen)
    throw InputError("seqlen: " + std::to_string(shape.seqlen) + " given, at most " +
                     std::to_string(kMaxSeqlen) + " accepted");
  require_between("seqlen-q", shape.queries(), 1, shape.seqlen);
  require_between("q-offset", shape.first_query(), 0, shape.seqlen - shape.queries());
  checked_product(checked_values(shape.batch, shape.num_heads, shape.seqlen,
                                 max_of(shape.head_dim, shape.value_dim())),
                  8, "tensor size in bytes");
}

// Return the same shape, in which what is not given says what it would say by itself.
constexpr AttentionShape plainest(AttentionShape shape) {
  if (shape.head_dim_v == shape.head_dim) shape.head_dim_v = 0;
  if (shape.seqlen_q == shape.seqlen) shape.seqlen_q = 0;
  if (shape.q_offset == shape.seqlen - shape.queries()) shape.q_offset = -1;
  return shape;
}

}  // namespace ringscope
