#include "core/decode/tree.h"

#include "core/ring/at_step.h"

namespace ringscope {

bool hand_on(Communicator& comm, const TreeRound& round, const float* message, float* incoming,
             Index size, int& step) {
  const int n = comm.world_size();
  const auto is_sender = [&](int place) { return place >= 0 && round.sends(place); };
  const auto rank_at = [&](int place) { return (round.first_rank + place) % n; };
  bool is_for_me = false;
  for (int hop = 0; hop < round.distance; ++hop, ++step) {
    Exchange exchange{.payload = Payload::dkv, .step = step};
    // What began at a place is `hop` places on by now.
    if (const int from = round.place - hop; is_sender(from)) {
      exchange.send_owner = rank_at(from);
      exchange.send = hop == 0 ? message : incoming;
      exchange.send_bytes = size * static_cast<Index>(sizeof(float));
    }
    if (const int from = round.place - hop - 1; is_sender(from)) {
      exchange.recv_owner = rank_at(from);
      exchange.recv = incoming;
      exchange.recv_bytes = size * static_cast<Index>(sizeof(float));
      is_for_me = hop == round.distance - 1;
    }
    at_step(comm.rank(), step, [&] { wait_for(comm.exchange(exchange, {})); });
  }
  return is_for_me;
}

void broadcast(Communicator& comm, int root, float* values, Index size, int& step) {
  const int n = comm.world_size();
  for (int k = tree_rounds(n) - 1; k >= 0; --k) {
    const int distance = 1 << k;
    const auto sends = [&](int place) {
      return place % (2 * distance) == 0 && place + distance < n;
    };
    // A rank that passes on what it has already only writes the same bytes once more.
    hand_on(comm, {(comm.rank() - root + n) % n, root, distance, sends}, values, values, size,
            step);
  }
}

}  // namespace ringscope
