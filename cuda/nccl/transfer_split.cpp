#include "cuda/nccl/transfer_split.h"

#include <algorithm>
#include <map>

#include "core/ring/schedule.h"

namespace ringscope::cuda {
namespace {

struct Span {
  std::int64_t begin_ns, end_ns;
};

Span span_of(const TraceEvent& event) { return {event.begin_ns, event.end_ns}; }

bool is_hop(const TraceEvent& event) {
  return (event.lane == Lane::send || event.lane == Lane::recv) && event.flow != 0;
}

// The common part of two spans, or no more than an end of it, within `own` in any case.
Span common(const Span& own, const Span& other) {
  const std::int64_t begin = std::clamp(other.begin_ns, own.begin_ns, own.end_ns);
  return {begin, std::clamp(other.end_ns, begin, own.end_ns)};
}

// When each rank came to its hops, by hop: before the slices are shortened.
class Arrivals {
 public:
  explicit Arrivals(const Recording& recording) : begins_(recording.events.size()) {
    for (std::size_t rank = 0; rank < recording.events.size(); ++rank)
      for (const TraceEvent& event : recording.events[rank])
        if (is_hop(event)) begins_[rank][key_of(event)] = event.begin_ns;
  }

  // The peer of the hop that a wait was for: of those that had begun when it ended, the last one.
  int last_peer(const TraceEvent& wait, int rank) const {
    const RingSchedule ring{rank, static_cast<int>(begins_.size())};
    const Key* hop = nullptr;
    std::int64_t hop_began = 0;
    for (const auto& [key, began] : begins_[static_cast<std::size_t>(rank)]) {
      if (key.first != kind_of(wait) || began > wait.end_ns) continue;
      if (hop == nullptr || began >= hop_began) {
        hop = &key;
        hop_began = began;
      }
    }
    if (hop == nullptr) return wait.waiting_for;
    const auto begin_of = [&](int peer) {
      const auto& of_peer = begins_[static_cast<std::size_t>(peer)];
      const auto found = of_peer.find(*hop);
      return found == of_peer.end() ? hop_began : found->second;
    };
    return begin_of(ring.send_rank()) > begin_of(ring.recv_rank()) ? ring.send_rank()
                                                                   : ring.recv_rank();
  }

 private:
  using Key = std::pair<int, int>;  // (pass and payload, step)
  static int kind_of(const TraceEvent& event) {
    return 2 * static_cast<int>(event.pass) + static_cast<int>(event.payload);
  }
  static Key key_of(const TraceEvent& event) { return {kind_of(event), event.step}; }

  std::vector<std::map<Key, std::int64_t>> begins_;  // [rank]
};

}  // namespace

void split_waiting_from_transfer(Recording& recording) {
  const Arrivals arrivals(recording);
  struct Sides {
    TraceEvent* sent = nullptr;
    TraceEvent* received = nullptr;
  };
  std::map<std::int64_t, Sides> flows;
  for (std::size_t rank = 0; rank < recording.events.size(); ++rank)
    for (TraceEvent& event : recording.events[rank]) {
      if (event.lane == Lane::wait)
        event.waiting_for = arrivals.last_peer(event, static_cast<int>(rank));
      if (!is_hop(event)) continue;
      Sides& sides = flows[event.flow];
      (event.lane == Lane::send ? sides.sent : sides.received) = &event;
    }
  for (const auto& [flow, sides] : flows) {
    if (sides.sent == nullptr || sides.received == nullptr) continue;
    const Span sent = span_of(*sides.sent), received = span_of(*sides.received);
    for (const auto& [event, own, other] :
         {std::tuple{sides.sent, sent, received}, std::tuple{sides.received, received, sent}}) {
      const Span both = common(own, other);
      event->begin_ns = both.begin_ns;
      event->end_ns = both.end_ns;
    }
  }
}

}  // namespace ringscope::cuda
