// Your ring, unchanged, as the ring of `./ringscope run` and `train --backend my_ring`: these loops call
// your steps for one head after the other. Your hops are the project's own (core/ring/seams.h), so ranks
// are threads or, under mpirun, processes, and runs are verified and recorded as any other.
#include <algorithm>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/ring/schemes.h"
#include "lessons/my_ring/given.h"
#include RINGSCOPE_STEP_03
#include RINGSCOPE_STEP_04
#include RINGSCOPE_STEP_06
#include RINGSCOPE_STEP_07
#include RINGSCOPE_STEP_09

namespace my_ring {
namespace {

using ringscope::BlockBackend, ringscope::Communicator, ringscope::Index, ringscope::Pass,
    ringscope::Payload, ringscope::RankMemory, ringscope::RingProblem, ringscope::RunError;

// A rank during one pass over one head.
class RunningRank : public Rank {
 public:
  RunningRank(Communicator& comm, BlockBackend& backend, const RingProblem& problem, Pass pass)
      : Rank(comm.rank(), comm.world_size()),
        comm_(comm),
        backend_(backend),
        problem_(problem),
        pass_(pass) {}
  // After a failure others may still read what was on its way, so that is not freed.
  ~RunningRank() override {
    for (std::unique_ptr<Hop>& hop : hops_) (void)hop.release();
  }

  std::vector<long> positions_of(int owner) const {
    std::vector<long> positions;
    for (Index i = 0; i < problem_.rows(owner); ++i)
      positions.push_back(problem_.partition.rows_of(owner).global_position(i));
    return positions;
  }

  Matrix scores(const Queries& queries, Range rows, const Block& block, Range keys) override {
    if (began_ns_ == 0) {
      began_ns_ = ringscope::monotonic_ns();
      began_cpu_ns_ = ringscope::clock_ns(CLOCK_THREAD_CPUTIME_ID);
    }
    return scores_of(queries, rows, block, keys);
  }

  void start_hop(Message message) override {
    end_slice();
    const auto& [block, gradient, state] = message;
    auto hop = std::make_unique<Hop>();
    hop->payload = gradient.dk.empty() ? Payload::kv : Payload::dkv;
    const int step = sent_[hop->payload == Payload::dkv]++;
    hop->owner = owner_at(step + 1);
    for (const Matrix* matrix : {&block.k, &block.v, &gradient.dk, &gradient.dv})
      for (const Row& row : *matrix) hop->sent.insert(hop->sent.end(), row.begin(), row.end());
    hop->received.resize(2 * problem_.rows(hop->owner) * problem_.params.head_dim);
    hop->done = comm_.exchange({.pass = pass_,
                                .payload = hop->payload,
                                .step = step,
                                .send_owner = owner_at(step),
                                .send = hop->sent.data(),
                                .send_bytes = std::ssize(hop->sent) * Index{sizeof(double)},
                                .recv_owner = hop->owner,
                                .recv = hop->received.data(),
                                .recv_bytes = std::ssize(hop->received) * Index{sizeof(double)}},
                               {});
    hops_.push_back(std::move(hop));
  }

  Message finish_hop() override {
    end_slice();
    if (hops_.empty()) throw RunError("finish_hop() without start_hop()", number, step_);
    const Hop& hop = *hops_.front();
    const bool is_block = hop.payload == Payload::kv;
    backend_.await({pass_, std::min(step_ + is_block, ranks - 1), hop.owner, false}, hop.payload,
                   hop.done);
    Matrix halves[2];  // K and V, or dK and dV
    const Index rows = problem_.rows(hop.owner), d = problem_.params.head_dim;
    for (Index i = 0; i < 2 * rows; ++i)
      halves[i / rows].emplace_back(&hop.received[i * d], &hop.received[i * d] + d);
    Message message;
    if (is_block)
      message.block = {positions_of(hop.owner), halves[0], halves[1]};
    else
      message.gradient = {halves[0], halves[1]};
    step_ += is_block;
    hops_.pop_front();
    return message;
  }

  void send(int, const Message&) override { throw RunError("there is no send() here", number); }
  Message receive(int) override { throw RunError("there is no receive() here", number); }

  // Record what was computed since the last hop.
  void end_slice() {
    if (began_ns_ == 0) return;
    ringscope::BlockStats stats;
    if (std::exchange(counted_, step_) != step_)
      stats.pairs = problem_.region(number, owner_at(step_)).pairs();
    backend_.attended({pass_, step_, owner_at(step_), step_ + 1 == ranks}, stats, began_ns_,
                      ringscope::clock_ns(CLOCK_THREAD_CPUTIME_ID) - began_cpu_ns_);
    began_ns_ = 0;
  }

 private:
  struct Hop {
    Payload payload = Payload::kv;
    int owner = 0;  // of what comes
    std::vector<double> sent, received;
    ringscope::Completion done;
  };

  int owner_at(int step) const { return ringscope::RingSchedule{number, ranks}.owner(step); }

  Communicator& comm_;
  BlockBackend& backend_;
  const RingProblem& problem_;
  Pass pass_;
  std::deque<std::unique_ptr<Hop>> hops_;
  int step_ = 0, sent_[2] = {}, counted_ = -1;
  std::int64_t began_ns_ = 0, began_cpu_ns_ = 0;
};

struct Head {
  RunningRank& rank;
  Queries queries;
  Block block;
  Index row, kv;  // its first rows among those of all heads of Q, and of K
};

// Call run(head) for each head of each entry of the batch. A loop that is only counted
// counts as the project's `loop` does.
template <class Loop, class Run>
void for_each_head(Communicator& comm, BlockBackend& backend, const RingProblem& problem,
                   RankMemory& mine, Pass pass, const Loop& loop, const Run& run) {
  const ringscope::AttentionParams& params = problem.params;
  const Index rows = problem.rows(comm.rank()), d = params.head_dim;
  const auto matrix_at = [&](const std::byte* data, Index row) {
    Matrix matrix(rows, Row(d));
    ringscope::visit_dtype(params.dtype, [&]<class Stored>(Stored) {
      const Stored* from = reinterpret_cast<const Stored*>(data) + row * d;
      for (Row& to : matrix)
        for (double& x : to) x = double{ringscope::to_float(*from++)};
    });
    return matrix;
  };
  const std::byte* const k = mine.own_kv();
  const Index to_v = kv_values(params, rows) / d;  // from a row of K to that of V
  for (Index i = 0; i < params.batch * params.num_heads; ++i) {
    const Index head = i % params.num_heads, group = params.num_heads / params.num_heads_kv;
    const Index kv = i / group * rows;
    backend.use_heads({head, 1, head / group, 1});
    if (backend.is_idle()) {
      loop(comm, backend, problem, mine);
      continue;
    }
    RunningRank rank(comm, backend, problem, pass);
    const std::vector<long> at = rank.positions_of(rank.number);
    Queries queries{at, matrix_at(mine.q.data(), i * rows), {}};
    if (pass == Pass::backward) queries.dout = matrix_at(mine.dout.data(), i * rows);
    run(Head{rank, queries, {at, matrix_at(k, kv), matrix_at(k, kv + to_v)}, i * rows, kv});
    rank.end_slice();
  }
}

void forward(Communicator& comm, BlockBackend& backend, const RingProblem& problem,
             RankMemory& mine) {
  const auto run = [&](const Head& head) {
    Index row = head.row;
    const auto states = ring_forward(head.rank, head.queries, head.block, attend_causal);
    ringscope::require_returned("states", states.size(), problem.rows(comm.rank()));
    for (const State& state : states) {
      ringscope::require_returned("values of a row", state.out.size(), problem.params.head_dim);
      mine.row_max[row] = static_cast<float>(state.m);
      mine.row_sum[row] = state.l;
      mine.lse[row] = static_cast<float>(state.m + std::log(state.l));
      float* to = &mine.out_accum[row++ * problem.params.head_dim];
      for (const double x : state.out) *to++ = static_cast<float>(x / state.l);
    }
  };
  for_each_head(comm, backend, problem, mine, Pass::forward, ringscope::ring_forward, run);
}

ringscope::KvGradient backward(Communicator& comm, BlockBackend& backend,
                               const RingProblem& problem, RankMemory& mine) {
  const Index rows = problem.rows(comm.rank()), d = problem.params.head_dim;
  const Index values = kv_values(problem.params, rows);
  float* const home = mine.incoming_gradient();
  if (!backend.is_idle()) std::fill_n(home, 2 * values, 0.0f);
  const auto add_to = [&](float* to, const Matrix& matrix) {
    ringscope::require_returned("rows of a gradient", matrix.size(), rows);
    for (const Row& row : matrix) {
      ringscope::require_returned("values of a row", row.size(), d);
      for (const double x : row) *to++ += static_cast<float>(x);
    }
  };
  const auto run = [&](const Head& head) {
    std::vector<State> states;
    for (Index i = head.row; i < head.row + rows; ++i) {
      states.push_back({double{mine.row_max[i]}, mine.row_sum[i], Row(d)});
      for (Index x = 0; x < d; ++x)
        states.back().out[x] = mine.row_sum[i] * double{mine.out_accum[i * d + x]};
    }
    Matrix dq(rows, Row(d));
    const Gradient gradient = ring_backward(head.rank, head.queries, head.block, states, dq);
    std::fill_n(&mine.dq[head.row * d], rows * d, 0.0f);
    add_to(&mine.dq[head.row * d], dq);
    add_to(home + head.kv * d, gradient.dk);
    add_to(home + values + head.kv * d, gradient.dv);
  };
  for_each_head(comm, backend, problem, mine, Pass::backward, ringscope::ring_backward, run);
  return {home, rows};
}

[[maybe_unused]] const bool is_in_place = [] {
  ringscope::flat_ring() = {forward, backward};
  return true;
}();

}  // namespace
}  // namespace my_ring
