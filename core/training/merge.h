// Merging of the ranks' partial attention results, which come from decode_attention.h, into one with
// the same bits everywhere. A partial result is, for each head, the attention over a rank's own keys
// and the log of its sum of exponentials: (out, lse), with lse = -inf where a rank has no key. Two
// results a and b merge into
//
//   lse = log(e^lse_a + e^lse_b)      out = e^(lse_a - lse) out_a + e^(lse_b - lse) out_b
//
// (S2), in any order. Merging is in f64, messages are in f32. There are two ways to compute a head's
// result at one place and to send it to all others:
//
//   ring   heads are cut into N chunks. A chunk goes around once and is merged at every stop, then
//          the whole ones go around: many small messages, and every link is always in use.
//   tree   half of the ranks send all their heads to the next rank, half of the others to the one 2
//          places on, then 4, ...; the result, at the last rank, returns the same way.
//
// With N ranks, H heads (of all sequences of a batch) of b = 4 (head_dim_v + 1) bytes:
//
//                                          ring                    tree
//   rounds, one after the other            2 (N-1)                 2 ceil(log2 N)
//   messages                               2 (N-1) min(N, H)       2 (N-1)
//   bytes in them                          2 (N-1) H b             2 (N-1) H b
//   bytes of the longest way               2 (N-1) ceil(H/N) b     2 ceil(log2 N) H b
//
// The longest way is the sum over rounds of the round's largest message. A decode step's messages
// are so short that the rounds decide, which favours the tree where any two ranks are linked, as
// `run --scheme tree` has it (core/ring/tree.cpp). A Merger needs no links but those of the ring.
#pragma once

#include <string_view>

#include "core/attention/views.h"
#include "core/base/buffer.h"
#include "core/base/names.h"
#include "core/ring/seams.h"

namespace ringscope {

enum class MergeKind { ring, tree };
constexpr auto names_of(MergeKind) { return list_of({"ring", "tree"}); }

// Of all ranks together, except for the rounds and the longest way.
struct MergeCost {
  Index rounds = 0;
  Index messages = 0, bytes = 0;
  Index way_bytes = 0;

  bool operator==(const MergeCost&) const = default;
};

// Return the cost by formula. heads >= 1 counts those of all sequences of the batch.
MergeCost merge_cost(MergeKind kind, Index heads, Index head_dim_v, int world_size);

class Merger {
 public:
  Merger(const AttentionShape& shape, int world_size, MemoryMeter* meter);

  // Replace partial [batch * num_heads, head_dim_v + 1], each head's out and then its lse, by that of
  // all ranks' keys. All ranks call it. Throw RunError that names rank and hop.
  void merge(Communicator& comm, float* partial);

 private:
  void merge_heads(float* into, const float* other, Index heads);

  Index heads_;
  Index stride_;  // values per head
  Buffer<float> incoming_;
  Buffer<double> wide_;  // two heads' out
};

}  // namespace ringscope
