#include "core/tools/sim/ideal_timeline.h"

#include <cmath>
#include <map>
#include <stdexcept>
#include <tuple>
#include <vector>

#include "core/tools/sim/recording.h"

namespace ringscope {
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
