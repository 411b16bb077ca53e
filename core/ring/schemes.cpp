// Chooses the loop of a scheme, and wraps the seams for it, so that their errors name rank and
// step.
#include "core/ring/schemes.h"

#include "core/base/error.h"

namespace ringscope {

namespace {

class NamingCommunicator : public Communicator {
 public:
  explicit NamingCommunicator(Communicator& inner) : inner_(inner) {}
  int rank() const override { return inner_.rank(); }
  int world_size() const override { return inner_.world_size(); }
  Completion exchange(const Exchange& hop, std::initializer_list<Completion> after) override {
    Completion arrived;
    with_step_in_errors(rank(), hop.step, [&] { arrived = inner_.exchange(hop, after); });
    return arrived;
  }

 private:
  Communicator& inner_;
};

class NamingBackend : public BlockBackend {
 public:
  NamingBackend(BlockBackend& inner, const Communicator& comm)
      : inner_(inner), rank_(comm.rank()), last_step_(comm.world_size() - 1) {}

  Completion begin(const QueryBlock& q, const SoftmaxState& state) override {
    return in_step(0, [&] { return inner_.begin(q, state); });
  }
  Completion attend(const StepInfo& step, const Region& region, const QueryBlock& q,
                    const KvBlock& block, const SoftmaxState& state,
                    const Completion& after) override {
    return in_step(step.step, [&] { return inner_.attend(step, region, q, block, state, after); });
  }
  Completion finish(const QueryBlock& q, const SoftmaxState& state) override {
    return in_step(last_step_, [&] { return inner_.finish(q, state); });
  }
  Completion begin_backward(const QueryBlock& q, const BackwardState& state) override {
    return in_step(0, [&] { return inner_.begin_backward(q, state); });
  }
  Completion attend_backward(const StepInfo& step, const Region& region, const QueryBlock& q,
                             const KvBlock& block, const BackwardState& state,
                             const KvGradient& gradient, const Completion& after) override {
    return in_step(step.step, [&] {
      return inner_.attend_backward(step, region, q, block, state, gradient, after);
    });
  }
  Completion add(const StepInfo& step, const KvGradient& into, const KvGradient& from,
                 const Completion& after) override {
    return in_step(step.step, [&] { return inner_.add(step, into, from, after); });
  }
  Completion finish_backward(const StepInfo& step, const QueryBlock& q, const BackwardState& state,
                             const Completion& after) override {
    return in_step(step.step, [&] { return inner_.finish_backward(step, q, state, after); });
  }
  void use_heads(const HeadShare& share) override { inner_.use_heads(share); }
  void await(const StepInfo& step, Payload payload, const Completion& after) override {
    with_step_in_errors(rank_, step.step, [&] { inner_.await(step, payload, after); });
  }
  Completion merge(const StepInfo& step, const QueryBlock& q, const SoftmaxState& into,
                   const SoftmaxState& from, const Completion& after) override {
    return in_step(step.step, [&] { return inner_.merge(step, q, into, from, after); });
  }
  Completion add_dq(const StepInfo& step, const QueryBlock& q, const BackwardState& into,
                    const BackwardState& from, const Completion& after) override {
    return in_step(step.step, [&] { return inner_.add_dq(step, q, into, from, after); });
  }
  const BlockStats& last_stats() const override { return inner_.last_stats(); }

 private:
  template <class F>
  Completion in_step(int step, F&& operation) {
    Completion done;
    with_step_in_errors(rank_, step, [&] { done = operation(); });
    return done;
  }

  BlockBackend& inner_;
  int rank_, last_step_;
};

}  // namespace

namespace {

struct Loop {
  decltype(&ring_forward) forward;
  decltype(&ring_backward) backward;
};

// Return the loop of a scheme. One rank alone, or one level of two, is the flat ring.
Loop loop_of(Scheme scheme, const RingProblem& problem) {
  constexpr Loop ring{ring_forward, ring_backward};
  const int n = problem.partition.world_size;
  if (scheme == Scheme::allgather) return {allgather_forward, allgather_backward};
  if (n == 1) return ring;
  switch (scheme) {
    case Scheme::two_level:
      return problem.nodes > 1 && problem.nodes < n ? Loop{two_level_forward, two_level_backward}
                                                    : ring;
    case Scheme::ulysses:
    case Scheme::hybrid:
      return problem.head_shares() > 1 ? Loop{hybrid_forward, hybrid_backward} : ring;
    case Scheme::bidirectional:
      return {bidirectional_forward, bidirectional_backward};
    case Scheme::pass_q:
      return {pass_q_forward, pass_q_backward};
    case Scheme::mesh:
      return {mesh_forward, mesh_backward};
    default:
      return ring;
  }
}

}  // namespace

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

}  // namespace ringscope
