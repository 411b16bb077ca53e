#include "core/tools/sim/recording.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <span>
#include <stdexcept>
#include <tuple>
#include <utility>
#include <vector>

#include "core/ring/loop_counts.h"
#include "core/ring/problem.h"
#include "core/tools/cost/amounts.h"

namespace ringscope {

namespace {

RunMachine head_of(const Problem& job, const Work& work, const Machine& machine) {
  RunMachine head;
  // Readers take nodes for equal shares of consecutive ranks.
  head.nodes = job.world_size % job.nodes == 0 ? job.nodes : 1;
  head.cores = machine.cores;
  if (machine.cpu != nullptr) return head;  // its computations have no one rate
  const auto rate = [](double flops) {
    return static_cast<std::int64_t>(std::clamp(flops, 1.0, 9e18));
  };
  head.forward_flops = rate(machine.rates.forward_flops);
  head.backward_flops = rate(machine.rates.backward_flops);
  head.tile_rows = work.granularity().rows;
  head.tile_keys = work.granularity().keys;
  return head;
}

// Take `count` of `all`, evenly spaced, with the first and the last.
void take_evenly(const std::vector<int>& all, int count, std::vector<bool>& taken) {
  const auto size = static_cast<std::int64_t>(all.size());
  if (size == 0) return;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t at = count == 1 ? 0 : i * (size - 1) / (count - 1);
    taken[all[at]] = true;
  }
}

}  // namespace

double events_of_rank(const Problem& job) {
  return static_cast<double>(count_loop(job, 0, false).events) + 4;
}

int ranks_to_record(const Problem& job, std::optional<int> asked) {
  if (asked) return std::min(*asked, job.world_size);
  const double fit = std::max(2.0, static_cast<double>(kMostRecordedEvents) / events_of_rank(job));
  return static_cast<int>(
      std::min({fit, static_cast<double>(kMostRanksByItself), double(job.world_size)}));
}

std::vector<bool> choose_ranks(int world_size, int count, const std::vector<int>& path) {
  std::vector<bool> taken(world_size, count >= world_size);
  if (count >= world_size) return taken;
  const auto on_path = static_cast<int>(path.size());
  take_evenly(path, std::min((count + 1) / 2, on_path), taken);
  std::vector<int> others;
  for (int rank = 0; rank < world_size; ++rank)
    if (!taken[rank]) others.push_back(rank);
  const auto so_far = world_size - static_cast<int>(others.size());
  take_evenly(others, count - so_far, taken);
  return taken;
}

namespace {

constexpr int kLanes = 4;

// Return `seconds` in nanoseconds, at most about 292 years.
std::int64_t to_ns(double seconds) { return std::llround(std::clamp(seconds * 1e9, 0.0, 9.2e18)); }

// A message as a lane shows it.
struct MovedSlice {
  TimeSpan span;
  std::size_t hop;
};

// Return the longest part of `span` outside of all `busy` slices, which follow each other. `next`
// is the first of them that may end after this span or a later one begins.
template <class Slices>
TimeSpan longest_free_part(TimeSpan span, const Slices& busy, std::size_t& next) {
  while (next < busy.size() && busy[next].span.end <= span.begin) ++next;
  TimeSpan longest{span.end, span.end};
  double free_from = span.begin;
  const auto take = [&](double until) {
    if (until - free_from > longest.seconds()) longest = {free_from, until};
  };
  for (std::size_t k = next; k < busy.size() && busy[k].span.begin < span.end; ++k) {
    take(busy[k].span.begin);
    free_from = std::max(free_from, busy[k].span.end);
  }
  take(span.end);
  return longest;
}

// Writes one rank's events.
class EventWriter {
 public:
  EventWriter(const Problem& job, const SimulatedRun& run, const std::vector<bool>& recorded,
              int rank)
      : job_(job), run_(run), recorded_(recorded), rank_(rank) {}

  // `incoming` are the hops that the rank receives.
  void add(Pass pass, const std::vector<std::int32_t>& incoming) {
    pass_ = pass;
    const auto tasks = run_.graph.of_rank(rank_);
    const std::size_t first = tasks.first, last = tasks.second;
    const auto attends = [&](std::size_t i) {
      const Task& task = run_.graph.tasks[i];
      return task.kind == Task::Kind::attend && task.pass == pass;
    };
    std::size_t next = first;  // what the rank attends from a task on
    const auto wait = [&](std::size_t i, TimeSpan span) {
      for (next = std::max(next, i); next < last && !attends(next);) ++next;
      const Task& task = run_.graph.tasks[i];
      TraceEvent event{.lane = Lane::wait, .payload = task.payload, .step = -1, .kv_owner = -1};
      if (next < last) {
        event.step = run_.graph.tasks[next].step;
        event.kv_owner = run_.graph.tasks[next].owner;
      }
      event.waiting_for = awaited_by(run_.graph, run_.times, i);
      give(event, span);
    };
    std::vector<MovedSlice> sent, received;
    double idle_since = 0;
    for (std::size_t i = first; i < last; ++i) {
      const Task& task = run_.graph.tasks[i];
      if (task.is_message()) take(sent, i);
      if (task.pass != pass || task.is_hop()) continue;
      const double begin = run_.times.begin[i];
      if (task.kind == Task::Kind::begin) idle_since = begin;
      if (begin > idle_since) wait(i, {idle_since, begin});
      if (task.kind == Task::Kind::attend) compute(i);
      idle_since = run_.times.end[i];
    }
    for (const std::int32_t i : incoming) take(received, static_cast<std::size_t>(i));
    show(Lane::send, std::move(sent));
    show(Lane::recv, std::move(received));
  }

  std::vector<TraceEvent> events;

 private:
  void take(std::vector<MovedSlice>& slices, std::size_t hop) const {
    if (run_.graph.tasks[hop].pass == pass_) slices.push_back({run_.span_of_hop(hop), hop});
  }

  // Slices of a lane never overlap, whatever rounding does.
  void give(TraceEvent event, TimeSpan span) {
    const double origin_s = pass_ == Pass::forward ? 0 : run_.times.forward_s;
    std::int64_t& lane_end = lane_ends_ns_[static_cast<int>(event.lane)];
    event.pass = pass_;
    event.begin_ns = std::max(to_ns(origin_s + span.begin), lane_end);
    event.end_ns = std::max(to_ns(origin_s + span.end), event.begin_ns);
    lane_end = event.end_ns;
    const std::int64_t all = event.end_ns - event.begin_ns;
    if (std::abs(event.moved_ns - all) <= 1) event.moved_ns = 0;
    if (event.lane == Lane::compute && event.cpu_ns >= all - 1) event.cpu_ns = all;
    events.push_back(event);
  }

  void compute(std::size_t i) {
    const Task& task = run_.graph.tasks[i];
    TraceEvent event{.lane = Lane::compute, .step = task.step, .kv_owner = task.owner};
    event.pairs = static_cast<std::int64_t>(task.work.pairs);
    event.flops = static_cast<std::int64_t>(flops_of_pairs(job_.shape, task.work.pairs, pass_));
    event.cpu_ns = to_ns(run_.seconds[i]);
    give(event, {run_.times.begin[i], run_.times.end[i]});
  }

  // A rank's hops of different ways run at the same time, but a recording has one lane for sends and
  // one for receives, whose slices must not overlap. Hops of the ring are shown as they are. Others
  // are shown in the longest part of their time in which the lane is free, or as a slice of no length
  // if there is none.
  void show(Lane lane, std::vector<MovedSlice> slices) {
    const auto is_earlier = [](const MovedSlice& a, const MovedSlice& b) {
      return std::pair(a.span.begin, a.span.end) < std::pair(b.span.begin, b.span.end);
    };
    const auto of_ring = std::stable_partition(
        slices.begin(), slices.end(),
        [&](const MovedSlice& slice) { return run_.graph.tasks[slice.hop].way == Way::ring; });
    std::stable_sort(slices.begin(), of_ring, is_earlier);
    std::stable_sort(of_ring, slices.end(), is_earlier);
    const std::span<const MovedSlice> busy(slices.data(), of_ring - slices.begin());
    std::size_t next = 0;
    for (auto slice = of_ring; slice != slices.end(); ++slice)
      slice->span = longest_free_part(slice->span, busy, next);
    std::inplace_merge(slices.begin(), of_ring, slices.end(), is_earlier);
    for (const MovedSlice& slice : slices) move(lane, slice);
  }

  void move(Lane lane, const MovedSlice& slice) {
    const Task& task = run_.graph.tasks[slice.hop];
    TraceEvent event{
        .lane = lane, .payload = task.payload, .step = task.step, .kv_owner = task.owner};
    event.bytes = static_cast<std::int64_t>(task.bytes);
    event.src = task.rank;
    event.dst = task.to;
    event.moved_ns = to_ns(run_.times.seconds(slice.hop));
    // A flow needs both of its slices.
    if (recorded_[task.rank] && recorded_[task.to])
      event.flow = static_cast<std::int64_t>(slice.hop) + 1;
    give(event, slice.span);
  }

  const Problem& job_;
  const SimulatedRun& run_;
  const std::vector<bool>& recorded_;
  int rank_;
  Pass pass_ = Pass::forward;
  std::int64_t lane_ends_ns_[kLanes] = {};  // of the last slice
};

}  // namespace

std::vector<std::vector<TraceEvent>> events_of(const Problem& job, const SimulatedRun& run,
                                               const std::vector<bool>& recorded) {
  std::vector<std::vector<std::int32_t>> incoming(recorded.size());
  for (std::size_t i = 0; i < run.graph.tasks.size(); ++i)
    if (const Task& task = run.graph.tasks[i]; task.is_message() && recorded[task.to])
      incoming[task.to].push_back(static_cast<std::int32_t>(i));
  std::vector<std::vector<TraceEvent>> events(recorded.size());
  for (std::size_t rank = 0; rank < recorded.size(); ++rank) {
    if (!recorded[rank]) continue;
    EventWriter mine(job, run, recorded, static_cast<int>(rank));
    for (const Pass pass : kAllPasses) mine.add(pass, incoming[rank]);
    events[rank] = std::move(mine.events);
  }
  return events;
}

RecordedSimulation record(const SimulationRequest& request, const Work& work,
                          const Machine& machine, std::string_view partition,
                          std::optional<int> asked) {
  const Problem& job = request.job;
  const int count = ranks_to_record(job, asked);
  const SimulatedRun run = run_of(request, work, machine);
  RecordedSimulation result{summary_of(job, run), empty_recording(job, "sim")};
  Recording& recording = result.recording;
  recording.info.partition = partition;
  recording.info.base_time_ns = 0;  // a simulation begins at no time of day
  recording.info.machine = head_of(job, work, machine);
  recording.info.kv_buffers =
      job.rotates_blocks() && request.pace == Pace::buffers ? job.kv_buffers : 0;
  recording.events =
      events_of(job, run, choose_ranks(job.world_size, count, result.simulation.path.ranks));
  return result;
}

RecordedSimulation record(const Scenario& scenario, std::optional<int> asked,
                          std::string_view partition) {
  return record({.job = scenario.job, .pace = scenario.pace}, work_of(scenario),
                machine_of(scenario),
                partition.empty() ? name_of(scenario.job.partition) : partition, asked);
}

namespace {

// The events of a rank by what they are about.
using Key = std::tuple<Lane, Pass, Payload, int>;
using Events = std::map<Key, TraceEvent*>;

Key key_of(const TraceEvent& e) { return {e.lane, e.pass, e.payload, e.step}; }

// Return the seconds of a task, in whole nanoseconds: what the recording counted for it.
double seconds_of(const Task& task, const std::vector<Events>& recorded) {
  const Lane lane = task.is_hop() ? Lane::send : Lane::compute;
  if (!task.is_hop() && task.kind != Task::Kind::attend) return 0;
  const Events& events = recorded[static_cast<std::size_t>(task.rank)];
  const auto found = events.find({lane, task.pass, task.payload, task.step});
  if (found == events.end()) throw std::invalid_argument("recording: lacks events of the ring");
  const TraceEvent& e = *found->second;
  return 1e-9 * std::round(task.is_hop() ? static_cast<double>(e.bytes) / kIdealBytesPerNs
                                         : static_cast<double>(e.flops) / kIdealFlopsPerNs);
}

}  // namespace

Recording ideal_timeline(Recording recording) {
  if (recording.info.scheme != default_scheme()->name || recording.info.failure ||
      recording.events.empty())
    throw std::invalid_argument("recording: of no ring that ended well");
  recording.info.base_time_ns = 0;
  recording.info.backend = kIdealBackend;
  if (recording.info.machine) recording.info.machine->cores = 0;
  std::vector<Events> recorded;
  Problem job;
  for (auto& events : recording.events) {
    std::erase_if(events, [](const TraceEvent& e) { return e.lane == Lane::wait; });
    Events& of_rank = recorded.emplace_back();
    for (TraceEvent& e : events) of_rank[key_of(e)] = &e;
    for (const TraceEvent& e : events) job.backward = job.backward || e.pass == Pass::backward;
  }
  // Mask and partition don't matter where the times are known.
  job.shape = recording.info.shape;
  job.world_size = recording.info.world_size;
  SimulatedRun run{graph_of(job), {}, {}};
  for (const Task& task : run.graph.tasks) run.seconds.push_back(seconds_of(task, recorded));
  run.times = evaluate(run.graph, run.seconds);

  const std::vector<bool> all(recorded.size(), true);
  const auto ideal = events_of(job, run, all);
  std::vector<std::vector<TraceEvent>> waits(recorded.size());
  for (std::size_t rank = 0; rank < ideal.size(); ++rank)
    for (const TraceEvent& event : ideal[rank]) {
      if (event.lane == Lane::wait) {
        waits[rank].push_back(event);
        continue;
      }
      const auto found = recorded[rank].find(key_of(event));
      if (found == recorded[rank].end())
        throw std::invalid_argument("recording: lacks events of the ring");
      found->second->begin_ns = event.begin_ns;
      found->second->end_ns = event.end_ns;
      if (event.lane == Lane::compute) found->second->cpu_ns = event.end_ns - event.begin_ns;
    }
  for (SoftmaxSample& sample : recording.samples) {
    const Events& of_rank = recorded.at(sample.rank);
    const auto step = of_rank.find({Lane::compute, Pass::forward, Payload::kv, sample.step});
    if (step == of_rank.end()) throw std::invalid_argument("recording: lacks events of the ring");
    sample.at_ns = step->second->end_ns;
  }
  for (std::size_t r = 0; r < waits.size(); ++r)
    recording.events[r].insert(recording.events[r].end(), waits[r].begin(), waits[r].end());
  return recording;
}

}  // namespace ringscope
