// A tree over hops to the next rank. In a round of distance D some ranks hand a message to the rank
// D places on. A communicator's hops only reach the next rank, so the ranks between pass it along
// and the round takes D hops; on links between any two ranks it is one message.
//
// Distances double from round to round, so all rounds together are ceil(log2 N) messages one after
// the other for links of the latter kind, but 2^ceil(log2 N) - 1 >= N - 1 hops over neighbours: a
// tree's few rounds are worth something only where ranks are linked directly.
#pragma once

#include <functional>

#include "core/ring/communicator.h"

namespace ringscope {

// ceil(log2 N).
constexpr int tree_rounds(int world_size) {
  int rounds = 0;
  while ((Index{1} << rounds) < world_size) ++rounds;
  return rounds;
}

// One round, which all ranks take part in. Places count along the ring from some rank on; `sends`
// says, the same on every rank, whether the one at a place in [0, N) sends. Senders are more than
// `distance` apart, and none sends past place N - 1.
struct TreeRound {
  int place = 0;       // this rank's
  int first_rank = 0;  // at place 0
  int distance = 1;
  std::function<bool(int)> sends;
};

// `message` is sent, `incoming` is received or passed along; both of `size` values. Returns whether
// `incoming` was for this rank. Hops are counted on in `step`; they go as Pass::forward,
// Payload::dkv, which no other pass uses, and their owner is the rank that the message comes from.
// Throws RunError that names rank and hop.
bool hand_on(Communicator& comm, const TreeRound& round, const float* message, float* incoming,
             Index size, int& step);

// All ranks' values become those of `root`: ceil(log2 N) rounds, N - 1 messages.
void broadcast(Communicator& comm, int root, float* values, Index size, int& step);

}  // namespace ringscope
