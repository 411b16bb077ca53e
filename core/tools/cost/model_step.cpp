#include "core/tools/cost/model_step.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
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

// Return the weights of a layer's Q, K and V, and of its output.
double input_weights(const AttentionShape& heads, const ModelSizes& model) {
  const auto width = static_cast<double>(model.width), h = static_cast<double>(heads.num_heads),
             g = static_cast<double>(heads.num_heads_kv), d = static_cast<double>(heads.head_dim);
  if (model.kv_rank == 0) return width * d * (h + 2 * g);
  const auto q_rank = static_cast<double>(model.q_rank),
             kv_rank = static_cast<double>(model.kv_rank), rope = static_cast<double>(model.rope),
             key = static_cast<double>(model.key_dim);
  return (width + h * key) * q_rank + width * (kv_rank + rope) +
         kv_rank * h * (key - rope + (2 * d - key));
}
double output_weights(const AttentionShape& heads, const ModelSizes& model) {
  const Index value = model.kv_rank == 0 ? heads.head_dim : 2 * heads.head_dim - model.key_dim;
  return static_cast<double>(model.width * heads.num_heads * value);
}

// Return the values of a row inside its MLP, of the mean layer.
double hidden_of(const ModelSizes& model) {
  return model.dense * static_cast<double>(model.hidden) +
         (1 - model.dense) *
             static_cast<double>((model.active + model.shared) * model.expert_hidden);
}
double router_weights(const ModelSizes& model) {
  return (1 - model.dense) * static_cast<double>(model.width * model.experts);
}
// Return how often a row is sent to experts, in the mean layer.
double sent_to_experts(const ModelSizes& model) {
  return (1 - model.dense) * static_cast<double>(model.active);
}

double layer_weights(const AttentionShape& heads, const ModelSizes& model) {
  const auto width = static_cast<double>(model.width);
  const double unused =
      (1 - model.dense) * static_cast<double>((model.experts - model.active) * model.expert_hidden);
  return input_weights(heads, model) + output_weights(heads, model) +
         width * (3 * (hidden_of(model) + unused) + 2) + router_weights(model);
}

}  // namespace

double projection_flops(const AttentionShape& heads, const ModelSizes& model, double tokens) {
  return 2 * tokens * (input_weights(heads, model) + output_weights(heads, model));
}

double mlp_flops(const ModelSizes& model, double tokens) {
  return 2 * tokens *
         (static_cast<double>(model.width) * 3 * hidden_of(model) + router_weights(model));
}

double head_flops(const ModelSizes& model, double tokens) {
  return 2 * tokens * static_cast<double>(model.width) * static_cast<double>(model.vocab);
}

double model_weights(const AttentionShape& heads, const ModelSizes& model, Index layers) {
  const auto width = static_cast<double>(model.width);
  return (model.tied ? 1 : 2) * width * static_cast<double>(model.vocab) + width +
         static_cast<double>(layers) * layer_weights(heads, model);
}

double expert_weights(const ModelSizes& model, Index layers) {
  return static_cast<double>(layers) * (1 - model.dense) *
         static_cast<double>(3 * model.width * model.expert_hidden * model.experts);
}

double weights_of_rank(const Problem& job, const ModelSizes& model, int expert_ranks) {
  return model_weights(job.shape, model, job.layers) -
         expert_weights(model, job.layers) * (1 - 1.0 / expert_ranks);
}

Problem of_second_layers(const Problem& job, const ModelSizes& model) {
  Problem second = job;
  if (!model.second_mask.empty())
    second.mask = MaskSpec::parse(fmt::format("{}+{}", job.mask.name(), model.second_mask));
  return second;
}

Index ModelMemory::piece(Index tokens, Index pieces) {
  const Index even = ceil_div(tokens, pieces);
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
    Index dense_layers = 0;
    if (!(words >> model.name) || model.name.starts_with('#')) continue;
    words >> model.layers >> sizes.width >> heads.num_heads >> heads.num_heads_kv >>
        heads.head_dim >> sizes.hidden >> sizes.vocab >> own_head;
    sizes.tied = !own_head;
    const std::map<std::string_view, Index*> others = {
        {"experts", &sizes.experts},      {"active", &sizes.active},
        {"shared", &sizes.shared},        {"dense", &dense_layers},
        {"hidden", &sizes.expert_hidden}, {"q-rank", &sizes.q_rank},
        {"kv-rank", &sizes.kv_rank},      {"rope", &sizes.rope},
        {"key-dim", &sizes.key_dim}};
    for (std::string word; words >> word && word[0] != '#';) {
      const std::size_t end = word.find('=');
      const std::string value = word.substr(end + 1);
      if (word.starts_with("mask="))
        sizes.second_mask = value;
      else
        *others.at(word.substr(0, end)) = parse_number<Index>(value).value();
    }
    if (sizes.experts > 0)
      sizes.dense = static_cast<double>(dense_layers) / static_cast<double>(model.layers);
    if (model.name == name) return model;
    names += (names.empty() ? "" : ", ") + model.name;
  }
  throw InputError(fmt::format("'{}' given; accepted: {}", name, names));
}

namespace {

// Return the weights of a layer that a rank has, or gathers.
double weights_of_layer(const Problem& job, const ModelSizes& model, const ModelMemory& memory) {
  return layer_weights(job.shape, model) -
         expert_weights(model, 1) * (1 - 1.0 / memory.expert_ranks);
}

}  // namespace

std::vector<MemoryPart> activation_parts(const Problem& job, const ModelSizes& model,
                                         const ModelMemory& memory, double rows) {
  Problem attention = job;
  // A stage of a pipeline keeps its layers' activations several times.
  const auto all =
      static_cast<Index>(std::ceil(static_cast<double>(job.layers) * memory.in_flight));
  const Index layers = memory.offloads ? min_of(all, 2) : all;
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
  const auto width = static_cast<double>(model.width);
  const double hidden = hidden_of(model);
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
  add("rows sent to experts", mlps * sent_to_experts(model) * width * piece * e,
      in_pieces("k W T e a layer"));
  add("work of a layer: rows and heads", (width + values_in_heads(s)) * tokens * e,
      "(W + 2 d (H+G)) T e");
  if (job.backward)
    add("work of an MLP: its gradients", 2 * hidden * piece * e, in_pieces("2 F T e"));
  add("between layers and head", (3 * width * e + 4) * shared_tokens, "(3 W e + 4) T");
  add("rotations", 4 * static_cast<double>(s.head_dim) * rows, "4 d c");
  const Index logits = memory.logit_chunks > 0 ? memory.logit_chunks : memory.chunks;
  add("logits, f32",
      memory.logit_bytes * static_cast<double>(model.vocab) *
          static_cast<double>(ModelMemory::piece(static_cast<Index>(std::ceil(tokens)), logits)),
      fmt::format("{:g} V T{}", memory.logit_bytes, logits > 1 ? " / pieces" : ""));
  const Index widest = std::max(
      {model.width, model.hidden, model.expert_hidden, model.vocab, s.num_heads * s.head_dim});
  add("copy of rows of a weight, f32",
      kF32Bytes * static_cast<double>(packed_values(kPackedRows, widest)),
      fmt::format("4 x {} rows x max(W, F, V, d H)", kPackedRows));
  return parts;
}

double offloaded_bytes(const Problem& job, const ModelSizes& model, ModelMemory memory,
                       double rows) {
  if (!memory.offloads) return 0;
  memory.in_flight = 1;
  const double left = total_bytes(activation_parts(job, model, memory, rows));
  memory.offloads = false;
  return total_bytes(activation_parts(job, model, memory, rows)) - left;
}

std::vector<MemoryPart> model_memory_parts(const Problem& job, const ModelSizes& model,
                                           const ModelMemory& memory, double rows) {
  std::vector<MemoryPart> parts = activation_parts(job, model, memory, rows);
  const double all = model_weights(job.shape, model, job.layers), e = job.storage_bytes();
  const double of_experts = expert_weights(model, job.layers);
  const double weights = weights_of_rank(job, model, memory.expert_ranks);
  const auto add = [&](const char* name, double bytes, std::string formula) {
    parts.push_back({MemoryPart::Kind::other, name, bytes, std::move(formula), 1, false});
  };
  // What is dealt out is cut where gradients, with the loss behind them, are cut for their sum.
  const int sharers = memory.sharers(job.world_size), dealt_over = memory.dealt_over(sharers);
  const double share = std::ceil((all - of_experts + 1) / dealt_over +
                                 of_experts / std::max(dealt_over, memory.expert_ranks));
  const char* const over = memory.shards > 0 ? "S" : "N";
  const auto of_weights = [&](const char* name, double bytes, const char* formula, int from_stage) {
    const bool dealt = memory.zero_stage >= from_stage && dealt_over > 1;
    add(name, bytes * (dealt ? share : weights),
        dealt ? fmt::format("{} P/{}", formula, over) : fmt::format("{} P", formula));
  };
  of_weights("weights", e, "e", 3);
  const double of_layer = weights_of_layer(job, model, memory);
  const double of_head = static_cast<double>(model.vocab) * static_cast<double>(model.width);
  const bool gathers = memory.zero_stage >= 3 && dealt_over > 1,
             keeps = gathers && memory.keeps_gathered;
  if (keeps)
    add("gathered weights, of the stage", e * weights, "e P");
  else if (gathers)
    add("gathered weights, of two layers", e * std::max(2 * of_layer, of_head),
        "e max(2 P of a layer, V W)");
  if (!job.backward) return parts;
  const double gradient = memory.f32_gradients ? kF32Bytes : e;
  of_weights("gradients of weights", gradient, memory.f32_gradients ? "4" : "e", 2);
  of_weights("optimizer: moments, f32 weights", e < kF32Bytes ? 12 : 8, e < kF32Bytes ? "12" : "8",
             1);
  if (memory.zero_stage >= 2 && dealt_over > 1)
    add(keeps ? "the stage's gradients, to be dealt" : "a layer's gradients, to be dealt",
        gradient * (keeps ? weights : std::max(of_layer, of_head)),
        keeps ? "e P" : "e max(P of a layer, V W)");
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
  const double pairs = (total_pairs(job) + total_pairs(of_second_layers(job, model))) / 2;
  const double attention =
      static_cast<double>(job.layers) * flops_of_pairs(job.shape, pairs, Pass::forward);
  return (job.backward ? 3 : 1) * (products + attention);
}

WeightTraffic weight_traffic(double weights, double stored_bytes, int sharers,
                             const ModelMemory& memory, Index layers, Index micro_batches) {
  if (sharers == 1) return {};
  const int stage = memory.zero_stage, n = stage == 0 ? sharers : memory.dealt_over(sharers);
  const bool keeps = stage == 3 && memory.keeps_gathered;
  // A ring that sums or gathers has N-1 hops, each of an N-th.
  const double hops = n - 1, part = hops / n, copies = sharers / n;
  const auto batches = static_cast<double>(micro_batches);
  const double sums = stage == 0 ? 2 : stage == 1 || keeps ? 1 : batches;
  const double gathers = stage == 0 ? 0 : stage == 3 && !keeps ? 2 * batches : 1;
  return {sums * part * kF32Bytes * (weights + 1),
          gathers * part * stored_bytes * weights,
          2 * (copies - 1) / copies * kF32Bytes * (weights + 1) / n,
          sums * hops,
          gathers * hops * (stage == 3 ? static_cast<double>(layers) : 1),
          2 * (copies - 1)};
}

ModelFigures model_figures(const Gpu& gpu, DType dtype, bool in_8_bits) {
  ModelFigures figures;
  figures.head_flops = gpu.peak_flops(dtype) * gpu.product_share.value_or(gpu.forward_share);
  if (in_8_bits && !(gpu.flops_8bit && gpu.product_share_8bit))
    throw InputError(fmt::format(
        "gpu {} has no tflops_8bit and product_share_8bit; accepted: one that has", gpu.name));
  figures.product_flops =
      in_8_bits ? *gpu.flops_8bit * *gpu.product_share_8bit : figures.head_flops;
  figures.host_bytes_per_s = gpu.host_bytes_per_s.value_or(0);
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

double StepTime::layer() const {
  double sum = 0;
  for (const StepPart& part : kStepParts) sum += part.of_layers ? this->*part.seconds : 0;
  return sum / static_cast<double>(layers);
}

double StepTime::total() const {
  double sum = 0;
  for (const StepPart& part : kStepParts) sum += this->*part.seconds;
  return sum;
}

namespace {

double seconds_of(double bytes, double messages, const Link& link) {
  return bytes == 0 ? 0 : bytes / link.bytes_per_s + messages * link.latency_s;
}

// Return the seconds that rows are on their way to X ranks' experts and back, in all layers and passes.
double to_experts(const Problem& job, const ModelSizes& model, const ModelMemory& memory,
                  double tokens, const Link& link) {
  const double others = memory.expert_ranks - 1;
  const double passes = !job.backward                                               ? 1
                        : memory.recompute == Recompute::layer || memory.chunks > 1 ? 3
                                                                                    : 2;
  const double bytes = sent_to_experts(model) * tokens / memory.row_shares *
                       static_cast<double>(model.width) * job.storage_bytes() * others /
                       memory.expert_ranks;
  return 2 * passes * static_cast<double>(job.layers) * seconds_of(bytes, others, link);
}

// Add the time of sending gradients and weights, of which those of experts have fewer copies.
void add_weights_sent(StepTime& time, const Problem& job, const ModelSizes& model,
                      const ModelMemory& memory, const StepLinks& links, Index micro_batches) {
  const int sharers = memory.sharers(job.world_size);
  const double of_experts = expert_weights(model, job.layers);
  const auto add = [&](double weights, int ranks) {
    const WeightTraffic sent =
        weight_traffic(weights, job.storage_bytes(), ranks, memory, job.layers, micro_batches);
    time.reduction += seconds_of(sent.gradient_bytes, sent.gradient_messages, links.weights) +
                      seconds_of(sent.copy_bytes, sent.copy_messages, links.copies);
    time.gathering += seconds_of(sent.weight_bytes, sent.weight_messages, links.weights);
  };
  // The pieces of a large hop count as one message. They could follow each other without a wait, as
  // libraries send them.
  if (memory.expert_ranks == 1) return add(model_weights(job.shape, model, job.layers), sharers);
  add(model_weights(job.shape, model, job.layers) - of_experts, sharers);
  add(of_experts / memory.expert_ranks, sharers / memory.expert_ranks);
}

}  // namespace

StepTime step_time(const Problem& job, const ModelSizes& model, double rows, double attention_s,
                   const ModelFigures& figures, const StepLinks& links, const ModelMemory& memory,
                   double attention_forward_s, Index micro_batches) {
  const double tokens = static_cast<double>(job.shape.batch) * rows;
  const auto layers = static_cast<double>(job.layers);
  const auto width = static_cast<double>(model.width);
  const double hidden = hidden_of(model);
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
  const double norms = width / memory.row_shares, heads = values_in_heads(job.shape);
  time.values = layers * (values(2 * norms, figures.norm) + values(hidden, figures.gate) +
                          values(heads + 2 * sent_to_experts(model) * norms, figures.heads));
  time.head = passes * head_flops(model, tokens) / figures.head_flops +
              values(norms, figures.norm) + values(static_cast<double>(model.vocab), figures.loss);
  time.experts = to_experts(job, model, memory, tokens, links.experts);
  if (!job.backward) return time;
  const double again = std::max(layers - 1, 0.0);  // layers; the last one's values are still there
  const bool whole = memory.recompute == Recompute::layer;
  if (memory.recompute != Recompute::none) {
    // The output is projected again only if what follows it is gone, too.
    const double projected =
        input_weights(job.shape, model) + (whole ? output_weights(job.shape, model) : 0);
    const double q = static_cast<double>(job.shape.num_heads * job.shape.head_dim);
    time.recomputed = again * (attention_forward_s +
                               tokens * (2 * projected / figures.product_flops +
                                         (whole ? heads : heads - q) * figures.heads.forward +
                                         (whole ? 2 * norms * figures.norm.forward : 0)));
  }
  if (whole || memory.chunks > 1)  // gate and up, two of the MLP's three products
    time.recomputed += (memory.chunks > 1 ? layers : again) *
                       (mlp_flops(model, tokens) * 2 / 3 / figures.product_flops +
                        tokens * hidden * figures.gate.forward);
  if (memory.offloads && figures.host_bytes_per_s > 0) {
    // Activations leave during the forward pass and come back during the backward pass.
    Problem forward = job;
    forward.backward = false;
    const double first = layers * step_time(forward, model, rows, attention_forward_s, figures,
                                            links, memory)
                                      .layer(),
                 second = layers * time.layer() - first;
    const double moving = offloaded_bytes(job, model, memory, rows) / figures.host_bytes_per_s;
    time.offload = std::max(0.0, moving - first) + std::max(0.0, moving - second);
  }
  for (const StepPart& part : kStepParts)
    if (part.of_layers || part.seconds == &StepTime::head)
      time.*part.seconds *= static_cast<double>(micro_batches);
  const int sharers = memory.sharers(job.world_size);
  const double own = weights_of_rank(job, model, memory.expert_ranks);
  time.update = figures.update_s * (memory.zero_stage > 0 ? own / memory.dealt_over(sharers) : own);
  add_weights_sent(time, job, model, memory, links, micro_batches);
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
  ModelSizes share = whole;
  share.hidden = ceil_div(whole.hidden, tensor);
  share.expert_hidden = ceil_div(whole.expert_hidden, tensor);
  share.vocab = ceil_div(whole.vocab, tensor);
  share.tied = whole.tied || pipeline > 1;  // a stage at an end has the embedding or the head
  return share;
}

void ModelSplit::tell(ModelMemory& memory, bool backward, Index micro_batches) const {
  memory.replicas = data;
  memory.keeps_gathered = pipeline > 1;
  memory.row_shares = sequence_parallel ? tensor : 1;
  const double filled = pipeline + (pieces > 1 ? (pipeline - 1.0) / pieces : 0);
  memory.in_flight = backward ? std::min(filled, static_cast<double>(micro_batches)) : 1;
}

void add_split(StepTime& time, const Problem& share, const ModelSizes& sizes,
               const ModelMemory& memory, const ModelSplit& split, Index layers, double rows,
               const StepLinks& links, Index micro_batches) {
  const auto batches = static_cast<double>(micro_batches);
  const double row_bytes = static_cast<double>(share.shape.batch) * rows *
                           static_cast<double>(sizes.width) * share.storage_bytes();
  // Of a sum, half the bytes and messages scatter and half gather.
  const double halves = !share.backward ? 4
                                        : 8 + (memory.recompute == Recompute::layer ? 4 : 0) +
                                              (split.sequence_parallel ? 2 : 0);
  const double others = split.tensor - 1;
  time.tensor = batches * static_cast<double>(share.layers) * halves *
                seconds_of(others / split.tensor * row_bytes, others, links.tensor);
  if (split.pipeline == 1) return;
  const double stage = time.layer() * static_cast<double>(time.layers);
  const double filling = stage / batches / split.pieces;
  // The last stage has the fewer layers where they can't be dealt out evenly.
  const double last =
      static_cast<double>(layers / split.pipeline) / static_cast<double>(share.layers);
  if (last * stage + time.head > stage) {
    for (const StepPart& part : kStepParts)
      if (part.of_layers) time.*part.seconds *= last;
    time.layers = layers / split.pipeline;
  } else {
    time.head = 0;
  }
  const double message = seconds_of(row_bytes / memory.row_shares, 1, links.pipeline);
  time.pipeline = (split.pipeline - 1) * (filling + (share.backward ? 2 : 1) * message);
}

}  // namespace ringscope
