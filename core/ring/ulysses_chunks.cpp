// Ulysses in chunks of the heads (UPipe, arXiv:2602.21196): each chunk goes through the two all-to-alls
// of Ulysses (hybrid.cpp) by itself. The next one comes, and the last one's results go home, while this
// one is attended, so a rank holds two chunks of what comes from others: of C, 2/C of what Ulysses holds,
// 75 % less at 8 and 87.5 % less at 16. (UPipe, which overlaps less, holds one.)
//
// Later chunks take over the places, so unfinished states go home, where they are finished in the end,
// and the backward pass brings Q, K and V again. Of each chunk a rank sends
//
//   forward    (N-1) messages of its rows' Q and of K and V; (N-1) states (f32) of others' rows
//   backward   (N-1) of its rows' Q, dO, row statistics and delta and of K and V; (N-1) of dQ and of dK
//              and dV (f32), which are added at home where members outnumber the kv heads of a chunk
#include <fmt/format.h>

#include <deque>

#include "core/ring/head_messages.h"
#include "core/ring/scheme_table.h"

namespace ringscope {
namespace {

// A chunk of the heads in one pass: this rank's share of it, and its messages.
class Chunk {
 public:
  Chunk(Communicator& comm, const RingProblem& problem, RankMemory& mine, Pass pass, int number)
      : me(comm, problem, mine, number),
        messages(comm, mine, me, pass),
        mine_(mine),
        pass_(pass),
        shape_(problem.params) {}

  // Bring the queries and blocks of the other ranks, once `free` has happened.
  void bring(const Completion& free) {
    for (int k = 1; k < me.size(); ++k) {
      messages.queries_to_heads(k, mine_.q.data(), shape_.head_dim * me.storage(), free);
      if (pass_ == Pass::backward) {
        messages.queries_to_heads(k, mine_.dout.data(), shape_.value_dim() * me.storage(), free);
        messages.queries_to_heads(k, mine_.row_max.data(), sizeof(float), free);
        messages.queries_to_heads(k, mine_.row_sum.data(), sizeof(double), free);
        messages.queries_to_heads(k, mine_.delta.data(), sizeof(float), free);
      }
      here = messages.kv_to_heads(k, free);
    }
  }
  // Return states, or dQ, to the ranks whose rows they are, once `ready` has happened.
  Completion send_home(const Completion& ready) {
    Completion home;
    for (int k = 1; k < me.size(); ++k) {
      if (pass_ == Pass::backward) {
        home = messages.queries_to_rows(k, mine_.dq.data(), shape_.head_dim, ready);
        continue;
      }
      messages.queries_to_rows(k, mine_.row_max.data(), 1, ready);
      messages.queries_to_rows(k, mine_.row_sum.data(), 1, ready);
      home = messages.queries_to_rows(k, mine_.out_accum.data(), shape_.value_dim(), ready);
    }
    return home;
  }
  KvBlock block(int k) const { return {me.kv(0, me.on(k)), me.rows(me.rank_of(me.on(k)))}; }

  const HeadsMember me;
  HeadMessages messages;
  Completion here;  // the last arrival, which is that of all

 private:
  RankMemory& mine_;
  Pass pass_;
  const AttentionShape& shape_;
};

std::deque<Chunk> chunks_of(Communicator& comm, const RingProblem& problem, RankMemory& mine,
                            Pass pass) {
  std::deque<Chunk> chunks;
  for (int number = 0; number < problem.layout().slices; ++number)
    chunks.emplace_back(comm, problem, mine, pass, number);
  return chunks;
}

void ulysses_chunks_forward(Communicator& comm, BlockBackend& backend, const RingProblem& problem,
                            RankMemory& mine) {
  std::deque<Chunk> chunks = chunks_of(comm, problem, mine, Pass::forward);
  Completion home;  // the results of the chunk before
  chunks[0].bring(home);
  for (std::size_t c = 0; c < chunks.size(); ++c) {
    Chunk& chunk = chunks[c];
    const HeadsMember& me = chunk.me;
    if (c + 1 < chunks.size()) chunks[c + 1].bring(home);
    backend.use_heads(me.heads());
    backend.await(me.step(Pass::forward, 0, 0), Payload::kv, chunk.here);
    for (int k = 0; k < me.size(); ++k) backend.begin(me.queries(k), me.softmax_state(k));
    Completion attended;
    for (int k = 0; k < me.size(); ++k) {
      const StepInfo step = me.step(Pass::forward, 0, k);
      for (int j = 0; j < me.size(); ++j)
        attended = backend.attend(step, me.region(j, step.kv_owner), me.queries(j), chunk.block(k),
                                  me.softmax_state(j), nullptr);
    }
    home = chunk.send_home(attended);
  }
  const StepInfo last{Pass::forward, comm.world_size() - 1, comm.rank(), true};
  backend.await(last, Payload::dkv, home);
  const Index rows = problem.query_rows(comm.rank());
  for (int share = 0; share < problem.head_shares(); ++share) {  // as they lie
    const HeadShare heads = problem.heads_of(share);
    const Index at = problem.params.batch * heads.first * rows;
    backend.use_heads(heads);
    backend.finish(mine.query_block(at, rows), mine.softmax_state(at));
  }
}

KvGradient ulysses_chunks_backward(Communicator& comm, BlockBackend& backend,
                                   const RingProblem& problem, RankMemory& mine) {
  std::deque<Chunk> chunks = chunks_of(comm, problem, mine, Pass::backward);
  const HeadShare all = share_of_heads(problem.params, 1, 0);
  const StepInfo last{Pass::backward, comm.world_size() - 1, comm.rank(), true};
  GradientsAtHome gradients(backend, problem);
  backend.use_heads(all);
  Completion home = backend.begin_backward(mine.query_block(), mine.backward_state());
  chunks[0].bring(home);
  for (std::size_t c = 0; c < chunks.size(); ++c) {
    Chunk& chunk = chunks[c];
    const HeadsMember& me = chunk.me;
    if (c + 1 < chunks.size()) chunks[c + 1].bring(home);
    backend.use_heads(me.heads());
    backend.await(me.step(Pass::backward, 0, 0), Payload::kv, chunk.here);
    const auto state = [&](int j) {
      BackwardState of_rows = me.backward_state(j);
      if (j > 0) of_rows.out = nullptr;  // stays with its owner: delta came along
      return of_rows;
    };
    for (int j = 1; j < me.size(); ++j) backend.begin_backward(me.queries(j), state(j));
    float* const own_sum = gradients.begin(me);
    std::vector<Completion> sums(static_cast<std::size_t>(me.size()));
    for (int k = 0; k < me.size(); ++k) {
      const StepInfo step = me.step(Pass::backward, 0, k);
      const KvGradient sum{k == 0 ? own_sum : me.sum(0, me.on(k)), chunk.block(k).rows};
      const KvGradient one_share{me.share_to_add(), sum.rows};
      for (int j = 0; j < me.size(); ++j) {
        sums[k] =
            backend.attend_backward(step, me.region(j, step.kv_owner), me.queries(j),
                                    chunk.block(k), state(j), j == 0 ? sum : one_share, nullptr);
        if (j > 0) sums[k] = backend.add(step, sum, one_share, sums[k]);
      }
    }
    chunk.send_home(sums.back());
    home = gradients.take(me, chunk.messages, last, sums, home);
  }
  gradients.add(last, home);
  backend.use_heads(all);
  backend.finish_backward(last, mine.query_block(), mine.backward_state(), home);
  return {mine.own_gradient(), problem.rows(comm.rank())};
}

}  // namespace

const Scheme kUlysses{
    .name = "ulysses",
    .numbers = "[:CHUNKS]",
    .course = Course::heads,
    .links = Links::to_all,
    .travels = Travels::heads,
    .loop =
        [](const RingProblem& problem) {
          return problem.layout().slices > 1 ? Loop{ulysses_chunks_forward, ulysses_chunks_backward}
                                             : Loop{hybrid_forward, hybrid_backward};
        },
    .accepted = [](const Problem& job) -> std::string {
      const Index n = job.world_size, heads = job.shape.num_heads;
      if (n > heads) return fmt::format("1 to {} ranks", heads);
      if (job.numbers[0] > heads / n) return fmt::format("ulysses:1 to ulysses:{}", heads / n);
      return "";
    },
    .layout =
        [](int world_size, const SchemeNumbers& numbers) {
          return RankLayout{.heads_group = world_size, .slices = numbers[0]};
        },
    .extras = [](const Problem& job) -> std::optional<Extras> { return extras_of_heads(job); }};

}  // namespace ringscope
