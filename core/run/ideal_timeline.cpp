#include "core/run/ideal_timeline.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <stdexcept>
#include <tuple>
#include <utility>
#include <vector>

#include "core/ring/ring.h"
#include "core/run/recording.h"

namespace ringscope {
namespace {

using Ns = std::int64_t;

// One number per rank.
using PerRank = std::vector<Ns>;

class Replay {
 public:
  explicit Replay(Recording& recording)
      : recording_(recording), now_(ranks(), 0), link_free_(ranks(), 0) {
    for (auto& events : recording.events) {
      std::erase_if(events, [](const TraceEvent& e) { return e.lane == Lane::wait; });
      auto& found = events_.emplace_back();
      for (TraceEvent& e : events) found[{e.lane, e.pass, e.payload, e.step}] = &e;
    }
    waits_.resize(ranks());
    ns_per_byte_ = median_ns_per_byte();
  }

  void run(Pass pass) {
    const int steps = static_cast<int>(ranks());
    PerRank arrived = now_, gradient_arrived;
    for (int step = 0; step < steps; ++step) {
      PerRank next_arrived = arrived;
      if (step + 1 < steps) {
        PerRank ready = now_;
        for (std::size_t r = 0; r < ready.size(); ++r) ready[r] = std::max(ready[r], arrived[r]);
        // A rank has room for the next block once it has left the previous one.
        next_arrived = hop(pass, Payload::kv, step, ready, now_);
      }
      for (std::size_t r = 0; r < now_.size(); ++r) {
        wait_until(r, arrived[r], pass, Payload::kv, step);
        TraceEvent& compute = event(r, Lane::compute, pass, Payload::kv, step);
        const Ns took = compute.cpu_ns > 0 ? compute.cpu_ns : compute.end_ns - compute.begin_ns;
        compute.begin_ns = now_[r];
        compute.end_ns = now_[r] += took;
      }
      if (pass == Pass::backward && steps > 1) {
        if (step > 0)
          for (std::size_t r = 0; r < now_.size(); ++r)
            wait_until(r, gradient_arrived[r], pass, Payload::dkv, step);
        gradient_arrived = hop(pass, Payload::dkv, step, now_, now_);
      }
      arrived = std::move(next_arrived);
    }
    for (std::size_t r = 0; r < gradient_arrived.size(); ++r)
      wait_until(r, gradient_arrived[r], pass, Payload::dkv, steps - 1, static_cast<int>(r));
  }

  bool has(Pass pass) const { return events_[0].contains({Lane::compute, pass, Payload::kv, 0}); }

  // Write the sample times and the waits, which the replay itself does not use, to the recording.
  void finish() {
    for (SoftmaxSample& sample : recording_.samples)
      sample.at_ns = event(static_cast<std::size_t>(sample.rank), Lane::compute, Pass::forward,
                           Payload::kv, sample.step)
                         .end_ns;
    for (std::size_t r = 0; r < ranks(); ++r)
      recording_.events[r].insert(recording_.events[r].end(), waits_[r].begin(), waits_[r].end());
  }

 private:
  using Key = std::tuple<Lane, Pass, Payload, int>;

  std::size_t ranks() const { return recording_.events.size(); }

  TraceEvent& event(std::size_t rank, Lane lane, Pass pass, Payload payload, int step) {
    const auto found = events_.at(rank).find({lane, pass, payload, step});
    if (found == events_[rank].end())
      throw std::invalid_argument("recording: lacks events of the ring");
    return *found->second;
  }

  double median_ns_per_byte() const {
    std::vector<double> speeds;
    for (const auto& events : recording_.events)
      for (const TraceEvent& e : events)
        if (e.lane == Lane::recv && e.bytes > 0)
          speeds.push_back(static_cast<double>(e.end_ns - e.begin_ns) /
                           static_cast<double>(e.bytes));
    if (speeds.empty()) return 0;
    const auto middle = speeds.begin() + static_cast<std::ptrdiff_t>(speeds.size() / 2);
    std::nth_element(speeds.begin(), middle, speeds.end());
    return *middle;
  }

  // Time every rank's hop of a step. Hops over one link follow each other in the order in which the
  // loops start them. `ready` says when a rank's block can go, `room` when one can come in. Return
  // when each rank has received.
  PerRank hop(Pass pass, Payload payload, int step, const PerRank& ready, const PerRank& room) {
    PerRank received(ranks());
    for (std::size_t src = 0; src < ranks(); ++src) {
      const RingSchedule ring{static_cast<int>(src), static_cast<int>(ranks())};
      const auto dst = static_cast<std::size_t>(ring.send_rank());
      TraceEvent& send = event(src, Lane::send, pass, payload, step);
      TraceEvent& recv = event(dst, Lane::recv, pass, payload, step);
      send.begin_ns = recv.begin_ns = std::max({ready[src], room[dst], link_free_[src]});
      send.end_ns = recv.end_ns = received[dst] = link_free_[src] =
          send.begin_ns + std::llround(ns_per_byte_ * static_cast<double>(send.bytes));
    }
    return received;
  }

  // Record a wait if one is needed. `owner` is that of the awaited block; by default, the step's.
  void wait_until(std::size_t rank, Ns until, Pass pass, Payload payload, int step,
                  std::optional<int> owner = std::nullopt) {
    if (until <= now_[rank]) return;
    const RingSchedule ring{static_cast<int>(rank), static_cast<int>(ranks())};
    TraceEvent wait =
        wait_event({pass, step, owner.value_or(ring.owner(step)), ring.is_last(step)}, payload);
    wait.begin_ns = std::exchange(now_[rank], until);
    wait.end_ns = until;
    wait.waiting_for = ring.recv_rank();
    waits_[rank].push_back(wait);
  }

  Recording& recording_;
  std::vector<std::map<Key, TraceEvent*>> events_;  // [rank]
  std::vector<std::vector<TraceEvent>> waits_;      // [rank]
  PerRank now_;                                     // by rank: the end of its last work
  PerRank link_free_;                               // [sender]
  double ns_per_byte_ = 0;
};

}  // namespace

Recording ideal_timeline(Recording recording) {
  if (recording.info.scheme != "ring" || recording.info.failure || recording.events.empty())
    throw std::invalid_argument("recording: of no ring that ended well");
  Replay replay(recording);
  for (const Pass pass : {Pass::forward, Pass::backward})
    if (replay.has(pass)) replay.run(pass);
  replay.finish();
  return recording;
}

}  // namespace ringscope
