#include "cuda/nccl/nccl_communicator.h"

#include <algorithm>
#include <map>

#include "core/base/error.h"
#include "core/ring/problem.h"
#include "core/ring/ring.h"
#include "cuda/base/stream.h"
#include "cuda/ring/device_communicator.h"

namespace ringscope::cuda {

namespace {

struct Span {
  std::int64_t begin_ns, end_ns;
};

Span span_of(const TraceEvent& event) { return {event.begin_ns, event.end_ns}; }

bool is_hop(const TraceEvent& event) {
  return (event.lane == Lane::send || event.lane == Lane::recv) && event.flow != 0;
}

// Return the common part of two spans. It always lies within `own`, and may be just an end of it.
Span common(const Span& own, const Span& other) {
  const std::int64_t begin = std::clamp(other.begin_ns, own.begin_ns, own.end_ns);
  return {begin, std::clamp(other.end_ns, begin, own.end_ns)};
}

// Return whether all hops go to the next rank, in a run of this course.
bool goes_to_next_ranks(const Recording& recording, Course course) {
  const Scheme* const scheme = find_scheme(recording.info.scheme);
  return scheme != nullptr && scheme->course == course && recording.info.hops.empty();
}

// When each rank reached its hops, by hop, before the slices are shortened.
class Arrivals {
 public:
  explicit Arrivals(const Recording& recording)
      : is_ring_(goes_to_next_ranks(recording, Course::steps)), begins_(recording.events.size()) {
    for (std::size_t rank = 0; rank < recording.events.size(); ++rank)
      for (const TraceEvent& event : recording.events[rank])
        if (is_hop(event)) begins_[rank][key_of(event)] = event.begin_ns;
  }

  // Return the peer that came last to the hop that a wait was for.
  int last_peer(const TraceEvent& wait, int rank) const {
    const RingSchedule ring{rank, static_cast<int>(begins_.size())};
    const Hops& mine = begins_[rank];
    // Before a step a ring waits for the hop that brings the step's block.
    const bool is_for_step = is_ring_ && wait.payload == Payload::kv && wait.step > 0;
    const auto hop =
        is_for_step ? mine.find({kind_of(wait), wait.step - 1}) : last_begun(mine, wait);
    if (hop == mine.end()) return wait.waiting_for;
    const auto begin_of = [&](int peer) {
      const Hops& of_peer = begins_[peer];
      const auto found = of_peer.find(hop->first);
      return found == of_peer.end() ? hop->second : found->second;
    };
    return begin_of(ring.send_rank()) > begin_of(ring.recv_rank()) ? ring.send_rank()
                                                                   : ring.recv_rank();
  }

 private:
  using Key = std::pair<int, int>;  // (pass and payload, step)
  using Hops = std::map<Key, std::int64_t>;

  // Return the latest hop begun when the wait ended, because the wait was for all of them.
  static Hops::const_iterator last_begun(const Hops& hops, const TraceEvent& wait) {
    auto last = hops.end();
    for (auto hop = hops.begin(); hop != hops.end(); ++hop)
      if (hop->first.first == kind_of(wait) && hop->second <= wait.end_ns &&
          (last == hops.end() || hop->second >= last->second))
        last = hop;
    return last;
  }
  static int kind_of(const TraceEvent& event) {
    return 2 * static_cast<int>(event.pass) + static_cast<int>(event.payload);
  }
  static Key key_of(const TraceEvent& event) { return {kind_of(event), event.step}; }

  bool is_ring_;
  std::vector<Hops> begins_;  // [rank]
};

}  // namespace

void split_waiting_from_transfer(Recording& recording) {
  const Arrivals arrivals(recording);
  const bool to_next_ranks = goes_to_next_ranks(recording, Course::steps) ||
                             goes_to_next_ranks(recording, Course::gathers);
  struct Sides {
    TraceEvent* sent = nullptr;
    TraceEvent* received = nullptr;
  };
  std::map<std::int64_t, Sides> flows;
  for (std::size_t rank = 0; rank < recording.events.size(); ++rank)
    for (TraceEvent& event : recording.events[rank]) {
      if (event.lane == Lane::wait && to_next_ranks)
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

namespace {

// Completes when its block has arrived and its own block has been read.
class NcclHop : public DeviceCompletion {
 public:
  NcclHop(NcclWorld& world, int rank, int from, int step, const DeviceClock& clock,
          std::vector<Event>& events)
      : begin(take_event(events)),
        end(take_event(events)),
        world_(world),
        rank_(rank),
        from_(from),
        step_(step),
        clock_(clock) {}

  bool done() const override {
    // An aborted hop ends as well.
    return end.done() && clock_.monotonic_ns(end) < world_.failed_at_ns();
  }
  void wait() override {
    with_step_in_errors(rank_, step_, [&] { end.wait(); });
    if (!done()) world_.throw_if_failed();
  }
  void hold(cudaStream_t stream) override { end.hold(stream); }
  Awaited awaited() const override { return {from_, -1}; }
  // Return one side's times, which include its wait for the other side (nccl_communicator.h).
  TransferTimes times() const override {
    TransferTimes times;
    with_step_in_errors(rank_, step_, [&] {
      const std::int64_t begin_ns = clock_.monotonic_ns(begin), end_ns = clock_.monotonic_ns(end);
      times = {begin_ns, end_ns, begin_ns, end_ns, from_};
    });
    return times;
  }

  Event begin, end;

 private:
  NcclWorld& world_;
  int rank_, from_, step_;
  const DeviceClock& clock_;
};

}  // namespace

NcclCommunicator::NcclCommunicator(NcclWorld& world, int rank, const DeviceClock& clock,
                                   std::size_t hops)
    : world_(world),
      connection_(world.connection(rank)),
      rank_(rank),
      clock_(clock),
      events_(2 * hops) {}

Completion NcclCommunicator::exchange(const Exchange& hop,
                                      std::initializer_list<Completion> after) {
  const Range range("exchange");
  world_.throw_if_failed();
  // Of half a hop, the rank at its other end is also who is waited for.
  int to = hop.receiver(rank_, world_size()), from = hop.sender(rank_, world_size());
  if (!hop.sends()) to = from;
  if (!hop.receives()) from = to;
  std::shared_ptr<NcclHop> started;
  with_step_in_errors(rank_, hop.step, [&] {
    started = std::make_shared<NcclHop>(world_, rank_, from, hop.step, clock_, events_);
    const cudaStream_t stream = stream_.get();
    for (const Completion& earlier : after) wait_on(stream, earlier);
    started->begin.record(stream);
    connection_.send_and_receive(hop.send, hop.sends() ? hop.send_bytes : 0, to, hop.recv,
                                 hop.receives() ? hop.recv_bytes : 0, from, stream);
    started->end.record(stream);
  });
  return started;
}

}  // namespace ringscope::cuda
