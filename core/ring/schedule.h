// Who holds what, when. Rank r sends to r+1 and receives from r-1, so at step t it holds the KV
// block of owner (r - t) mod N (S0, S4; S3 prints the other sign, and its own trace refutes it).
#pragma once

namespace ringscope {

struct RingSchedule {
  int rank = 0;
  int world_size = 1;

  constexpr int steps() const { return world_size; }
  constexpr int send_rank() const { return (rank + 1) % world_size; }
  constexpr int recv_rank() const { return (rank + world_size - 1) % world_size; }
  // step >= 0; steps past the last go on around the ring.
  constexpr int owner(int step) const {
    return (rank + world_size - step % world_size) % world_size;
  }
  constexpr bool is_last(int step) const { return step == world_size - 1; }
};

}  // namespace ringscope
