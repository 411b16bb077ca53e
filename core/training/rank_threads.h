// N ranks on threads of this process, for work that lasts longer than one attention. Every rank
// makes its state, works on it, and leaves it to the caller. Ranks in processes are in core/processes/mpi.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "core/ring/forwarding.h"
#include "core/ring/thread_communicator.h"
#include "core/threads/engine.h"
#include "core/threads/watchdog.h"

namespace ringscope {

// How ranks on threads are watched: not at all, or as a Watchdog with these arguments does.
struct RankWatch {
  std::optional<double> timeout_s;
  std::function<void(const RunError&)> stuck;
};

// Shows in a rank's pulse which hops the rank's thread waits for. Both arguments must outlive the hops.
class ShowingCommunicator : public ForwardingCommunicator {
 public:
  ShowingCommunicator(Communicator& inner, RankPulse& pulse)
      : ForwardingCommunicator(inner), pulse_(pulse) {}
  Completion exchange(const Exchange& hop, std::initializer_list<Completion> after) override;

 private:
  RankPulse& pulse_;
};

// Call state = make(communicator, pulse), which returns a std::unique_ptr, and then work(*state, pulse),
// on one thread per rank. Return all ranks' states, whose communicators and pulses no longer exist. When a
// rank throws, or `watch` finds one that has halted, all others end at their next wait, and the first
// failure is thrown as a RunError that names the rank. Several threads call make and work at once.
template <class Make, class Work>
auto run_rank_threads(int world_size, const RankWatch& watch, const Make& make, const Work& work) {
  using State = decltype(make(std::declval<Communicator&>(), std::declval<RankPulse&>()));
  ThreadRing ring(world_size);
  std::deque<RankPulse> pulses(static_cast<std::size_t>(world_size));
  // The states hold the memory that hops name, so they outlive the communicators.
  std::vector<State> states(static_cast<std::size_t>(world_size));
  {
    std::vector<std::unique_ptr<ThreadCommunicator>> threads;
    std::deque<ShowingCommunicator> communicators;
    std::vector<RankPulse*> watched;
    for (int rank = 0; rank < world_size; ++rank) {
      threads.push_back(std::make_unique<ThreadCommunicator>(ring, rank));
      communicators.emplace_back(*threads.back(), pulses[rank]);
      watched.push_back(&pulses[rank]);
    }
    std::optional<Watchdog> watchdog;
    if (watch.timeout_s) watchdog.emplace(watched, *watch.timeout_s, ring, watch.stuck);
    const auto ended = [&](int rank) {
      if (watchdog) watchdog->ended(rank);
    };
    run_on_rank_threads(
        world_size,
        [&](int rank) {
          states[rank] = make(communicators[rank], pulses[rank]);
          work(*states[rank], pulses[rank]);
          ended(rank);
        },
        [&](int rank, const RunError& error) {
          ring.fail(error);
          ended(rank);
        });
  }
  ring.throw_if_failed();
  return states;
}

// The same with make(communicator) and work(*state), for ranks that nobody watches.
template <class Make, class Work>
auto run_rank_threads(int world_size, const Make& make, const Work& work) {
  return run_rank_threads(
      world_size, {}, [&](Communicator& comm, RankPulse&) { return make(comm); },
      [&](auto& state, RankPulse&) { work(state); });
}

}  // namespace ringscope
