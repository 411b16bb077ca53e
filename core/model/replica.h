// The sum of the ranks' arrays, on every rank: of gradients, whose weights every rank holds.
//
// Two rounds of N-1 hops over the same neighbours as attention's. The array is cut into N chunks.
// In the first round (reduce-scatter) a chunk goes round and collects a rank's share at every stop;
// in the second (all-gather) the finished chunks go round once more. A rank sends all chunks but
// one in each round, 2 (N-1)/N of the array, however many ranks there are.
//
// A chunk is added up in the order of the ring, from the rank of the chunk's number on, and only
// there: all ranks get the same bits, every time. But the order is the number of ranks' business,
// so another world_size rounds otherwise.
#pragma once

#include "core/base/buffer.h"
#include "core/model/model.h"
#include "core/ring/seams.h"

namespace ringscope {

class RingAllReduce {
 public:
  // For arrays of `size` values.
  RingAllReduce(Index size, int world_size, MemoryMeter* meter);

  // values[i] becomes the sum of all ranks' values[i], which all have to call it. Throws RunError
  // that names rank and hop. Hops go as gradients (Payload::dkv) of owner: the chunk's number.
  void add_up(Communicator& comm, float* values);

  // Bytes that `rank` sends in it, by formula.
  static Index bytes_sent(Index size, int world_size, int rank);

 private:
  Index size_;
  Buffer<float> incoming_;  // a chunk
};

// ---
// One rank of a context group: its copy of all weights, its rows of the model, and its share in
// adding up the gradients. What goes over the wire in a training step is the ring's blocks, layer
// by layer and pass by pass, and one all-reduce of the gradients, in which the loss travels along;
// nothing else.

// Over all bytes that are predicted in a batch.
enum class LossKind { mean, sum };

class Replica {
 public:
  // The problem's params are attention_params(weights.shape, batch); `weights` and `comm` must
  // outlive it. All ranks give the same seed. Throws as ContextRing.
  Replica(const ModelWeights& weights, const RingProblem& problem, Communicator& comm,
          std::uint64_t seed, LossKind kind = LossKind::mean, WorkPulse* pulse = nullptr);

  // For `windows`, [batch, seqlen + 1] bytes, the same on every rank: the loss of the whole batch,
  // in nats; store().gradients() become its gradients. Both are the same bits on every rank. Throws
  // RunError when a peer fails.
  double loss_and_gradients(const std::uint8_t* windows);

  ParameterStore& store() { return store_; }
  const ParameterStore& store() const { return store_; }
  Model& model() { return model_; }
  ContextRing& ring() { return ring_; }
  int rank() const { return rank_; }

 private:
  Communicator& comm_;
  int rank_;
  ContextRing ring_;
  ParameterStore store_;
  Model model_;
  RingAllReduce reduction_;
  double scale_;
};

}  // namespace ringscope
