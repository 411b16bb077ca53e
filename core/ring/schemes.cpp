// Chooses the loop of a scheme, and wraps the seams for it, so that their errors name rank and step.
#include "core/ring/schemes.h"

#include "core/base/error.h"
#include "core/ring/forwarding.h"

namespace ringscope {

namespace {

class NamingCommunicator : public ForwardingCommunicator {
 public:
  using ForwardingCommunicator::ForwardingCommunicator;
  Completion exchange(const Exchange& hop, std::initializer_list<Completion> after) override {
    Completion arrived;
    with_step_in_errors(rank(), hop.step, [&] { arrived = inner_.exchange(hop, after); });
    return arrived;
  }
};

class NamingBackend : public ForwardingBackend {
 public:
  NamingBackend(BlockBackend& inner, const Communicator& comm)
      : ForwardingBackend(inner), rank_(comm.rank()), last_step_(comm.world_size() - 1) {}

  void await(const StepInfo& step, Payload payload, const Completion& after) override {
    with_step_in_errors(rank_, step.step, [&] { inner_.await(step, payload, after); });
  }

 private:
  Completion around(BlockOperation which, const StepInfo* step, const Completion& after,
                    const Start& start) override {
    const int of_none = which == BlockOperation::finish ? last_step_ : 0;
    Completion done;
    with_step_in_errors(rank_, step == nullptr ? of_none : step->step,
                        [&] { done = start(after); });
    return done;
  }

  int rank_, last_step_;
};

// Return the loop of a problem. One rank alone is the flat ring, unless it gathers.
Loop loop_of(const RingProblem& problem) {
  if (problem.partition.world_size == 1 && problem.scheme->course != Course::gathers)
    return {ring_forward, ring_backward};
  return problem.scheme->loop(problem);
}

}  // namespace

Loop& flat_ring() {
  static Loop loop{ring_forward, ring_backward};
  return loop;
}

void run_forward(Communicator& comm, BlockBackend& backend, const RingProblem& problem,
                 RankMemory& mine) {
  NamingCommunicator hops(comm);
  NamingBackend blocks(backend, comm);
  loop_of(problem).forward(hops, blocks, problem, mine);
}

KvGradient run_backward(Communicator& comm, BlockBackend& backend, const RingProblem& problem,
                        RankMemory& mine) {
  NamingCommunicator hops(comm);
  NamingBackend blocks(backend, comm);
  return loop_of(problem).backward(hops, blocks, problem, mine);
}

void SchemeBackend::await(const StepInfo&, Payload, const Completion& after) { wait_for(after); }

}  // namespace ringscope
