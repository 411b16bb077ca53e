// Who holds what, when. Rank r sends to r+1 and receives from r-1, so at step t it holds the KV
// block of owner (r - t) mod N (S0, S4; S3 prints the other sign, and its own trace refutes it).
#pragma once

namespace ringscope {

struct RingSchedule {
  int rank = 0;
  int world_size = 1;

  constexpr int steps() const { return world_size; }
  constexpr int send_rank() const { return rank == world_size - 1 ? 0 : rank + 1; }
  constexpr int recv_rank() const { return rank == 0 ? world_size - 1 : rank - 1; }
  // [owner
  // step >= 0; steps past the last go on around the ring.
  constexpr int owner(int step) const {
    const int back = step % world_size;  // no sum: it could overflow
    return rank >= back ? rank - back : world_size - (back - rank);
  }
  // owner]
  constexpr bool is_last(int step) const { return step == world_size - 1; }
};

}  // namespace ringscope
