// A tree over hops to the next rank. In a round of distance D some ranks hand a message to the rank
// D places on. A communicator's hops only reach the next rank, so the ranks between pass it along
// and the round takes D hops; on links between any two ranks it is one message.
//
// Distances double from round to round, so all rounds together are ceil(log2 N) messages one after
// the other for links of the latter kind, but 2^ceil(log2 N) - 1 >= N - 1 hops over neighbours: a
// tree's few rounds are worth something only where ranks are linked directly.
#pragma once

#include <functional>
#include <string_view>

#include "core/attention/views.h"
#include "core/base/buffer.h"
#include "core/ring/seams.h"

namespace ringscope {

// ceil(log2 N).
constexpr int tree_rounds(int world_size) {
  int rounds = 0;
  while ((Index{1} << rounds) < world_size) ++rounds;
  return rounds;
}

// One round, which all ranks take part in. Places count along the ring from some rank on; `sends`
// says, the same on every rank, whether the one at a place in [0, N) sends. Senders are more than
// `distance` apart, and none sends past place N - 1.
struct TreeRound {
  int place = 0;       // this rank's
  int first_rank = 0;  // at place 0
  int distance = 1;
  std::function<bool(int)> sends;
};

// `message` is sent, `incoming` is received or passed along; both of `size` values. Returns whether
// `incoming` was for this rank. Hops are counted on in `step`; they go as Pass::forward,
// Payload::dkv, which no other pass uses, and their owner is the rank that the message comes from.
// Throws RunError that names rank and hop.
bool hand_on(Communicator& comm, const TreeRound& round, const float* message, float* incoming,
             Index size, int& step);

// All ranks' values become those of `root`: ceil(log2 N) rounds, N - 1 messages.
void broadcast(Communicator& comm, int root, float* values, Index size, int& step);

// ---
// The ranks' partial results of one query become the result, on every rank the same bits.
//
// A partial result is, for each head, the attention over a rank's own keys and the log of its sum
// of exponentials: (out, lse), with lse = -inf where a rank has no key. Two of them merge into
//
//   lse = log(e^lse_a + e^lse_b)      out = e^(lse_a - lse) out_a + e^(lse_b - lse) out_b
//
// (S2), in any order; f64 inside a merge, f32 on the way. Two ways to bring them together, of which
// each computes a head's result at one place and sends it to all others:
//
//   ring   heads are cut into N chunks. A chunk goes once round and is merged at every stop, then
//          the whole ones go round: many small messages, and every link is always in use.
//   tree   half of the ranks hand all their heads to the next rank, of the others half to the one 2
//          places on, then 4, ...; the result, at the last rank, goes out the same way.
//
// With N ranks, H heads (of all sequences of a batch) of b = 4 (head_dim + 1) bytes:
//
//                                          ring                    tree
//   rounds, one after the other            2 (N-1)                 2 ceil(log2 N)
//   messages                               2 (N-1) min(N, H)       2 (N-1)
//   bytes in them                          2 (N-1) H b             2 (N-1) H b
//   bytes of the longest way               2 (N-1) ceil(H/N) b     2 ceil(log2 N) H b
//
// (longest way: the sum over rounds of the round's largest message). Nothing here depends on the
// length of the sequence. A decode step's messages are so short that the rounds decide, and the
// tree is the better one; over hops to the next rank alone (above) it is not: its messages then
// are passed along, 2 (2^ceil(log2 N) - 1) hops one after the other.

enum class MergeKind { ring, tree };

inline constexpr MergeKind kAllMerges[] = {MergeKind::ring, MergeKind::tree};

constexpr std::string_view name_of(MergeKind kind) {
  return kind == MergeKind::ring ? "ring" : "tree";
}

// Throws InputError that lists the accepted names.
MergeKind parse_merge(std::string_view text);

// All ranks together, but for rounds, hops and way_bytes.
struct MergeCost {
  Index rounds = 0;
  Index messages = 0, bytes = 0;
  Index way_bytes = 0;
  // Over hops to the next rank: how many each rank takes part in, and what they carry.
  Index hops = 0;
  Index hop_messages = 0, hop_bytes = 0;

  bool operator==(const MergeCost&) const = default;
};

// By formula; heads >= 1, of all sequences of the batch.
MergeCost merge_cost(MergeKind kind, Index heads, Index head_dim, int world_size);

class Merger {
 public:
  Merger(MergeKind kind, const AttentionParams& params, int world_size, MemoryMeter* meter);

  // partial [batch * num_heads, head_dim + 1], a head's out and then its lse, becomes that of all
  // ranks' keys. All ranks call it. Throws RunError that names rank and hop.
  void merge(Communicator& comm, float* partial);

 private:
  void merge_heads(float* into, const float* other, Index heads);
  void around_ring(Communicator& comm, float* partial);
  void up_and_down_tree(Communicator& comm, float* partial);

  MergeKind kind_;
  Index heads_;
  Index stride_;  // values of a head
  Buffer<float> incoming_;
  Buffer<double> wide_;  // two heads' out
};

}  // namespace ringscope
