// The real loops (core/ring) as a graph of tasks. They run here with a communicator and a backend
// that only record what is asked of them. Nothing blocks, so one rank runs after the other, and
// every completion stands for a task. What is simulated is therefore the loop itself, with its
// order of hops, its buffers and its waits. How long a task takes is not decided here.
//
// A rank's computations run in the order in which they were asked for. A hop is a task of its
// sender: a rank's hop i begins when everything that its or its receiver's hop i must come after is
// over and the sender's hop before it, of the same way, has left the link. A rank that waits for hop
// i waits for both halves (seams.h): its own block has left, and the other one has arrived.
#pragma once

#include <cstdint>
#include <vector>

#include "core/ring/seams.h"
#include "core/sim/account.h"

namespace ringscope {

struct LoopTask {
  enum class Kind : std::uint8_t { begin, attend, add, await, finish, hop };

  Kind kind = Kind::attend;
  Pass pass = Pass::forward;
  Payload payload = Payload::kv;  // of a hop, or of what the task waits for
  std::int32_t rank = 0;          // of a hop: the sender
  std::int32_t step = 0;
  std::int32_t owner = 0;  // of the block; begin, finish: the rank
  WorkAmount work = {};    // of an attention
  // Of a hop.
  double bytes = 0;
  Way way = Way::ring;
  std::int32_t to = 0, from = 0;  // where the rank sends, and where it receives meanwhile

  // Indices of the tasks to wait for: those of its own rank and, for a hop, the receiver's.
  std::vector<std::int32_t> after = {};
  // For a hop on a host that computes itself, as CPUs do: the last computations that sender and
  // receiver asked for before it. A host that only launches work does not wait for them.
  std::vector<std::int32_t> posted_after = {};

  bool is_hop() const { return kind == Kind::hop; }
};

// Return what the task of an attention computes.
Computation computation_of(const Account& account, const LoopTask& task);

// Return a hop's task as the account has it.
Hop hop_of(const LoopTask& task);

struct LoopGraph {
  int world_size = 1;
  std::vector<LoopTask> tasks;
  // An order in which every task follows all tasks that it waits for.
  std::vector<std::int32_t> order;
};

// Return the graph of both passes of `job` (backward if it says so), whose kernels compute tiles of
// `granularity`. Throw InputError for a mask that doesn't fit and beyond kMostGraphRanks;
// std::bad_alloc.
LoopGraph graph_of_loops(const Problem& job, const Granularity& granularity = {});

inline constexpr int kMostGraphRanks = 512;

// When a task runs, in seconds after the beginning of its pass.
struct TaskTime {
  double begin = 0, end = 0;
};

struct LoopTimes {
  std::vector<TaskTime> tasks;
  // When the slowest rank ended its forward pass. Backward times count from there, so ranks that
  // begin earlier have negative times.
  double forward_s = 0;
};

// ---
// Turn the times of all tasks into results: sums of each rank, events as in a recording, and the
// critical path.

// Write the books to account.result. `times` belong to graph_of_loops(account.job()). Events come
// in task order, so each lane's slices are in order. `with_path` adds the critical path.
void write_results(Account& account, const LoopGraph& graph, const LoopTimes& times,
                   bool with_path);

}  // namespace ringscope
