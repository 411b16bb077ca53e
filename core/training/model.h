// A byte-level transformer on one rank's rows: embedding, layers, norm, head. A layer is
//
//   x += attention(norm(x))        x += mlp(norm(x))
//
// Everything but the ring inside attention works on single rows. So a rank's gradients of the weights are
// only a share: the shares of all ranks add up to the whole (replica.h). What it holds is what
// activation_parts() (core/tools/cost/model_step.h) counts, byte for byte.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "core/tools/cost/model_step.h"
#include "core/training/all_reduce.h"
#include "core/training/attention_layer.h"
#include "core/training/weights.h"

namespace ringscope {

// ---
// A model whose heads are split across a tensor group, as is the inside of its MLPs, while the sequence
// is split across a context group and a batch across data groups (rank_groups.h). A rank has the rows of
// its context index and, of a layer:
//
//   Q, K, V = x Wq, x Wk, x Wv         its heads: columns of the projections
//   O = attention(Q, K, V)             a ring over the context group, which has the same heads
//   y += sum over the group of O Wo    its heads: rows of the output projection
//
//   U = SiLU(x Wgate) * (x Wup)           its columns of both
//   y += sum over the group of U Wdown    the same rows of the last matrix
//
// So the first matrix of each part is split by columns and the last by rows: what is between them
// stays on the rank, and a group communicates once forward, to add up y, and once backward, to add
// up dx. Each sum has one row of the model's width for each of the rank's rows.
//
// Embedding, norms and head are on every rank of the group, which computes them to the same bits.
// The sum of gradients completes those of all weights, because the ranks that take part in it have
// the same part of them.

// Return the rank's place in its tensor group; null: it has everything.
inline TensorPlace place_in(const Communicator* group) {
  return group == nullptr ? TensorPlace{} : TensorPlace{group->rank(), group->world_size()};
}

// One rank's seat in its tensor group.
class TensorGroup {
 public:
  // `comm` runs over the group, and may be null. Sums have `values` values.
  TensorGroup(Communicator* comm, Index values, MemoryMeter* meter)
      : group_(comm), place_(place_in(comm)), sum_(values, place_.size, meter) {
    if (place_.size > 1) comm_.emplace(*comm);
  }

  const TensorPlace& place() const { return place_; }
  Index bytes_sent() const { return comm_ ? comm_->sent().bytes : 0; }  // by add_up()

  // Start a sum with the residual: on one rank alone, so that it is counted once.
  void begin_sum(const Buffer<float>& residual, float* values) const {
    if (place_.rank == 0)
      std::copy(residual.begin(), residual.end(), values);
    else
      std::fill_n(values, residual.size(), 0.0f);
  }
  // Replace the values by the sums of all ranks', the same bits on each. This and what follows throw
  // RunError when a peer fails.
  void add_up(float* values) {
    if (comm_) sum_.add_up(*comm_, values);
  }
  // Return the sum of all ranks' numbers, the same bits on each.
  double sum_of(double number) {
    if (!comm_) return number;
    std::vector<float> all(2 * static_cast<std::size_t>(place_.size));
    std::memcpy(all.data() + 2 * place_.rank, &number, sizeof number);
    unite(all);
    double sum = 0;
    for (int rank = 0; rank < place_.size; ++rank) {
      std::memcpy(&number, all.data() + 2 * rank, sizeof number);
      sum += number;
    }
    return sum;
  }
  // Complete the values, of which every rank has some and zeros elsewhere, to the bit. Ranks that have the
  // same value agree on it.
  void unite(std::vector<float>& values) {
    if (!comm_) return;
    const Index size = std::ssize(values);
    std::vector<float> incoming(values_of_a_reduction_hop(size, place_.size));
    ring_all_reduce(*group_, Pass::backward, size, 1, values.data(), incoming.data(),
                    [](float* into, const float* other, Index count) {
                      for (Index i = 0; i < count; ++i)
                        into[i] = std::bit_cast<float>(std::bit_cast<std::uint32_t>(into[i]) |
                                                       std::bit_cast<std::uint32_t>(other[i]));
                    });
  }

 private:
  Communicator* group_;
  TensorPlace place_;
  std::optional<WireCounter> comm_;
  RingAllReduce sum_;
};

// ---

// One rank's data for a training step: for each of its rows, the byte there and the one after it.
struct RankBytes {
  std::vector<std::uint8_t> inputs, targets;  // [batch, rows]
};

// Return the bytes on the rank's rows from `windows` [batch, seqlen + 1], the same on every rank.
RankBytes take_rows(const std::uint8_t* windows, Index batch, Index seqlen, const LocalRows& rows);

class Model {
 public:
  // `weights` and `ring` must outlive it. The ring has an attention_problem() of weights.shape, which
  // is the share of a rank of the group that `tensor` runs over, or the whole if it is null.
  // The MLP and the head compute the rank's rows in `chunks` pieces, one after the other; with more
  // than one, the MLP keeps nothing of its inside. Losses are the same bits. So are gradients, unless a
  // piece has fewer than kPackedRows rows: then a weight's gradient is added up in another order.
  Model(const ModelWeights& weights, ContextRing& ring, Index chunks = 1,
        Communicator* tensor = nullptr);

  // Return the sum of the losses of this rank's rows, in nats. Throw RunError when a peer fails.
  double loss(const ParameterStore& store, const RankBytes& bytes);
  // Return the same, and add to store.gradients() this rank's share of the gradients of `scale`
  // times the summed loss of all ranks. `scale` is not 0.
  double loss_and_gradients(ParameterStore& store, const RankBytes& bytes, double scale);

  // Return the rank's logits [tokens, vocab], or after loss_and_gradients() their gradients; of the
  // last piece, if there are several.
  const float* logits() const { return logits_.data(); }
  // Return K (rotated) and V of a layer's last forward pass, [batch, rows, num_heads_kv, head_dim] each.
  // The next call overwrites them.
  std::pair<const float*, const float*> recall_kv(Index layer) {
    layers_[layer].attention.recall_kv(shared_);
    return {shared_.keys.data(), shared_.values.data()};
  }
  TensorGroup& tensor() { return tensor_; }
  const TensorGroup& tensor() const { return tensor_; }
  // Return the FLOPs of all products with weights so far.
  double product_flops() const { return shared_.product.flops(); }

 private:
  struct Layer {
    LayerWeights weights;
    Buffer<float> input;                           // x
    Buffer<float> attention_input, attention_rms;  // norm(x), and 1 / rms of x
    Buffer<float> middle, mlp_input, mlp_rms;      // the same between attention and MLP
    AttentionLayer attention;
    MlpLayer mlp;
  };

  // Announce a part of `layer` to the recording, if there is one.
  void begins(ModelPart part, Pass pass, const Layer& layer) const {
    shared_.ring.begins(part, pass, &layer - layers_.data());
  }
  void run_layers(const ParameterStore& store, const RankBytes& bytes);
  // Return the loss of what is behind the layers. With `gradients`, add those of the head to it and
  // leave those of the head's input in shared_.normed_gradient.
  double run_head(const ParameterStore& store, const RankBytes& bytes, double scale,
                  ParameterStore* gradients);
  void norm(const ParameterStore& store, const Parameter& gain, const Buffer<float>& x,
            Buffer<float>& y, Buffer<float>& rms) const;
  // Add to dx the gradient that `dnormed` gives the norm's input.
  void norm_backward(ParameterStore& store, const Parameter& gain, const Buffer<float>& x,
                     const Buffer<float>& rms, const float* dnormed, float* dx) const;

  const ModelWeights& weights_;
  Index chunks_;
  Index tokens_;
  Workspace shared_;
  std::vector<MlpInside> insides_;  // of each layer; with several chunks of one piece
  std::vector<Layer> layers_;
  Buffer<float> stream_,
      stream_gradient_;  // [tokens, width]: x between the layers, and its gradient
  Buffer<float> head_input_, final_rms_;
  Buffer<float> logits_;
  TensorGroup tensor_;
};

}  // namespace ringscope
