// The all-reduce that adds up the gradients of all replicas, the activations of a tensor group, and what
// else ranks have shares of.
//
// It takes two rounds of N-1 hops over the same neighbours as attention's. The array is cut into N
// chunks. In the first round (reduce-scatter) a chunk collects one rank's share at every stop; in
// the second (all-gather) the finished chunks go around once more. Each round sends all of a rank's
// chunks but one.
//
// Each chunk is added up only once, in ring order from the rank of its number on, so all ranks get
// the same bits. Another world_size uses another order and rounds otherwise.
#pragma once

#include <functional>

#include "core/base/buffer.h"
#include "core/ring/wire_counter.h"
#include "core/tools/cost/model_step.h"

namespace ringscope {

// Combines `count` items at `into` with another rank's items.
using Combine = std::function<void(float* into, const float* other, Index count)>;

// Replace `size` items of `stride` values each by all ranks' items, combined; all ranks call it.
// `incoming` has room for as many items as one chunk or, if that is less, as
// values_of_a_reduction_hop() says. A hop goes as `pass` and Payload::dkv, with the chunk's number
// as owner. Throw RunError that names rank and hop.
void ring_all_reduce(Communicator& comm, Pass pass, Index size, Index stride, float* values,
                     float* incoming, const Combine& combine);

class RingAllReduce {
 public:
  // Prepare for arrays of `size` values.
  RingAllReduce(Index size, int world_size, MemoryMeter* meter)
      : size_(size), incoming_(meter, values_of_a_reduction_hop(size, world_size)) {}

  // Replace values[i] by the sum of all ranks' values[i], as above.
  void add_up(Communicator& comm, float* values);

  // Return the bytes that `rank` sends in add_up(), by formula.
  static Index bytes_sent(Index size, int world_size, int rank);

 private:
  Index size_;
  Buffer<float> incoming_;  // a hop's values
};

}  // namespace ringscope
