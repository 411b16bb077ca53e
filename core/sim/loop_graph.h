// The real loops (core/ring), as a graph of what they ask for. They run here with a communicator and
// a backend that do nothing but write it down, one rank after the other, since nothing ever blocks:
// every completion stands for a task. So what is simulated is the loop that runs, with its order of
// hops, its buffers and its waits.
//
// A rank's computations run in the order in which they were asked for. A hop is a task of its
// sender: block i from rank r to r+1 moves when rank r and rank r+1 have both everything that their
// hop i is to come after, and block i - 1 has left the link. Whoever waits for hop i waits for both
// of its halves, its rank's block to have left and the other to have come (seams.h).
#pragma once

#include <cstdint>
#include <vector>

#include "core/cost/job.h"
#include "core/sim/account.h"

namespace ringscope {

struct LoopTask {
  enum class Kind : std::uint8_t { begin, attend, add, finish, hop };

  Kind kind = Kind::attend;
  Pass pass = Pass::forward;
  Payload payload = Payload::kv;  // of a hop, or of what the task waits for
  std::int32_t rank = 0;          // of a hop: the sender
  std::int32_t step = 0;
  std::int32_t owner = 0;  // of the block; begin, finish: the rank
  double bytes = 0;        // of a hop

  // Tasks by index: those of its own rank that it must come after and, of a hop, also the receiver's.
  std::vector<std::int32_t> after = {};
  // Of a hop, on a host that computes itself, as CPUs do: the last computations that sender and
  // receiver asked for before it. A host that only launches doesn't wait for them.
  std::vector<std::int32_t> posted_after = {};

  bool is_hop() const { return kind == Kind::hop; }
};

struct LoopGraph {
  int world_size = 1;
  std::vector<LoopTask> tasks;
  // An order in which every task comes later than all that it comes after.
  std::vector<std::int32_t> order;
};

// Both passes of `job` (backward if it says so), by scheme ring or allgather; InputError for others,
// for a mask that doesn't fit, and beyond kMostGraphRanks. Throws std::bad_alloc.
LoopGraph graph_of_loops(const Job& job);

inline constexpr int kMostGraphRanks = 512;

// When a task runs, in seconds after the beginning of its pass.
struct TaskTime {
  double begin = 0, end = 0;
};

struct LoopTimes {
  std::vector<TaskTime> tasks;
  // When the slowest rank ended its forward pass, where the backward one counts from: other ranks
  // begin it before, at a negative time.
  double forward_s = 0;
};

// With a processor for every rank and a link of its own for every hop's sender: each task begins
// when all that it comes after has ended, and takes seconds[task]. Hosts only launch.
LoopTimes times_on_own_processors(const LoopGraph& graph, const std::vector<double>& seconds);

// ---
// What a run of the loops' graph comes to, when it is known when every task ran: sums for each rank,
// events as a recording has them, and the critical path.

// Into account.result. `times`: of graph_of_loops(account.job()). Ranks' events are told rank by
// rank, slices of a lane in order. `with_path`: the critical path too.
void keep_books(Account& account, const LoopGraph& graph, const LoopTimes& times, bool with_path);

}  // namespace ringscope
