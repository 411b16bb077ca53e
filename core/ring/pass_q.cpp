// The ring that passes queries (TokenRing; arXiv:2411.01783): K and V stay, and Q, its softmax state
// and its output travel. Forward it pays where queries are few beside keys, as in a prefill on a cache;
// with as many it moves more than the ring. At step t a rank attends its own keys with the queries of
// owner (rank - t) mod N.
//
// Q goes ahead: N-1 hops. Each rank computes a state of its own keys alone, while that of the earlier
// ranks is still on its way, merges the two and sends the result after the queries: N hops, of which
// the last brings the state home, where it is finished.
//
// Backward Q, dO, the row statistics and delta go ahead and dQ follows, and dK and dV stay where they
// are summed. This is what BurstAttention's backward moves: per row of a rank 2 H d values as stored and
// H (d + 4) in f32, where the ring moves 2 G d as stored and 2 G d in f32. With one kv head to each
// query head, H = G, this is less in any dtype if d > 4: a quarter less in f32. With H >= 2 G it is
// more.
#include "core/ring/query_messages.h"
#include "core/ring/scheme_table.h"

namespace ringscope {

namespace {

// Where the queries of a step lie, the state that is computed for them, and that of the earlier ranks:
// in the end, both are the rank's own.
struct RankSlots {
  const RankMemory& mine;
  int last_step;

  Index queries(int step) const { return mine.slot(step == 0 ? 0 : 1 + (step - 1) % 2); }
  Index computed(int step) const { return mine.slot(1 + step % 2); }
  Index incoming(int step) const { return mine.slot(step > last_step ? 0 : 3); }
};

void pass_q_forward(Communicator& comm, BlockBackend& backend, const RingProblem& problem,
                    RankMemory& mine) {
  const RingSchedule ring{comm.rank(), comm.world_size()};
  const RankSlots at{mine, ring.steps() - 1};
  const KvBlock block{mine.own_kv(), problem.rows(ring.rank)};
  QueryMessages messages(comm, problem, mine, Pass::forward, ring.send_rank(), ring.recv_rank());

  Completion here, next, attended, states_here;
  for (int step = 0; step < ring.steps(); ++step) {
    const int owner = ring.owner(step), next_owner = ring.owner(step + 1);
    here = next;
    if (!ring.is_last(step))
      next =
          messages.move_queries({step, at.queries(step), owner, at.queries(step + 1), next_owner},
                                true, {here, attended});
    const StepInfo info{Pass::forward, step, ring.rank, ring.is_last(step)};
    const QueryBlock q = mine.query_block(at.queries(step), problem.query_rows(owner));
    const SoftmaxState computed = mine.softmax_state(at.computed(step));
    backend.begin(q, computed);
    attended = backend.attend(info, problem.region(owner, ring.rank), q, block, computed, here);
    Completion merged = attended;
    if (step > 0)
      merged = backend.merge(info, q, computed, mine.softmax_state(at.incoming(step)), states_here);
    states_here = messages.move_results(
        {step, at.computed(step), owner, at.incoming(step + 1), next_owner}, {merged});
  }
  backend.await({Pass::forward, ring.steps() - 1, ring.rank, true}, Payload::dkv, states_here);
  backend.finish(mine.query_block(), mine.softmax_state());
}

KvGradient pass_q_backward(Communicator& comm, BlockBackend& backend, const RingProblem& problem,
                           RankMemory& mine) {
  const RingSchedule ring{comm.rank(), comm.world_size()};
  const RankSlots at{mine, ring.steps() - 1};
  const KvBlock block{mine.own_kv(), problem.rows(ring.rank)};
  const KvGradient own{mine.own_gradient(), block.rows};
  const KvGradient one_share{mine.extra_gradient(0), block.rows};
  QueryMessages messages(comm, problem, mine, Pass::backward, ring.send_rank(), ring.recv_rank());
  Completion attended = backend.begin_backward(mine.query_block(), mine.backward_state());

  Completion here = attended, next = attended, dq_here;
  for (int step = 0; step < ring.steps(); ++step) {
    const int owner = ring.owner(step), next_owner = ring.owner(step + 1);
    here = next;
    if (!ring.is_last(step))
      next =
          messages.move_queries({step, at.queries(step), owner, at.queries(step + 1), next_owner},
                                true, {here, attended});
    const StepInfo info{Pass::backward, step, ring.rank, ring.is_last(step)};
    const QueryBlock q = mine.query_block(at.queries(step), problem.query_rows(owner));
    BackwardState state = mine.backward_state(at.queries(step));
    state.out = nullptr;  // stays at home: delta came with the queries
    state.dq = mine.backward_state(at.computed(step)).dq;
    backend.begin_backward(q, state);
    attended = backend.attend_backward(info, problem.region(owner, ring.rank), q, block, state,
                                       step == 0 ? own : one_share, here);
    Completion summed = attended;
    if (step > 0) {
      backend.add(info, own, one_share, attended);
      summed = backend.add_dq(info, q, state, mine.backward_state(at.incoming(step)), dq_here);
    }
    dq_here = messages.move_results(
        {step, at.computed(step), owner, at.incoming(step + 1), next_owner}, {summed});
  }
  backend.finish_backward({Pass::backward, ring.steps() - 1, ring.rank, true}, mine.query_block(),
                          mine.backward_state(), dq_here);
  return own;
}

}  // namespace

const Scheme kPassQ{.name = "pass-q",
                    .travels = Travels::queries,
                    .loop = only_loop<pass_q_forward, pass_q_backward>,
                    .extras = [](const Problem& job) -> std::optional<Extras> {
                      Extras extras = extras_of_share(job.shape, 1);
                      extras.q = buffers_of_turns(job.world_size);
                      extras.states = 3;
                      extras.gradients = 1;
                      return extras;
                    }};

}  // namespace ringscope
