// N ranks on threads of this process, for work that lasts longer than one attention. Every rank
// makes its state, works on it, and leaves it to the caller. Ranks in processes are in core/mpi.
#pragma once

#include <array>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "core/model/rank_groups.h"
#include "core/ring/thread_communicator.h"
#include "core/run/engine.h"

namespace ringscope {

// Call state = make(communicator), which returns a std::unique_ptr, and then work(*state), on one
// thread per rank. Return all ranks' states, whose communicators no longer exist. When a rank
// throws, all others end at their next wait, and the first failure is thrown as a RunError that
// names the rank. Several threads call make and work at once.
template <class Make, class Work>
auto run_rank_threads(int world_size, const Make& make, const Work& work) {
  using State = decltype(make(std::declval<Communicator&>()));
  ThreadRing ring(world_size);
  // The states hold the memory that hops name, so they outlive the communicators.
  std::vector<State> states(static_cast<std::size_t>(world_size));
  {
    std::vector<std::unique_ptr<ThreadCommunicator>> communicators;
    for (int rank = 0; rank < world_size; ++rank)
      communicators.push_back(std::make_unique<ThreadCommunicator>(ring, rank));
    run_on_rank_threads(
        world_size,
        [&](int rank) {
          states[rank] = make(*communicators[rank]);
          work(*states[rank]);
        },
        [&](int, const RunError& error) { ring.fail(error); });
  }
  ring.throw_if_failed();
  return states;
}

// ---
// The same for ranks with one ring for every group that they are in (rank_groups.h).

// The rings of all groups of all axes. A rank's place in a ring is its index along the axis.
class GroupRings {
 public:
  // `groups` must outlive it.
  explicit GroupRings(const RankGroups& groups) : groups_(groups) {
    for (const Axis axis : kAllAxes)
      for (int first = 0; first < groups.world_size(); ++first)
        of(axis).push_back(groups.indices(first)[axis] == 0
                               ? std::make_unique<ThreadRing>(groups.sizes()[axis])
                               : nullptr);
  }

  ThreadRing& ring(int rank, Axis axis) { return *of(axis)[groups_.members(rank, axis)[0]]; }

  // Return the first failure: that of `rank`, in which `thrown` was thrown, or an earlier one. End
  // all waits of all rings. Thread-safe.
  RunError fail(int rank, const RunError& thrown) {
    const std::lock_guard lock(mutex_);
    if (failure_) return *failure_;
    failure_ = first_failure(rank, thrown);
    for (auto& rings : rings_)
      for (auto& ring : rings)
        if (ring != nullptr) ring->fail(*failure_);
    return *failure_;
  }

 private:
  std::vector<std::unique_ptr<ThreadRing>>& of(Axis axis) {
    return rings_[static_cast<std::size_t>(axis)];
  }
  // Return the failure with a world rank, because a ring names ranks by their places in it.
  RunError first_failure(int rank, const RunError& thrown) {
    for (const Axis axis : kAllAxes) {
      try {
        ring(rank, axis).throw_if_failed();
      } catch (const RunError& error) {
        const int world_rank = error.rank() < 0 ? rank : groups_.members(rank, axis)[error.rank()];
        return RunError(error.what(), world_rank, error.step());
      }
    }
    return RunError(thrown.what(), rank, thrown.step());
  }

  const RankGroups& groups_;
  std::array<std::vector<std::unique_ptr<ThreadRing>>, 4> rings_;  // [axis][first rank]
  std::mutex mutex_;
  std::optional<RunError> failure_;
};

// One rank's places in the rings of its groups.
class GroupSeats {
 public:
  GroupSeats(GroupRings& rings, const RankGroups& groups, int rank) : rank_(rank) {
    for (const Axis axis : kAllAxes)
      communicators_[static_cast<std::size_t>(axis)] =
          std::make_unique<ThreadCommunicator>(rings.ring(rank, axis), groups.indices(rank)[axis]);
  }

  int rank() const { return rank_; }
  Communicator& operator[](Axis axis) { return *communicators_[static_cast<std::size_t>(axis)]; }

 private:
  int rank_;
  std::array<std::unique_ptr<ThreadCommunicator>, 4> communicators_;
};

// Do as run_rank_threads, but call state = make(seats) with the rank's GroupSeats.
template <class Make, class Work>
auto run_group_threads(const RankGroups& groups, const Make& make, const Work& work) {
  using State = decltype(make(std::declval<GroupSeats&>()));
  struct SeatedRank {
    SeatedRank(GroupRings& rings, const RankGroups& groups, int rank)
        : seats(rings, groups, rank) {}

    State state;  // outlives the communicators, because it holds the memory that hops name
    GroupSeats seats;
  };
  GroupRings rings(groups);
  const auto or_fail = [&](int rank, const auto& part) {
    try {
      return part();
    } catch (const std::exception&) {
      throw rings.fail(rank, handled_error(rank));
    }
  };
  auto ranks = run_rank_threads(
      groups.world_size(),
      [&](Communicator& world) {
        const int rank = world.rank();
        return or_fail(rank, [&] { return std::make_unique<SeatedRank>(rings, groups, rank); });
      },
      [&](SeatedRank& rank) {
        or_fail(rank.seats.rank(), [&] {
          rank.state = make(rank.seats);
          work(*rank.state);
        });
      });
  std::vector<State> states;
  for (auto& rank : ranks) states.push_back(std::move(rank->state));
  return states;
}

}  // namespace ringscope
