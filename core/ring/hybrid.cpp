// Ulysses, and the hybrid of Ulysses and ring. N ranks are R groups of U consecutive ranks. Inside a
// group an all-to-all gives each member a share of the heads of all the group's rows; around the ring
// of groups the members of one number pass on what they hold of K and V; and another all-to-all brings
// the outputs to their rows' ranks. Ulysses is one group of N ranks (S3, related work); the hybrid is
// that of USP and LoongTrain, with groups inside nodes and the ring between them.
//
// What comes from each rank stays a block of its own (head_messages.h). A member thus attends, at the N
// steps t U + k, the block of the rank k places on in the group t places back, with each of the group's
// U blocks of queries. Members with the same kv head get copies of it, and its gradients are added at
// home.
//
// A rank sends, where its member has h of the H heads and k kv heads:
//
//   forward    (U-1) messages of its rows' Q and of K and V; N - U blocks of K and V of k heads; (U-1)
//              outputs and lse, in f32, of the others' rows and its h heads
//   backward   (U-1) messages of its rows' dO; N - U blocks again and N gradients of them in f32
//              (none with one group); (U-1) of dQ and of dK and dV in f32
//
// Groups of one rank are the flat ring (ring.h).
#include <fmt/format.h>

#include "core/ring/head_messages.h"
#include "core/ring/scheme_table.h"

namespace ringscope {

namespace {

// When the blocks of the group that is attended now are there and, by the block's place in the
// group, how the loop goes on.
struct Turn {
  std::vector<Completion> arrived, attended;
  explicit Turn(int size) : arrived(size), attended(size) {}

  // Bring the blocks of turn `turn` + 1, each into the buffer of turn `turn` - 1, and return them.
  // The blocks of that turn were attended, and were sent on when those of `turn` arrived.
  Turn start_next(HeadMessages& messages, const HeadsMember& me, int turn,
                  const Turn& before) const {
    Turn next(me.size());
    if (turn + 1 == me.groups()) return next;
    for (int k = 0; k < me.size(); ++k)
      next.arrived[k] =
          messages.to_next_group(turn, k, Payload::kv, me.kv(turn, me.on(k)),
                                 me.kv(turn + 1, me.on(k)), {arrived[k], before.attended[k]});
    return next;
  }
};

}  // namespace

void hybrid_forward(Communicator& comm, BlockBackend& backend, const RingProblem& problem,
                    RankMemory& mine) {
  const HeadsMember me(comm, problem, mine);
  HeadMessages messages(comm, mine, me, Pass::forward);
  const Index d = problem.params.head_dim;

  std::vector<Completion> queries_here(me.size());
  Turn now(me.size()), before(me.size());
  for (int k = 1; k < me.size(); ++k)
    queries_here[me.size() - k] = messages.queries_to_heads(k, mine.q.data(), d * me.storage());
  for (int k = 1; k < me.size(); ++k) now.arrived[me.size() - k] = messages.kv_to_heads(k);

  backend.use_heads(me.heads());
  for (int k = 0; k < me.size(); ++k) backend.begin(me.queries(k), me.softmax_state(k));
  for (int turn = 0; turn < me.groups(); ++turn) {
    Turn next = now.start_next(messages, me, turn, before);
    for (int k = 0; k < me.size(); ++k) {
      const StepInfo step = me.step(Pass::forward, turn, k);
      const KvBlock block{me.kv(turn, me.on(k)), me.rows(step.kv_owner)};
      for (int j = 0; j < me.size(); ++j) {
        if (turn == 0 && k == 0) backend.await(step, Payload::kv, queries_here[j]);
        now.attended[k] = backend.attend(step, me.region(j, step.kv_owner), me.queries(j), block,
                                         me.softmax_state(j), now.arrived[k]);
      }
    }
    before = std::move(now);
    now = std::move(next);
  }
  std::vector<Completion> finished(me.size());
  for (int k = 0; k < me.size(); ++k)
    finished[k] = backend.finish(me.queries(k), me.softmax_state(k));
  for (int k = 1; k < me.size(); ++k) {
    messages.queries_to_rows(k, mine.out_accum.data(), problem.params.value_dim(), finished[k]);
    finished[k] = messages.queries_to_rows(k, mine.lse.data(), 1, finished[k]);
  }
  const StepInfo last{Pass::forward, comm.world_size() - 1, comm.rank(), true};
  for (int k = 1; k < me.size(); ++k) backend.await(last, Payload::dkv, finished[k]);
}

KvGradient hybrid_backward(Communicator& comm, BlockBackend& backend, const RingProblem& problem,
                           RankMemory& mine) {
  const HeadsMember me(comm, problem, mine);
  HeadMessages messages(comm, mine, me, Pass::backward);
  const Index d = problem.params.head_dim, d_v = problem.params.value_dim();
  const StepInfo first = me.step(Pass::backward, 0, 0);

  // Q, and the blocks of this group, are still here from the forward pass.
  std::vector<Completion> dout_here(me.size());
  for (int k = 1; k < me.size(); ++k)
    dout_here[me.size() - k] = messages.queries_to_heads(k, mine.dout.data(), d_v * me.storage());
  backend.use_heads(me.heads());
  Turn now(me.size()), before(me.size());
  for (int k = 0; k < me.size(); ++k) {
    backend.await(first, Payload::kv, dout_here[k]);
    before.attended[k] = backend.begin_backward(me.queries(k), me.backward_state(k));
  }

  std::vector<Completion> sums(me.size());  // of all groups, at the end
  for (int turn = 0; turn < me.groups(); ++turn) {
    Turn next = now.start_next(messages, me, turn, before);
    for (int k = 0; k < me.size(); ++k) {
      const StepInfo step = me.step(Pass::backward, turn, k);
      const KvBlock block{me.kv(turn, me.on(k)), me.rows(step.kv_owner)};
      const KvGradient sum{me.sum(turn, me.on(k)), block.rows};
      const KvGradient one_share{me.share_to_add(), block.rows};
      Completion summed;
      for (int j = 0; j < me.size(); ++j) {
        now.attended[k] = summed =
            backend.attend_backward(step, me.region(j, step.kv_owner), me.queries(j), block,
                                    me.backward_state(j), j == 0 ? sum : one_share, now.arrived[k]);
        if (j > 0) summed = backend.add(step, sum, one_share, summed);
      }
      if (turn > 0)
        summed = backend.add(step, sum, {me.incoming(turn, me.on(k)), block.rows}, sums[k]);
      sums[k] = me.groups() == 1
                    ? summed
                    : messages.to_next_group(turn, k, Payload::dkv, sum.data,
                                             me.incoming(turn + 1, me.on(k)), {summed});
    }
    before = std::move(now);
    now = std::move(next);
  }

  const StepInfo last{Pass::backward, comm.world_size() - 1, comm.rank(), true};
  std::vector<Completion> finished(me.size());
  for (int k = 0; k < me.size(); ++k)
    finished[k] = backend.finish_backward(last, me.queries(k), me.backward_state(k), nullptr);
  for (int k = 1; k < me.size(); ++k) messages.queries_to_rows(k, mine.dq.data(), d, finished[k]);
  GradientsAtHome gradients(backend, problem);
  gradients.begin(me);
  backend.await(last, Payload::dkv, sums[0]);
  backend.await(last, Payload::dkv, gradients.take(me, messages, last, sums, finished.back()));
  return {mine.own_gradient(), me.rows(comm.rank())};
}

Extras extras_of_heads(const Problem& job) {
  const auto [group, slices, parts] = job.layout();
  const int groups = job.world_size / group;
  const int sets = slices > 1 ? 2 : 1;  // of this chunk of the heads and a neighbour's
  const Index shares = Index{group} * slices;
  Extras extras = extras_of_share(job.shape, shares);
  extras.q = extras.states = sets * (group - 1);
  extras.kv = sets * (group - 1) + group * buffers_of_turns(groups);
  extras.gradients = (groups == 1 ? sets * (group - 1) : 3 * group) + 1;
  // Of kv heads that several shares have, what waits to be added.
  if (slices > 1 && shares > job.shape.num_heads_kv) extras.gradients += group;
  return extras;
}

const Scheme kHybrid{
    .name = "hybrid",
    .numbers = ":U",
    .travels = Travels::heads,
    .loop =
        [](const RingProblem& problem) {
          return problem.head_shares() > 1 ? Loop{hybrid_forward, hybrid_backward}
                                           : Loop{ring_forward, ring_backward};
        },
    .accepted = [](const Problem& job) -> std::string {
      if (job.world_size % job.numbers[0] != 0)
        return fmt::format("hybrid:U with U one of {}", divisors_text(job.world_size));
      if (job.numbers[0] > job.shape.num_heads)
        return fmt::format("hybrid:U with U up to {}", job.shape.num_heads);
      return "";
    },
    .layout = [](int,
                 const SchemeNumbers& numbers) { return RankLayout{.heads_group = numbers[0]}; },
    .extras = [](const Problem& job) -> std::optional<Extras> {
      if (job.numbers[0] == 1) return std::nullopt;
      return extras_of_heads(job);
    },
    .multiple = [](const Problem& job) { return job.numbers[0]; }};

}  // namespace ringscope
