// Several rings at once (TASP, arXiv:2509.26541), each of which carries a part of every block. Ring i
// leads on by a stride s_i that has no divisor in common with N, so it visits all ranks, and rings share
// no link from one rank to another: at step t a rank attends part i of the block of owner
// (rank - t s_i) mod N. There are N - 1 such strides where N is prime and fewer elsewhere. (Tillson,
// 1980: every N but 4 and 6 has N - 1 disjoint cycles, but not of one stride each.) Gradients follow
// their parts, one step behind, and the last of N hops brings each home. Strides 1 and N - 1 are the ring
// both ways round (TokenRing).
//
// A block's parts are consecutive rows of it, each a KV block of its own: K, then V.
#include <fmt/format.h>

#include "core/ring/scheme_table.h"

namespace ringscope {

namespace {

// The ring of one stride, and its part of each block.
struct PartRing {
  Communicator& comm;
  const RingProblem& problem;
  RankMemory& mine;
  Pass pass;
  int number;
  Completion attended;  // the last step's part, or what the first one waits for
  int stride = stride_of_ring(comm.world_size(), number);
  Completion arrived = {}, next = {};  // this step's part, and the next one's

  int owner(int step) const { return neighbour(comm.world_size() - step % comm.world_size()); }
  Region region(int step) const { return problem.region(comm.rank(), keys(step)); }
  Index rows(int step) const { return keys(step).size(); }
  KvBlock block(int step) const { return {kv(step), rows(step)}; }

  // Bring the part of step `step` + 1, into the buffer of step `step` - 1, whose part was sent on
  // when that of `step` arrived.
  void start(int step) {
    arrived = next;
    if (step + 1 < comm.world_size())
      next = exchange(step, Payload::kv, kv(step), kv(step + 1), {arrived, attended});
  }

  // Return the sum of gradients for the part of step `step`, and where the earlier ranks' comes in:
  // in the end at the rank's own.
  KvGradient sum(int step) const {
    return {mine.extra_gradient(3 * number + step % 2), rows(step)};
  }
  KvGradient incoming(int step) const {
    return {step == comm.world_size() ? mine.own_gradient() + own_at()
                                      : mine.extra_gradient(3 * number + 2),
            rows(step)};
  }
  Completion send_sum(int step, const Completion& summed) {
    return exchange(step, Payload::dkv, sum(step).data, incoming(step + 1).data, {summed});
  }

  // Return the rank that so many strides of the ring, below N, lead to.
  int neighbour(int strides) const {
    const Index n = comm.world_size();
    return static_cast<int>((comm.rank() + Index{strides} * stride) % n);
  }
  LocalRows keys(int step) const {
    return part_of(problem.partition.rows_of(owner(step)), problem.row_parts(), number);
  }
  // Return at which value the rank's own part begins.
  Index own_at() const {
    const LocalRows own = problem.partition.rows_of(comm.rank());
    return block_values(problem.params, begin_of_part(own, problem.row_parts(), number));
  }
  std::byte* kv(int step) const {
    return step == 0 ? mine.own_kv() + own_at() * bytes_of(problem.params.dtype)
                     : mine.extra_kv((step - 1) % 2 * problem.row_parts() + number);
  }
  Completion exchange(int step, Payload payload, void* send, void* recv,
                      std::initializer_list<Completion> after) {
    const Index row = problem.row_bytes(payload);
    return comm.exchange(
        hop_of(pass, payload, step, {owner(step), send, rows(step) * row},
               {owner(step + 1), recv, rows(step + 1) * row},
               {way_of_ring(number), neighbour(1), neighbour(comm.world_size() - 1)}),
        after);
  }
};

std::vector<PartRing> rings_of(Communicator& comm, const RingProblem& problem, RankMemory& mine,
                               Pass pass, const Completion& free) {
  std::vector<PartRing> rings;
  for (int i = 0; i < problem.row_parts(); ++i)
    rings.push_back({comm, problem, mine, pass, i, free});
  return rings;
}

void multi_ring_forward(Communicator& comm, BlockBackend& backend, const RingProblem& problem,
                        RankMemory& mine) {
  const QueryBlock q = mine.query_block();
  const SoftmaxState state = mine.softmax_state();
  backend.begin(q, state);

  std::vector<PartRing> rings = rings_of(comm, problem, mine, Pass::forward, {});
  for (int step = 0; step < comm.world_size(); ++step) {
    for (PartRing& ring : rings) ring.start(step);
    for (PartRing& ring : rings) {
      const bool last = step == comm.world_size() - 1 && &ring == &rings.back();
      ring.attended = backend.attend({Pass::forward, step, ring.owner(step), last},
                                     ring.region(step), q, ring.block(step), state, ring.arrived);
    }
  }
  backend.finish(q, state);
}

KvGradient multi_ring_backward(Communicator& comm, BlockBackend& backend,
                               const RingProblem& problem, RankMemory& mine) {
  const int last_step = comm.world_size() - 1;
  const QueryBlock q = mine.query_block();
  const BackwardState state = mine.backward_state();
  const Completion begun = backend.begin_backward(q, state);

  std::vector<PartRing> rings = rings_of(comm, problem, mine, Pass::backward, begun);
  std::vector<Completion> gradient_arrived(rings.size());
  for (int step = 0; step <= last_step; ++step) {
    for (PartRing& ring : rings) ring.start(step);
    for (std::size_t i = 0; i < rings.size(); ++i) {
      PartRing& ring = rings[i];
      const bool last = step == last_step && i + 1 == rings.size();
      const StepInfo info{Pass::backward, step, ring.owner(step), last};
      const KvGradient sum = ring.sum(step);
      Completion summed = backend.attend_backward(info, ring.region(step), q, ring.block(step),
                                                  state, sum, ring.arrived);
      ring.attended = summed;
      if (step > 0) summed = backend.add(info, sum, ring.incoming(step), gradient_arrived[i]);
      gradient_arrived[i] = ring.send_sum(step, summed);
    }
  }
  const StepInfo last{Pass::backward, last_step, comm.rank(), true};
  for (std::size_t i = 0; i + 1 < rings.size(); ++i)
    backend.await(last, Payload::dkv, gradient_arrived[i]);
  backend.finish_backward(last, q, state, gradient_arrived.back());
  return {mine.own_gradient(), problem.rows(comm.rank())};
}

std::optional<Extras> extras_of_rings(const Problem& job) {
  Extras extras = extras_of_share(job.shape, 1);
  extras.kv = job.layout().row_parts * buffers_of_turns(job.world_size);
  extras.gradients = 3 * job.layout().row_parts;
  return extras;
}

}  // namespace

const Scheme kBidirectional{
    .name = "bidirectional",
    .loop = only_loop<multi_ring_forward, multi_ring_backward>,
    .layout = [](int, const SchemeNumbers&) { return RankLayout{.row_parts = 2}; },
    .extras = extras_of_rings};

const Scheme kMultiRing{
    .name = "multi-ring",
    .numbers = ":R",
    .loop = only_loop<multi_ring_forward, multi_ring_backward>,
    .accepted = [](const Problem& job) -> std::string {
      const int most = most_rings(job.world_size);
      if (job.numbers[0] <= most) return "";
      return fmt::format(
          "multi-ring:R with R up to {}, as many as there are numbers below {} "
          "without a divisor in common with it",
          most, job.world_size);
    },
    .layout = [](int, const SchemeNumbers& numbers) { return RankLayout{.row_parts = numbers[0]}; },
    .extras = extras_of_rings,
    .rings = [](const Problem& job) { return job.numbers[0]; }};

}  // namespace ringscope
