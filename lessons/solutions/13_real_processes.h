// Your ring, 7, solved.
#pragma once

#include "lessons/my_ring/given.h"

namespace my_ring {

// Even ranks send first. When their number is odd, the last rank and rank 0 both do, so that one send
// is late, and three in a row are needed.
inline Message exchange(Rank& rank, const Message& out) {
  if (rank.number % 2 == 0) rank.send(rank.next(), out);
  Message in = rank.receive(rank.previous());
  if (rank.number % 2 != 0) rank.send(rank.next(), out);
  return in;
}

}  // namespace my_ring
