// Predict what a model's step takes besides attention, on a rank with T rows (over all sequences):
// products with weights, operations on each value of the rows, and updates of weights.
//
//   projections  2 T A           FLOPs forward: Q, K, V and the output, A = W d (2H + 2G) weights
//   MLP          2 T W 3F        gate, up and down
//   head         2 T W V         once, after the last layer
//   weights      P = V W + W + L (A + 3 W F + 2 W); the head shares the embedding, or else has V W of
//                its own
//
// W is width, F hidden, V vocab; H query heads and G kv heads have d values; L is layers. A
// multiply-add counts as two, as in attention (S0, "Arithmetic Complexity"). The backward pass
// takes twice as many, because y = x w needs both dx = dy w^T and dw = x^T dy. The sources count
// attention only, but the gain of a ring depends on the rest, too. A rank does it on its own rows
// alone (S1, part one, 2.2), except for summing the weights' gradients (2.3), which sends 2 (N-1)/N
// P values around a ring.
//
// Of a mixture of E experts, a row passes k, and those that are shared (S3, section 14). Its MLP then has
// 3 W F' (E + shared) + E W weights, of which k + shared and the router's count in FLOPs.
//
// Latent attention (DeepSeek-V2, arXiv:2405.04434, section 2.1) makes Q of q_rank values, and K and V of
// kv_rank, besides the part of a key that is rotated. Its A is W q_rank + q_rank H key + W (kv_rank +
// rope) + kv_rank H (key - rope + value) + H value W. A ring passes K and V on as they are attended. With
// d, the mean width of a key and a value, a pair costs what it does elsewhere, and so do K and V.
//
// The remaining operations are counted per value:
//
//   norms   2 W per row and layer and W before the head, with the residual stream beside them
//   gate    F per row and layer: the MLP's activation
//   heads   (2H + 2G) d per row and layer: rotary positions, and rows-by-heads to heads-by-rows; the
//           same for 2 k W where rows are sorted by experts and back
//   loss    V per row
//   update  each weight: clearing its gradient, AdamW
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/names.h"
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

  // A mixture of experts; `dense` is the share of the layers that have the MLP of `hidden` instead.
  Index experts = 0, active = 0, shared = 0, expert_hidden = 0;
  double dense = 1;
  // Latent attention; key_dim with `rope`.
  Index q_rank = 0, kv_rank = 0, rope = 0, key_dim = 0;
  std::string second_mask = {};  // that every second layer's attention has besides; "": none
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

// Return the number of weights, P, and how many of them are of experts that not every row passes.
double model_weights(const AttentionShape& heads, const ModelSizes& model, Index layers);
double expert_weights(const ModelSizes& model, Index layers);
// Return those that a rank of `expert_ranks` has.
double weights_of_rank(const Problem& job, const ModelSizes& model, int expert_ranks);

// Return the job with the mask that every second layer has, or the same if all layers are alike.
Problem of_second_layers(const Problem& job, const ModelSizes& model);

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
//                gradients are, those of a layer or the head, not yet added up. Stages of a pipeline
//                keep all of theirs until the step is over, as PyTorch's FSDP does there
//   experts      k W T e a layer: the rows that are sent to them
//   work         what a layer needs while it is computed, and what is between layers and head
//
// In 16 bits the first three are the 16 bytes a weight of the ZeRO paper (Rajbhandari et al., 2020,
// section 3.1). Its stages deal out the optimizer's states over the N ranks (1), the gradients (2)
// and the weights (3). Hybrid sharding deals out over S of them, and the others hold copies. Experts are
// dealt out in any case, over X of the ranks. Activations that are offloaded lie in the host's memory but
// for those of two layers.

// What the backward pass computes again instead of keeping it: nothing; attention (Q, K, V, O and
// the row statistics, from the norm that is kept); or whole layers, of which only the input is kept
// (W T e a layer). The last layer's are still there when its backward pass begins.
enum class Recompute { none, attention, layer };
constexpr auto names_of(Recompute) { return list_of({"none", "attention", "layer"}); }

struct ModelMemory {
  int zero_stage = 0;  // 0 to 3: how much is dealt out over the ranks
  Recompute recompute = Recompute::none;
  bool f32_gradients =
      false;  // gradients are 4 P, as in Megatron-LM, which makes 18 bytes a weight
  // How many pieces a rank's rows are cut into for the MLP and the logits, which are computed one
  // piece after the other (the blockwise feedforward of ring attention: Liu et al., 2023, section
  // 3). With more than one, the MLP keeps nothing and is computed again.
  Index chunks = 1;
  Index logit_chunks = 0;  // of the logits alone; 0: as many
  // What a logit takes at the peak: 4 where its gradient takes its place. PyTorch's cross_entropy of bf16
  // logits has 14: log-softmax and two gradients in f32, and the allocator keeps what the bf16 ones
  // left behind.
  double logit_bytes = 4;
  // Where ranks are split by heads, layers and batches as well (ModelSplit): how many context groups
  // hold the same weights, how many ranks share the rows between products, and how many micro-batches'
  // activations a stage of a pipeline keeps at once.
  int replicas = 1, row_shares = 1;
  double in_flight = 1;
  bool keeps_gathered = false;  // with zero_stage 3, as in a pipeline
  int shards = 0;               // S; 0: all that hold the same weights
  int expert_ranks = 1;         // X
  bool offloads = false;        // activations

  // Return how many ranks hold the same weights, and over how many `zero_stage` deals them out.
  int sharers(int world_size) const { return world_size * replicas; }
  int dealt_over(int of) const { return shards > 0 ? std::min(shards, of) : of; }

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
  Index piece(Index tokens) const { return piece(tokens, chunks); }
  static Index piece(Index tokens, Index pieces);
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
//   3         as 2, but weights are gathered for each pass of each of the M: 2 M (N-1)/N e P; as 1 where
//             they are kept gathered
//   copies    N/S of them, with S for N above: 2 (1 - S/N) 4 P/S more, to add up what was dealt out
//
// (Rajbhandari et al., 2020, section 7, has the sums of one micro-batch.)
struct WeightTraffic {
  double gradient_bytes = 0, weight_bytes = 0, copy_bytes = 0;
  double gradient_messages = 0, weight_messages = 0, copy_messages = 0;
};
WeightTraffic weight_traffic(double weights, double stored_bytes, int sharers,
                             const ModelMemory& memory, Index layers, Index micro_batches);

// Return the bytes that a rank moves to the host, and back, for a micro-batch.
double offloaded_bytes(const Problem& job, const ModelSizes& model, ModelMemory memory,
                       double rows);

// Seconds per value, in either pass.
struct ValueSeconds {
  double forward = 0;
  double backward = 0;
};

// A machine's figures for everything besides attention.
struct ModelFigures {
  double product_flops = 0;  // FLOP/s of a product with weights
  ValueSeconds norm, gate, heads, loss;
  double update_s = 0;          // per weight
  double head_flops = 0;        // FLOP/s of the head's product, which stays in the storage type
  double host_bytes_per_s = 0;  // between the device and its host, one way; 0: not known
};

// Derive the figures from the table. Products reach the share of the peak that attention's forward
// pass reaches. Values take the time of their memory traffic, where each kernel reads its inputs
// and writes its outputs once (0 without memory_gb_per_s). With `in_8_bits` the layers' products take
// 8-bit values. Throw as Gpu::peak_flops(), and for a table that does not say how fast these are.
ModelFigures model_figures(const Gpu& gpu, DType dtype, bool in_8_bits = false);

// The links that a step takes besides those of attention: for gathering weights and dealing out
// gradients, for adding these up over copies, for rows to experts, for sums over tensor ranks, and for
// rows to the next stage.
struct StepLinks {
  Link weights, copies, experts, tensor, pipeline;
};

// Seconds of a step by part. Without job.backward they count a forward pass.
struct StepTime {
  Index layers = 1;
  double attention = 0;    // of all layers, as the next ones
  double projections = 0;  // their products
  double mlp = 0;
  double values = 0;      // norms, gates, heads
  double recomputed = 0;  // what the backward pass computes again
  double tensor = 0;      // sums of rows over the ranks that share the heads; nothing hides them
  double experts = 0;     // rows to experts and back; the same
  double offload = 0;     // moving activations to the host and back, beyond what computing hides
  double head = 0;        // with the last norm and the loss
  double pipeline = 0;    // filling and draining it
  double reduction = 0;   // of gradients; nothing is computed meanwhile
  double gathering = 0;   // of weights that are dealt out; the same
  double update = 0;

  double layer() const;  // of those of all layers
  double total() const;
  double attention_share() const { return attention / total(); }
};

// A part of a step: how people and programs call it, and whether all layers have it.
struct StepPart {
  const char *name, *key;
  double StepTime::*seconds;
  bool of_layers;
};
inline constexpr StepPart kStepParts[] = {
    {"attention", "attention_s", &StepTime::attention, true},
    {"projections", "projections_s", &StepTime::projections, true},
    {"MLP", "mlp_s", &StepTime::mlp, true},
    {"norms, gates, heads", "values_s", &StepTime::values, true},
    {"head and loss", "head_s", &StepTime::head, false},
    {"computed again", "recomputed_s", &StepTime::recomputed, true},
    {"tensor: sums of rows", "tensor_s", &StepTime::tensor, true},
    {"experts: rows sent", "experts_s", &StepTime::experts, true},
    {"host: activations", "offload_s", &StepTime::offload, true},
    {"pipeline: filling", "pipeline_s", &StepTime::pipeline, false},
    {"gradients added up", "reduction_s", &StepTime::reduction, false},
    {"weights gathered", "gathering_s", &StepTime::gathering, false},
    {"AdamW", "update_s", &StepTime::update, false}};

// Return the time of a step of `micro_batches` on the rank with the most rows. It holds `rows` rows of a
// sequence, and `attention_s` is the time of one layer from layer_time() or a simulation, of which
// `attention_forward_s` is the forward pass. All other work is the same for every row, so the rank with
// the most rows determines the time.
StepTime step_time(const Problem& job, const ModelSizes& model, double rows, double attention_s,
                   const ModelFigures& figures, const StepLinks& links,
                   const ModelMemory& memory = {}, double attention_forward_s = 0,
                   Index micro_batches = 1);

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
// a model of `layers` layers.
void add_split(StepTime& time, const Problem& share, const ModelSizes& sizes,
               const ModelMemory& memory, const ModelSplit& split, Index layers, double rows,
               const StepLinks& links, Index micro_batches);

// Return the FLOPs of a step of the whole model, over all ranks, that do not depend on how it is
// computed: what MFU counts (PaLM paper, appendix B). Nothing that is computed again is in it.
double model_flops(const Problem& job, const ModelSizes& model);

}  // namespace ringscope
