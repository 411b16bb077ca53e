// N ranks on threads of this process, for as long as a piece of work lasts that is more than one
// attention: every rank makes what it works with, works, and leaves it to whoever called.
#pragma once

#include <exception>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "core/ring/thread_communicator.h"

namespace ringscope {

// On a thread a rank, calls state = make(communicator), which returns a std::unique_ptr, and then
// work(*state). Returns all ranks' states, whose communicators are no more. When a rank throws, all
// others end at their next wait, and the first failure is thrown as a RunError that names the rank.
// make and work are called from several threads at once.
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
    const auto run_one = [&](int rank) {
      try {
        states[rank] = make(*communicators[rank]);
        work(*states[rank]);
      } catch (const RunError& error) {
        ring.fail(error.rank() >= 0 ? error : RunError(error.what(), rank));
      } catch (const std::bad_alloc&) {
        ring.fail(RunError("out of memory", rank));
      } catch (const std::exception& error) {
        ring.fail(RunError(error.what(), rank));
      }
    };
    std::vector<std::thread> threads;
    threads.reserve(states.size());
    try {
      for (int rank = 0; rank < world_size; ++rank) threads.emplace_back(run_one, rank);
    } catch (const std::exception& error) {
      ring.fail(RunError(std::string("cannot start a thread: ") + error.what(),
                         static_cast<int>(threads.size())));
    }
    for (std::thread& thread : threads) thread.join();
  }
  ring.throw_if_failed();
  return states;
}

}  // namespace ringscope
