// The shape of one attention problem, and the check that its sizes don't overflow.
#pragma once

#include <string>

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

// Throw InputError unless every size is at least 1, heads divide by kv heads, seqlen is at most
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
