// The two-level ring: M nodes of G ranks each, rank (n, g) = n G + g. A step of the outer ring, that
// of the nodes, is a whole ring of G steps inside every node. Meanwhile the block that a rank begins
// the outer step with goes to the rank of the same place in the next node, so the slow hop has G
// steps to hide behind. At step (o, i), which is step t = o G + i, rank (n, g) attends the block of
// owner
//
//   node (n - o) mod M, place (g - i) mod G
//
// Forward, every block but the rank's own arrives once: M (G-1) hops inside nodes and M-1 between
// them. These are N-1 in all and as many bytes as in the flat ring.
//
// Backward the blocks go the same ways again, and so do gradients. Inside a node the sum for a block
// follows its block from the place where it came in, g, to the last that attends it, g-1. That rank
// adds what all earlier nodes have summed and sends it to the same place in the next node, where the
// same block ends its turn an outer step later. After M hops between nodes the sum is in its owner's
// node, one place before the owner, and a last hop inside the node brings it home. That is
// M (G-1) + 1 hops inside nodes and M between them: one more than the flat ring's N.
//
// With one node, or nodes of one rank, it is the flat ring (ring.h).
#pragma once

#include "core/ring/ring.h"

namespace ringscope {

// Which block a rank holds at which step, and where it sends it.
struct TwoLevelSchedule {
  int rank = 0;
  int nodes = 1;
  int ranks_per_node = 1;

  constexpr int node() const { return rank / ranks_per_node; }
  constexpr int place() const { return rank % ranks_per_node; }
  constexpr int next_here() const { return at(node(), place() + 1); }
  constexpr int previous_here() const { return at(node(), place() + ranks_per_node - 1); }
  constexpr int next_node() const { return at(node() + 1, place()); }
  constexpr int previous_node() const { return at(node() + nodes - 1, place()); }
  // Return whose block this rank attends; 0 <= outer < nodes, 0 <= inner < ranks_per_node.
  constexpr int owner(int outer, int inner) const {
    return at(node() + nodes - outer, place() + ranks_per_node - inner);
  }
  constexpr int owner(int step) const {
    return owner(step / ranks_per_node, step % ranks_per_node);
  }

 private:
  constexpr int at(int node, int place) const {
    return node % nodes * ranks_per_node + place % ranks_per_node;
  }
};

}  // namespace ringscope
