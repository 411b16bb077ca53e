// The ring both ways round (TokenRing): half of every block travels in the ring's direction and the
// other half against it, so links are used in both directions and each carries half of the bytes. At
// step t a rank attends the first half of the block of owner (rank - t) mod N and the second half of
// that of owner (rank + t) mod N. Gradients follow their halves, one step behind, and the last of N
// hops brings each home.
//
// A block's halves are its first and its last rows, each a KV block of its own: K, then V.
#include "core/ring/schemes.h"

namespace ringscope {

namespace {

// The half of each block that goes one way round.
class HalfRing {
 public:
  HalfRing(Communicator& comm, const RingProblem& problem, RankMemory& mine, Pass pass, int half,
           const Completion& free)
      : comm_(comm), problem_(problem), mine_(mine), pass_(pass), half_(half), attended_(free) {}

  int owner(int step) const {
    const int n = comm_.world_size(), back = step % n;
    return (comm_.rank() + (half_ == 0 ? n - back : back)) % n;
  }
  Region region(int step) const {
    return {problem_.mask, problem_.partition.rows_of(comm_.rank()),
            half_of(problem_.partition.rows_of(owner(step)), half_)};
  }
  Index rows(int step) const {
    return half_of(problem_.partition.rows_of(owner(step)), half_).size();
  }
  KvBlock block(int step) const { return {kv(step), rows(step)}; }
  const Completion& arrived() const { return arrived_; }

  // Bring the half of step `step` + 1, into the buffer of step `step` - 1, whose half was sent on
  // when that of `step` arrived.
  void start(int step) {
    arrived_ = next_;
    if (step + 1 < comm_.world_size())
      next_ = exchange(step, Payload::kv, kv(step), kv(step + 1), {arrived_, attended_});
  }
  void attended(const Completion& when) { attended_ = when; }

  // Return the sum of gradients for the half of step `step`, and where the earlier ranks' comes in:
  // in the end at the rank's own.
  KvGradient sum(int step) const {
    return {mine_.extra_gradient(3 * half_ + step % 2), rows(step)};
  }
  KvGradient incoming(int step) const {
    return {step == comm_.world_size() ? mine_.own_gradient() + own_at()
                                       : mine_.extra_gradient(3 * half_ + 2),
            rows(step)};
  }
  Completion send_sum(int step, const Completion& summed) {
    return exchange(step, Payload::dkv, sum(step).data, incoming(step + 1).data, {summed});
  }

 private:
  // Return at which value the rank's own half begins.
  Index own_at() const {
    const LocalRows own = problem_.partition.rows_of(comm_.rank());
    return half_ == 0 ? 0 : 2 * kv_values(problem_.params, rows_of_first_half(own));
  }
  std::byte* kv(int step) const {
    return step == 0 ? mine_.own_kv() + own_at() * bytes_of(problem_.params.dtype)
                     : mine_.extra_kv(2 * ((step - 1) % 2) + half_);
  }
  Completion exchange(int step, Payload payload, const void* send, void* recv,
                      std::initializer_list<Completion> after) {
    const int n = comm_.world_size(), rank = comm_.rank();
    const int next = (rank + 1) % n, previous = (rank + n - 1) % n;
    const Index bytes = 2 * kv_values(problem_.params, 1) *
                        (payload == Payload::kv ? bytes_of(problem_.params.dtype) : 4);
    return comm_.exchange({.pass = pass_,
                           .payload = payload,
                           .step = step,
                           .send_owner = owner(step),
                           .send = send,
                           .send_bytes = rows(step) * bytes,
                           .recv_owner = owner(step + 1),
                           .recv = recv,
                           .recv_bytes = rows(step + 1) * bytes,
                           .way = half_ == 0 ? Way::ring : Way::backwards,
                           .to = half_ == 0 ? next : previous,
                           .from = half_ == 0 ? previous : next},
                          after);
  }

  Communicator& comm_;
  const RingProblem& problem_;
  RankMemory& mine_;
  Pass pass_;
  int half_;
  Completion arrived_, next_, attended_;  // of this step's half, the next one's, the last one's
};

}  // namespace

void bidirectional_forward(Communicator& comm, BlockBackend& backend, const RingProblem& problem,
                           RankMemory& mine) {
  const QueryBlock q = mine.query_block();
  const SoftmaxState state = mine.softmax_state();
  backend.begin(q, state);

  HalfRing halves[] = {{comm, problem, mine, Pass::forward, 0, {}},
                       {comm, problem, mine, Pass::forward, 1, {}}};
  for (int step = 0; step < comm.world_size(); ++step) {
    for (HalfRing& half : halves) half.start(step);
    for (HalfRing& half : halves) {
      const bool last = step == comm.world_size() - 1 && &half == &halves[1];
      half.attended(backend.attend({Pass::forward, step, half.owner(step), last}, half.region(step),
                                   q, half.block(step), state, half.arrived()));
    }
  }
  backend.finish(q, state);
}

KvGradient bidirectional_backward(Communicator& comm, BlockBackend& backend,
                                  const RingProblem& problem, RankMemory& mine) {
  const int last_step = comm.world_size() - 1;
  const QueryBlock q = mine.query_block();
  const BackwardState state = mine.backward_state();
  const Completion begun = backend.begin_backward(q, state);

  HalfRing halves[] = {{comm, problem, mine, Pass::backward, 0, begun},
                       {comm, problem, mine, Pass::backward, 1, begun}};
  Completion gradient_arrived[2];
  for (int step = 0; step <= last_step; ++step) {
    for (HalfRing& half : halves) half.start(step);
    for (int i = 0; i < 2; ++i) {
      HalfRing& half = halves[i];
      const StepInfo info{Pass::backward, step, half.owner(step), step == last_step && i == 1};
      const KvGradient sum = half.sum(step);
      Completion summed = backend.attend_backward(info, half.region(step), q, half.block(step),
                                                  state, sum, half.arrived());
      half.attended(summed);
      if (step > 0) summed = backend.add(info, sum, half.incoming(step), gradient_arrived[i]);
      gradient_arrived[i] = half.send_sum(step, summed);
    }
  }
  const StepInfo last{Pass::backward, last_step, comm.rank(), true};
  backend.await(last, Payload::dkv, gradient_arrived[0]);
  backend.finish_backward(last, q, state, gradient_arrived[1]);
  return {mine.own_gradient(), q.rows};
}

}  // namespace ringscope
