// The ring schedule and the loops over it. Rank r sends to r+1 and receives from r-1, so at step t
// it holds the KV block of owner (r - t) mod N (S0, S4; S3 prints the other sign, and its own trace
// refutes it).
#pragma once

#include <vector>

#include "core/ring/problem.h"
#include "core/ring/rank_memory.h"
#include "core/ring/seams.h"

namespace ringscope {

struct RingSchedule {
  int rank = 0;
  int world_size = 1;

  constexpr int steps() const { return world_size; }
  constexpr int send_rank() const { return rank == world_size - 1 ? 0 : rank + 1; }
  constexpr int recv_rank() const { return rank == 0 ? world_size - 1 : rank - 1; }
  // [owner
  // Return the owner of the block held at step >= 0; later steps go on around the ring.
  constexpr int owner(int step) const {
    const int back = step % world_size;  // a sum instead could overflow
    return rank >= back ? rank - back : world_size - (back - rank);
  }
  // owner]
  constexpr bool is_last(int step) const { return step == world_size - 1; }
};

// The hops of one pass's KV blocks. They run as far ahead of the computation as there are buffers:
// with two, the next block arrives while one is attended; with K, up to K - 1 blocks do. Every rank
// has the same number of buffers, at least two unless it is alone.
class KvHops {
 public:
  // The buffers may be overwritten after `free`.
  KvHops(Communicator& comm, const RingProblem& problem, RankMemory& mine, Pass pass,
         const Completion& free);

  // Start the hops that have a buffer to arrive in when the attention of step `step` begins.
  void start(int step);
  // Return the completion of the arrival of step `step`'s block.
  const Completion& arrived(int step) const { return arrived_[step % mine_.kv_buffers()]; }
  // Record `when`, after which the buffer of step `step`'s block may be overwritten.
  void consumed(int step, const Completion& when) { consumed_[step % mine_.kv_buffers()] = when; }

 private:
  Communicator& comm_;
  const RingProblem& problem_;
  RankMemory& mine_;
  Pass pass_;
  int next_ = 0;                                // the hop that brings the block of step next_ + 1
  std::vector<Completion> arrived_, consumed_;  // by buffer
};

// --- Ring attention, written once over the two seams: the communicator moves blocks, the backend
// attends them, and recording is a decorator around either. Each function runs one rank's part.
// `mine` holds Q and the rank's own KV block; for backward also dO and what forward left there. out
// and lse, or dq and the returned gradient, are complete when the backend's last operation is.

// Run N steps with N-1 hops: at step t this rank attends the block of owner (rank - t) mod N.
void ring_forward(Communicator& comm, BlockBackend& backend, const RingProblem& problem,
                  RankMemory& mine);

// Run N steps. The KV blocks make N-1 hops again. Their gradients follow one step behind and make
// N, of which the last brings each home; a rank alone makes none. Return the own block's gradient.
KvGradient ring_backward(Communicator& comm, BlockBackend& backend, const RingProblem& problem,
                         RankMemory& mine);

}  // namespace ringscope
