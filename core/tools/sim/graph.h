// A run as a graph of tasks: what each rank computes and sends, and what each task waits for. How long
// a task takes is not said here (durations_on() in machine.h, or a recording does), nor when it runs
// (evaluate()). What is simulated is the program of every rank (core/ring/program.h): what the scheme's
// own loop asks for.
//
// A rank's computations run in the order in which they were asked for. A hop is a task of its sender:
// a rank's hop i begins when everything that its or its receiver's hop i comes after is over, and the
// sender's hop before it, of the same way, has left the link. A rank that waits for hop i waits for
// both halves (seams.h): its own block has left, and the other one has arrived.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/ring/seams.h"
#include "core/tools/sim/work.h"

namespace ringscope {

struct Task {
  // A meeting takes no time and belongs to no rank; it joins ranks that wait for each other.
  enum class Kind : std::uint8_t { begin, attend, add, await, finish, hop, meeting };

  Kind kind = Kind::attend;
  Pass pass = Pass::forward;
  Payload payload = Payload::kv;  // of a hop, or of what the task waits for
  Way way = Way::ring;            // of a hop
  std::int32_t rank = 0;          // of a hop: the sender
  std::int32_t step = 0;
  std::int32_t owner = 0;   // of the block; begin, finish: the rank
  std::int32_t to = -1;     // of a hop: the receiver, or -1 if the rank only receives
  std::int32_t number = 0;  // of a hop: the same for all that ranks start together
  double bytes = 0;         // of a hop
  WorkAmount work = {};     // of an attention

  bool is_hop() const { return kind == Kind::hop; }
  bool is_message() const { return is_hop() && to >= 0; }
};

struct TaskGraph {
  int world_size = 1;
  // Rank by rank, each one's in the order in which its loop asks for them; meetings come last.
  std::vector<Task> tasks;
  std::vector<std::int32_t>
      rank_begins;  // the first task of each rank, and the end of the last one's

  // Task i waits for edges[edge_begins[i]] up to edges[edge_begins[i + 1]].
  std::vector<std::uint32_t> edge_begins = {0};
  std::vector<std::int32_t> edges;
  // An order in which every task follows all that it waits for, and backward tasks all forward ones.
  // Empty: the order of `tasks` is one.
  std::vector<std::int32_t> order;
  // In an all-to-all, messages of one number are over for all ranks when the last of them is.
  bool hops_end_together = false;

  std::span<const std::int32_t> earlier(std::size_t task) const {
    return {edges.data() + edge_begins[task], edges.data() + edge_begins[task + 1]};
  }
  // Return a rank's tasks, as the indices [first, second).
  std::pair<std::size_t, std::size_t> of_rank(int rank) const {
    const auto r = static_cast<std::size_t>(rank);
    return {static_cast<std::size_t>(rank_begins[r]), static_cast<std::size_t>(rank_begins[r + 1])};
  }
  // Return the task at whose end a hop counts as over.
  std::size_t end_of_hop(std::size_t hop) const {
    if (!hops_end_together) return hop;
    return static_cast<std::size_t>(rank_begins.back() + 2 * tasks[hop].number + 1);
  }
};

struct GraphOptions {
  // Whoever waits for a hop waits for all ranks to come there, and nobody's hop begins or ends before
  // the others'. This is what the closed form assumes (core/tools/cost/time.h). Blocks then have two
  // buffers, whatever the job says. Only for ring, all-gather and two-level.
  bool in_step = false;
  // Hosts compute themselves, as CPUs do, and start a hop after what they were asked for before it. A
  // host that only launches work does not wait for that.
  bool hosts_compute = false;
  // Ulysses message by message and block by block, as ranks run it, also where heads divide.
  bool follows_all_to_alls = false;
  Granularity granularity = {};  // of kernels whose work is counted
  // The work and rows of each (rank, owner), where every block is attended by its rank's own queries;
  // null: to be counted.
  const Work* work = nullptr;
};

// Return whether a job's ranks may go in step: those of rings of whole blocks or of their parts, of
// all-gathers and of two-level rings.
bool has_paces(const Problem& job);

// Return the graph of both passes of `job` (backward if it says so). Where heads divide, an all-to-all
// of Ulysses is one message a rank, over when the slowest is, and a rank computes once for all blocks.
// Throw InputError for a mask that doesn't fit, beyond kMostSimulatedRanks, and for more tasks than
// kMostTasks; std::bad_alloc.
TaskGraph graph_of(const Problem& job, const GraphOptions& options = {});

inline constexpr double kMostTasks = 1 << 24;  // of 56 bytes each, and as much for their edges

// Return how many tasks a graph of `job` has if every rank has those of rank 0, which takes no time
// beside making it. Throw what graph_of throws.
double expected_tasks(const Problem& job);

// ---
// When the tasks of a graph run, given how long each takes: the longest path through it. Where ranks
// share processors, every task that runs gets an equal share of them, so its speed depends on the
// others and its end is not known when it begins; that is an event simulation, in which an event
// takes O(log(running tasks)).

// Seconds since the pass began: backward times count from the end of the slowest rank's forward pass,
// so ranks that begin earlier have negative times.
struct TaskTimes {
  std::vector<double> begin, end;        // by task
  double forward_s = 0, backward_s = 0;  // when the last rank ended the pass

  double wall_s() const { return forward_s + backward_s; }
  double seconds(std::size_t task) const { return end[task] - begin[task]; }
};

struct Processors {
  int count = 0;  // that ranks share; 0: each has its own
  // Hops copy blocks by the ranks' processors and share them like other tasks.
  bool move_blocks = false;
};

// Return when the tasks run, if each begins when all that it waits for has ended and needs
// seconds[task] on a processor or link of its own.
TaskTimes evaluate(const TaskGraph& graph, const std::vector<double>& seconds,
                   const Processors& processors = {});

// ---
// A chain of computations and hops from the beginning of the run to its end, each of which began when
// the one before it ended.
struct CriticalPath {
  double compute_s = 0, hop_s = 0;  // together they are the wall time
  std::vector<int> ranks;           // on the path, from the last to the first, without repeats
};

CriticalPath critical_path(const TaskGraph& graph, const TaskTimes& times);

// Return the rank that `task` waited for last: the other end of a hop, or, where ranks keep step,
// the slowest; or the task's own rank if it waited for nobody else.
int awaited_by(const TaskGraph& graph, const TaskTimes& times, std::size_t task);

}  // namespace ringscope
