// One rank of a context group: its copy of all weights, its rows of the model, and its share in
// adding up the gradients. What goes over the wire in a training step is the ring's blocks, layer
// by layer and pass by pass, and one all-reduce of the gradients, in which the loss travels along;
// nothing else.
#pragma once

#include "core/layer/model.h"
#include "core/layer/ring_all_reduce.h"

namespace ringscope {

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
