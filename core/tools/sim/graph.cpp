#include "core/tools/sim/graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <deque>
#include <memory>
#include <numeric>
#include <utility>

#include "core/base/error.h"
#include "core/ring/forwarding.h"
#include "core/ring/loop_counts.h"
#include "core/ring/problem.h"
#include "core/ring/schemes.h"
#include "core/tools/cost/amounts.h"

namespace ringscope {

namespace {

using TaskKind = Task::Kind;

// Stands for a task that a rank asked for.
class AskedTask : public PendingOperation {
 public:
  explicit AskedTask(std::int32_t its_number) : number(its_number) {}
  bool done() const override { return false; }
  void wait() override {}
  TransferTimes times() const override { return {}; }

  const std::int32_t number;
};

// What one rank after the other writes down.
struct Written {
  // A hop's sender, whose half its rank waits for as well, and the hop before it, of the same way.
  struct Hop {
    std::int32_t task, from, before;
  };

  TaskGraph graph;
  // What each task waits for as its own rank's loop has it. Below 0: meeting -1 - i.
  std::vector<std::uint32_t> own_begins = {0};
  std::vector<std::int32_t> own;
  std::vector<std::int32_t> events;    // of each task: a rank's hops and meetings before it
  std::vector<std::vector<Hop>> hops;  // [rank][hop]
  // In step: before and after each event, what the meeting waits for.
  std::vector<std::vector<std::int32_t>> meetings;

  // Make room for as many ranks, of which one is written.
  void make_room(std::size_t ranks) {
    graph.tasks.reserve(ranks * graph.tasks.size() + meetings.size());
    events.reserve(ranks * events.size());
    own_begins.reserve(ranks * own_begins.size());
    own.reserve(ranks * own.size());
  }
  std::span<const std::int32_t> own_of(std::int32_t task) const {
    const auto i = static_cast<std::size_t>(task);
    return {own.data() + own_begins[i], own.data() + own_begins[i + 1]};
  }
};

// Writes down the tasks that one rank's loop asks for.
class LoopWriter : public Communicator, public IdleBackend {
 public:
  LoopWriter(Written& written, const Problem& job, const GraphOptions& options, int rank)
      : written_(written),
        job_(job),
        options_(options),
        is_parted_(job.parts_blocks()),
        rank_(rank),
        share_(share_of_heads(job.shape, 1, 0)) {
    last_hop_.fill(-1);
    written.graph.rank_begins.push_back(next());
    written.hops.emplace_back();
  }

  int rank() const override { return rank_; }
  int world_size() const override { return job_.world_size; }
  Completion exchange(const Exchange& hop, std::initializer_list<Completion> after) override {
    Task task{.kind = TaskKind::hop,
              .pass = hop.pass,
              .payload = hop.payload,
              .way = hop.way,
              .step = hop.step,
              .owner = hop.send_owner,
              .to = hop.sends() ? hop.receiver(rank_, job_.world_size) : -1,
              .bytes = static_cast<double>(hop.send_bytes)};
    if (has_whole_blocks())
      task.bytes = 2 * kv_values(job_.shape, 1) *
                   static_cast<double>(options_.work->rows(hop.send_owner)) *
                   (hop.payload == Payload::kv ? job_.storage_bytes() : 4);
    return write_hop(task, hop.receives() ? hop.sender(rank_, job_.world_size) : -1, after);
  }
  // Write a hop, which is the last task of its event. In step, all begin together.
  Completion write_hop(Task task, int from, std::initializer_list<Completion> after) {
    std::int32_t& before = last_hop_[static_cast<int>(task.way)];
    task.number = event_;
    if (options_.in_step) {
      meet(task.number, before, after);
      meeting_after(task.number).push_back(next());
      before = task.number;
      wait_for_meeting(2 * task.number);
    } else {
      for (const Completion& earlier : after) wait_for(earlier);
      if (options_.hosts_compute) wait_for(last_computed_);
    }
    written_.hops.back().push_back(
        {next(), from, options_.in_step ? -1 : std::exchange(before, next())});
    Completion hop = write(task);
    ++event_;
    return hop;
  }

  Completion attend(const StepInfo& step, const Region& region, const QueryBlock&, const KvBlock&,
                    const SoftmaxState&, const Completion& after) override {
    last_step_ = step.step;
    return compute(TaskKind::attend, step, after, work_of(step, region));
  }
  Completion attend_backward(const StepInfo& step, const Region& region, const QueryBlock&,
                             const KvBlock&, const BackwardState&, const KvGradient&,
                             const Completion& after) override {
    return compute(TaskKind::attend, step, after, work_of(step, region));
  }
  void use_heads(const HeadShare& share) override { share_ = share; }
  void await(const StepInfo& step, Payload payload, const Completion& after) override {
    if (after != nullptr) compute(TaskKind::await, step, after, {}, payload);
  }

  // Write a computation, which also comes after the one before it.
  Completion compute(TaskKind kind, const StepInfo& step, const Completion& after,
                     const WorkAmount& work = {}, Payload payload = Payload::kv) {
    wait_for(last_computed_);
    if (options_.in_step) {
      wait_in_step(after);
    } else {
      wait_for(after);
    }
    last_computed_ = next();
    return write({.kind = kind,
                  .pass = step.pass,
                  .payload = payload,
                  .step = step.step,
                  .owner = step.kv_owner,
                  .work = work});
  }
  // Let the next computation wait for all ranks' last ones and for `hops`.
  void wait_for_all(std::initializer_list<Completion> hops) {
    meet(event_, -1, hops);
    wait_for_meeting(2 * event_);
    ++event_;
  }

 private:
  Completion around(BlockOperation which, const StepInfo* step, const Completion& after,
                    const Start&) override {
    switch (which) {
      case BlockOperation::begin:
        return compute(TaskKind::begin, {.kv_owner = rank_}, nullptr);
      case BlockOperation::begin_backward:
        return compute(TaskKind::begin, {.pass = Pass::backward, .kv_owner = rank_}, nullptr);
      case BlockOperation::finish:
        if (options_.in_step) wait_for_all({});
        return compute(TaskKind::finish, {.step = last_step_, .kv_owner = rank_}, nullptr);
      case BlockOperation::finish_backward:
        return compute(TaskKind::finish, {step->pass, step->step, rank_, true}, after, {},
                       after != nullptr ? Payload::dkv : Payload::kv);
      default:
        return compute(TaskKind::add, *step, after, {}, Payload::dkv);
    }
  }

  // Return whether blocks are those whose work is known.
  bool has_whole_blocks() const { return options_.work != nullptr && !is_parted_; }
  std::int32_t next() const { return static_cast<std::int32_t>(written_.graph.tasks.size()); }
  bool is_hop(std::int32_t task) const { return written_.graph.tasks[task].is_hop(); }
  static std::int32_t number_of(const Completion& asked) {
    return static_cast<const AskedTask&>(*asked).number;
  }
  void wait_for(std::int32_t task) {
    if (task >= 0) written_.own.push_back(task);
  }
  void wait_for(const Completion& asked) {
    if (asked != nullptr) wait_for(number_of(asked));
  }
  void wait_for_meeting(std::int32_t meeting) { written_.own.push_back(-1 - meeting); }

  std::vector<std::int32_t>& meeting_before(std::int32_t event) {
    const auto i = 2 * static_cast<std::size_t>(event);
    if (written_.meetings.size() < i + 2) written_.meetings.resize(i + 2);
    return written_.meetings[i];
  }
  std::vector<std::int32_t>& meeting_after(std::int32_t event) {
    meeting_before(event);
    return written_.meetings[2 * static_cast<std::size_t>(event) + 1];
  }
  // Let the meeting before `event` wait for this rank and, said once, for the hops of an event (-1:
  // none) and those among `after`.
  void meet(std::int32_t event, std::int32_t hops, std::initializer_list<Completion> after) {
    std::vector<std::int32_t>& meeting = meeting_before(event);
    if (last_computed_ >= 0) meeting.push_back(last_computed_);
    if (rank_ + 1 < job_.world_size) return;
    const auto wait_for_hops = [&](std::int32_t of_event) { meeting.push_back(-2 - 2 * of_event); };
    if (hops >= 0) wait_for_hops(hops);
    for (const Completion& earlier : after)
      if (earlier != nullptr && is_hop(number_of(earlier)))
        wait_for_hops(written_.events[number_of(earlier)]);
  }
  // Who waits for a hop for the first time waits for everybody; later it is over anyway.
  void wait_in_step(const Completion& after) {
    if (after == nullptr || !is_hop(number_of(after))) return;
    const auto event = static_cast<std::size_t>(written_.events[number_of(after)]);
    was_awaited_.resize(std::max(was_awaited_.size(), event + 1));
    if (!was_awaited_[event]) wait_for_all({after});
    was_awaited_[event] = true;
  }

  Completion write(Task task) {
    TaskGraph& graph = written_.graph;
    if (static_cast<double>(graph.tasks.size()) >= kMostTasks)
      throw InputError(
          fmt::format("world-size: {} ranks of scheme {} have more than {:.0f} tasks to follow",
                      job_.world_size, job_.scheme_name(), kMostTasks));
    task.rank = rank_;
    // The writer owns all of them, so that no completion counts its owners.
    const Completion asked(Completion(), &asked_.emplace_back(next()));
    graph.tasks.push_back(task);
    written_.events.push_back(event_);
    written_.own_begins.push_back(static_cast<std::uint32_t>(written_.own.size()));
    return asked;
  }

  WorkAmount work_of(const StepInfo& step, const Region& region) const {
    if (has_whole_blocks()) return options_.work->of(rank_, step.kv_owner);
    const auto part =
        static_cast<double>(share_.num_heads) / static_cast<double>(job_.shape.num_heads);
    const double pairs = part * static_cast<double>(region.pairs());
    const Granularity& tile = options_.granularity;
    if (tile.rows == 1 && tile.keys == 1) return {pairs, pairs};
    return {pairs, part * static_cast<double>(computed_pairs(region, tile))};
  }

  Written& written_;
  std::deque<AskedTask> asked_;
  const Problem& job_;
  const GraphOptions& options_;
  bool is_parted_;
  int rank_;
  HeadShare share_;
  int last_step_ = 0;
  std::int32_t last_computed_ = -1;
  std::array<std::int32_t, kWays> last_hop_;  // by way: the task, or in step its event; -1: none
  std::int32_t event_ = 0;
  std::vector<bool> was_awaited_;  // by event
};

// Write the edges: a hop comes after what either of its ends comes after.
void join(Written& written) {
  TaskGraph& graph = written.graph;
  graph.edges.reserve(2 * written.own.size());
  const auto first_meeting = static_cast<std::int32_t>(graph.tasks.size());
  std::vector<std::size_t> next_hop(written.hops.size());
  std::vector<std::int32_t> place(graph.tasks.size());  // of a hop: its number among its rank's
  for (std::size_t i = 0; i < graph.tasks.size(); ++i)
    if (graph.tasks[i].is_hop())
      place[i] = static_cast<std::int32_t>(next_hop[graph.tasks[i].rank]++);
  if (std::adjacent_find(next_hop.begin(), next_hop.end(), std::not_equal_to()) != next_hop.end())
    throw RunError("the ranks of the loop wait for each other");
  const auto add_side = [&](std::int32_t task) {
    for (const std::int32_t earlier : written.own_of(task)) {
      if (earlier < 0) {
        graph.edges.push_back(first_meeting - 1 - earlier);
        continue;
      }
      // A hop ends by both halves, so also wait for the sender's hop of the same number.
      if (const Task& awaited = graph.tasks[earlier]; awaited.is_hop()) {
        const auto at = static_cast<std::size_t>(place[earlier]);
        if (const int from = written.hops[awaited.rank][at].from; from >= 0)
          graph.edges.push_back(written.hops[from][at].task);
      }
      graph.edges.push_back(earlier);
    }
  };
  for (std::int32_t i = 0; i < first_meeting; ++i) {
    const Task& task = graph.tasks[i];
    add_side(i);
    if (task.is_hop() && written.meetings.empty()) {
      if (task.to >= 0) add_side(written.hops[task.to][place[i]].task);
      if (const std::int32_t before = written.hops[task.rank][place[i]].before; before >= 0)
        graph.edges.push_back(before);
    }
    graph.edge_begins.push_back(static_cast<std::uint32_t>(graph.edges.size()));
  }
  for (const std::vector<std::int32_t>& meeting : written.meetings) {
    Pass pass = Pass::forward;
    for (const std::int32_t earlier : meeting) {
      graph.edges.push_back(earlier >= 0 ? earlier : first_meeting - 1 - earlier);
      pass = std::max(pass, graph.tasks[graph.edges.back()].pass);
    }
    graph.tasks.push_back({.kind = TaskKind::meeting, .pass = pass, .rank = -1});
    graph.edge_begins.push_back(static_cast<std::uint32_t>(graph.edges.size()));
  }
}

// Sort the tasks by pass and by the number of events before them. All ranks have the same events in the
// same order, and what a task waits for from other ranks came before the event that it follows.
void put_in_order(Written& written) {
  TaskGraph& graph = written.graph;
  const auto ranks_tasks = static_cast<std::int32_t>(written.events.size());
  // Of an event come the meeting before it, hops, the meeting after it, and computations.
  const auto key_of = [&](std::int32_t i) -> std::size_t {
    const Task& task = graph.tasks[i];
    if (i >= ranks_tasks) {
      const std::int32_t meeting = i - ranks_tasks;
      return 4 * static_cast<std::size_t>(meeting / 2) + 1 +
             2 * static_cast<std::size_t>(meeting % 2);
    }
    return 4 * static_cast<std::size_t>(written.events[i]) + (task.is_hop() ? 2 : 0);
  };
  std::int32_t events = static_cast<std::int32_t>(written.meetings.size() / 2);
  for (const std::int32_t event : written.events) events = std::max(events, event);
  const std::size_t keys = 4 * static_cast<std::size_t>(events + 1);
  std::vector<std::int32_t> begins(2 * keys + 1, 0);
  const auto place_of = [&](std::int32_t i) {
    return key_of(i) + (graph.tasks[i].pass == Pass::backward ? keys : 0);
  };
  const auto count = static_cast<std::int32_t>(graph.tasks.size());
  for (std::int32_t i = 0; i < count; ++i) ++begins[place_of(i) + 1];
  std::partial_sum(begins.begin(), begins.end(), begins.begin());
  graph.order.resize(graph.tasks.size());
  for (std::int32_t i = 0; i < count; ++i) graph.order[begins[place_of(i)]++] = i;
}

// Let a rank do its part of Ulysses where heads divide: exchange, compute all of its heads, exchange.
void all_to_alls(LoopWriter& rank, const Problem& job, const WorkAmount& share, Pass pass) {
  const int r = rank.rank(), n = job.world_size;
  const AllToAlls bytes = all_to_alls_of(job, pass, r);
  const auto exchange = [&](int step, Payload payload, double sent, const Completion& after) {
    return n == 1 ? nullptr
                  : rank.write_hop({.kind = TaskKind::hop,
                                    .pass = pass,
                                    .payload = payload,
                                    .step = step,
                                    .owner = r,
                                    .to = (r + 1) % n,
                                    .bytes = sent},
                                   (r + n - 1) % n, {after});
  };
  const Payload back = pass == Pass::forward ? Payload::kv : Payload::dkv;
  rank.compute(TaskKind::begin, {.pass = pass, .kv_owner = r}, nullptr);
  const Completion there = exchange(0, Payload::kv, bytes.there_bytes, nullptr);
  const Completion attended = rank.compute(TaskKind::attend, {pass, 0, r, true}, there, share);
  rank.wait_for_all({});
  rank.compute(TaskKind::await, {pass, 0, r, true}, nullptr);
  const Completion home = exchange(1, back, bytes.back_bytes, attended);
  rank.compute(TaskKind::finish, {pass, n == 1 ? 0 : 1, r, true}, home, {}, back);
}

// Return a rank's share of the work of all rows, in the order of their positions, because a rank has
// them all.
WorkAmount share_of_sequence(const Problem& job, const Granularity& granularity) {
  const double pairs = total_pairs(job), n = job.world_size;
  if (granularity.rows == 1 && granularity.keys == 1) return {pairs / n, pairs / n};
  const LocalRows rows = Partition{PartitionKind::contiguous, job.shape.seqlen, 1}.rows_of(0);
  const Region all{job.mask.for_seqlen(job.shape.seqlen), rows, rows};
  return {pairs / n, static_cast<double>(computed_pairs(all, granularity)) / n};
}

}  // namespace

bool has_paces(const Problem& job) { return job.rotates_blocks() || is_plain(job); }

double least_tasks(const Problem& job) {
  const double ranks = job.world_size;
  return ranks * ranks * (job.backward ? 2 : 1) * (is_followed(job) ? job.layout().heads_group : 1);
}

TaskGraph graph_of(const Problem& given, const GraphOptions& asked) {
  GraphOptions options = asked;
  Problem job = given;
  const bool is_dealt_by_heads =
      job.scheme->course == Course::heads && !is_followed(job) && !options.follows_all_to_alls;
  if (options.in_step) job.kv_buffers = 2;
  options.in_step = options.in_step || is_dealt_by_heads;
  check_scheme(job);
  if (job.world_size > kMostSimulatedRanks)
    throw InputError(fmt::format("world-size: {} ranks given; accepted: 1 to {}", job.world_size,
                                 kMostSimulatedRanks));
  const RingProblem problem = job.ring_problem();
  const WorkAmount share =
      is_dealt_by_heads ? share_of_sequence(job, options.granularity) : WorkAmount{};
  Written written;
  written.graph.world_size = job.world_size;
  written.graph.hops_end_together = is_dealt_by_heads;
  for (int rank = 0; rank < job.world_size; ++rank) {
    LoopWriter seams(written, job, options, rank);
    if (is_dealt_by_heads) {
      for (const Pass pass : kAllPasses)
        if (pass == Pass::forward || job.backward) all_to_alls(seams, job, share, pass);
      continue;
    }
    NoMemory nowhere;
    RankMemory memory(job, rank, nowhere);
    run_forward(seams, seams, problem, memory);
    if (job.backward) run_backward(seams, seams, problem, memory);
    if (rank == 0) written.make_room(static_cast<std::size_t>(job.world_size));
  }
  written.graph.rank_begins.push_back(static_cast<std::int32_t>(written.graph.tasks.size()));
  join(written);
  put_in_order(written);
  return std::move(written.graph);
}

}  // namespace ringscope
