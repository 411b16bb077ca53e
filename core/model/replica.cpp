#include "core/model/replica.h"

#include <cmath>

#include "core/base/error.h"
#include "core/problem/partition.h"
#include "core/ring/ring.h"

namespace ringscope {

void ring_all_reduce(Communicator& comm, Pass pass, Index size, Index stride, float* values,
                     float* incoming, const Combine& combine, Rounds rounds) {
  const RingSchedule ring{comm.rank(), comm.world_size()};
  const int round = ring.world_size - 1;
  const int first = rounds == Rounds::all_gather ? round : 0;
  const int last = rounds == Rounds::reduce_scatter ? round : 2 * round;
  const Index largest = max_of(ceil_div(size, ring.world_size), 1);
  const Index room = max_of(values_of_a_reduction_hop(size, ring.world_size), 1);
  const auto exchange = [&](int step, const Run& out, const Run& in, float* to) {
    const Index bytes = stride * static_cast<Index>(sizeof(float));
    with_step_in_errors(ring.rank, step, [&] {
      wait_for(
          comm.exchange({pass, Payload::dkv, step, ring.owner(step), values + out.first * stride,
                         out.count * bytes, ring.owner(step + 1), to, in.count * bytes},
                        {}));
    });
  };
  // The sum of chunk k begins at rank k, and is complete at the rank before it. In the second round
  // the complete chunks go around once more. A large chunk is summed up piece by piece.
  for (int step = first; step < last; ++step) {
    const Index most = step < round ? room : largest;
    for (Index at = 0; at < largest; at += most) {
      const auto piece_of = [&](int chunk) {
        const Run whole = balanced_chunk(size, ring.world_size, chunk);
        return Run{whole.first + at, 1, clamp(whole.count - at, 0, most)};
      };
      const Run out = piece_of(ring.owner(step)), in = piece_of(ring.owner(step + 1));
      float* const home = values + in.first * stride;
      exchange(step, out, in, step < round ? incoming : home);
      if (step < round) combine(home, incoming, in.count);
    }
  }
}

RingAllReduce::RingAllReduce(Index size, int world_size, MemoryMeter* meter)
    : size_(size), incoming_(meter, values_of_a_reduction_hop(size, world_size)) {}

void RingAllReduce::add_up(Communicator& comm, float* values, Rounds rounds) {
  ring_all_reduce(
      comm, Pass::backward, size_, 1, values, incoming_.data(),
      [](float* sum, const float* share, Index count) {
        for (Index i = 0; i < count; ++i) sum[i] += share[i];
      },
      rounds);
}

Index RingAllReduce::bytes_sent(Index size, int world_size, int rank) {
  if (world_size == 1) return 0;
  // The first round leaves out the chunk that ends here, and the second leaves out the next rank's.
  return (2 * size - slice(size, world_size, rank).count -
          slice(size, world_size, (rank + 1) % world_size).count) *
         static_cast<Index>(sizeof(float));
}

Replica::Replica(const ModelWeights& weights, const Problem& problem, Communicator& comm,
                 std::uint64_t seed, LossKind kind, WorkPulse* pulse, const ModelMemory& memory)
    : reduction_comm_(comm),
      rank_(comm.rank()),
      sharded_(memory.zero_stage > 0 && comm.world_size() > 1),
      ring_(problem, comm, pulse),
      store_(weights.layout, seed, &ring_.meter()),
      model_(weights, ring_, memory),
      reduction_(store_.gradients_and_loss(), comm.world_size(), &ring_.meter()),
      sums_(&ring_.meter(), comm.world_size()),
      scale_(kind == LossKind::sum
                 ? 1
                 : 1 / static_cast<double>(problem.shape.batch * problem.shape.seqlen)) {}

Run Replica::chunk(int k) const {
  Run run = balanced_chunk(store_.gradients_and_loss(), reduction_comm_.world_size(), k);
  run.count = clamp(store_.size() - run.first, 0, run.count);  // without the loss
  return run;
}

Run Replica::slice() const {
  return sharded_ ? chunk((rank_ + 1) % reduction_comm_.world_size()) : Run{0, 1, store_.size()};
}

double Replica::loss_and_gradients(const std::uint8_t* windows) {
  const AttentionShape& shape = ring_.ring_problem().params;
  const RankBytes bytes = take_rows(windows, shape.batch, shape.seqlen, ring_.local_rows());
  store_.clear_gradients();
  const double loss = model_.loss_and_gradients(store_, bytes, scale_);
  store_.loss() = static_cast<float>(scale_ * loss);
  ring_.begins(ModelPart::reduction);
  // The shares add up for either kind of loss, because scale_ is over the rows of all ranks.
  reduction_.add_up(reduction_comm_, store_.gradients(),
                    sharded_ ? Rounds::reduce_scatter : Rounds::both);
  const int n = reduction_comm_.world_size();
  for (int k = 0; k < n; ++k)
    if (!sharded_ || k == (rank_ + 1) % n) sums_[k] = {store_.squares(chunk(k)), store_.loss()};
  if (sharded_)
    ring_all_reduce(reduction_comm_, Pass::backward, n, sizeof(ChunkSum) / sizeof(float),
                    reinterpret_cast<float*>(sums_.data()), nullptr, {}, Rounds::all_gather);
  return sums_[min_of(n, store_.gradients_and_loss()) - 1].loss;  // the last chunk that isn't empty
}

double Replica::gradient_length() const {
  double squares = 0;
  for (const ChunkSum& sum : sums_) squares += sum.squares;
  return std::sqrt(squares);
}

void Replica::share(float* values) {
  if (sharded_) reduction_.add_up(reduction_comm_, values, Rounds::all_gather);
}

}  // namespace ringscope
