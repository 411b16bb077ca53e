// Your ring, 8, solved.
#pragma once

#include "lessons/my_ring/given.h"

namespace my_ring {

inline State merge(const State& a, const State& b) {
  if (a.m == kNone) return b;
  if (b.m == kNone) return a;
  State both{std::fmax(a.m, b.m), 0, Row(a.out.size())};
  for (const State* part : {&a, &b}) {
    const double factor = std::exp(part->m - both.m);
    both.l += factor * part->l;
    add(both.out, factor, part->out);
  }
  return both;
}

inline State decode(Rank& rank, const Queries& query, const Block& own) {
  std::vector<State> state(1, {kNone, 0, Row(query.q[0].size())});
  attend(rank, query, own, state);
  for (int distance = 1; distance < rank.ranks; distance *= 2) {
    if (rank.number % (2 * distance) == distance) {
      rank.send(rank.number - distance, {{}, {}, state[0]});
      break;
    }
    if (rank.number + distance < rank.ranks)
      state[0] = merge(state[0], rank.receive(rank.number + distance).state);
  }
  return state[0];
}

}  // namespace my_ring
