#include "core/tools/cost/model_step.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <sstream>
#include <utility>

#include "core/attention/vectors.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/tools/cost/amounts.h"

// The text of core/tools/cost/models.txt.
extern const char kBuiltinModels[];

namespace ringscope {
namespace {

constexpr double kF32Bytes = 4;

// Return the values per row of Q, O, K and V together.
double values_in_heads(const AttentionShape& heads) {
  return static_cast<double>(2 * (heads.num_heads + heads.num_heads_kv) * heads.head_dim);
}

double layer_weights(const AttentionShape& heads, const ModelSizes& model) {
  return static_cast<double>(model.width) *
         (values_in_heads(heads) + 3 * static_cast<double>(model.hidden) + 2);
}

}  // namespace

double projection_flops(const AttentionShape& heads, const ModelSizes& model, double tokens) {
  return 2 * tokens * static_cast<double>(model.width) * values_in_heads(heads);
}

double mlp_flops(const ModelSizes& model, double tokens) {
  return 2 * tokens * static_cast<double>(model.width) * 3 * static_cast<double>(model.hidden);
}

double head_flops(const ModelSizes& model, double tokens) {
  return 2 * tokens * static_cast<double>(model.width) * static_cast<double>(model.vocab);
}

double model_weights(const AttentionShape& heads, const ModelSizes& model, Index layers) {
  const auto width = static_cast<double>(model.width);
  return (model.tied ? 1 : 2) * width * static_cast<double>(model.vocab) + width +
         static_cast<double>(layers) * layer_weights(heads, model);
}

Index ModelMemory::piece(Index tokens) const {
  const Index even = ceil_div(tokens, chunks);
  return even < kPackedRows ? even : min_of(tokens, round_up(even, kPackedRows));
}

NamedModel find_model(const std::string& name) {
  std::string names;
  for (const std::string_view line : split(kBuiltinModels, '\n')) {
    std::istringstream words{std::string(line)};
    NamedModel model;
    AttentionShape& heads = model.heads;
    ModelSizes& sizes = model.sizes;
    bool own_head = false;
    if (!(words >> model.name) || model.name.starts_with('#')) continue;
    words >> model.layers >> sizes.width >> heads.num_heads >> heads.num_heads_kv >>
        heads.head_dim >> sizes.hidden >> sizes.vocab >> own_head;
    sizes.tied = !own_head;
    if (model.name == name) return model;
    names += (names.empty() ? "" : ", ") + model.name;
  }
  throw InputError(fmt::format("'{}' given; accepted: {}", name, names));
}

std::vector<MemoryPart> activation_parts(const Problem& job, const ModelSizes& model,
                                         const ModelMemory& memory, double rows) {
  Problem attention = job;
  // A stage of a pipeline keeps its layers' activations several times.
  const auto layers =
      static_cast<Index>(std::ceil(static_cast<double>(job.layers) * memory.in_flight));
  // Attention's own memory has the Q, K, V and O of one layer.
  attention.layers = memory.kept_attentions(layers) + 1;
  std::vector<MemoryPart> parts = memory_parts(attention, rows);
  const auto add = [&](const char* name, double bytes, std::string formula) {
    if (bytes > 0)
      parts.push_back({MemoryPart::Kind::other, name, bytes, std::move(formula), 1, false});
  };
  // Return a count of layers, and a formula of one layer times its letter.
  const auto of_layers = [&](Index kept, const char* formula) {
    const Index count = job.backward ? kept : min_of(kept, 1);
    return std::pair(static_cast<double>(count),
                     (count == layers && count > 1 ? "L " : "") + std::string(formula));
  };
  const AttentionShape& s = job.shape;
  const double e = job.storage_bytes(), tokens = static_cast<double>(s.batch) * rows;
  const double shared_tokens = tokens / memory.row_shares;
  const auto piece = static_cast<double>(memory.piece(static_cast<Index>(std::ceil(tokens))));
  const auto width = static_cast<double>(model.width), hidden = static_cast<double>(model.hidden);
  const auto in_pieces = [&](const std::string& formula) {
    return formula + (memory.chunks > 1 ? " / pieces" : "");
  };
  const auto [inputs, inputs_formula] = of_layers(layers, "W T e");
  const auto [norms, norms_formula] = of_layers(memory.kept_norms(layers), "(4 W e + 8) T");
  const bool apart = norms < inputs;  // only the inputs are kept
  add("residual stream and norms", norms * ((apart ? 3 : 4) * width * e + 8) * shared_tokens,
      apart ? "(3 W e + 8) T" : norms_formula);
  if (apart) add("inputs of layers", inputs * width * shared_tokens * e, inputs_formula);
  const auto [mlps, mlps_formula] = of_layers(memory.kept_mlps(layers), "3 F T e");
  add("MLP: gate, up, their product", mlps * 3 * hidden * piece * e, in_pieces(mlps_formula));
  add("work of a layer: rows and heads", (width + values_in_heads(s)) * tokens * e,
      "(W + 2 d (H+G)) T e");
  if (job.backward)
    add("work of an MLP: its gradients", 2 * hidden * piece * e, in_pieces("2 F T e"));
  add("between layers and head", (3 * width * e + 4) * shared_tokens, "(3 W e + 4) T");
  add("rotations", 4 * static_cast<double>(s.head_dim) * rows, "4 d c");
  add("logits, f32", memory.logit_bytes * static_cast<double>(model.vocab) * piece,
      in_pieces(fmt::format("{:g} V T", memory.logit_bytes)));
  const Index widest =
      max_of(max_of(max_of(model.width, model.hidden), model.vocab), s.num_heads * s.head_dim);
  add("copy of rows of a weight, f32",
      kF32Bytes * static_cast<double>(packed_values(kPackedRows, widest)),
      fmt::format("4 x {} rows x max(W, F, V, d H)", kPackedRows));
  return parts;
}

std::vector<MemoryPart> model_memory_parts(const Problem& job, const ModelSizes& model,
                                           const ModelMemory& memory, double rows) {
  std::vector<MemoryPart> parts = activation_parts(job, model, memory, rows);
  const double weights = model_weights(job.shape, model, job.layers), e = job.storage_bytes();
  const auto add = [&](const char* name, double bytes, std::string formula) {
    parts.push_back({MemoryPart::Kind::other, name, bytes, std::move(formula), 1, false});
  };
  // What is dealt out is cut where gradients, with the loss behind them, are cut for their sum.
  const int sharers = memory.sharers(job.world_size);
  const double share = std::ceil((weights + 1) / sharers);
  const auto of_weights = [&](const char* name, double bytes, const char* formula, int from_stage) {
    const bool dealt = memory.zero_stage >= from_stage && sharers > 1;
    add(name, bytes * (dealt ? share : weights), fmt::format("{} P{}", formula, dealt ? "/N" : ""));
  };
  of_weights("weights", e, "e", 3);
  const double of_layer = layer_weights(job.shape, model);
  const double of_head = static_cast<double>(model.vocab) * static_cast<double>(model.width);
  if (memory.zero_stage >= 3 && sharers > 1)
    add("gathered weights, of two layers", e * std::max(2 * of_layer, of_head),
        "e max(2 P of a layer, V W)");
  if (!job.backward) return parts;
  const double gradient = memory.f32_gradients ? kF32Bytes : e;
  of_weights("gradients of weights", gradient, memory.f32_gradients ? "4" : "e", 2);
  of_weights("optimizer: moments, f32 weights", e < kF32Bytes ? 12 : 8, e < kF32Bytes ? "12" : "8",
             1);
  if (memory.zero_stage >= 2 && sharers > 1)
    add("a layer's gradients, to be dealt", gradient * std::max(of_layer, of_head),
        "e max(P of a layer, V W)");
  const auto incoming = static_cast<double>(
      values_of_a_reduction_hop(static_cast<Index>(std::min(weights + 1, 1e15)), sharers));
  add("sum of gradients: incoming, loss", gradient * (incoming + 1), "e (min(P/N, 2^18) + 1)");
  return parts;
}

double model_flops(const Problem& job, const ModelSizes& model) {
  const double tokens = static_cast<double>(job.shape.batch * job.shape.seqlen);
  const double products =
      static_cast<double>(job.layers) *
          (projection_flops(job.shape, model, tokens) + mlp_flops(model, tokens)) +
      head_flops(model, tokens);
  // The backward pass has twice the products. Of attention's five, S = Q K^T is computed again.
  const double attention =
      static_cast<double>(job.layers) * flops_of_pairs(job.shape, total_pairs(job), Pass::forward);
  return (job.backward ? 3 : 1) * (products + attention);
}

WeightTraffic weight_traffic(double weights, double stored_bytes, int world_size, int zero_stage,
                             Index layers, Index micro_batches) {
  if (world_size == 1) return {};
  // A ring that sums or gathers has N-1 hops, each of an N-th.
  const double hops = world_size - 1, part = hops / world_size;
  const auto batches = static_cast<double>(micro_batches);
  const double sums = zero_stage == 0 ? 2 : zero_stage == 1 ? 1 : batches;
  const double gathers = zero_stage == 0 ? 0 : zero_stage == 3 ? 2 * batches : 1;
  return {sums * part * kF32Bytes * (weights + 1), gathers * part * stored_bytes * weights,
          sums * hops, gathers * hops * (zero_stage == 3 ? static_cast<double>(layers) : 1)};
}

ModelFigures model_figures(const Gpu& gpu, DType dtype) {
  ModelFigures figures;
  figures.product_flops = gpu.peak_flops(dtype) * gpu.product_share.value_or(gpu.forward_share);
  if (!gpu.memory_bytes_per_s) return figures;
  const double value_s = bytes_of(dtype) / *gpu.memory_bytes_per_s;
  // Each factor counts memory accesses per value. A norm also reads and writes the residual stream,
  // and likewise its gradient. The gate's backward pass reads three tensors and writes two.
  figures.norm = {4 * value_s, 4 * value_s};
  figures.gate = {3 * value_s, 5 * value_s};
  figures.heads = {2 * value_s, 2 * value_s};
  figures.loss = {value_s, 2 * value_s};
  // In f32 the update reads gradient, weight and both moments, writes all but the gradient, and
  // clears the gradient.
  figures.update_s = 8 * kF32Bytes / *gpu.memory_bytes_per_s;
  return figures;
}

StepTime step_time(const Problem& job, const ModelSizes& model, double rows, double attention_s,
                   const ModelFigures& figures, const Rates& rates, const ModelMemory& memory,
                   double attention_forward_s, Index micro_batches) {
  const double tokens = static_cast<double>(job.shape.batch) * rows;
  const auto layers = static_cast<double>(job.layers);
  const auto width = static_cast<double>(model.width);
  const double passes = job.backward ? 3 : 1;  // the backward pass has twice the forward's products
  const auto product = [&](double flops) { return passes * flops / figures.product_flops; };
  const auto values = [&](double count, const ValueSeconds& value) {
    return count * tokens * (value.forward + (job.backward ? value.backward : 0));
  };
  StepTime time;
  time.layers = job.layers;
  time.attention = layers * attention_s;
  time.projections = layers * product(projection_flops(job.shape, model, tokens));
  time.mlp = layers * product(mlp_flops(model, tokens));
  const double norms = width / memory.row_shares;
  time.values = layers * (values(2 * norms, figures.norm) +
                          values(static_cast<double>(model.hidden), figures.gate) +
                          values(values_in_heads(job.shape), figures.heads));
  time.head = product(head_flops(model, tokens)) + values(norms, figures.norm) +
              values(static_cast<double>(model.vocab), figures.loss);
  if (!job.backward) return time;
  const double again = std::max(layers - 1, 0.0);  // layers; the last one's values are still there
  const bool whole = memory.recompute == Recompute::layer;
  if (memory.recompute != Recompute::none) {
    // The output is projected again only if what follows it is gone, too.
    const double heads = values_in_heads(job.shape),
                 q = static_cast<double>(job.shape.num_heads * job.shape.head_dim);
    time.recomputed =
        again * (attention_forward_s +
                 tokens * ((whole ? heads : heads - q) *
                               (2 * width / figures.product_flops + figures.heads.forward) +
                           (whole ? 2 * norms * figures.norm.forward : 0)));
  }
  if (whole || memory.chunks > 1)  // gate and up, two of the MLP's three products
    time.recomputed += (memory.chunks > 1 ? layers : again) *
                       (mlp_flops(model, tokens) * 2 / 3 / figures.product_flops +
                        tokens * static_cast<double>(model.hidden) * figures.gate.forward);
  for (double* part :
       {&time.attention, &time.projections, &time.mlp, &time.values, &time.head, &time.recomputed})
    *part *= static_cast<double>(micro_batches);
  const double weights = model_weights(job.shape, model, job.layers);
  const int sharers = memory.sharers(job.world_size);
  time.update = figures.update_s * (memory.zero_stage > 0 ? weights / sharers : weights);
  // The pieces of a large hop count as one message. They could follow each other without a wait, as
  // libraries send them.
  const WeightTraffic sent = weight_traffic(weights, job.storage_bytes(), sharers,
                                            memory.zero_stage, job.layers, micro_batches);
  time.reduction =
      sent.gradient_bytes / rates.bytes_per_s + sent.gradient_messages * rates.latency_s;
  time.gathering = sent.weight_bytes / rates.bytes_per_s + sent.weight_messages * rates.latency_s;
  return time;
}

Problem ModelSplit::share_of(const Problem& whole) const {
  Problem share = whole;
  share.shape.num_heads /= tensor;
  share.shape.num_heads_kv /= tensor;
  share.layers = ceil_div(whole.layers, pipeline);
  return share;
}

ModelSizes ModelSplit::share_of(const ModelSizes& whole) const {
  // A stage at an end has the embedding or the head, not both.
  return {whole.width, ceil_div(whole.hidden, tensor), ceil_div(whole.vocab, tensor),
          whole.tied || pipeline > 1};
}

void ModelSplit::tell(ModelMemory& memory, bool backward, Index micro_batches) const {
  memory.replicas = data;
  memory.row_shares = sequence_parallel ? tensor : 1;
  const double filled = pipeline + (pieces > 1 ? (pipeline - 1.0) / pieces : 0);
  memory.in_flight = backward ? std::min(filled, static_cast<double>(micro_batches)) : 1;
}

void add_split(StepTime& time, const Problem& share, const ModelSizes& sizes,
               const ModelMemory& memory, const ModelSplit& split, Index layers, double rows,
               const Link& tensor, const Link& pipeline, Index micro_batches) {
  const auto batches = static_cast<double>(micro_batches);
  const double row_bytes = static_cast<double>(share.shape.batch) * rows *
                           static_cast<double>(sizes.width) * share.storage_bytes();
  // Of a sum, half the bytes and messages scatter and half gather.
  const double halves = !share.backward ? 4
                                        : 8 + (memory.recompute == Recompute::layer ? 4 : 0) +
                                              (split.sequence_parallel ? 2 : 0);
  const double others = split.tensor - 1;
  time.tensor =
      batches * static_cast<double>(share.layers) * halves *
      (others / split.tensor * row_bytes / tensor.bytes_per_s + others * tensor.latency_s);
  if (split.pipeline == 1) return;
  double* const of_layers[] = {&time.attention, &time.projections, &time.mlp,
                               &time.values,    &time.recomputed,  &time.tensor};
  double stage = 0;
  for (const double* part : of_layers) stage += *part;
  const double filling = stage / batches / split.pieces;
  // The last stage has the fewer layers where they can't be dealt out evenly.
  const double last =
      static_cast<double>(layers / split.pipeline) / static_cast<double>(share.layers);
  if (last * stage + time.head > stage) {
    for (double* part : of_layers) *part *= last;
    time.layers = layers / split.pipeline;
  } else {
    time.head = 0;
  }
  const double message = row_bytes / memory.row_shares / pipeline.bytes_per_s + pipeline.latency_s;
  time.pipeline = (split.pipeline - 1) * (filling + (share.backward ? 2 : 1) * message);
}

}  // namespace ringscope
