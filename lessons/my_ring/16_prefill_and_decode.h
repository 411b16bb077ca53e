// Your ring, 8: decoding. All ranks have the same query, and each a block of keys, perhaps of none.
//
//   merge    returns the state of a's keys and b's together. Either may have met none.
//   decode   as one rank runs it: attends its own block, and merges over the ranks by rank.send() and
//            rank.receive(). On rank 0 it returns the state of all keys, on others anything.
//
// What counts: N - 1 small messages in all, and for 8 ranks no more than three one after another.
#pragma once

#include "lessons/my_ring/given.h"

namespace my_ring {

inline State merge(const State& a, const State& b) {
  return a;  // to be written
}

inline State decode(Rank& rank, const Queries& query, const Block& own) {
  return {kNone, 0, Row(query.q[0].size())};  // to be written
}

}  // namespace my_ring
