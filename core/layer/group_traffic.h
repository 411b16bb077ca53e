// What a rank sends to those of its groups (rank_groups.h) in one training step, by formula: of
// attention layers only. (MLPs split alike would add as many sums over TP again, and gradients of
// their weights.) A rank has c = S/CP rows of each of b sequences, L/PP layers, and G/TP heads of K
// and V; a row is W values wide, a value e bytes.
//
//   TP        two sums a layer, of y and of dx       2 (TP-1)/TP  b c W e  each
//   CP        a ring a layer: 2 (CP-1) hops of K, V  2 b c (G/TP) d e      each
//                             CP hops of dK, dV      2 b c (G/TP) d 4      each
//   PP        rows to the next stage, dx to the      b c W e               each
//             previous one; the ends do half of it
//   gradients one sum a step over n = CP x DP        2 (n-1)/n  weights 4
//
// (S1, part two, 13 says which group should have the fastest links, but not what it sends.)
#pragma once

#include "core/base/shape.h"
#include "core/layer/rank_groups.h"

namespace ringscope {

struct GroupJob {
  AttentionShape shape;  // whole: all heads, all rows; batch: sequences of one DP index
  Index width = 1;       // of a row between the layers
  Index layers = 1;      // of all stages
  Index value_bytes = 4;
  PerAxis sizes{{1, 1, 1, 1}};
};

// How often a rank has something to send, and how many bytes in all: on average over the ranks.
struct Talk {
  double times = 0;  // sums over a group; hops of the ring; messages between stages
  double bytes = 0;
};

struct GroupTraffic {
  Talk tensor, context, pipeline, gradients;
};

// Of one step. Throws InputError as validate and check_tensor_heads, for a size below 1, and when
// there are more stages than layers.
GroupTraffic group_traffic(const GroupJob& job);

// Bytes of the block of K and V that a rank passes on in a hop.
double ring_block_bytes(const GroupJob& job);

}  // namespace ringscope
