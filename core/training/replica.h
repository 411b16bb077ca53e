// One rank's replica of a model, or of its part of one: its weights, its rows of the model, and its
// share of the gradients. A training step sends the ring's blocks, the sums of a tensor group
// (model.h), and one all-reduce of the gradients, in which the loss travels along. The
// update is AdamW's (weights.h).
#pragma once

#include "core/training/model.h"

namespace ringscope {

// The rank's groups besides its context group. The tensor group is null where a rank has all heads; the
// ranks whose gradients are added up, in the order of kGradientAxes, are the context group if null.
struct OtherGroups {
  Communicator* tensor = nullptr;
  Communicator* gradients = nullptr;
};

// How the loss is taken over all bytes that are predicted in a batch.
enum class LossKind { mean, sum };

class Replica {
 public:
  // `problem` is an attention_problem() of weights.shape, of the sequences that the context group has.
  // `weights` and the communicators must outlive it. All ranks give the same seed. `chunks` is Model's.
  // Throw as ContextRing does.
  Replica(const ModelWeights& weights, const Problem& problem, Communicator& comm,
          std::uint64_t seed, LossKind kind = LossKind::mean, WorkPulse* pulse = nullptr,
          Index chunks = 1, const OtherGroups& others = {});

  // Return the loss of the whole batch, in nats, and set store().gradients() to its gradients.
  // `windows` are [batch, seqlen + 1] bytes, the same on every rank of the context group. The results
  // are the same bits on every rank. Throw RunError when a peer fails.
  double loss_and_gradients(const std::uint8_t* windows);
  // Return the length of all of those gradients, also the same bits. Throw RunError when a peer of the
  // tensor group fails.
  double gradient_length();

  // Return the bytes that this rank has sent for sums: of gradients, and over its tensor group.
  Index reduction_bytes() const { return reduction_comm_.sent().bytes; }
  Index tensor_bytes() const { return model_.tensor().bytes_sent(); }

  ParameterStore& store() { return store_; }
  const ParameterStore& store() const { return store_; }
  Model& model() { return model_; }
  ContextRing& ring() { return ring_; }
  // Return the rank's place among those whose gradients are added up, also when they are gone.
  int rank() const { return reduction_comm_.rank(); }

 private:
  const ParameterLayout& layout_;
  WireCounter reduction_comm_;
  ContextRing ring_;
  ParameterStore store_;
  Model model_;
  RingAllReduce reduction_;
  double scale_;
};

}  // namespace ringscope
