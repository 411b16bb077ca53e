// Rotary positions: the values of a query or key head are taken in pairs, and pair i of head_dim /
// 2 is turned by the angle
//
//   position * base^(-2 i / head_dim)
//
// so that a score depends on the distance of its two positions. The position is the global one: a
// rank's row 0 is turned as its place in the sequence says, whatever the partition. (By local rows,
// every rank would believe that the sequence begins with it.) The gradient is turned back.
#pragma once

#include <vector>

#include "core/partition/local_rows.h"

namespace ringscope {

class Rotary {
 public:
  // For the rows of one rank; head_dim is even.
  Rotary(const LocalRows& rows, Index head_dim, double base);

  // x: [batch, rows, heads, head_dim].
  void turn(Index batch, Index heads, float* x) const { turn(batch, heads, x, 1); }
  void turn_back(Index batch, Index heads, float* x) const { turn(batch, heads, x, -1); }

 private:
  void turn(Index batch, Index heads, float* x, float direction) const;

  Index rows_;
  Index pairs_;
  std::vector<float> cosine_, sine_;  // [rows, pairs]
};

}  // namespace ringscope
