// What people set of a Problem, described once (core/base/describe.h).
#pragma once

#include "core/base/describe.h"
#include "core/ring/problem.h"

namespace ringscope {

inline void read_value(DType& to, std::string_view text, const MemberRow&) {
  to = parse_dtype(text);
}
inline void read_value(Hops& to, std::string_view text, const MemberRow&) {
  to = parse_name(text, kAllHops);
}
inline void read_value(PartitionKind& to, std::string_view text, const MemberRow&) {
  to = parse_partition(text);
}

inline void read_value(std::optional<PartitionSpec>& to, std::string_view text, const MemberRow&) {
  to = PartitionSpec::parse(text);
}

inline constexpr const char* kMaskHelp =
    "full, causal, window:W, sink:K, prefix:P, documents:L1,L2,..., ranges:FILE, joined by + ({})";
inline constexpr Range kSizes = {1, 0x1p31};

template <class S, class F>
requires kIs<S, AttentionShape>
void describe(S& shape, F&& row) {
  row(MemberRow("seqlen", "N", "positions").in(kSizes).swept(), shape.seqlen);
  row(MemberRow("batch", "N", "batch entries ({})").in(kSizes), shape.batch);
  row(MemberRow("heads", "N", "query heads ({})").in(kSizes).as("num_heads"), shape.num_heads);
  row(MemberRow("heads-kv", "N", "key and value heads, a divisor of the heads (as many)")
          .in(kSizes)
          .as("num_heads_kv"),
      shape.num_heads_kv);
  row(MemberRow("head-dim", "N", "values per head ({})").in(kSizes), shape.head_dim);
  row(MemberRow("head-dim-v", "N", "values per head of V and of the output (as --head-dim)")
          .in(kSizes),
      shape.head_dim_v);
  row(MemberRow("seqlen-q", "N", "queries, the last of the positions or as --q-offset says (all)")
          .in(kSizes),
      shape.seqlen_q);
  row(MemberRow("q-offset", "N",
                "position of the first query, for fewer queries than keys (seqlen - seqlen-q)")
          .in({0, 0x1p31}),
      shape.q_offset);
}

template <class S, class F>
requires kIs<S, Problem>
void describe(S& job, F&& row) {
  describe(job.shape, row);
  row(MemberRow("world-size", "N", "ranks").swept(), job.world_size);
  row(MemberRow("dtype", "f32|bf16|f16", "storage type ({})"), job.dtype);
  row(MemberRow("mask", "MASK", kMaskHelp).swept().quoted(), job.mask);
  row(MemberRow(
          "hops", "all|needed",
          "what the hops of a ring carry: all rows of a block, or those that a rank further on "
          "still needs ({})")
          .swept(),
      job.hops);
  row(MemberRow("backward", "", "the backward pass too"), job.backward);
  row(MemberRow("partition", "contiguous|striped|zigzag|fold|documents:P|file:RANKS.npy|searched",
                "which rank holds which positions ({}); documents:P deals each document out by P, "
                "contiguous or zigzag")
          .swept(),
      job.partition);
  row(MemberRow("partition-q", "PARTITION",
                "which rank holds which queries, counted from the first (dealt out as keys are)"),
      job.partition_q);
  row(MemberRow(
          "speeds", "S0,S1,...",
          "speed of each rank beside the others', for which a searched partition is dealt out "
          "(all alike)")
          .in({1e-12, 1e12, true, "numbers from 1e-12 to 1e+12, as in 1,1,0.5"}),
      job.speeds);
}

}  // namespace ringscope
