// What people set of a Problem, described once (core/base/describe.h).
#pragma once

#include "core/base/describe.h"
#include "core/ring/problem.h"

namespace ringscope {

inline void read_value(DType& to, std::string_view text, const Row&) { to = parse_dtype(text); }
inline void read_value(PartitionKind& to, std::string_view text, const Row&) {
  to = parse_partition(text);
}

inline constexpr const char* kMaskHelp =
    "full, causal, window:W, sink:K, prefix:P, documents:L1,L2,..., ranges:FILE, joined by + ({})";
inline constexpr Range kSizes = {1, 0x1p31};

template <class S, class F>
requires kIs<S, AttentionShape>
void describe(S& shape, F&& row) {
  row({.name = "batch", .help = "batch entries ({})", .range = kSizes}, shape.batch);
  row({.name = "heads", .key = "num_heads", .help = "query heads ({})", .range = kSizes},
      shape.num_heads);
  row({.name = "heads-kv",
       .key = "num_heads_kv",
       .help = "key and value heads, a divisor of the heads (as many)",
       .range = kSizes},
      shape.num_heads_kv);
  row({.name = "seqlen", .help = "positions", .range = kSizes, .is_swept = true}, shape.seqlen);
  row({.name = "head-dim", .help = "values a head ({})", .range = kSizes}, shape.head_dim);
}

template <class S, class F>
requires kIs<S, Problem>
void describe(S& job, F&& row) {
  row({.name = "world-size", .help = "ranks", .is_swept = true}, job.world_size);
  describe(job.shape, row);
  row({.name = "dtype", .type = "f32|bf16|f16", .help = "storage type ({})"}, job.dtype);
  row({.name = "mask", .type = "MASK", .help = kMaskHelp, .is_swept = true, .quotes_text = true},
      job.mask);
  row({.name = "backward", .type = "", .help = "the backward pass too"}, job.backward);
  row({.name = "partition",
       .type = "contiguous|striped|zigzag|fold|documents:P|file:RANKS.npy|searched",
       .help = "which rank holds which positions ({}); documents:P deals each document out by P, "
               "contiguous or zigzag",
       .is_swept = true},
      job.partition);
  row({.name = "speeds",
       .type = "S0,S1,...",
       .help = "speed of each rank beside the others', for which a searched partition is dealt out "
               "(all alike)",
       .range = {0, 1e12, false, "numbers above 0, up to 1e+12, as in 1,1,0.5"}},
      job.speeds);
}

}  // namespace ringscope
