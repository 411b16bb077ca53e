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

// The sizes of the tensors [batch, heads, seqlen, head_dim], in C order. Query head h reads kv head
// h / (num_heads / num_heads_kv).
struct AttentionShape {
  Index batch = 1;
  Index num_heads = 1;
  Index num_heads_kv = 1;
  Index seqlen = 1;
  Index head_dim = 1;

  Index group_size() const { return num_heads / num_heads_kv; }
  bool operator==(const AttentionShape&) const = default;
};

// Return the number of values in `rows` rows of a tensor with the query heads, with the key heads,
// and with one value per row and query head. Amounts are Index for whole rows. As double they can't
// overflow for any shape that validate() accepts, and are exact up to 2^53.
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
constexpr auto kv_values(const AttentionShape& s, Rows rows) {
  const auto values = query_values(s, rows);
  return values / static_cast<decltype(values)>(s.group_size());
}

// Throw InputError unless every size is at least 1, heads divide by kv heads, seqlen is at most
// kMaxSeqlen, and the bytes of every tensor (as f64) fit in 64 bits.
inline void validate(const AttentionShape& shape) {
  require_between("batch", shape.batch, 1);
  require_between("heads", shape.num_heads, 1);
  require_between("heads-kv", shape.num_heads_kv, 1);
  require_between("seqlen", shape.seqlen, 1);
  require_between("head-dim", shape.head_dim, 1);
  if (shape.num_heads % shape.num_heads_kv != 0)
    throw InputError("heads-kv: " + std::to_string(shape.num_heads_kv) +
                     " given, a divisor of heads (" + std::to_string(shape.num_heads) +
                     ") accepted");
  if (shape.seqlen > kMaxSeqlen)
    throw InputError("seqlen: " + std::to_string(shape.seqlen) + " given, at most " +
                     std::to_string(kMaxSeqlen) + " accepted");
  checked_product(checked_values(shape.batch, shape.num_heads, shape.seqlen, shape.head_dim), 8,
                  "tensor size in bytes");
}

}  // namespace ringscope
