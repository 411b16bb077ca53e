// Exercise 18: one query, answered by N ranks.
//
// A Partial is one rank's answer, from the keys that it holds:
//
//   out   the average of their values          zeros when it has none
//   lse   log of the sum of exp(score)         -infinity when it has none
//
// merge(a, b) is the answer from both ranks' keys. Mind -infinity minus -infinity, and scores of
// 1,000.
//
// receiver(rank, round, world_size) plans a tree: the rank that `rank` hands its answer to in round
// 0, 1, 2, ..., or -1 when it hands on nothing. A rank hands on once, and does nothing after that.
// In a round a rank does one thing at most: it hands on, or it takes one answer and merges it with
// its own. After as many rounds as it takes to double 1 up to N or more, rank 0 has the answer from
// all keys.
#pragma once

#include <cmath>
#include <cstddef>
#include <vector>

struct Partial {
  double lse;
  std::vector<double> out;
};

inline Partial merge(const Partial& a, const Partial& b) {
  Partial both = a;
  both.lse = std::log(std::exp(a.lse) + std::exp(b.lse));  // not yet right: overflows at 710
  for (std::size_t x = 0; x < a.out.size(); ++x)
    both.out[x] = (a.out[x] + b.out[x]) / 2;  // nor is this: who has more weight counts for more
  return both;
}

inline int receiver(int rank, int round, int world_size) {
  (void)world_size;
  return rank == round + 1 ? 0 : -1;  // not yet right: one after the other, N - 1 rounds
}
