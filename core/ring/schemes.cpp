// Chooses the loop of a scheme, and wraps the seams for it, so that their errors name rank and
// step. Says what backends do that lack what a scheme asks for.
#include "core/ring/schemes.h"

#include <string>

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

// Return the loop of a scheme. One rank alone, or one level of two, is the flat ring.
Loop loop_of(Scheme scheme, const RingProblem& problem) {
  constexpr Loop ring{ring_forward, ring_backward};
  const int n = problem.partition.world_size;
  if (scheme == Scheme::allgather) return {allgather_forward, allgather_backward};
  if (n == 1) return ring;
  if (scheme == Scheme::ring && problem.parted) return {needed_forward, needed_backward};
  switch (scheme) {
    case Scheme::two_level:
      return problem.nodes > 1 && problem.nodes < n ? Loop{two_level_forward, two_level_backward}
                                                    : ring;
    case Scheme::ulysses:
      if (problem.slices > 1) return {ulysses_chunks_forward, ulysses_chunks_backward};
      return {hybrid_forward, hybrid_backward};
    case Scheme::hybrid:
      return problem.head_shares() > 1 ? Loop{hybrid_forward, hybrid_backward} : ring;
    case Scheme::bidirectional:
    case Scheme::multi_ring:
      return {multi_ring_forward, multi_ring_backward};
    case Scheme::groupcast:
      return {groupcast_forward, groupcast_backward};
    case Scheme::pass_q:
      return {pass_q_forward, pass_q_backward};
    case Scheme::mesh:
      return {mesh_forward, mesh_backward};
    default:
      return flat_ring();
  }
}

}  // namespace

Loop& flat_ring() {
  static Loop loop{ring_forward, ring_backward};
  return loop;
}

void run_forward(Scheme scheme, Communicator& comm, BlockBackend& backend,
                 const RingProblem& problem, RankMemory& mine) {
  NamingCommunicator hops(comm);
  NamingBackend blocks(backend, comm);
  loop_of(scheme, problem).forward(hops, blocks, problem, mine);
}

KvGradient run_backward(Scheme scheme, Communicator& comm, BlockBackend& backend,
                        const RingProblem& problem, RankMemory& mine) {
  NamingCommunicator hops(comm);
  NamingBackend blocks(backend, comm);
  return loop_of(scheme, problem).backward(hops, blocks, problem, mine);
}

namespace {

[[noreturn]] void lacks(const char* what) {
  throw RunError(std::string("this backend has no ") + what);
}

}  // namespace

void SchemeBackend::use_heads(const HeadShare&) { lacks("shares of heads"); }

void SchemeBackend::await(const StepInfo&, Payload, const Completion& after) { wait_for(after); }

Completion SchemeBackend::merge(const StepInfo&, const QueryBlock&, const SoftmaxState&,
                                const SoftmaxState&, const Completion&) {
  lacks("merges of states");
}

Completion SchemeBackend::add_dq(const StepInfo&, const QueryBlock&, const BackwardState&,
                                 const BackwardState&, const Completion&) {
  lacks("sums of query gradients");
}

}  // namespace ringscope
