// The two-level ring: M nodes of G ranks each, rank (n, g) = n G + g. A step of the outer ring,
// that of the nodes, is a whole ring of G steps inside every node. Meanwhile the block that a rank
// begins the outer step with goes to the rank of the same place in the next node, so the slow hop
// has G steps to hide behind. At step (o, i), which is step t = o G + i, rank (n, g) attends the
// block of owner
//
//   node (n - o) mod M, place (g - i) mod G
//
// Forward, every block but the rank's own arrives once: M (G-1) hops inside nodes and M-1 between
// them. These are N-1 in all and as many bytes as in the flat ring.
//
// Backward the blocks go the same ways again, and so do gradients. Inside a node the sum for a
// block follows its block from the place where it came in, g, to the last that attends it, g-1.
// That rank adds what all earlier nodes have summed and sends it to the same place in the next
// node, where the same block ends its turn an outer step later. After M hops between nodes the sum
// is in its owner's node, one place before the owner, and a last hop inside the node brings it
// home. That is M (G-1) + 1 hops inside nodes and M between them: one more than the flat ring's N
// when M and G are both above 1.
//
//   in step    All begin an inner step together, and it lasts as long as the slowest of them or of
//              the hops inside nodes. An outer step lasts as long as its inner steps or the hops
//              between nodes beside them, whichever is longer.
//   K buffers  As the flat ring (simulate.h), on both levels. A block that arrives at (o, i) comes
//              into one of K buffers inside the node, after the block of step t - K left it, or for
//              i = 0 into one of K others, after the block of (o - K, 0) left it. Hops inside and
//              between nodes go side by side, each kind in the order of its steps.
#pragma once

#include <vector>

#include "core/sim/account.h"
#include "core/sim/machine/machine.h"
#include "core/sim/simulate.h"
#include "core/sim/work.h"

namespace ringscope {

// Do what simulate() does for Scheme::two_level, on job.nodes nodes. Throw InputError when they
// do not divide world_size.
Simulation simulate_two_level(const SimulationRequest& request, const Work& work,
                              const Machine& machine);

// ---
// The messages of a two-level ring, in the books and in recordings.
//
// A rank's hops inside its node and to the next node run at the same time, but a recording has one
// lane for sends and one for receives, whose slices must not overlap. Hops inside the node are
// therefore shown as they are. A hop between nodes is shown in the longest part of its time in
// which the lane is free, or as a slice of no length if there is none.

enum class Way { here, next_node };

class TwoLevelHops {
 public:
  TwoLevelHops(const SimulationRequest& request, Account& account);

  // Add a hop. Call in the order in which a way's hops run. `span` is as in Account.
  void moved(Way way, const Hop& hop, TimeSpan span);
  // Show what moved in the pass, which began at `origin_s` of the run.
  void end_pass(double origin_s);

 private:
  struct Slice {
    TimeSpan span;
    Hop hop;
    Way way;
  };
  struct Lanes {
    std::vector<Slice> here, next_node;
  };

  bool is_recorded(int rank) const {
    return has_events_ && request_.recorded[static_cast<std::size_t>(rank)];
  }
  void show(int rank, Lane lane, Lanes& slices, double origin_s);

  const SimulationRequest& request_;
  Account& account_;
  bool has_events_;
  std::vector<Lanes> sent_, received_;  // by rank
};

}  // namespace ringscope
