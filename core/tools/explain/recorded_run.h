// A recorded run as columns: what each rank computed at each step, what each hop took, and the graph
// of tasks that says what waits for what. Evaluated with other durations, the graph says how long the
// run would have taken.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "core/ring/seams.h"
#include "core/tools/cost/hardware.h"
#include "core/tools/sim/graph.h"
#include "core/trace/event.h"

namespace ringscope {

// One rank's computation at one step. Seconds.
struct RankStep {
  Pass pass = Pass::forward;
  int rank = 0, step = 0;
  int owner = -1;
  double seconds = 0;  // of the computation
  double cpu = 0;      // processor time in it
  double gap = 0;      // from its end to the next wait or computation, without in_turn
  double in_turn = 0;  // of that time: in hops that could have run beside a computation
  double pairs = 0;
  double work = 0;     // pairs that the kernel computes
  int parts = 1;       // simulated: computations with pairs that make it up, if any
  bool known = false;  // whether it was recorded
  std::int64_t end_ns = 0;
};

// How a rank's hop stands to what the rank could compute meanwhile: it runs beside that, or is over
// before it, or begins after it.
enum class HopTurn { beside, before, after };

// All messages from one rank to another at one step: both of a message's ends had begun, and it was
// on its way for so many seconds.
struct RecordedHop {
  Pass pass = Pass::forward;
  Payload payload = Payload::kv;
  Way way = Way::ring;
  int step = 0, from = 0, to = 0;
  double seconds = 0;
  double bytes = 0;
  int messages = 0;
  bool known = false;
};

// What the run's tasks take, in the order of RecordedRun.
struct Durations {
  std::vector<double> steps, hops;
  std::vector<double> begins;  // [rank]: from the run's beginning to the rank's first event
  int cores = 0;               // that ranks share; 0: each has its own
  // Whether every rank attends at every step, also where the run's loop leaves steps out.
  bool attends_all = false;
  // Whether hops run beside attention, also where they took turns.
  bool hops_beside = false;

  bool operator==(const Durations&) const = default;
};

// Return the job of a recording, without the backward pass and nodes. Throw InputError for what
// means nothing here.
Problem recorded_job(const RunInfo& info);
// Return the recorded kernel's tile, {1, 1} for none and for more of them than can be counted.
Granularity recorded_tile(const RunInfo& info);
// Return the link of this name, or of these numbers; none for one that only a file knows, because a
// recording must not have files opened.
std::optional<Link> known_link(const std::string& name);

class RecordedRun {
 public:
  // Read a recording, and make its graph if it is whole and of up to kMostExplainedRanks. Throw
  // InputError for one without events.
  explicit RecordedRun(const Recording& recording);

  bool is_simulated() const { return info.backend == "sim"; }
  // Return whether a profiler saw the run, so that the loop is somebody else's.
  bool is_profile() const { return info.backend == "profile"; }
  // Return whether a hop is all that a rank sends to the others at once.
  bool sends_to_all() const { return replay_.graph.hops_end_together; }
  bool has(Pass pass) const { return has_[static_cast<int>(pass)]; }
  // Return what a hop takes on the link inside a node; without one, its bytes.
  double alone_s(const RecordedHop& hop) const;
  // Return the floating-point operations of a pair in a pass, 0 if none was counted.
  double flops_a_pair(Pass pass) const { return flops_a_pair_[static_cast<int>(pass)]; }
  // Return whether a step's work is known: it was counted, the mask and the partition tell it, or
  // there is none, because every rank was recorded.
  bool has_work(const RankStep& step) const { return step.known || is_predicted_ || is_whole; }

  const TaskGraph& graph() const { return replay_.graph; }
  // Return whether the loop leaves out steps at which a rank attends nothing.
  bool leaves_out() const { return !all_.graph.tasks.empty(); }
  // Return the seconds of the run with these durations.
  double replayed_s(const Durations& durations) const;

  // What was read, for others to read.
  const RunInfo& info;
  const int ranks;
  bool is_whole = true;  // every rank was recorded
  bool gathers = false;  // all blocks come to a rank before, or while, it attends the first of them
  double wall_s = 0;
  std::vector<RankStep> steps;
  std::vector<RecordedHop> hops;      // first those that were recorded, by key
  std::vector<double> begins;         // by rank
  std::vector<double> begin_in_turn;  // by rank: the part of that time as in RankStep::in_turn
  // By pass: the steps whose hops, although they could, do not run beside attention; and how long
  // these hops take on the rank where that is longest.
  std::vector<int> turns[2];
  double turns_s = 0;
  // By rank: how long its thread neither computed nor waited each time. A message that begins
  // meanwhile parts two of them.
  std::vector<std::vector<double>> pauses;
  std::optional<Link> link;  // inside a node, where a simulation says it

 private:
  // Pass, payload, step, sender and receiver, which sort in this order. There are millions of them.
  using HopKey = std::uint64_t;
  using RankHop = std::tuple<Pass, Payload, int, int>;  // step, rank
  // A time for which a rank neither computed nor waited: before its first event, or in a step's gap.
  struct Gap {
    int rank = 0;
    std::size_t row = SIZE_MAX;  // SIZE_MAX: before its first event
    std::int64_t begin_ns = 0, end_ns = 0;
  };
  // A graph whose tasks take what the columns say.
  struct Replay {
    TaskGraph graph;
    std::vector<std::int32_t> row;  // [task]: of its step, hop or rank; -1: it takes no time
    std::vector<double> part;       // [task]: its part of that row's time
  };

  static HopKey hop_key(Pass pass, Payload payload, int step, int from, int to) {
    HopKey key = 2 * static_cast<HopKey>(pass) + static_cast<HopKey>(payload);
    for (const int part : {step, from, to}) key = key << 20 | static_cast<HopKey>(part);
    return key;
  }
  static HopKey key_of(const RecordedHop& hop) {
    return hop_key(hop.pass, hop.payload, hop.step, hop.from, hop.to);
  }
  bool is_rank(int rank) const { return rank >= 0 && rank < ranks; }
  void read_rank(int rank, const std::vector<TraceEvent>& events);
  void read_late_messages(const Recording& recording);
  void read_hops(const Recording& recording);
  void find_turns(const Recording& recording);
  void take_hidden_waits_out_of_gaps();
  Way way_of(int src, int dst) const;
  void make_graph();
  TaskGraph graph_of_meetings(bool hops_beside) const;
  void give_rows();
  void give_rows_of_all();
  std::int32_t& row_of(Pass pass, int rank, int step) {
    return step_rows_[static_cast<int>(pass)][std::size_t(rank) * ranks + step];
  }
  std::int32_t row_of_step(const Task& task);
  std::vector<double> hop_seconds_of_all(const Durations& durations) const;

  int ranks_a_node_ = 0;  // two-level only
  bool is_predicted_ = false, has_[2] = {};
  std::int64_t begin_ns_ = 0;
  double flops_a_pair_[2] = {};
  std::vector<Gap> gaps_;
  std::map<RankHop, HopTurn> turns_;  // of hops that take turns with computing
  std::vector<std::pair<std::size_t, std::int64_t>>
      ends_;  // by rank: its last step (SIZE_MAX: none), and the end

  Replay replay_;
  TaskGraph beside_;  // where hops take turns: the same tasks if they did not
  // Where the loop leaves steps out: the same scheme's loop if every rank attends every block whole.
  Replay all_;
  std::vector<std::int32_t> step_rows_[2];  // by pass: [rank][step], -1: none
};

inline constexpr int kMostExplainedRanks = 1024;

}  // namespace ringscope
