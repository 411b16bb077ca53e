// What a step of a model takes around its attention, on a rank with T rows (of all sequences): the
// products with weights, what is done to rows value by value, and what is done to the weights.
//
//   projections  2 T W d (2H + 2G)   FLOPs forward: of Q, K, V and the output
//   MLP          2 T W 3F            gate, up and down
//   head         2 T W V             once, after the last layer
//   weights      P = V W + W + L (W d (2H + 2G) + 3 W F + 2 W), the head being the embedding
//
// W width, F hidden, V vocab, H query heads and G kv heads of d values, L layers. A multiply-add
// counts as two, as in attention (S0, "Arithmetic Complexity"). Backward there are twice as many:
// for y = x w both dx = dy w^T and dw = x^T dy. The sources count attention only; what a ring can
// gain depends on the rest as well, which a rank does with its own rows alone (S1, part one, 2.2)
// but for adding up the weights' gradients (2.3): 2 (N-1)/N P values to send around a ring.
//
// The rest is done value by value:
//
//   norms   2 W a row and layer, and W before the head, with the residual stream beside them
//   gate    F a row and layer: the MLP's activation
//   heads   (2H + 2G) d a row and layer: rotary positions, and from rows-by-heads to heads-by-rows
//   loss    V a row
//   update  each weight: its gradient cleared, AdamW
#pragma once

#include "core/cost/job.h"
#include "core/cost/time.h"

namespace ringscope {

// Of a model, beside its attention's shape and its layers.
struct ModelSizes {
  Index width = 0;
  Index hidden = 0;  // of an MLP of three matrices
  Index vocab = 0;
};

// FLOPs of the forward pass over `tokens` rows; the first two of one layer.
double projection_flops(const AttentionShape& heads, const ModelSizes& model, double tokens);
double mlp_flops(const ModelSizes& model, double tokens);
double head_flops(const ModelSizes& model, double tokens);

// P.
double model_weights(const AttentionShape& heads, const ModelSizes& model, Index layers);

// Bytes that a rank sends to add up the gradients, with one value more for the loss: 2 (N-1)/N of
// them, to a chunk's rounding.
double reduction_bytes(double weights, int world_size);

// Seconds of a value, in either pass.
struct ValueSeconds {
  double forward = 0;
  double backward = 0;
};

// A machine's figures for all that is not attention.
struct ModelFigures {
  double product_flops = 0;  // FLOP/s of a product with weights
  ValueSeconds norm, gate, heads, loss;
  double update_s = 0;  // a weight
};

// Of the table: products reach what attention's forward pass reaches of the peak; values take the
// time that memory takes for them, each kernel reading what it needs and writing what it makes once
// (nothing, where the table has no memory_gb_per_s). Throws as Gpu::peak_flops.
ModelFigures model_figures(const Gpu& gpu, DType dtype);

// Seconds of a step by part; without job.backward, of a forward pass.
struct StepTime {
  Index layers = 1;
  double attention = 0;    // of all layers, as the next three
  double projections = 0;  // their products
  double mlp = 0;
  double values = 0;     // norms, gates, heads
  double head = 0;       // with the last norm and the loss
  double reduction = 0;  // of gradients, nothing being computed beside it
  double update = 0;

  double layer() const {
    return (attention + projections + mlp + values) / static_cast<double>(layers);
  }
  double total() const {
    return attention + projections + mlp + values + head + reduction + update;
  }
  double attention_share() const { return attention / total(); }
};

// `rows` of a sequence, on the rank with most; `attention_s` of one layer, as layer_time() or a
// simulation has it. All else is the same work for every row, so the rank with most rows decides.
StepTime step_time(const Job& job, const ModelSizes& model, double rows, double attention_s,
                   const ModelFigures& figures, const Rates& rates);

}  // namespace ringscope
