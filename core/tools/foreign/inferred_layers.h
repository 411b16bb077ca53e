// The layers that were found in the profiles of a job's ranks: which of a rank's kernels and messages
// belong to which step of which pass. ring_inference.cpp finds them, inferred_recording.cpp writes one of
// them as a recording.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/tools/foreign/kineto.h"

namespace ringscope {

inline constexpr Index kProfileRows = 1024;  // per rank, in place of what a profile does not say

// One rank's attention and messages, in the order in which they were launched.
struct ProfiledRank {
  const RankProfile* profile = nullptr;
  std::vector<ProfiledSpan> attention[2];  // by pass
  std::vector<ProfiledSpan> batches;       // hops
  std::vector<ProfiledSpan> gathers;       // of keys and values, where a scheme gathers them
  std::int64_t shift_ns = 0;               // to the first file's base time
};

// Return the pairs of an attention whose lengths are known. Where there are more keys than queries, the
// last query sees all keys.
inline double pairs_in(const ProfiledSpan& kernel) {
  const double q = kernel.q_rows, k = kernel.k_rows;
  return kernel.causal > 0 && q <= k ? q * (k - q) + q * (q + 1) / 2 : q * k;
}

// What may be: how many kernels a rank runs for its own block, for one of a lower rank and for one
// of a higher rank, how many transfers make a hop, which way the blocks go, and whether a layer's
// last step passes them on, too.
struct RingGuess {
  Index own = 1, lower = 1, higher = 1, a_hop = 1;
  int way = 1;  // 1: to the next rank; -1: to the previous one
  Index last_hop = 0;
  Index back_hops = 0;  // transfers of a backward pass
  bool operator==(const RingGuess&) const = default;
};

// A pass of a layer: its first kernel on each rank, its first transfer and its gather.
struct LayerPass {
  Pass pass = Pass::forward;
  std::vector<Index> kernels;
  Index hops = 0, gather = 0;
};

struct InferredLayers {
  std::vector<ProfiledRank> ranks;
  AttentionShape shape;    // of a rank's rows; seqlen 0: unknown
  bool on_device = false;  // its transfers end on both sides at once
  bool ends_late = false;  // a transfer ends when it is waited for
  RingGuess guess;
  // Keys and values are gathered. Then a rank's kernels per layer, by pass; of those before the gather is
  // over the first step is made, unless each step has its block.
  bool gathers = false, has_blocks = true;
  std::vector<Index> kernels_per_layer[2];
  Index early_kernels = 0;
  std::vector<LayerPass> passes;
  std::vector<std::pair<const LayerPass*, const LayerPass*>> layers;  // forward, backward or null
  std::string deal;                 // who has which rows under a causal mask; "": the mask is full
  Index rows = kProfileRows;        // per rank
  std::vector<std::int64_t> moved;  // by how much each rank's clock was moved
  std::vector<std::string> notes;

  static int at(Pass pass) { return static_cast<int>(pass); }
  int n() const { return static_cast<int>(ranks.size()); }
  int wrap(int rank) const { return (rank % n() + n()) % n(); }
  bool has_backward() const { return !layers.empty() && layers[0].second != nullptr; }
  Index attended(int rank, Pass pass) const { return std::ssize(ranks[rank].attention[at(pass)]); }

  Index kernels_in(const RingGuess& g, int rank, Pass pass, int step) const {
    if (!has_blocks) {
      const Index all = kernels_per_layer[at(pass)][rank];
      const Index first = pass == Pass::forward && early_kernels > 0 ? early_kernels : all;
      return step == 0 ? first : step == 1 ? all - first : 0;
    }
    const int owner = wrap(rank - g.way * step);
    return owner == rank ? g.own : owner < rank ? g.lower : g.higher;
  }
  Index kernels_a_layer(const RingGuess& g, int rank, Pass pass) const {
    if (gathers) return kernels_per_layer[at(pass)][rank];
    return g.own + g.lower * rank + g.higher * (n() - 1 - rank);
  }
  Index hops_of(const RingGuess& g, Pass pass) const {
    return pass == Pass::forward ? (n() - 1 + g.last_hop) * g.a_hop : g.back_hops;
  }
  const LayerPass& pass_of(Index layer, Pass pass) const {
    return pass == Pass::forward ? *layers[layer].first : *layers[layer].second;
  }
  // Return the kernels of a step, or none if it was skipped.
  std::vector<ProfiledSpan> kernels_of(int rank, Index layer, Pass pass, int step) const;
  // Return a hop: the transfers after which the block of step + 1 is there, or the gradients of this
  // step, whose hop follows the block's. None if there is no such hop.
  std::optional<ProfiledSpan> hop_of(int rank, Index layer, Pass pass, int step,
                                     Payload payload = Payload::kv) const;
  // In a backward pass there may be a hop of the gradients beside each of the blocks, and one more that
  // brings them home. Where blocks are gathered, there are only these.
  bool has_gradients() const {
    return gathers ? guess.back_hops == n() : guess.back_hops % (2 * n() - 1) == 0;
  }
  // Return whether nothing is attended before the gather is over.
  bool waits_first(Pass pass) const {
    return gathers && !has_blocks && (pass == Pass::backward || early_kernels == 0);
  }
  Index pairs_of(int rank, int owner, const std::vector<ProfiledSpan>& kernels) const;

  // Return a layer as a recording, and add to the notes.
  Recording recording_of(Index layer);
  void write_rank(Recording& recording, int rank, Index layer, Pass pass) const;
  void estimate_moves(Recording& recording);
  std::string turns_because(Index layer) const;
};

}  // namespace ringscope
