// The scheme that the ring is compared with: every rank first gathers all KV blocks, then computes
// alone. It moves the same bytes, but holds N blocks instead of two and hides none of the transfer.
// In slices it gathers and computes one share of the kv heads after the other, and holds the blocks of
// others for one share alone.

#include <fmt/format.h>

#include "core/ring/scheme_table.h"

namespace ringscope {

namespace {

// One share of the heads: the rank's own tensors lie share after share, and the blocks of the others
// are gathered for one share at a time, in buffers that all shares use. Where one share is all of the
// heads, each owner's block has a buffer of its size.
class HeadSlice {
 public:
  HeadSlice(Communicator& comm, const RingProblem& problem, RankMemory& mine, int number)
      : comm_(comm), problem_(problem), mine_(mine), heads_(problem.heads_of(number)) {}

  const HeadShare& heads() const { return heads_; }
  Index queries_at() const {
    return problem_.params.batch * heads_.first * problem_.query_rows(comm_.rank());
  }
  int owner(int step) const { return RingSchedule{comm_.rank(), comm_.world_size()}.owner(step); }
  // Return the block of step `step`, and where its gradient is computed.
  std::byte* kv(int step) const {
    if (is_all()) return mine_.kv_of_owner(owner(step));
    return step == 0 ? mine_.own_kv() + own_kv_at() * bytes_of(problem_.params.dtype)
                     : mine_.extra_kv(step - 1);
  }
  KvGradient gradient(int step) const {
    const int place = step % comm_.world_size();
    if (is_all()) return {mine_.gradient_of_owner(owner(step)), problem_.rows(owner(step))};
    return {place == 0 ? mine_.own_gradient() + own_kv_at() : mine_.extra_gradient(place - 1),
            problem_.rows(owner(step))};
  }
  KvGradient incoming(int step) const {
    return {is_all() ? mine_.incoming_gradient() : mine_.extra_gradient(comm_.world_size() - 1),
            problem_.rows(owner(step))};
  }

  // Bring all blocks, hop after hop, once those of the slice before were attended. Return the arrival
  // of the last.
  Completion gather(Pass pass, const Completion& free) {
    Completion arrived = free;
    for (int step = 0; step + 1 < comm_.world_size(); ++step)
      arrived = exchange(pass, Payload::kv, step, step, kv(step), kv(step + 1), arrived);
    return arrived;
  }
  // Pass on the gradient of step `step` + 1, and take that of the next owner. An owner's sum starts at
  // the rank after it, collects one share per hop, and ends at its owner: a reduce-scatter.
  Completion scatter(int step, const Completion& summed) {
    return exchange(Pass::backward, Payload::dkv, step, step + 1, gradient(step + 1).data,
                    incoming(step + 2).data, summed);
  }

 private:
  bool is_all() const { return problem_.head_shares() == 1; }
  Index own_kv_at() const { return problem_.kv_values_of(heads_.first_kv, comm_.rank()); }
  Completion exchange(Pass pass, Payload payload, int step, int sent_step, void* send, void* recv,
                      const Completion& after) {
    const Index value_bytes = payload == Payload::kv ? bytes_of(problem_.params.dtype) : 4;
    const auto bytes = [&](int block_owner) {
      return problem_.kv_values_of(heads_.num_heads_kv, block_owner) * value_bytes;
    };
    const int owner_sent = owner(sent_step), next_owner = owner(sent_step + 1);
    return comm_.exchange(hop_of(pass, payload, step, {owner_sent, send, bytes(owner_sent)},
                                 {next_owner, recv, bytes(next_owner)}),
                          {after});
  }

  Communicator& comm_;
  const RingProblem& problem_;
  RankMemory& mine_;
  HeadShare heads_;
};

void allgather_forward(Communicator& comm, BlockBackend& backend, const RingProblem& problem,
                       RankMemory& mine) {
  const int n = comm.world_size(), rank = comm.rank();
  Completion attended;
  for (int number = 0; number < problem.head_shares(); ++number) {
    HeadSlice slice(comm, problem, mine, number);
    const QueryBlock q = mine.query_block(slice.queries_at(), problem.query_rows(rank));
    const SoftmaxState state = mine.softmax_state(slice.queries_at());
    if (problem.head_shares() > 1) backend.use_heads(slice.heads());
    backend.begin(q, state);
    const Completion gathered = slice.gather(Pass::forward, attended);
    for (int step = 0; step < n; ++step) {
      const int owner = slice.owner(step);
      attended =
          backend.attend({Pass::forward, step, owner, step == n - 1}, problem.region(rank, owner),
                         q, {slice.kv(step), problem.rows(owner)}, state, gathered);
    }
    backend.finish(q, state);
  }
}

KvGradient allgather_backward(Communicator& comm, BlockBackend& backend, const RingProblem& problem,
                              RankMemory& mine) {
  const int n = comm.world_size(), rank = comm.rank();
  KvGradient own;
  for (int number = 0; number < problem.head_shares(); ++number) {
    HeadSlice slice(comm, problem, mine, number);
    const QueryBlock q = mine.query_block(slice.queries_at(), problem.query_rows(rank));
    const BackwardState state = mine.backward_state(slice.queries_at());
    if (problem.head_shares() > 1) backend.use_heads(slice.heads());
    const Completion begun = backend.begin_backward(q, state);
    // A single slice's blocks are still here, but a training step would have freed them.
    const Completion gathered = slice.gather(Pass::backward, begun);
    Completion summed;
    for (int step = 0; step < n; ++step) {
      const int owner = slice.owner(step);
      summed = backend.attend_backward(
          {Pass::backward, step, owner, step == n - 1}, problem.region(rank, owner), q,
          {slice.kv(step), problem.rows(owner)}, state, slice.gradient(step), gathered);
    }
    for (int step = 0; step + 1 < n; ++step) {
      const Completion arrived = slice.scatter(step, summed);
      summed = backend.add({Pass::backward, step, slice.owner(step + 2)}, slice.gradient(step + 2),
                           slice.incoming(step + 2), arrived);
    }
    backend.finish_backward({Pass::backward, n - 1, rank, true}, q, state, summed);
    if (number == 0) own = slice.gradient(0);  // with those of the later slices behind it
  }
  return own;
}

}  // namespace

const Scheme kAllgather{
    .name = "allgather",
    .numbers = "[:SLICES]",
    .course = Course::gathers,
    .links = Links::to_next,
    .loop = only_loop<allgather_forward, allgather_backward>,
    .accepted = [](const Problem& job) -> std::string {
      const Index most = job.shape.num_heads_kv;
      return job.slices() <= most ? "" : fmt::format("allgather:1 to allgather:{}", most);
    },
    .layout = [](int, const SchemeNumbers& numbers) { return RankLayout{.slices = numbers[0]}; },
    .extras = [](const Problem& job) -> std::optional<Extras> {
      if (job.slices() == 1) return std::nullopt;
      Extras extras = extras_of_share(job.shape, job.slices());
      extras.kv = job.world_size - 1;
      extras.gradients = job.world_size;
      return extras;
    },
    .blocks = [](const Problem&, Bill& bill) { bill.add_gathered_blocks(); }};

}  // namespace ringscope
