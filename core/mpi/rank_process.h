// A rank's life as one process of a job, whatever its work is. The lifeline watches it, MPI moves
// its blocks, and a failure anywhere ends the work of all ranks, which then agree on what happened.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <utility>

#include "core/base/error.h"
#include "core/mpi/mpi_calls.h"
#include "core/mpi/mpi_communicator.h"
#include "core/mpi/mpi_session.h"
#include "core/mpi/run_on_mpi.h"
#include "core/process/lifeline.h"
#include "core/run/watchdog.h"

namespace ringscope {

// A State is the same rank that runs on threads. Its constructor takes its parts, a Communicator&
// and a RankPulse*. It holds all memory that hops name.
template <class State>
class RankProcess {
 public:
  // `session` must outlive it.
  explicit RankProcess(MpiSession& session)
      : session_(session), line_(session.lifeline()), engine_(line_) {
    line_.watch(pulse_, [this](const RunError& error) { stop(error); });
  }
  ~RankProcess() { line_.unwatch(); }
  RankProcess(const RankProcess&) = delete;
  RankProcess& operator=(const RankProcess&) = delete;

  // Return the result of `work`, a function of no arguments. Throw RunError naming the rank, the
  // same on every rank, when any rank throws or is stuck; then no MPI function may be called.
  template <class Work>
  auto run(const Work& work) {
    try {
      return work();
    } catch (const std::exception&) {
      fail(handled_error(session_.rank()));
    }
  }

  // Make the rank's state. From here until leave_ring() nobody else may call MPI.
  template <class... Parts>
  State& join_ring(Parts&&... parts) {
    MpiCommunicator::Options options;
    options.pulse = &pulse_;
    options.on_failure = [this](const RunError& error) { line_.fail(error); };
    comm_ = std::make_unique<MpiCommunicator>(engine_.waits(), session_.rank(),
                                              session_.world_size(), std::move(options));
    state_ = std::make_unique<State>(std::forward<Parts>(parts)..., *comm_, &pulse_);
    return *state_;
  }
  // Return when nothing is on its way any more. The state stays.
  void leave_ring() { comm_.reset(); }

  // Return a function that calls `call`, which must outlive it, without the rank being taken for
  // stuck meanwhile. The function is empty if `call` is.
  template <class... Arguments>
  std::function<void(Arguments...)> outside(const std::function<void(Arguments...)>& call) {
    if (!call) return {};
    return [this, &call](Arguments... arguments) {
      const ShownOutsideWork shown(pulse_);
      call(arguments...);
    };
  }

  Engine& engine() { return engine_; }
  RankPulse& pulse() { return pulse_; }

 private:
  // Tell all ranks, and throw rank 0's verdict on the run.
  [[noreturn]] void fail(const RunError& error) {
    const RunError agreed = agreed_failure(line_, error);
    stop(agreed);
    comm_.reset();
    line_.unwatch();
    if (state_ != nullptr)
      keep_until_exit(std::move(state_));  // because hops that never ended name its memory
    throw agreed;
  }

  // End every wait, and the work of a long step.
  void stop(const RunError& error) {
    engine_.fail(error);
    pulse_.stop();
  }

  MpiSession& session_;
  Lifeline& line_;
  RankPulse pulse_;
  MpiEngine engine_;
  std::unique_ptr<State> state_;
  std::unique_ptr<MpiCommunicator> comm_;  // ends before the state, whose memory it may touch
};

}  // namespace ringscope
