#include "core/explain/run_times.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <tuple>
#include <utility>

#include "core/base/error.h"
#include "core/cost/time.h"
#include "core/ring/loop_counts.h"

namespace ringscope {
namespace {

double seconds_of(std::int64_t ns) { return 1e-9 * static_cast<double>(ns); }

constexpr int kMostFollowedRanks = 256;
constexpr Index kMostTiles = Index{1} << 24;  // of a sequence, which are counted one by one

// Return the problem of a recording as far as its loops depend on it, if they are simulated. Who
// attends what is not needed for a replay, because the times are known, so mask and partition are the
// simplest.
std::optional<Problem> loop_of(RunInfo info) try {
  info.mask = "full";
  info.partition = "contiguous";
  info.mask_slices.clear();
  info.partition_runs.clear();
  const Problem job = recorded_job(info);
  const bool has_loop = is_plain(job) || job.scheme == Scheme::two_level;
  return has_loop && job.world_size <= kMostSimulatedRanks ? std::optional(job) : std::nullopt;
} catch (const InputError&) {
  return std::nullopt;
}

}  // namespace

// Return the link of this name, or of these numbers; none for one that only a file knows, because a
// recording must not have files opened.
static std::optional<Link> link_of(const std::string& name) {
  for (const Link& link : builtin_hardware().links)
    if (link.name == name) return link;
  if (name.find(',') == name.npos || name.find_first_not_of("0123456789.,eE+-") != name.npos)
    return std::nullopt;
  try {
    return find_link(name);
  } catch (const InputError&) {
    return std::nullopt;
  }
}

Problem recorded_job(const RunInfo& info) {
  Problem job;
  job.shape = info.shape;
  validate(job.shape);
  job.dtype = parse_dtype(info.dtype);
  job.mask = MaskSpec::recorded(info.mask, info.mask_slices);
  static_cast<void>(job.mask.for_seqlen(info.shape.seqlen));  // throws if it does not fit
  job.partition = PartitionSpec::recorded(info.partition, info.partition_runs, info.shape.seqlen,
                                          info.world_size);
  job.world_size = info.world_size;
  job.kv_buffers = std::max(info.kv_buffers, 2);
  set_scheme(job, info.scheme);
  return job;
}

Granularity recorded_tile(const RunInfo& info) {
  if (!info.machine || info.shape.seqlen / info.machine->tile_rows > kMostTiles) return {};
  return {info.machine->tile_rows, info.machine->tile_keys};
}

RunTimes::RunTimes(const Recording& recording)
    : info_(&recording.info), ranks_(recording.info.world_size) {
  if (is_simulated() && info_->machine) link_ = link_of(info_->machine->link);
  if (ranks_ > kMostExplainedRanks)
    throw InputError(
        fmt::format("{} ranks are recorded; up to {} accepted", ranks_, kMostExplainedRanks));
  std::int64_t end_ns = std::numeric_limits<std::int64_t>::min();
  begin_ns_ = std::numeric_limits<std::int64_t>::max();
  for (const auto& events : recording.events)
    for (const TraceEvent& e : events) {
      begin_ns_ = std::min(begin_ns_, e.begin_ns);
      // What a simulated rank has sent may go on after the run's end.
      if (!is_simulated() || e.lane == Lane::compute || e.lane == Lane::wait)
        end_ns = std::max(end_ns, e.end_ns);
      if (!is_step(e)) continue;
      steps(e.pass).resize(place(ranks_, 0));
      if (e.pairs > 0)
        flops_a_pair_[static_cast<int>(e.pass)] =
            static_cast<double>(e.flops) / static_cast<double>(e.pairs);
    }
  if (end_ns < begin_ns_) throw InputError("nothing is recorded; the events of a run accepted");
  wall_s_ = seconds_of(end_ns - begin_ns_);
  gaps_.resize(static_cast<std::size_t>(ranks_));
  starts_.resize(gaps_.size());
  posted_.assign(gaps_.size(), -1);
  std::vector<std::pair<RankStep*, std::int64_t>> last;
  for (int rank = 0; rank < ranks_; ++rank) {
    const auto& events = recording.events[static_cast<std::size_t>(rank)];
    is_whole_ = is_whole_ && !events.empty();
    last.push_back(read_rank(rank, events));
  }
  // Who is late with its last messages does nothing from then on but have others wait for it. But a
  // profile does not say whom.
  std::vector<std::int64_t> late(last.size());
  const bool tells = !info_->training && !is_simulated() && !is_profile();
  for (const auto& events : recording.events) {
    if (!tells) break;
    std::vector<std::int64_t> waited(last.size());
    for (const TraceEvent& e : events)
      if (e.lane == Lane::wait && is_rank(e.waiting_for)) {
        const auto on = static_cast<std::size_t>(e.waiting_for);
        const std::int64_t begin = std::max(e.begin_ns, last[on].second);
        if (begin >= e.end_ns) continue;
        // A message that was on its way was not late.
        std::int64_t moving = 0;
        for (const TraceEvent& hop : events)
          if (hop.lane == Lane::recv && hop.src == e.waiting_for)
            moving =
                std::max(moving, std::min(e.end_ns, hop.end_ns) - std::max(begin, hop.begin_ns));
        waited[on] += std::max<std::int64_t>(0, e.end_ns - begin - moving);
        late[on] = std::max(late[on], waited[on]);
      }
  }
  for (std::size_t rank = 0; rank < last.size(); ++rank)
    if (last[rank].first != nullptr && tells) last[rank].first->around += seconds_of(late[rank]);
  read_hops(recording);
  predict_work();
}

std::pair<RankStep*, std::int64_t> RunTimes::read_rank(int rank,
                                                       const std::vector<TraceEvent>& events) {
  std::vector<const TraceEvent*> thread;
  for (const TraceEvent& e : events) thread.push_back(&e);
  std::stable_sort(thread.begin(), thread.end(), [](const TraceEvent* a, const TraceEvent* b) {
    return std::pair(a->begin_ns, a->end_ns) < std::pair(b->begin_ns, b->end_ns);
  });
  std::int64_t now = begin_ns_, parted = begin_ns_;
  RankStep* last = nullptr;
  double lead = 0;
  auto& gaps = gaps_[static_cast<std::size_t>(rank)];
  for (const TraceEvent* e : thread) {
    if (e->begin_ns > parted) gaps.push_back(seconds_of(e->begin_ns - parted));
    parted = std::max(parted, e->begin_ns);
    if (!is_step(*e) && e->lane != Lane::wait) continue;
    parted = std::max(parted, e->end_ns);
    // In a training step the rest of the model lies between, which is no part of the ring.
    const double gap =
        info_->training ? 0 : seconds_of(std::max<std::int64_t>(0, e->begin_ns - now));
    now = std::max(now, e->end_ns);
    (last != nullptr ? last->around : lead) += gap;
    if (e->lane == Lane::wait) continue;
    if (last == nullptr && info_->is_midway) {
      starts_[static_cast<std::size_t>(rank)] = std::exchange(lead, 0);
      gaps.clear();
    }
    RankStep& step = steps(e->pass)[place(rank, e->step)];
    if (last == nullptr) step.around = step.lead = std::exchange(lead, 0);
    if (is_simulated() && step.pairs > 0 && e->pairs > 0) ++step.parts;
    step.seconds += seconds_of(e->end_ns - e->begin_ns);
    step.cpu += seconds_of(e->cpu_ns);
    step.pairs += static_cast<double>(e->pairs);
    step.owner = e->kv_owner;
    step.known = true;
    last = &step;
  }
  return {last, now};
}

void RunTimes::read_hops(const Recording& recording) {
  if (info_->scheme.starts_with(name_of(Scheme::two_level))) {
    ranks_a_node_ = ranks_;
    for (const auto& events : recording.events)
      for (const TraceEvent& e : events)
        if (e.lane == Lane::send && e.dst > e.src + 1)
          ranks_a_node_ = std::min(ranks_a_node_, e.dst - e.src);
    if (info_->machine && info_->machine->nodes > 1)
      ranks_a_node_ = std::max(1, ranks_ / info_->machine->nodes);
  }
  using Key = std::tuple<Pass, Payload, int, int, int>;
  struct Ends {
    std::vector<const TraceEvent*> of[2];  // sends and receives, in their order
  };
  std::map<Key, Ends> all;
  for (const auto& events : recording.events)
    for (const TraceEvent& e : events) {
      const bool is_hop = e.lane == Lane::send || e.lane == Lane::recv;
      if (!is_hop || e.step < 0 || e.step > ranks_ || !is_rank(e.src) || !is_rank(e.dst)) continue;
      if (e.step == 0 && e.pass == Pass::forward) {
        double& posted = posted_[static_cast<std::size_t>(e.lane == Lane::send ? e.src : e.dst)];
        const double begin = seconds_of(e.begin_ns - begin_ns_);
        posted = posted < 0 ? begin : std::min(posted, begin);
      }
      // A receive slice has the receiver's number of the hop, which is the sender's.
      all[{e.pass, e.payload, e.step, e.src, e.dst}].of[e.lane == Lane::recv].push_back(&e);
    }
  int sent = 0, sent_late = 0;
  for (const auto& events : recording.events) {
    std::map<std::pair<Pass, int>, std::int64_t> computed;  // when a step was
    for (const TraceEvent& e : events)
      if (e.lane == Lane::compute && e.end_ns > e.begin_ns) computed[{e.pass, e.step}] = e.end_ns;
    for (const TraceEvent& e : events)
      if (const auto found = computed.find({e.pass, e.step});
          e.lane == Lane::send && found != computed.end())
        ++sent, sent_late += e.begin_ns >= found->second;
  }
  for (double& posted : posted_) posted = std::max(posted, 0.0);
  computes_first_ = sent > 0 && sent_late > 0.9 * sent;
  for (const auto& [key, ends] : all) {
    const auto [pass, payload, step, src, dst] = key;
    auto& table = hops(pass, payload, way_of(src, dst));
    if (table.empty()) table.resize(place(ranks_ + 1, 0));
    RecordedHop& hop = table[place(step, src)];
    hop.to = dst;
    hop.known = true;
    const auto& [sends, receives] = ends.of;
    for (std::size_t i = 0; i < std::max(sends.size(), receives.size()); ++i) {
      const TraceEvent& one = *(i < sends.size() ? sends : receives)[i];
      // Either end of a simulated message says all, and messages arrive in no order.
      const TraceEvent& other = is_simulated() ? one : *(i < receives.size() ? receives : sends)[i];
      // A slice is only as long as its lane is free.
      const std::int64_t moved = std::max(one.moved_ns, other.moved_ns),
                         shown = std::max(one.end_ns, other.end_ns) -
                                 std::max(one.begin_ns, other.begin_ns);
      hop.seconds += seconds_of(std::max<std::int64_t>(0, moved > 0 ? moved : shown));
      hop.bytes += static_cast<double>(one.bytes);
      ++hop.messages;
    }
  }
}

double RunTimes::alone_s(const RecordedHop& hop) const {
  if (!link_) return hop.bytes;
  if (info_->scheme == name_of(Scheme::ulysses))
    return all_to_all_seconds(hop.bytes, ranks_, link_->bytes_per_s, link_->latency_s);
  return hop.messages * link_->latency_s + hop.bytes / link_->bytes_per_s;
}

// Return the way of a message: to the next rank, to the one before, or any other.
Way RunTimes::way_of(int src, int dst) const {
  if (ranks_a_node_ > 0)
    return src / ranks_a_node_ != dst / ranks_a_node_ ? Way::between_nodes : Way::ring;
  if (dst == (src + 1) % ranks_) return Way::ring;
  return src == (dst + 1) % ranks_ ? Way::backwards : Way::between_nodes;
}

// Fill in who holds what at each step, and how many pairs a kernel computes for it.
void RunTimes::predict_work() {
  std::optional<Work> work;
  double tiles_a_pair = 1;
  try {
    Problem job = recorded_job(*info_);
    job.backward = has(Pass::backward);
    const Granularity tile = recorded_tile(*info_);
    // Real ranks run the loop also where a simulation has a closed form or the loop of one rank.
    const bool has_own_loops = is_followed(job) || (!is_simulated() && !is_plain(job));
    if (has_own_loops && ranks_ > 1 && ranks_ <= kMostFollowedRanks) {
      graph_ = std::make_shared<const TaskGraph>(
          graph_of(job, {.hosts_compute = true, .granularity = tile}));
      return take_work_of_graph();
    }
    const bool has_tiles = tile.rows > 1 || tile.keys > 1;
    const bool has_steps = is_plain(job) || job.scheme == Scheme::two_level;
    if (has_tiles && job.scheme == Scheme::ulysses) {
      // Every rank has some heads' whole sequence.
      const LocalRows rows = Partition{PartitionKind::contiguous, job.shape.seqlen, 1}.rows_of(0);
      const Region all{job.mask.for_seqlen(job.shape.seqlen), rows, rows};
      const auto pairs = static_cast<double>(all.pairs());
      if (pairs > 0) tiles_a_pair = static_cast<double>(computed_pairs(all, tile)) / pairs;
    }
    if ((has_tiles || !is_whole_) && has_steps) work.emplace(job, tile);
    is_predicted_ = work.has_value();
  } catch (const InputError&) {  // a mask or partition that means nothing here: what was counted
                                 // must do
  }
  for (const Pass pass : kAllPasses) {
    // The owner of a block at a step, as a rank that was recorded tells it.
    std::vector<int> behind(static_cast<std::size_t>(ranks_), -1);
    for (std::size_t i = 0; i < steps(pass).size(); ++i) {
      const RankStep& step = steps(pass)[i];
      const int rank = static_cast<int>(i) / ranks_, at = static_cast<int>(i) % ranks_;
      if (step.known) behind[static_cast<std::size_t>(at)] = (rank - step.owner + ranks_) % ranks_;
    }
    for (std::size_t i = 0; i < steps(pass).size(); ++i) {
      RankStep& step = steps(pass)[i];
      const int rank = static_cast<int>(i) / ranks_, at = static_cast<int>(i) % ranks_;
      step.work = tiles_a_pair * step.pairs;
      if (!work) continue;
      const int back = behind[static_cast<std::size_t>(at)];
      const int owner = step.known && is_rank(step.owner) ? step.owner
                        : back < 0                        ? rank
                                                          : (rank - back + ranks_) % ranks_;
      const WorkAmount amount = work->of(rank, owner);
      if (!step.known) step.pairs = amount.pairs;
      if (step.pairs > 0) step.work = std::max(amount.computed, amount.pairs);
      if (!step.known) step.owner = owner;
    }
  }
}

void RunTimes::take_work_of_graph() {
  for (const Pass pass : kAllPasses) {
    std::vector<WorkAmount> sums(steps(pass).size());
    std::vector<int> parts(steps(pass).size(), 0);
    for (const Task& task : graph_->tasks)
      if (task.kind == Task::Kind::attend && task.pass == pass && !sums.empty()) {
        WorkAmount& sum = sums[place(task.rank, task.step)];
        sum.pairs += task.work.pairs, sum.computed += task.work.computed;
        if (task.work.pairs > 0) ++parts[place(task.rank, task.step)];
      }
    for (std::size_t i = 0; i < sums.size(); ++i) {
      RankStep& step = steps(pass)[i];
      if (!step.known) step.pairs = sums[i].pairs, step.parts = std::max(1, parts[i]);
      step.work = step.pairs > 0 ? std::max(sums[i].computed, step.pairs) : 0;
    }
  }
  is_predicted_ = true;
}

// ---

Replay::Replay(const RunTimes& times) : times_(times) {
  const RunInfo& info = times.info();
  std::optional<Problem> job = loop_of(info);
  if (job && job->scheme == Scheme::two_level) {
    const int per_node = times.ranks_a_node();
    if (per_node < 1 || job->world_size % per_node != 0) job.reset();
    if (job) job->nodes = job->world_size / per_node;
  }
  if (times.graph() != nullptr || !job) {
    times.graph() != nullptr ? share_out(*times.graph()) : measure_rest();
    return;
  }
  job->backward = times.has(Pass::backward);
  loops_[0] = graph_of(*job, {.in_step = times.is_simulated() && info.kv_buffers == 0});
  loops_[1] = graph_of(*job, {.hosts_compute = true});
  for (const Task& task : loops_[0]->tasks)
    part_.push_back(task.is_hop() || task.kind == Task::Kind::attend ? 1 : 0);
}

// Give each task its part of what its rank's step, or the hops of its step and way, takes: by the
// work or the bytes.
void Replay::share_out(const TaskGraph& graph) {
  const std::vector<Task>& tasks = graph.tasks;
  using Key = std::tuple<bool, Pass, Payload, Way, int, int>;
  struct Sum {
    double amount = 0, count = 0;
  };
  std::map<Key, Sum> sums;
  const auto key_of = [&](const Task& task) {
    return task.is_hop()
               ? Key{true,      task.pass, task.payload, times_.way_of(task.rank, task.to),
                     task.rank, task.step}
               : Key{false, task.pass, Payload::kv, Way::ring, task.rank, task.step};
  };
  const auto amount_of = [&](const Task& task) {
    return task.is_hop() ? times_.alone_s({.bytes = task.bytes, .messages = 1})
                         : task.work.computed;
  };
  const auto counts = [](const Task& task) {
    return task.is_hop() || task.kind == Task::Kind::attend;
  };
  for (const Task& task : tasks)
    if (counts(task)) sums[key_of(task)].amount += amount_of(task), ++sums[key_of(task)].count;
  for (const Task& task : tasks) {
    part_.push_back(0);
    if (!counts(task)) continue;
    const Sum& sum = sums[key_of(task)];
    part_.back() = sum.amount > 0 ? amount_of(task) / sum.amount : 1 / sum.count;
  }
}

double Replay::wall_of_graph(const TaskGraph& graph, const ReplayTimes& changed) const {
  const auto n = static_cast<std::size_t>(times_.ranks());
  std::vector<double> seconds(graph.tasks.size());
  for (std::size_t i = 0; i < std::min(part_.size(), seconds.size()); ++i) {
    const Task& task = graph.tasks[i];
    const auto rank = static_cast<std::size_t>(task.rank),
               step = static_cast<std::size_t>(task.step);
    const std::vector<double>& table =
        task.is_hop() ? changed.hops[static_cast<int>(task.pass)][static_cast<int>(task.payload)]
                                    [static_cast<int>(times_.way_of(task.rank, task.to))]
                      : changed.steps[static_cast<int>(task.pass)];
    const std::size_t at = task.is_hop() ? step * n + rank : rank * n + step;
    const double all = part_[i] > 0 && at < table.size() ? table[at] : 0;
    seconds[i] = std::isnan(all) ? 0 : part_[i] * all;
  }
  return evaluate(graph, seconds, {changed.cores}).wall_s();
}

// Where the loop is not simulated, ranks are taken to meet after every step.
void Replay::measure_rest() {
  ReplayTimes recorded;
  for (const Pass pass : kAllPasses)
    for (const RankStep& step : times_.steps(pass))
      recorded.steps[static_cast<int>(pass)].push_back(step.all());
  for (const Pass pass : kAllPasses)
    for (const Payload payload : kAllPayloads)
      for (const RecordedHop& hop : times_.hops(pass, payload, Way::ring))
        recorded.hops[static_cast<int>(pass)][static_cast<int>(payload)][0].push_back(hop.seconds);
  flat_s_ = std::max(0.0, times_.wall_s() - wall_s(recorded));
}

// Others' loops: a rank goes on when it has computed, sent and received, and its blocks go either
// way round.
double Replay::wall_of_profile(const ReplayTimes& changed) const {
  const auto n = static_cast<std::size_t>(times_.ranks());
  std::vector<double> ready = times_.starts();
  for (const Pass pass : kAllPasses)
    for (std::size_t step = 0; step < n && times_.has(pass); ++step) {
      std::vector<double> posted = ready;
      for (std::size_t rank = 0; rank < n; ++rank)
        ready[rank] += changed.steps[static_cast<int>(pass)][rank * n + step];
      if (times_.computes_first()) posted = ready;
      for (const Payload payload : kAllPayloads)
        for (const Way way : {Way::ring, Way::backwards}) {
          const auto& table =
              changed
                  .hops[static_cast<int>(pass)][static_cast<int>(payload)][static_cast<int>(way)];
          const auto& hops = times_.hops(pass, payload, way);
          for (std::size_t rank = 0, i = step * n; rank < n && i < table.size(); ++rank, ++i) {
            if (!hops[i].known) continue;
            const auto to = static_cast<std::size_t>(hops[i].to);
            const double end = std::max(posted[rank], posted[to]) + table[i];
            ready[rank] = std::max(ready[rank], end), ready[to] = std::max(ready[to], end);
          }
        }
    }
  return *std::max_element(ready.begin(), ready.end());
}

double Replay::wall_s(const ReplayTimes& changed) const {
  if (times_.graph() != nullptr) return wall_of_graph(*times_.graph(), changed);
  if (times_.is_profile() && times_.is_whole()) return wall_of_profile(changed);
  if (const auto& loop = loops_[changed.cores > 0]) return wall_of_graph(*loop, changed);
  double wall = flat_s_;
  const auto n = static_cast<std::size_t>(times_.ranks());
  // Add the slowest rank's time of every step. A table holds rank and step at these strides.
  const auto meet = [&](const std::vector<double>& table, std::size_t rank, std::size_t step) {
    for (std::size_t i = 0; i * n < table.size(); ++i) {
      double most = 0;
      for (std::size_t k = 0; k < n; ++k)
        if (!std::isnan(table[k * rank + i * step]))
          most = std::max(most, table[k * rank + i * step]);
      wall += most;
    }
  };
  for (const auto& steps : changed.steps) meet(steps, n, 1);
  // Nothing is computed while blocks move.
  if (times_.info().scheme == name_of(Scheme::ulysses))
    for (const auto& by_payload : changed.hops)
      for (const auto& by_way : by_payload)
        for (const auto& hops : by_way) meet(hops, 1, n);
  return wall;
}

}  // namespace ringscope
