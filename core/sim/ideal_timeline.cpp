#include "core/sim/ideal_timeline.h"

#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <stdexcept>
#include <tuple>
#include <vector>

#include "core/ring/scheme_seams.h"
#include "core/sim/simulate.h"

namespace ringscope {
namespace {

// The events of a rank by what they are about.
using Key = std::tuple<Lane, Pass, Payload, int>;
using Events = std::map<Key, TraceEvent*>;

Key key_of(const TraceEvent& e) { return {e.lane, e.pass, e.payload, e.step}; }

// Return what the recording's computations and hops take, in whole nanoseconds.
KnownTimes times_of(const Recording& recording) {
  const std::size_t n = recording.events.size();
  KnownTimes times;
  for (auto& pass : times.compute) pass.assign(n * n, 0);
  for (auto& pass : times.hop)
    for (auto& payload : pass)
      payload[static_cast<int>(Way::ring)].assign(n * n, std::numeric_limits<double>::quiet_NaN());
  for (std::size_t rank = 0; rank < n; ++rank)
    for (const TraceEvent& e : recording.events[rank]) {
      const auto pass = static_cast<int>(e.pass);
      const auto step = static_cast<std::size_t>(e.step);
      if (step >= n) continue;
      if (e.lane == Lane::compute) {
        times.compute[pass][rank * n + step] =
            1e-9 * std::round(static_cast<double>(e.flops) / kIdealFlopsPerNs);
      } else if (e.lane == Lane::send) {
        times.hop[pass][static_cast<int>(e.payload)][static_cast<int>(Way::ring)][step * n + rank] =
            1e-9 * std::round(static_cast<double>(e.bytes) / kIdealBytesPerNs);
      }
    }
  return times;
}

}  // namespace

Recording ideal_timeline(Recording recording) {
  if (recording.info.scheme != "ring" || recording.info.failure || recording.events.empty())
    throw std::invalid_argument("recording: of no ring that ended well");
  recording.info.base_time_ns = 0;
  recording.info.backend = kIdealBackend;
  if (recording.info.machine) recording.info.machine->cores = 0;
  std::vector<Events> recorded;
  SimulationRequest request{.pace = Pace::buffers};
  Problem& job = request.job;
  for (auto& events : recording.events) {
    std::erase_if(events, [](const TraceEvent& e) { return e.lane == Lane::wait; });
    Events& of_rank = recorded.emplace_back();
    for (TraceEvent& e : events) of_rank[key_of(e)] = &e;
    for (const TraceEvent& e : events) job.backward = job.backward || e.pass == Pass::backward;
  }
  // Mask and partition don't matter where the times are known.
  job.shape = recording.info.shape;
  job.world_size = recording.info.world_size;
  Machine machine;
  machine.world_size = job.world_size;
  machine.rates = {1, 1, 1e18, 0};
  machine.known = std::make_shared<const KnownTimes>(times_of(recording));

  std::vector<std::vector<TraceEvent>> waits(recorded.size());
  bool is_whole = true;
  request.recorded.assign(recorded.size(), true);
  request.sink = [&](int rank, const TraceEvent& event) {
    if (event.lane == Lane::wait) return waits[rank].push_back(event);
    const auto found = recorded[rank].find(key_of(event));
    is_whole = is_whole && found != recorded[rank].end();
    if (!is_whole) return;
    found->second->begin_ns = event.begin_ns;
    found->second->end_ns = event.end_ns;
    if (event.lane == Lane::compute) found->second->cpu_ns = event.end_ns - event.begin_ns;
  };
  simulate(request, Work(job), machine);
  if (!is_whole) throw std::invalid_argument("recording: lacks events of the ring");
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
