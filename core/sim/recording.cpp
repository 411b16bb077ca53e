#include "core/sim/recording.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/ring/loop_counts.h"
#include "core/ring/problem.h"

namespace ringscope {

Recording simulated_recording(const Problem& job, std::string_view partition) {
  Recording recording = empty_recording(job, "sim");
  recording.info.partition = partition;
  recording.info.base_time_ns = 0;  // a simulation begins at no time of day
  return recording;
}

namespace {

RunMachine head_of(const Problem& job, const Work& work, const Machine& machine) {
  RunMachine head;
  head.nodes = job.nodes;
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

// A step has its computation, the waits for its block and (backward) for its gradient, and both
// ends of each hop.
double events_of_rank(const Problem& job) {
  if (is_followed(job)) return static_cast<double>(count_loop(job, 0).events) + 4;
  return static_cast<double>(job.world_size) * (job.backward ? 4.0 + 7.0 : 4.0) + 4;
}

int ranks_to_record(const Problem& job, std::optional<int> asked) {
  const double each = events_of_rank(job);
  if (asked) {
    const int count = std::min(*asked, job.world_size);
    if (count * each > static_cast<double>(kMostEventsAtAll))
      throw InputError(fmt::format("{} ranks of {:.0f} events each given; accepted: up to {:.0f}",
                                   count, each, static_cast<double>(kMostEventsAtAll) / each));
    return count;
  }
  const double fit = std::max(2.0, static_cast<double>(kMostRecordedEvents) / each);
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

RecordedSimulation record(SimulationRequest request, const Work& work, const Machine& machine,
                          std::string_view partition, std::optional<int> asked) {
  const Problem& job = request.job;
  const int count = ranks_to_record(job, asked);
  std::vector<int> path;
  if (count < job.world_size) {
    SimulationRequest scout = request;
    scout.recorded.clear();
    scout.sink = {};
    scout.with_path = true;
    path = simulate(scout, work, machine).path.ranks;
  }
  RecordedSimulation result;
  Recording& recording = result.recording;
  recording = simulated_recording(job, partition);
  recording.info.machine = head_of(job, work, machine);
  const bool rings = job.scheme == Scheme::ring || job.scheme == Scheme::two_level;
  recording.info.kv_buffers = rings && request.pace == Pace::buffers ? job.kv_buffers : 0;
  request.recorded = choose_ranks(job.world_size, count, path);
  for (std::size_t rank = 0; rank < recording.events.size(); ++rank)
    if (request.recorded[rank]) recording.events[rank].reserve(events_of_rank(job));
  const auto is_recorded = [&request](int rank) {
    return static_cast<bool>(request.recorded[rank]);
  };
  request.sink = [&](int rank, const TraceEvent& event) {
    auto& events = recording.events[rank];
    events.push_back(event);
    // A flow needs both of its slices.
    if (event.flow != 0 && !(is_recorded(event.src) && is_recorded(event.dst)))
      events.back().flow = 0;
  };
  result.simulation = simulate(request, work, machine);
  return result;
}

}  // namespace ringscope
