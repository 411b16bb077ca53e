// Your ring, 6: backward, under a causal mask. `states` are those that ring_forward() returned.
//
//   block_backward   returns what these queries add to the gradient of `block`, and adds to dq[i] what
//                    the block adds to the gradient of query i. It uses rank.scores() and visible().
//   ring_backward    as one rank runs it: returns the gradient of the rank's own block
//
// Scores are q k / sqrt(d); mind that factor in dq and dk. finish_hop() ends the oldest hop that is
// under way, so it brings a block or a gradient, whichever was started first. What counts is as in
// lesson 6.
#pragma once

#include "lessons/my_ring/given.h"

namespace my_ring {

inline Gradient block_backward(Rank& rank, const Queries& queries, const Block& block,
                               const std::vector<State>& states, Matrix& dq) {
  const Matrix zeros(block.k.size(), Row(block.k[0].size()));
  return {zeros, zeros};  // to be written
}

inline Gradient ring_backward(Rank& rank, const Queries& mine, Block held,
                              const std::vector<State>& states, Matrix& dq) {
  return block_backward(rank, mine, held, states, dq);  // to be written
}

}  // namespace my_ring
