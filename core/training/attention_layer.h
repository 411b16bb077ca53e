// Computes the two parts of a layer, attention and MLP, on one rank's rows, in buffers that they
// share.
#pragma once

#include <functional>

#include "core/ring/cpu_backend.h"
#include "core/ring/ring.h"
#include "core/trace/event.h"
#include "core/training/layers.h"
#include "core/training/matrix_product.h"
#include "core/training/weights.h"

namespace ringscope {

// ---
// One rank's place in the attention ring, which lasts as long as its model. All layers and all
// training steps share its memory, backend and communicator, because only one attention is computed
// at a time. What a layer needs between its forward and its backward pass, the layer keeps itself.

// Seconds spent inside the passes, including waits for peers.
struct AttentionSeconds {
  double forward = 0, backward = 0;
};

class ContextRing {
 public:
  // Prepare both passes of attention on the CPU for `problem`, which is that of all layers
  // (attention_problem()). `comm` and `pulse`, which may be null, must outlive it. Throw
  // std::invalid_argument when the world_size of `problem` is not that of `comm`, and std::bad_alloc.
  ContextRing(const Problem& problem, Communicator& comm, WorkPulse* pulse = nullptr);
  ContextRing(const ContextRing&) = delete;
  ContextRing& operator=(const ContextRing&) = delete;

  const Problem& problem() const { return problem_; }
  const RingProblem& ring_problem() const { return ring_problem_; }
  int rank() const { return comm_->rank(); }
  LocalRows local_rows() const { return ring_problem_.partition.rows_of(rank()); }
  // Return the number of rows over all sequences of the batch.
  Index tokens() const { return problem_.shape.batch * local_rows().size(); }
  MemoryMeter& meter() { return memory_.meter(); }
  // Return the pulse for the rank's other work on its rows; may be null.
  WorkPulse* pulse() const { return pulse_; }

  // Run both passes over these from now on. They may be the ring's own ones with a recording around
  // them, and must outlive the passes.
  void run_over(Communicator& comm, BlockBackend& backend);
  void run_over_own();
  BlockBackend& own_backend() { return backend_; }
  Communicator& own_communicator() { return own_comm_; }

  // Called on the rank's thread when a part of a training step begins, which ends the part before
  // it. `layer` is -1 for a part outside the layers. An empty listener ends the calls.
  using PartListener = std::function<void(ModelPart part, Pass pass, Index layer)>;
  void listen(PartListener listener) { listener_ = std::move(listener); }
  // Announce a part of the work on the ring's rows. Throw RunError after pulse->stop().
  void begins(ModelPart part, Pass pass = Pass::forward, Index layer = -1) const {
    if (pulse_ != nullptr) pulse_->tick();
    if (listener_) listener_(part, pass, layer);
  }

  // RankMemory's buffers, [batch, heads, rows, head_dim]; q, kv (K, then V) and dout are in the
  // storage type. forward() reads q and kv and writes out, row_max and row_sum. backward() reads
  // all of these and dout, writes dq, and returns dK followed by dV. Both finish before they
  // return, and throw RunError.
  std::byte* q() { return memory_.q.data(); }
  std::byte* kv() { return memory_.own_kv(); }
  std::byte* dout() { return memory_.dout.data(); }
  float* out() { return memory_.out_accum.data(); }
  float* row_max() { return memory_.row_max.data(); }
  double* row_sum() { return memory_.row_sum.data(); }
  const float* dq() const { return memory_.dq.data(); }

  // Call f(rows, at, size) for each part of K, of V or of their gradients: which of the rank's rows they
  // are, how many values of each of the two are in the parts before it, and how many it has of each.
  // There is one part unless the ring sends only what is needed (core/ring/needed_ring.cpp).
  template <class F>
  void for_parts(const F& f) const {
    const auto part = [&](const Run& rows, Index at) {
      f(rows, kv_values(problem_.shape, at), kv_values(problem_.shape, rows.count));
    };
    if (ring_problem_.parted == nullptr) return part({0, 1, local_rows().size()}, 0);
    for (const BlockPart& its : ring_problem_.parted->of_owner[rank()])
      part({its.first, its.step, its.size()}, its.at);
  }

  void forward();
  KvGradient backward();
  // Return the time of all passes so far, and when the last one was, by monotonic_ns().
  const AttentionSeconds& seconds() const { return seconds_; }
  std::int64_t pass_begin_ns() const { return begin_ns_; }
  std::int64_t pass_end_ns() const { return end_ns_; }

 private:
  Problem problem_;
  RingProblem ring_problem_;  // points into problem_
  Communicator& own_comm_;
  WorkPulse* pulse_;
  RankMemory memory_;
  CpuBackend backend_;
  Communicator* comm_;
  BlockBackend* block_backend_;
  AttentionSeconds seconds_;
  std::int64_t begin_ns_ = 0, end_ns_ = 0;
  PartListener listener_;
};

// ---

// What the layers of a rank share, because they work one after the other: the ring, the rotations
// of its rows, and buffers. Nothing in the buffers lasts from one call to the next.
struct Workspace {
  // `its_ring` must outlive it and have the model's heads.
  // The MLP works on its rows in pieces of `its_piece`. The head uses the copy of a product, too.
  Workspace(const ModelShape& shape, ContextRing& its_ring, Index its_piece)
      : ring(its_ring),
        piece(its_piece),
        rotary(ring.local_rows(), shape.head_dim, shape.rotary_base, &ring.meter()),
        product(ring.pulse(), &ring.meter(),
                max_of(max_of(shape.vocab, shape.width),
                       max_of(shape.hidden, shape.num_heads * shape.head_dim)),
                ring.ring_problem().params.dtype),
        normed_gradient(&ring.meter(), ring.tokens() * shape.width),
        queries(&ring.meter(), ring.tokens() * shape.num_heads * shape.head_dim),
        query_gradients(&ring.meter(), queries.size()),
        keys(&ring.meter(), ring.tokens() * shape.num_heads_kv * shape.head_dim),
        values(&ring.meter(), keys.size()),
        gate_gradient(&ring.meter(), piece * shape.hidden),
        up_gradient(&ring.meter(), gate_gradient.size()) {}

  // Call f(first, rows) for one piece of the rows after the other.
  template <class F>
  void for_pieces(const F& f) const {
    for (Index first = 0; first < ring.tokens(); first += piece)
      f(first, min_of(piece, ring.tokens() - first));
  }

  ContextRing& ring;
  Index piece;
  Rotary rotary;
  MatrixProduct product;
  Buffer<float> normed_gradient;                         // [tokens, width]
  Buffer<float> queries, query_gradients, keys, values;  // [tokens, heads, head_dim]
  Buffer<float> gate_gradient, up_gradient;              // [piece, hidden]
};

// ---
// The attention and the MLP of a layer, on one rank's rows; norms and residual are in model.h. With
// the sequence split across the ranks, attention is
//
//   Q, K, V = x Wq, x Wk, x Wv        own rows; Q and K are rotated by their global positions
//   O = attention(Q, K, V)            all ranks' rows: K and V travel around the ring
//   y += O Wo                         own rows again
//
// Only the middle line communicates. For the backward ring, which recomputes the attention weights,
// the layer keeps Q, K, V, O and the softmax statistics of its rows, unless the ring's own memory
// still has them, because no other layer has used it since.
class AttentionLayer {
 public:
  // `keeps` says whether another layer uses the ring between forward() and backward().
  AttentionLayer(const LayerWeights& weights, ContextRing& ring, bool keeps = true);

  // Add the output for x to y, both [tokens, width]: the rank's rows, one sequence of the batch
  // after the other. Throw RunError when a peer fails.
  void forward(const ParameterStore& store, const float* x, float* y, Workspace& shared);
  // Overwrite dx, which must not be dy, and add to the weights' gradients. x is that of forward().
  void backward(ParameterStore& store, const float* x, const float* dy, float* dx,
                Workspace& shared);

  // Copy K (rotated) and V of the last forward pass to shared.keys and shared.values; attention in f32.
  void recall_kv(Workspace& shared) const;

 private:
  // Call f(what is kept, its place in the ring's memory).
  template <class F>
  void for_kept(const F& f) {
    f(q_, ring_.q()), f(kv_, ring_.kv());
    f(out_, ring_.out()), f(row_max_, ring_.row_max()), f(row_sum_, ring_.row_sum());
  }

  LayerWeights weights_;
  ContextRing& ring_;
  bool keeps_;
  Buffer<std::byte> q_, kv_;  // in the storage type
  Buffer<float> out_, row_max_;
  Buffer<double> row_sum_;
};

// ---
// The MLP of a layer. It treats every row by itself, so a rank needs only its own rows:
//
//   y += (SiLU(x Wgate) * (x Wup)) Wdown       the activation is SwiGLU (layers.h)
//
// So it can also take them piece by piece, the blockwise feedforward that ring attention comes with
// (S3): what is inside it exists for one piece at a time, and the backward pass computes it again.

// What the backward pass needs, of one piece.
struct MlpInside {
  Buffer<float> gate, up, product;  // [piece, hidden]
};

class MlpLayer {
 public:
  // `inside` must outlive it.
  MlpLayer(const LayerWeights& weights, MlpInside& inside) : weights_(weights), inside_(inside) {}

  // These have the parameters of AttentionLayer's. With `again`, backward() computes the inside
  // anew, which it must where another piece has used it since.
  void forward(const ParameterStore& store, const float* x, float* y, Workspace& shared);
  void backward(ParameterStore& store, const float* x, const float* dy, float* dx,
                Workspace& shared, bool again);

 private:
  void expand(const ParameterStore& store, Index rows, const float* x, Workspace& shared);

  LayerWeights weights_;
  MlpInside& inside_;
};

}  // namespace ringscope
