#include "core/model/replica.h"
#include "core/base/error.h"

#include "core/problem/partition.h"
#include "core/ring/ring.h"

namespace ringscope {

void ring_all_reduce(Communicator& comm, Pass pass, Index size, Index stride, float* values,
                     float* incoming, const Combine& combine) {
  const RingSchedule ring{comm.rank(), comm.world_size()};
  const Index bytes = stride * static_cast<Index>(sizeof(float));
  const int round = ring.world_size - 1;
  // [collect
  // The sum of chunk k begins at rank k, and is complete at the rank before it. In the second round
  // the complete chunks go around once more.
  for (int step = 0; step < 2 * round; ++step) {
    const int out = ring.owner(step), in = ring.owner(step + 1);
    const Run sent = balanced_chunk(size, ring.world_size, out);
    const Run received = balanced_chunk(size, ring.world_size, in);
    float* const home = values + received.first * stride;
    float* const to = step < round ? incoming : home;
    with_step_in_errors(ring.rank, step, [&] {
      wait_for(comm.exchange({pass, Payload::dkv, step, out, values + sent.first * stride,
                              sent.count * bytes, in, to, received.count * bytes},
                             {}));
    });
    if (step < round) combine(home, incoming, received.count);
  }
  // collect]
}

RingAllReduce::RingAllReduce(Index size, int world_size, MemoryMeter* meter)
    : size_(size), incoming_(meter, world_size == 1 ? 0 : ceil_div(size, world_size)) {}

void RingAllReduce::add_up(Communicator& comm, float* values) {
  ring_all_reduce(comm, Pass::backward, size_, 1, values, incoming_.data(),
                  [](float* sum, const float* share, Index count) {
                    for (Index i = 0; i < count; ++i) sum[i] += share[i];
                  });
}

Index RingAllReduce::bytes_sent(Index size, int world_size, int rank) {
  if (world_size == 1) return 0;
  const auto values = [&](int k) { return balanced_chunk(size, world_size, k).count; };
  // The first round leaves out the chunk that ends here, and the second leaves out the next rank's.
  const int whole_here = (rank + 1) % world_size, whole_next = (rank + 2) % world_size;
  return (2 * size - values(whole_here) - values(whole_next)) * static_cast<Index>(sizeof(float));
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
