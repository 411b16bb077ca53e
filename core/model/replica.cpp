#include "core/model/replica.h"
#include "core/base/error.h"

#include "core/problem/partition.h"
#include "core/ring/ring.h"

namespace ringscope {

namespace {

constexpr Index kBytes = sizeof(float);

// Do one hop, and return when it is over.
void hop(Communicator& comm, int step, int send_chunk, const float* send, Index send_size,
         int recv_chunk, float* recv, Index recv_size) {
  with_step_in_errors(comm.rank(), step, [&] {
    wait_for(comm.exchange({Pass::backward, Payload::dkv, step, send_chunk, send,
                            send_size * kBytes, recv_chunk, recv, recv_size * kBytes},
                           {}));
  });
}

}  // namespace

RingAllReduce::RingAllReduce(Index size, int world_size, MemoryMeter* meter)
    : size_(size), incoming_(meter, world_size == 1 ? 0 : ceil_div(size, world_size)) {}

void RingAllReduce::add_up(Communicator& comm, float* values) {
  const RingSchedule ring{comm.rank(), comm.world_size()};
  const auto chunk = [&](int k) { return balanced_chunk(size_, ring.world_size, k); };
  const int hops = ring.world_size - 1;
  // [collect
  // The sum of chunk k begins at rank k, and is complete at the rank before it.
  for (int step = 0; step < hops; ++step) {
    const int out = ring.owner(step), in = ring.owner(step + 1);
    const Run sent = chunk(out), received = chunk(in);
    hop(comm, step, out, values + sent.first, sent.count, in, incoming_.data(), received.count);
    for (Index i = 0; i < received.count; ++i) values[received.first + i] += incoming_[i];
  }
  // collect]
  for (int step = hops; step < 2 * hops; ++step) {
    const int out = ring.owner(step), in = ring.owner(step + 1);
    const Run sent = chunk(out), received = chunk(in);
    hop(comm, step, out, values + sent.first, sent.count, in, values + received.first,
        received.count);
  }
}

Index RingAllReduce::bytes_sent(Index size, int world_size, int rank) {
  if (world_size == 1) return 0;
  const auto bytes = [&](int k) { return balanced_chunk(size, world_size, k).count * kBytes; };
  // The first round leaves out the chunk that ends here, and the second leaves out the next rank's.
  const int whole_here = (rank + 1) % world_size, whole_next = (rank + 2) % world_size;
  return 2 * size * kBytes - bytes(whole_here) - bytes(whole_next);
}

Replica::Replica(const ModelWeights& weights, const Problem& problem, Communicator& comm,
                 std::uint64_t seed, LossKind kind, WorkPulse* pulse)
    : comm_(comm),
      rank_(comm.rank()),
      ring_(problem, comm, pulse),
      store_(weights.layout, seed, &ring_.meter()),
      model_(weights, ring_),
      reduction_(store_.gradients_and_loss(), comm.world_size(), &ring_.meter()),
      scale_(kind == LossKind::sum
                 ? 1
                 : 1 / static_cast<double>(problem.shape.batch * problem.shape.seqlen)) {}

double Replica::loss_and_gradients(const std::uint8_t* windows) {
  const AttentionShape& shape = ring_.ring_problem().params;
  const RankBytes bytes = take_rows(windows, shape.batch, shape.seqlen, ring_.local_rows());
  // [step
  store_.clear_gradients();
  const double loss = model_.loss_and_gradients(store_, bytes, scale_);
  store_.loss() = static_cast<float>(scale_ * loss);
  ring_.begins(ModelPart::reduction);
  // The shares add up for either kind of loss, because scale_ is over the rows of all ranks.
  reduction_.add_up(comm_, store_.gradients());
  // step]
  return store_.loss();
}

}  // namespace ringscope
