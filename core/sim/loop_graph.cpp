#include "core/sim/loop_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/ring/loop_counts.h"
#include "core/ring/problem.h"
#include "core/ring/schemes.h"

namespace ringscope {

namespace {

using Kind = LoopTask::Kind;

// A task that a rank asked for. Notes are in that order, and tasks are numbered by place.
struct Note {
  LoopTask task;
  std::vector<std::int32_t> after;  // notes of the same rank
  std::int32_t computed_before = -1;
};
using Notes = std::vector<Note>;

// A RecordedCompletion stands for a task that a rank asked for.
class RecordedCompletion : public PendingOperation {
 public:
  explicit RecordedCompletion(std::int32_t number) : note(number) {}
  bool done() const override { return false; }
  void wait() override {}
  TransferTimes times() const override { return {}; }

  const std::int32_t note;
};

class TaskRecorder {
 public:
  TaskRecorder(Notes& notes, int rank) : notes_(notes), rank_(rank) {}

  int rank() const { return rank_; }

  // Note a computation. It also comes after the one before it.
  Completion compute(Kind kind, const StepInfo& step, const Completion& after,
                     const WorkAmount& work = {}, Payload payload = Payload::kv) {
    LoopTask task{.kind = kind,
                  .pass = step.pass,
                  .payload = payload,
                  .step = step.step,
                  .owner = step.kv_owner,
                  .work = work};
    if (kind == Kind::add || (kind == Kind::finish && after != nullptr))
      task.payload = Payload::dkv;
    const Completion written = write(task, {after});
    if (last_computed_ >= 0) notes_.back().after.push_back(last_computed_);
    last_computed_ = static_cast<std::int32_t>(notes_.size()) - 1;
    return written;
  }

  Completion hop(const Exchange& hop, int world_size, std::initializer_list<Completion> after) {
    const Completion written = write({.kind = Kind::hop,
                                      .pass = hop.pass,
                                      .payload = hop.payload,
                                      .step = hop.step,
                                      .owner = hop.send_owner,
                                      .bytes = static_cast<double>(hop.send_bytes),
                                      .way = hop.way,
                                      .to = hop.receiver(rank_, world_size),
                                      .from = hop.sender(rank_, world_size)},
                                     after);
    notes_.back().computed_before = last_computed_;
    return written;
  }

 private:
  Completion write(LoopTask task, std::initializer_list<Completion> after) {
    task.rank = rank_;
    Note& note = notes_.emplace_back();
    note.task = std::move(task);
    for (const Completion& earlier : after)
      if (earlier != nullptr)
        note.after.push_back(static_cast<const RecordedCompletion&>(*earlier).note);
    return std::make_shared<RecordedCompletion>(static_cast<std::int32_t>(notes_.size()) - 1);
  }

  Notes& notes_;
  int rank_;
  std::int32_t last_computed_ = -1;
};

class WritingCommunicator : public Communicator {
 public:
  WritingCommunicator(TaskRecorder& recorder, int world_size)
      : recorder_(recorder), world_size_(world_size) {}

  int rank() const override { return recorder_.rank(); }
  int world_size() const override { return world_size_; }
  Completion exchange(const Exchange& hop, std::initializer_list<Completion> after) override {
    return recorder_.hop(hop, world_size_, after);
  }

 private:
  TaskRecorder& recorder_;
  int world_size_;
};

class WritingBackend : public BlockBackend {
 public:
  WritingBackend(TaskRecorder& recorder, const Problem& job, const Granularity& granularity)
      : recorder_(recorder),
        shape_(job.shape),
        granularity_(granularity),
        share_(share_of_heads(job.shape, 1, 0)) {}

  Completion begin(const QueryBlock&, const SoftmaxState&) override {
    return recorder_.compute(Kind::begin, {.kv_owner = recorder_.rank()}, nullptr);
  }
  Completion attend(const StepInfo& step, const Region& region, const QueryBlock&, const KvBlock&,
                    const SoftmaxState&, const Completion& after) override {
    last_ = step;
    return recorder_.compute(Kind::attend, step, after, work_of(region));
  }
  Completion finish(const QueryBlock&, const SoftmaxState&) override {
    return recorder_.compute(Kind::finish, {.step = last_.step, .kv_owner = recorder_.rank()},
                             nullptr);
  }
  Completion begin_backward(const QueryBlock&, const BackwardState&) override {
    return recorder_.compute(Kind::begin, {.pass = Pass::backward, .kv_owner = recorder_.rank()},
                             nullptr);
  }
  Completion attend_backward(const StepInfo& step, const Region& region, const QueryBlock&,
                             const KvBlock&, const BackwardState&, const KvGradient&,
                             const Completion& after) override {
    return recorder_.compute(Kind::attend, step, after, work_of(region));
  }
  Completion add(const StepInfo& step, const KvGradient&, const KvGradient&,
                 const Completion& after) override {
    return recorder_.compute(Kind::add, step, after);
  }
  Completion finish_backward(const StepInfo& step, const QueryBlock&, const BackwardState&,
                             const Completion& after) override {
    return recorder_.compute(Kind::finish, {step.pass, step.step, recorder_.rank(), true}, after);
  }
  void use_heads(const HeadShare& share) override { share_ = share; }
  void await(const StepInfo& step, Payload payload, const Completion& after) override {
    if (after != nullptr) recorder_.compute(Kind::await, step, after, {}, payload);
  }
  Completion merge(const StepInfo& step, const QueryBlock&, const SoftmaxState&,
                   const SoftmaxState&, const Completion& after) override {
    return recorder_.compute(Kind::add, step, after);
  }
  Completion add_dq(const StepInfo& step, const QueryBlock&, const BackwardState&,
                    const BackwardState&, const Completion& after) override {
    return recorder_.compute(Kind::add, step, after);
  }
  const BlockStats& last_stats() const override { return stats_; }

 private:
  WorkAmount work_of(const Region& region) const {
    const auto part = static_cast<double>(share_.num_heads) / static_cast<double>(shape_.num_heads);
    const double pairs = part * static_cast<double>(region.pairs());
    if (granularity_.rows == 1 && granularity_.keys == 1) return {pairs, pairs};
    return {pairs, part * static_cast<double>(computed_pairs(region, granularity_))};
  }

  TaskRecorder& recorder_;
  AttentionShape shape_;
  Granularity granularity_;
  HeadShare share_;
  StepInfo last_;
  BlockStats stats_;
};

Notes notes_of_rank(const Problem& config, const RingProblem& problem, int rank,
                    const Granularity& granularity) {
  NoMemory memory;
  RankMemory mine(config, rank, memory);
  Notes notes;
  TaskRecorder recorder(notes, rank);
  WritingCommunicator comm(recorder, config.world_size);
  WritingBackend backend(recorder, config, granularity);
  run_forward(config.scheme, comm, backend, problem, mine);
  if (config.backward) run_backward(config.scheme, comm, backend, problem, mine);
  return notes;
}

// Join the ranks' notes: list their tasks rank by rank, and give each hop the requirements of both
// its ends.
class GraphBuilder {
 public:
  explicit GraphBuilder(std::vector<Notes> notes) : notes_(std::move(notes)) {
    for (const Notes& rank : notes_) {
      first_.push_back(count_);
      count_ += static_cast<std::int32_t>(rank.size());
      auto& hops = hops_.emplace_back();
      for (std::size_t i = 0; i < rank.size(); ++i)
        if (rank[i].task.is_hop()) hops.push_back(static_cast<std::int32_t>(i));
    }
  }

  std::vector<LoopTask> tasks() {
    std::vector<LoopTask> tasks;
    tasks.reserve(static_cast<std::size_t>(count_));
    for (std::size_t r = 0; r < notes_.size(); ++r) {
      std::size_t hop = 0;
      std::int32_t before[kWays] = {-1, -1, -1};  // by way: the hop before
      for (const Note& note : notes_[r]) {
        const auto number = static_cast<std::int32_t>(tasks.size());
        LoopTask& task = tasks.emplace_back(note.task);
        add_side(task, r, note);
        if (!task.is_hop()) continue;
        const auto receiver = static_cast<std::size_t>(task.to);
        add_side(task, receiver, hop_note(receiver, hop));
        std::int32_t& earlier = before[static_cast<int>(task.way)];
        if (earlier >= 0) task.after.push_back(earlier);
        earlier = number;
        ++hop;
      }
    }
    return tasks;
  }

 private:
  const Note& hop_note(std::size_t rank, std::size_t hop) const {
    return notes_[rank][static_cast<std::size_t>(hops_[rank].at(hop))];
  }

  // Add what `rank` noted for one of its tasks, or for its side of a hop.
  void add_side(LoopTask& task, std::size_t rank, const Note& note) const {
    for (const std::int32_t earlier : note.after) {
      task.after.push_back(first_[rank] + earlier);
      const LoopTask& awaited = notes_[rank][static_cast<std::size_t>(earlier)].task;
      if (!awaited.is_hop()) continue;
      // A hop ends by both halves, so also wait for the sender's hop of the same number.
      const auto& hops = hops_[rank];
      const auto hop = static_cast<std::size_t>(
          std::lower_bound(hops.begin(), hops.end(), earlier) - hops.begin());
      const auto from = static_cast<std::size_t>(awaited.from);
      task.after.push_back(first_[from] + hops_[from].at(hop));
    }
    if (note.computed_before >= 0) task.posted_after.push_back(first_[rank] + note.computed_before);
  }

  std::vector<Notes> notes_;
  std::vector<std::int32_t> first_;              // [rank]: number of its first task
  std::vector<std::vector<std::int32_t>> hops_;  // [rank][hop]: its note
  std::int32_t count_ = 0;
};

std::vector<std::int32_t> order_of(const std::vector<LoopTask>& tasks) {
  std::vector<std::int32_t> missing(tasks.size(), 0), order;
  std::vector<std::vector<std::int32_t>> followers(tasks.size());
  const auto link = [&](std::size_t task, const std::vector<std::int32_t>& after) {
    for (const std::int32_t earlier : after)
      followers[static_cast<std::size_t>(earlier)].push_back(static_cast<std::int32_t>(task));
    missing[task] += static_cast<std::int32_t>(after.size());
  };
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    link(i, tasks[i].after);
    link(i, tasks[i].posted_after);
  }
  order.reserve(tasks.size());
  for (std::size_t i = 0; i < tasks.size(); ++i)
    if (missing[i] == 0) order.push_back(static_cast<std::int32_t>(i));
  for (std::size_t done = 0; done < order.size(); ++done)
    for (const std::int32_t follower : followers[static_cast<std::size_t>(order[done])])
      if (--missing[static_cast<std::size_t>(follower)] == 0) order.push_back(follower);
  // A cycle means that ranks wait for each other forever.
  if (order.size() < tasks.size()) throw RunError("the ranks of the loop wait for each other");
  return order;
}

void check_graph(const Problem& job) {
  check_scheme(job);
  if (job.world_size > kMostGraphRanks)
    throw InputError(
        fmt::format("world-size: {} ranks are too many to follow task by task; "
                    "accepted: 1 to {}",
                    job.world_size, kMostGraphRanks));
}

}  // namespace

Computation computation_of(const Account& account, const LoopTask& task) {
  // The account's own amounts may be of a searched partition, which the loops don't know.
  return is_plain(account.job()) || account.job().scheme == Scheme::two_level
             ? account.computation(task.rank, task.step, task.owner)
             : account.computation(task.rank, task.step, task.work);
}

Hop hop_of(const LoopTask& task) {
  return {task.payload, task.step, task.rank, task.to, task.owner, task.bytes, task.way};
}

LoopGraph graph_of_loops(const Problem& job, const Granularity& granularity) {
  check_graph(job);
  const RingProblem problem = job.ring_problem();
  std::vector<Notes> notes;
  for (int rank = 0; rank < job.world_size; ++rank)
    notes.push_back(notes_of_rank(job, problem, rank, granularity));
  LoopGraph graph;
  graph.world_size = job.world_size;
  graph.tasks = GraphBuilder(std::move(notes)).tasks();
  graph.order = order_of(graph.tasks);
  return graph;
}

namespace {

// Return how much of the union of `transfers` lies outside `computing`, which is in order and has
// no overlaps.
double time_outside(std::vector<TimeSpan> transfers, const std::vector<TimeSpan>& computing) {
  std::sort(transfers.begin(), transfers.end(),
            [](const TimeSpan& a, const TimeSpan& b) { return a.begin < b.begin; });
  double outside = 0, until = 0;
  bool is_first = true;
  std::size_t next = 0;  // the first computation that may still overlap
  for (const TimeSpan& span : transfers) {
    double from = is_first ? span.begin : std::max(span.begin, until);
    is_first = false;
    if (from >= span.end) continue;
    until = span.end;
    while (next < computing.size() && computing[next].end <= from) ++next;
    for (std::size_t i = next; i < computing.size() && computing[i].begin < span.end; ++i) {
      outside += std::max(0.0, computing[i].begin - from);
      from = std::max(from, std::min(computing[i].end, span.end));
    }
    outside += std::max(0.0, span.end - from);
  }
  return outside;
}

class PassBooks {
 public:
  PassBooks(Account& account, const LoopGraph& graph, const LoopTimes& times)
      : account_(account), graph_(graph), times_(times) {}

  // Write the books of a pass. Return the end of the slowest rank.
  double keep() {
    const auto n = static_cast<std::size_t>(graph_.world_size);
    std::vector<std::vector<TimeSpan>> transfers(n), computing(n);
    std::vector<double> idle_since(n, 0), pairs_of(n * n, 0);  // pairs_of: [step][rank]
    double end = 0, all_pairs = 0;
    int hops[2] = {0, 0};  // of rank 0, by payload
    for (std::size_t i = 0; i < graph_.tasks.size(); ++i) {
      const LoopTask& task = graph_.tasks[i];
      if (task.pass != account_.pass()) continue;
      const TimeSpan span{times_.tasks[i].begin, times_.tasks[i].end};
      const auto rank = static_cast<std::size_t>(task.rank);
      if (task.is_hop()) {
        account_.moved(hop_of(task), span);
        transfers[rank].push_back(span);
        transfers[static_cast<std::size_t>(task.to)].push_back(span);
        hops[static_cast<int>(task.payload)] += task.rank == 0 ? 1 : 0;
        continue;
      }
      if (task.kind == Kind::begin) idle_since[rank] = span.begin;
      account_.waited(task.rank, task.step, task.owner, task.payload,
                      {idle_since[rank], span.begin}, awaited_by(task));
      if (task.kind == Kind::attend) {
        const Computation alone = computation_of(account_, task);
        const double pairs = alone.pairs;
        account_.computed(task.rank, task.step, task.owner, span.begin,
                          {pairs, span.seconds(), alone.seconds});
        computing[rank].push_back(span);
        all_pairs += pairs;
        pairs_of[static_cast<std::size_t>(task.step) * n + rank] += pairs;
      }
      if (task.kind == Kind::finish) account_.ended(task.rank, span.end);
      idle_since[rank] = span.end;
      end = std::max(end, span.end);
    }
    for (std::size_t r = 0; r < n; ++r)
      account_.exposed(static_cast<int>(r), time_outside(std::move(transfers[r]), computing[r]));
    account_.hopped(hops[static_cast<int>(Payload::kv)], hops[static_cast<int>(Payload::dkv)]);
    double most_pairs = 0;  // of the slowest rank, step by step
    for (auto step = pairs_of.begin(); step != pairs_of.end(); step += graph_.world_size)
      most_pairs += *std::max_element(step, step + graph_.world_size);
    if (account_.pass() == Pass::forward) account_.step_of(all_pairs, most_pairs);
    account_.end_pass();
    return end;
  }

 private:
  // Return the neighbour whose half of the awaited hop came last, or the rank itself without a hop.
  int awaited_by(const LoopTask& task) const {
    int awaited = task.rank;
    double latest = 0;
    for (const std::int32_t earlier : task.after) {
      const LoopTask& hop = graph_.tasks[static_cast<std::size_t>(earlier)];
      const double end = times_.tasks[static_cast<std::size_t>(earlier)].end;
      if (!hop.is_hop() || (awaited != task.rank && end <= latest)) continue;
      awaited = hop.rank == task.rank ? hop.to : hop.rank;
      latest = end;
    }
    return awaited;
  }

  Account& account_;
  const LoopGraph& graph_;
  const LoopTimes& times_;
};

// Follow the path back from the task that ends last, always to the earlier task that ended last.
CriticalPath path_of(const LoopGraph& graph, const LoopTimes& times) {
  const auto absolute = [&](std::size_t task, double time) {
    return graph.tasks[task].pass == Pass::forward ? time : times.forward_s + time;
  };
  const auto end_of = [&](std::size_t task) { return absolute(task, times.tasks[task].end); };
  CriticalPath path;
  std::vector<bool> seen(static_cast<std::size_t>(graph.world_size), false);
  std::size_t task = 0;
  for (std::size_t i = 0; i < graph.tasks.size(); ++i)
    if (end_of(i) > end_of(task)) task = i;
  for (;;) {
    const LoopTask& here = graph.tasks[task];
    const double seconds = times.tasks[task].end - times.tasks[task].begin;
    (here.is_hop() ? path.hop_s : path.compute_s) += seconds;
    if (!seen[static_cast<std::size_t>(here.rank)]) path.ranks.push_back(here.rank);
    seen[static_cast<std::size_t>(here.rank)] = true;
    const std::size_t none = graph.tasks.size();
    std::size_t latest = none;
    for (const auto* after : {&here.after, &here.posted_after})
      for (const std::int32_t earlier : *after) {
        const auto e = static_cast<std::size_t>(earlier);
        // Apart from rounding, this is the task whose end is this one's beginning.
        if (end_of(e) > absolute(task, times.tasks[task].begin) && graph.tasks[e].pass == here.pass)
          continue;
        if (latest == none || end_of(e) > end_of(latest)) latest = e;
      }
    if (latest == none) return path;
    task = latest;
  }
}

}  // namespace

void write_results(Account& account, const LoopGraph& graph, const LoopTimes& times,
                   bool with_path) {
  PassBooks books(account, graph, times);
  account.begin_pass(Pass::forward, 0);
  account.result.forward_s = books.keep();
  if (account.job().backward) {
    account.begin_pass(Pass::backward, times.forward_s);
    account.result.backward_s = books.keep();
  }
  if (with_path) account.result.path = path_of(graph, times);
}

}  // namespace ringscope
