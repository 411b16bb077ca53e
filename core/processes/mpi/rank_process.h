// A rank's ring as one process of a job, whatever its work is. The lifeline watches it, and MPI moves
// its blocks. A failure anywhere ends the process, so only the good way out is written down here.
#pragma once

#include <exception>
#include <memory>
#include <utility>

#include "core/processes/mpi/mpi_calls.h"
#include "core/processes/mpi/mpi_communicator.h"
#include "core/processes/mpi/mpi_session.h"
#include "core/threads/watchdog.h"

namespace ringscope {

// A State is the same rank that runs on threads. Its constructor takes its parts, a Communicator&
// and a RankPulse*. It holds all memory that hops name.
template <class State>
class RankProcess {
 public:
  // `session` must outlive it.
  explicit RankProcess(MpiSession& session) : session_(session), line_(session.lifeline()) {
    line_.watch(pulse_);
  }
  ~RankProcess() { line_.unwatch(); }
  RankProcess(const RankProcess&) = delete;
  RankProcess& operator=(const RankProcess&) = delete;

  // Return the result of `work`, a function of no arguments. What it throws ends all ranks before
  // anything is destroyed that messages under way may touch.
  template <class Work>
  auto run(const Work& work) {
    try {
      return work();
    } catch (const std::exception& error) {
      line_.fail(error);
    }
  }

  // Make the rank's state. From here until leave_ring() nobody else may call MPI.
  template <class... Parts>
  State& join_ring(Parts&&... parts) {
    MpiCommunicator::Options options;
    options.pulse = &pulse_;
    options.on_failure = [this](const std::exception& error) { line_.fail(error); };
    comm_ = std::make_unique<MpiCommunicator>(waits_, session_.rank(), session_.world_size(),
                                              std::move(options));
    state_ = std::make_unique<State>(std::forward<Parts>(parts)..., *comm_, &pulse_);
    return *state_;
  }
  // Return when nothing is on its way any more. The state stays.
  void leave_ring() { comm_.reset(); }

  RankPulse& pulse() { return pulse_; }

 private:
  MpiSession& session_;
  Lifeline& line_;
  RankPulse pulse_;
  MpiWaits waits_;
  std::unique_ptr<State> state_;
  std::unique_ptr<MpiCommunicator> comm_;  // ends before the state, whose memory it may touch
};

}  // namespace ringscope
