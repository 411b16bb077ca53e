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

namespace ringscope {
namespace {

double seconds_of(std::int64_t ns) { return 1e-9 * static_cast<double>(ns); }

// Return the problem of a recording as far as its loops depend on it. Who attends what is not needed
// for a replay, because the times are known, so mask and partition are the simplest.
std::optional<Problem> loop_of(const RunInfo& info) {
  Problem job;
  job.shape = info.shape;
  job.world_size = info.world_size;
  job.kv_buffers = std::max(info.kv_buffers, 2);
  try {
    job.dtype = parse_dtype(info.dtype);
  } catch (const InputError&) {
    return std::nullopt;
  }
  for (const Scheme scheme : {Scheme::ring, Scheme::allgather, Scheme::two_level})
    if (info.scheme == name_of(scheme)) {
      job.scheme = scheme;
      return job;
    }
  return std::nullopt;
}

}  // namespace

RunTimes::RunTimes(const Recording& recording)
    : info_(&recording.info), ranks_(recording.info.world_size) {
  if (ranks_ > kMostExplainedRanks)
    throw InputError(
        fmt::format("{} ranks are recorded; up to {} accepted", ranks_, kMostExplainedRanks));
  std::int64_t end_ns = std::numeric_limits<std::int64_t>::min();
  begin_ns_ = std::numeric_limits<std::int64_t>::max();
  for (const auto& events : recording.events)
    for (const TraceEvent& e : events) {
      begin_ns_ = std::min(begin_ns_, e.begin_ns);
      end_ns = std::max(end_ns, e.end_ns);
      if (!is_step(e)) continue;
      steps(e.pass).resize(place(ranks_, 0));
      if (e.pairs > 0)
        flops_a_pair_[static_cast<int>(e.pass)] =
            static_cast<double>(e.flops) / static_cast<double>(e.pairs);
    }
  if (end_ns < begin_ns_) throw InputError("nothing is recorded; the events of a run accepted");
  wall_s_ = seconds_of(end_ns - begin_ns_);
  for (int rank = 0; rank < ranks_; ++rank) {
    const auto& events = recording.events[static_cast<std::size_t>(rank)];
    is_whole_ = is_whole_ && !events.empty();
    read_rank(rank, events);
  }
  read_hops(recording);
  predict_work();
}

void RunTimes::read_rank(int rank, const std::vector<TraceEvent>& events) {
  std::vector<const TraceEvent*> thread;
  for (const TraceEvent& e : events)
    if (is_step(e) || e.lane == Lane::wait) thread.push_back(&e);
  std::stable_sort(thread.begin(), thread.end(), [](const TraceEvent* a, const TraceEvent* b) {
    return std::pair(a->begin_ns, a->end_ns) < std::pair(b->begin_ns, b->end_ns);
  });
  std::int64_t now = begin_ns_;
  RankStep* last = nullptr;
  double lead = 0;
  for (const TraceEvent* e : thread) {
    // In a training step the rest of the model lies between, which is no part of the ring.
    const double gap =
        info_->training ? 0 : seconds_of(std::max<std::int64_t>(0, e->begin_ns - now));
    now = std::max(now, e->end_ns);
    (last != nullptr ? last->around : lead) += gap;
    if (e->lane == Lane::wait) continue;
    RankStep& step = steps(e->pass)[place(rank, e->step)];
    if (last == nullptr) step.around = step.lead = std::exchange(lead, 0);
    step.seconds += seconds_of(e->end_ns - e->begin_ns);
    step.cpu += seconds_of(e->cpu_ns);
    step.pairs += static_cast<double>(e->pairs);
    step.owner = e->kv_owner;
    step.known = true;
    last = &step;
  }
}

void RunTimes::read_hops(const Recording& recording) {
  if (info_->scheme == name_of(Scheme::two_level)) {
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
    std::int64_t begin_ns = std::numeric_limits<std::int64_t>::min(), end_ns = 0;
    double bytes = 0;
  };
  std::map<Key, Ends> all;
  for (const auto& events : recording.events)
    for (const TraceEvent& e : events) {
      const bool is_hop = e.lane == Lane::send || e.lane == Lane::recv;
      if (!is_hop || e.step < 0 || e.step > ranks_ || !is_rank(e.src) || !is_rank(e.dst)) continue;
      // A receive slice has the receiver's number of the hop, which is the sender's.
      Ends& ends = all[{e.pass, e.payload, e.step, e.src, e.dst}];
      ends.begin_ns = std::max(ends.begin_ns, e.begin_ns);
      ends.end_ns = std::max(ends.end_ns, e.end_ns);
      ends.bytes = static_cast<double>(e.bytes);
    }
  for (const auto& [key, ends] : all) {
    const auto [pass, payload, step, src, dst] = key;
    const bool leaves = ranks_a_node_ > 0 && src / ranks_a_node_ != dst / ranks_a_node_;
    auto& table = hops(pass, payload, leaves ? Way::between_nodes : Way::ring);
    if (table.empty()) table.resize(place(ranks_ + 1, 0));
    RecordedHop& hop = table[place(step, src)];
    hop = {seconds_of(std::max<std::int64_t>(0, ends.end_ns - ends.begin_ns)), ends.bytes, dst,
           true};
  }
}

// Fill in who holds what at each step, and how many pairs a kernel computes for it.
void RunTimes::predict_work() {
  std::optional<Work> work;
  try {
    Problem job;
    job.shape = info_->shape;
    job.world_size = ranks_;
    job.mask = MaskSpec::parse(info_->mask);
    job.partition = parse_partition(info_->partition);
    Granularity tile;
    if (info_->machine) tile = {info_->machine->tile_rows, info_->machine->tile_keys};
    const bool has_tiles = tile.rows > 1 || tile.keys > 1;
    if (has_tiles || !is_whole_) work.emplace(job, tile);
  } catch (const InputError&) {  // a partition or mask of a file: what was counted must do
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
      step.work = step.pairs;
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

// ---

Replay::Replay(const RunTimes& times) : times_(times) {
  const RunInfo& info = times.info();
  std::optional<Problem> job = loop_of(info);
  if (job && job->scheme == Scheme::two_level) {
    const int per_node = times.ranks_a_node();
    if (per_node < 1 || job->world_size % per_node != 0) job.reset();
    if (job) job->nodes = job->world_size / per_node;
  }
  if (!job) {
    measure_rest();
    return;
  }
  job->backward = times.has(Pass::backward);
  request_.job = *job;
  request_.pace = Pace::buffers;
  const bool rings = job->scheme == Scheme::ring || job->scheme == Scheme::two_level;
  if (times.is_simulated() && rings && info.kv_buffers == 0) request_.pace = Pace::in_step;
  work_.emplace(*job);
}

// Where the loop is not simulated, ranks are taken to meet after every step.
void Replay::measure_rest() {
  ReplayTimes recorded;
  for (const Pass pass : kAllPasses)
    for (const RankStep& step : times_.steps(pass))
      recorded.steps[static_cast<int>(pass)].push_back(step.all());
  flat_s_ = std::max(0.0, times_.wall_s() - wall_s(recorded));
}

std::optional<Simulation> Replay::simulation(const ReplayTimes& changed) const {
  if (!work_) return std::nullopt;
  const auto n = static_cast<std::size_t>(times_.ranks());
  auto known = std::make_shared<KnownTimes>();
  for (int pass = 0; pass < 2; ++pass) {
    known->compute[pass] = changed.steps[pass];
    known->compute[pass].resize(n * n);
    for (int payload = 0; payload < 2; ++payload)
      for (int way = 0; way < 2; ++way)
        known->hop[pass][payload][way] = changed.hops[pass][payload][way];
  }
  Machine machine;
  machine.world_size = times_.ranks();
  // Hops that nobody recorded take no time.
  machine.rates = {1, 1, 1e18, 0};
  machine.cores = changed.cores;
  machine.known = std::move(known);
  return simulate(request_, *work_, machine);
}

double Replay::wall_s(const ReplayTimes& changed) const {
  if (const auto run = simulation(changed)) return run->wall_s();
  double wall = flat_s_;
  const int n = times_.ranks();
  for (const auto& steps : changed.steps)
    for (int step = 0; step < n && !steps.empty(); ++step) {
      double most = 0;
      for (int rank = 0; rank < n; ++rank)
        most = std::max(most, steps[static_cast<std::size_t>(rank * n + step)]);
      wall += most;
    }
  return wall;
}

}  // namespace ringscope
