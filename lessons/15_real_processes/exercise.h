// Exercise 15: an order in which a ring without groups does not hang.
//
// In a hop every rank of N (2 or more) sends a block to the next rank, (rank + 1) mod N, and receives
// one from the previous. It does one after the other, and each lasts until the other side does its
// part: a send until it is received, a receive until it is sent.
//
// Say which ranks send first. Nobody may wait for ever, and however many ranks there are, the hop may
// take no longer than three sends one after another.
#pragma once

inline bool sends_first(int rank, int world_size) {
  (void)rank, (void)world_size;
  return true;  // not yet right: all wait for each other
}
