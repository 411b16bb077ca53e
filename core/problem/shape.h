// The shape of one attention problem, and arithmetic on sizes that refuses to overflow.
#pragma once

#include <string>

#include "core/base/error.h"
#include "core/base/math.h"

namespace ringscope {

// Positions and pair counts are kept in 64 bits; this bound keeps every product of two positions
// there.
inline constexpr Index kMaxSeqlen = Index{1} << 31;

// Tensors are [batch, heads, seqlen, head_dim], C order. Query head h reads kv head
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

// a * b; throws InputError naming `what` when the product does not fit in 63 bits. a, b >= 0.
inline Index checked_product(Index a, Index b, const std::string& what) {
  Index product = 0;
  if (__builtin_mul_overflow(a, b, &product))
    throw InputError(what + ": " + std::to_string(a) + " x " + std::to_string(b) +
                     " does not fit in 64 bits; give smaller sizes");
  return product;
}

// Number of values in a [batch, heads, seqlen, head_dim] tensor; throws InputError on overflow.
inline Index checked_values(Index batch, Index heads, Index seqlen, Index head_dim) {
  const std::string what = "tensor size";
  return checked_product(checked_product(checked_product(batch, heads, what), seqlen, what),
                         head_dim, what);
}

// Throws InputError unless every size is at least 1, heads divide by kv heads, seqlen is at most
// kMaxSeqlen, and the bytes of every tensor (as f64) fit in 64 bits.
inline void validate(const AttentionShape& shape) {
  const auto positive = [](Index value, const char* name) {
    if (value < 1)
      throw InputError(std::string(name) + ": " + std::to_string(value) +
                       " given, at least 1 accepted");
  };
  positive(shape.batch, "batch");
  positive(shape.num_heads, "heads");
  positive(shape.num_heads_kv, "heads-kv");
  positive(shape.seqlen, "seqlen");
  positive(shape.head_dim, "head-dim");
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
