// One rank's replica of a model, and the all-reduce that adds up the gradients of all replicas. The
// weights' update is not here (AdamW in weights.h).
//
// The all-reduce takes two rounds of N-1 hops over the same neighbours as attention's. The array is
// cut into N chunks. In the first round (reduce-scatter) a chunk collects one rank's share at every
// stop; in the second (all-gather) the finished chunks go around once more. In each round a rank
// sends all chunks but one, 2 (N-1)/N of the array in total, however many ranks there are.
//
// Each chunk is added up only once, in ring order from the rank of the chunk's number on, so all
// ranks get the same bits every time. Another world_size uses another order and rounds otherwise.
#pragma once

#include <functional>

#include "core/base/buffer.h"
#include "core/model/model.h"
#include "core/ring/wire_counter.h"

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

// ---
// One rank of a context group: its copy of all weights, its rows of the model, and its share of the
// gradients. A training step sends only the ring's blocks, layer by layer and pass by pass, and one
// all-reduce of the gradients, in which the loss travels along.

// How the loss is taken over all bytes that are predicted in a batch.
enum class LossKind { mean, sum };

class Replica {
 public:
  // `problem` is an attention_problem() of weights.shape. `weights` and `comm` must outlive it. All
  // ranks give the same seed. `chunks` is Model's. Throw as ContextRing does.
  Replica(const ModelWeights& weights, const Problem& problem, Communicator& comm,
          std::uint64_t seed, LossKind kind = LossKind::mean, WorkPulse* pulse = nullptr,
          Index chunks = 1);

  // Return the loss of the whole batch, in nats, and set store().gradients() to its gradients.
  // `windows` are [batch, seqlen + 1] bytes, the same on every rank. The results are the same bits on
  // every rank. Throw RunError when a peer fails.
  double loss_and_gradients(const std::uint8_t* windows);
  // Return the length of all of those gradients, also the same bits.
  double gradient_length() const;

  // Return the bytes that this rank has sent for sums of gradients.
  Index reduction_bytes() const { return reduction_comm_.sent().bytes; }

  ParameterStore& store() { return store_; }
  const ParameterStore& store() const { return store_; }
  Model& model() { return model_; }
  ContextRing& ring() { return ring_; }
  int rank() const { return reduction_comm_.rank(); }  // also when `comm` is gone

 private:
  WireCounter reduction_comm_;
  ContextRing ring_;
  ParameterStore store_;
  Model model_;
  RingAllReduce reduction_;
  double scale_;
};

}  // namespace ringscope
