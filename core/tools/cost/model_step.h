// Predict what a model's step takes besides attention, on a rank with T rows (over all sequences):
// products with weights, operations on each value of the rows, and updates of weights.
//
//   projections  2 T W d (2H + 2G)   FLOPs forward: Q, K, V and the output
//   MLP          2 T W 3F            gate, up and down
//   head         2 T W V             once, after the last layer
//   weights      P = V W + W + L (W d (2H + 2G) + 3 W F + 2 W); the head shares the embedding,
//                                    or else has V W of its own
//
// W is width, F hidden, V vocab; H query heads and G kv heads have d values; L is layers. A
// multiply-add counts as two, as in attention (S0, "Arithmetic Complexity"). The backward pass
// takes twice as many, because y = x w needs both dx = dy w^T and dw = x^T dy. The sources count
// attention only, but the gain of a ring depends on the rest, too. A rank does it on its own rows
// alone (S1, part one, 2.2), except for summing the weights' gradients (2.3), which sends 2 (N-1)/N
// P values around a ring.
//
// The remaining operations are counted per value:
//
//   norms   2 W per row and layer and W before the head, with the residual stream beside them
//   gate    F per row and layer: the MLP's activation
//   heads   (2H + 2G) d per row and layer: rotary positions, and rows-by-heads to heads-by-rows
//   loss    V per row
//   update  each weight: clearing its gradient, AdamW
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/ring/problem.h"
#include "core/ring/rank_memory.h"
#include "core/tools/cost/time.h"

namespace ringscope {

// Sizes of a model, in addition to its attention's shape and its layers.
struct ModelSizes {
  Index width = 0;
  Index hidden = 0;  // of an MLP with three matrices
  Index vocab = 0;
  bool tied = true;  // the head's matrix is the embedding
};

// A model by name: one of core/tools/cost/models.txt.
struct NamedModel {
  std::string name;
  Index layers = 0;
  AttentionShape heads;  // without batch and seqlen
  ModelSizes sizes;
};

// Throw InputError that says which names there are.
NamedModel find_model(const std::string& name);

// Return the FLOPs of the forward pass over `tokens` rows. The first two functions count one layer.
double projection_flops(const AttentionShape& heads, const ModelSizes& model, double tokens);
double mlp_flops(const ModelSizes& model, double tokens);
double head_flops(const ModelSizes& model, double tokens);

// Return the number of weights, P.
double model_weights(const AttentionShape& heads, const ModelSizes& model, Index layers);

// ---
// The memory of a rank that trains a model, or only runs it forward, as one bill: the buffers that
// Model and its training allocate (`train` holds exactly these). With e bytes of a stored value and
// T rows of a rank:
//
//   weights      e P
//   gradients    e P
//   optimizer    12 P: weights and AdamW's two moments in f32; 8 P where weights are f32 anyway
//   activations  (4 W + 3 F) T e a layer: the residual stream and its norm, twice; gate, up and
//                their product; besides, Q, K, V, O of attention's own bill (memory_parts)
//   logits       4 V T, once, in f32; their gradient takes their place
//   gathered     where weights are dealt out: those of two layers, or of the head, in use; where
//                gradients are, those of a layer or the head, not yet added up
//   work         what a layer needs while it is computed, and what is between layers and head
//
// In 16 bits the first three are the 16 bytes a weight of the ZeRO paper (Rajbhandari et al., 2020,
// section 3.1). Its stages deal out the optimizer's states over the N ranks (1), the gradients (2)
// and the weights (3).

// What the backward pass computes again instead of keeping it: nothing; attention (Q, K, V, O and
// the row statistics, from the norm that is kept); or whole layers, of which only the input is kept
// (W T e a layer). The last layer's are still there when its backward pass begins.
enum class Recompute { none, attention, layer };
inline constexpr Recompute kAllRecomputes[] = {Recompute::none, Recompute::attention,
                                               Recompute::layer};
constexpr std::string_view name_of(Recompute recompute) {
  constexpr std::string_view kNames[] = {"none", "attention", "layer"};
  return kNames[static_cast<int>(recompute)];
}

struct ModelMemory {
  int zero_stage = 0;  // 0 to 3: how much is dealt out over the ranks
  Recompute recompute = Recompute::none;
  bool f32_gradients =
      false;  // gradients are 4 P, as in Megatron-LM, which makes 18 bytes a weight
  // How many pieces a rank's rows are cut into for the MLP and the logits, which are computed one
  // piece after the other (the blockwise feedforward of ring attention: Liu et al., 2023, section
  // 3). With more than one, the MLP keeps nothing and is computed again.
  Index chunks = 1;
  // What a logit takes at the peak: 4 where its gradient takes its place. PyTorch's cross_entropy of bf16
  // logits has 14: log-softmax and two gradients in f32, and the allocator keeps what the bf16 ones
  // left behind.
  double logit_bytes = 4;
  // Where ranks are split by heads, layers and batches as well (ModelSplit): how many context groups
  // hold the same weights, how many ranks share the rows between products, and how many micro-batches'
  // activations a stage of a pipeline keeps at once.
  int replicas = 1, row_shares = 1;
  double in_flight = 1;

  // Return how many ranks hold the same weights, and deal out what `zero_stage` says.
  int sharers(int world_size) const { return world_size * replicas; }

  // Return how many layers have buffers of their own: for what is between attention and MLP, for
  // the MLP's inside, and for Q, K, V, O besides those of attention's own memory.
  Index kept_norms(Index layers) const {
    return recompute == Recompute::layer ? min_of(layers, 1) : layers;
  }
  Index kept_mlps(Index layers) const {
    return chunks > 1 ? min_of(layers, 1) : kept_norms(layers);
  }
  Index kept_attentions(Index layers) const {
    return recompute == Recompute::none ? max_of(layers - 1, 0) : 0;
  }
  // Return how many of `tokens` rows a piece has, except for the last. Large ones are whole runs of
  // the rows that a product adds up at a time (kPackedRows), so that pieces change no bit of a sum.
  Index piece(Index tokens) const;
};

// Return the most values that one hop of the sum of gradients carries in its first round, where a
// rank needs room for them. `values` are those of all gradients.
constexpr Index values_of_a_reduction_hop(Index values, int world_size) {
  return world_size == 1 ? 0 : min_of(ceil_div(values, world_size), Index{1} << 18);
}

// Return the whole bill of a rank with `rows` rows: attention's parts, then the model's. The first
// of these are activation_parts(), of the model without its weights.
std::vector<MemoryPart> model_memory_parts(const Problem& job, const ModelSizes& model,
                                           const ModelMemory& memory, double rows);
std::vector<MemoryPart> activation_parts(const Problem& job, const ModelSizes& model,
                                         const ModelMemory& memory, double rows);

// What a rank of N sends in a step besides attention. Sums are in f32, and weights travel as stored (e
// bytes); M micro-batches follow each other.
//
//   stage 0   gradients 2 (N-1)/N 4 P: a sum that every rank gets, of the loss as well
//   1         gradients (N-1)/N 4 P, of which each rank gets its share; then the new weights, (N-1)/N e P
//   2         the same, but gradients are dealt out after each of the M
//   3         as 2, but weights are gathered for each pass of each of the M: 2 M (N-1)/N e P
//
// (Rajbhandari et al., 2020, section 7, has the sums of one micro-batch.)
struct WeightTraffic {
  double gradient_bytes = 0, weight_bytes = 0;
  double gradient_messages = 0, weight_messages = 0;
};
WeightTraffic weight_traffic(double weights, double stored_bytes, int world_size, int zero_stage,
                             Index layers, Index micro_batches);

// Seconds per value, in either pass.
struct ValueSeconds {
  double forward = 0;
  double backward = 0;
};

// A machine's figures for everything besides attention.
struct ModelFigures {
  double product_flops = 0;  // FLOP/s of a product with weights
  ValueSeconds norm, gate, heads, loss;
  double update_s = 0;  // per weight
};

// Derive the figures from the table. Products reach the share of the peak that attention's forward
// pass reaches. Values take the time of their memory traffic, where each kernel reads its inputs
// and writes its outputs once (0 without memory_gb_per_s). Throw as Gpu::peak_flops().
ModelFigures model_figures(const Gpu& gpu, DType dtype);

// Seconds of a step by part. Without job.backward they count a forward pass.
struct StepTime {
  Index layers = 1;
  double attention = 0;    // of all layers, as the next three
  double projections = 0;  // their products
  double mlp = 0;
  double values = 0;      // norms, gates, heads
  double head = 0;        // with the last norm and the loss
  double recomputed = 0;  // what the backward pass computes again
  double reduction = 0;   // of gradients; nothing is computed meanwhile
  double gathering = 0;   // of weights that are dealt out; the same
  double update = 0;
  double tensor = 0;    // sums of rows over the ranks that share the heads; nothing hides them
  double pipeline = 0;  // filling and draining it

  double layer() const {
    return (attention + projections + mlp + values + tensor) / static_cast<double>(layers);
  }
  double total() const {
    return attention + projections + mlp + values + head + recomputed + tensor + pipeline +
           reduction + gathering + update;
  }
  double attention_share() const { return attention / total(); }
};

// Return the time of a step of `micro_batches` on the rank with the most rows. It holds `rows` rows of a
// sequence, and `attention_s` is the time of one layer from layer_time() or a simulation, of which
// `attention_forward_s` is the forward pass. All other work is the same for every row, so the rank with
// the most rows determines the time. Of `rates`, those of the links count, which gradients and weights
// take.
StepTime step_time(const Problem& job, const ModelSizes& model, double rows, double attention_s,
                   const ModelFigures& figures, const Rates& rates, const ModelMemory& memory = {},
                   double attention_forward_s = 0, Index micro_batches = 1);

// ---
// Ranks that are split by heads, layers and batches besides the sequence (core/training/rank_groups.h),
// with T tensor ranks, P stages and D replicas. A rank has H/T and G/T heads, F/T of the MLP, V/T of the
// embedding and the head, and L/P layers, rounded up. It is judged as if it held the embedding or the
// head as well.
//
//   tensor    a layer sums T W values (rows by width) over the T ranks, after the attention and after
//             the MLP, and their gradients: 4 sums of 2 (T-1)/T b c W e bytes, 2 more where layers are
//             computed again. With sequence parallelism a sum is a scatter and a gather of as many
//             bytes, and the backward pass gathers the rows of two products again (Korthikanti et al.,
//             2022, section 4.2.2).
//   pipeline  M micro-batches take M times as long as one on the slowest stage, which may be the last,
//             with the head, and (P-1)/V times as long as one on the others, while it fills and drains:
//             V is the pieces that a stage's layers are cut into (Narayanan et al., 2021, section 2.2).
//             Messages are hidden but then. The first stage keeps P micro-batches' activations, with pieces
//             P + (P-1)/V, and at most all M.
struct ModelSplit {
  int tensor = 1, pipeline = 1, data = 1;
  int pieces = 1;  // V
  bool sequence_parallel = false;

  // Return the share of a rank, and set what `memory` needs to know of the rest.
  Problem share_of(const Problem& whole) const;
  ModelSizes share_of(const ModelSizes& whole) const;
  void tell(ModelMemory& memory, bool backward, Index micro_batches) const;
};

// Add the time of sums over the tensor ranks and of the pipeline to that of `share`, a rank's share of
// a model of `layers` layers. The links are those that the sums, and the rows to the next stage, take.
void add_split(StepTime& time, const Problem& share, const ModelSizes& sizes,
               const ModelMemory& memory, const ModelSplit& split, Index layers, double rows,
               const Link& tensor, const Link& pipeline, Index micro_batches);

// Return the FLOPs of a step of the whole model, over all ranks, that do not depend on how it is
// computed: what MFU counts (PaLM paper, appendix B). Nothing that is computed again is in it.
double model_flops(const Problem& job, const ModelSizes& model);

}  // namespace ringscope
