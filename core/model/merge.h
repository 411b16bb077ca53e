// Merging of the ranks' partial attention results, by ring or by tree. What they attend is
// elsewhere (decode_attention.h). In a tree's round of distance D some ranks send a message to the
// rank D places on. A communicator's hops reach only the next rank, so the ranks between pass it
// along and the round takes D hops; on links between any two ranks it is one message. Distances
// double from round to round. So all rounds are ceil(log2 N) successive messages on such links, but
// 2^ceil(log2 N) - 1 >= N - 1 hops over neighbours: a tree pays off only where ranks are linked
// directly.
#pragma once

#include <functional>
#include <string_view>

#include "core/attention/views.h"
#include "core/base/buffer.h"
#include "core/ring/seams.h"

namespace ringscope {

// Return ceil(log2 N).
constexpr int tree_rounds(int world_size) {
  int rounds = 0;
  while ((Index{1} << rounds) < world_size) ++rounds;
  return rounds;
}

// One round, in which all ranks take part. Places count along the ring from `first_rank`. `sends`
// tells, the same on every rank, whether the rank at a place in [0, N) sends. Senders are more than
// `distance` apart, and none sends past place N - 1.
struct TreeRound {
  int place = 0;       // of this rank
  int first_rank = 0;  // the rank at place 0
  int distance = 1;
  std::function<bool(int)> sends;
};

// Send `message`, receive or pass along `incoming`, both of `size` values, and return whether
// `incoming` was for this rank. `step` counts the hops. They go as Pass::forward, Payload::dkv,
// which no other pass uses, and their owner is the rank that the message comes from. Throw RunError
// that names rank and hop.
bool hand_on(Communicator& comm, const TreeRound& round, const float* message, float* incoming,
             Index size, int& step);

// Replace all ranks' values by those of `root`, in ceil(log2 N) rounds and N - 1 messages.
void broadcast(Communicator& comm, int root, float* values, Index size, int& step);

// ---
// Merging turns the ranks' partial results of one query into the result, with the same bits
// everywhere. A partial result is, for each head, the attention over a rank's own keys and the log
// of its sum of exponentials: (out, lse), with lse = -inf where a rank has no key. Two results a
// and b merge into
//
//   lse = log(e^lse_a + e^lse_b)      out = e^(lse_a - lse) out_a + e^(lse_b - lse) out_b
//
// (S2), in any order. Merging is in f64, messages are in f32. Both ways compute a head's result at
// one place and send it to all others:
//
//   ring   heads are cut into N chunks. A chunk goes around once and is merged at every stop, then
//          the whole ones go around: many small messages, and every link is always in use.
//   tree   half of the ranks send all their heads to the next rank, half of the others to the one 2
//          places on, then 4, ...; the result, at the last rank, returns the same way.
//
// With N ranks, H heads (of all sequences of a batch) of b = 4 (head_dim + 1) bytes:
//
//                                          ring                    tree
//   rounds, one after the other            2 (N-1)                 2 ceil(log2 N)
//   messages                               2 (N-1) min(N, H)       2 (N-1)
//   bytes in them                          2 (N-1) H b             2 (N-1) H b
//   bytes of the longest way               2 (N-1) ceil(H/N) b     2 ceil(log2 N) H b
//
// The longest way is the sum over rounds of the round's largest message. Nothing here depends on
// the length of the sequence. A decode step's messages are so short that the rounds decide, which
// favours the tree. Over hops to the next rank alone (above) it does not, because its messages are
// passed along in 2 (2^ceil(log2 N) - 1) hops one after the other.

enum class MergeKind { ring, tree };

inline constexpr MergeKind kAllMerges[] = {MergeKind::ring, MergeKind::tree};

constexpr std::string_view name_of(MergeKind kind) {
  return kind == MergeKind::ring ? "ring" : "tree";
}

// Throw InputError that lists the accepted names.
MergeKind parse_merge(std::string_view text);

// Sums over all ranks, except rounds, hops and way_bytes.
struct MergeCost {
  Index rounds = 0;
  Index messages = 0, bytes = 0;
  Index way_bytes = 0;
  // Over hops to the next rank: how many each rank takes part in, and what they carry.
  Index hops = 0;
  Index hop_messages = 0, hop_bytes = 0;

  bool operator==(const MergeCost&) const = default;
};

// Return the cost by formula. heads >= 1 counts those of all sequences of the batch.
MergeCost merge_cost(MergeKind kind, Index heads, Index head_dim, int world_size);

class Merger {
 public:
  Merger(MergeKind kind, const AttentionShape& shape, int world_size, MemoryMeter* meter);

  // Replace partial [batch * num_heads, head_dim + 1], each head's out and then its lse, by that of
  // all ranks' keys. All ranks call it. Throw RunError that names rank and hop.
  void merge(Communicator& comm, float* partial);

 private:
  void merge_heads(float* into, const float* other, Index heads);
  void up_and_down_tree(Communicator& comm, float* partial);

  MergeKind kind_;
  Index heads_;
  Index stride_;  // values per head
  Buffer<float> incoming_;
  Buffer<double> wide_;  // two heads' out
};

}  // namespace ringscope
