#include "core/training/all_reduce.h"

#include "core/base/error.h"
#include "core/problem/partition.h"
#include "core/ring/ring.h"

namespace ringscope {

void ring_all_reduce(Communicator& comm, Pass pass, Index size, Index stride, float* values,
                     float* incoming, const Combine& combine) {
  const RingSchedule ring{comm.rank(), comm.world_size()};
  const int round = ring.world_size - 1;
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
  for (int step = 0; step < 2 * round; ++step) {
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

void RingAllReduce::add_up(Communicator& comm, float* values) {
  ring_all_reduce(comm, Pass::backward, size_, 1, values, incoming_.data(),
                  [](float* sum, const float* share, Index count) {
                    for (Index i = 0; i < count; ++i) sum[i] += share[i];
                  });
}

Index RingAllReduce::bytes_sent(Index size, int world_size, int rank) {
  if (world_size == 1) return 0;
  // The first round leaves out the chunk that ends here, and the second leaves out the next rank's.
  const auto chunk_ending_at = [&](int at) {
    return balanced_chunk(size, world_size, (at + 1) % world_size).count;
  };
  return (2 * size - chunk_ending_at(rank) - chunk_ending_at((rank + 1) % world_size)) *
         static_cast<Index>(sizeof(float));
}

}  // namespace ringscope
