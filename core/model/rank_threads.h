// N ranks on threads of this process, for work that lasts longer than one attention. Every rank
// makes its state, works on it, and leaves it to the caller. Ranks in processes are in core/ranks/mpi.
#pragma once

#include <memory>
#include <utility>
#include <vector>

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

}  // namespace ringscope
