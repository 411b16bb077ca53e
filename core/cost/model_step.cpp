#include "core/cost/model_step.h"

#include <fmt/format.h>

#include <sstream>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/cost/amounts.h"

// The text of core/cost/models.txt.
extern const char kBuiltinModels[];

namespace ringscope {
namespace {

constexpr double kF32Bytes = 4;

// Return the values per row of Q, O, K and V together.
double values_in_heads(const AttentionShape& heads) {
  return static_cast<double>(2 * (heads.num_heads + heads.num_heads_kv) * heads.head_dim);
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
  const double of_layer =
      width * (values_in_heads(heads) + 3 * static_cast<double>(model.hidden) + 2);
  return (model.tied ? 1 : 2) * width * static_cast<double>(model.vocab) + width +
         static_cast<double>(layers) * of_layer;
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

std::vector<MemoryPart> model_memory_parts(const Problem& job, const ModelSizes& model,
                                           const ModelMemory& memory, double rows) {
  Problem attention = job;
  // A layer that is computed again keeps its Q, K, V and O only meanwhile.
  if (memory.recompute != Recompute::none) attention.layers = 1;
  std::vector<MemoryPart> parts = memory_parts(attention, rows);
  const auto add = [&](const char* name, double bytes, std::string formula) {
    if (bytes > 0)
      parts.push_back({MemoryPart::Kind::other, name, bytes, std::move(formula), 1, false});
  };
  const double weights = model_weights(job.shape, model, job.layers), n = job.world_size;
  const double e = job.storage_bytes(), tokens = static_cast<double>(job.shape.batch) * rows;
  const auto layers = static_cast<double>(job.layers), width = static_cast<double>(model.width);
  const auto hidden = static_cast<double>(model.hidden);
  const auto of_weights = [&](const char* name, double bytes, const char* formula, int from_stage) {
    const bool dealt = memory.zero_stage >= from_stage;
    add(name, bytes * weights / (dealt ? n : 1), fmt::format("{} P{}", formula, dealt ? "/N" : ""));
  };
  of_weights("weights", e, "e", 3);
  if (job.backward) {
    of_weights("gradients of weights", memory.f32_gradients ? kF32Bytes : e,
               memory.f32_gradients ? "4" : "e", 2);
    of_weights("optimizer: moments, f32 weights", e < kF32Bytes ? 12 : 8,
               e < kF32Bytes ? "12" : "8", 1);
  }
  const bool keeps_layers = job.backward && memory.recompute != Recompute::layer;
  const double kept = keeps_layers ? layers : 1;
  add("residual stream and norms", kept * 4 * width * tokens * e,
      keeps_layers ? "L 4 W T e" : "4 W T e");
  add("MLP: gate, up, their product", kept * 3 * hidden * tokens * e,
      keeps_layers ? "L 3 F T e" : "3 F T e");
  if (job.backward && !keeps_layers)
    add("inputs of layers", layers * width * tokens * e, "L W T e");
  add("logits, f32", kF32Bytes * static_cast<double>(model.vocab) * tokens, "4 V T");
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

double reduction_bytes(double weights, int world_size) {
  return 2 * (world_size - 1.0) / world_size * kF32Bytes * (weights + 1);
}

ModelFigures model_figures(const Gpu& gpu, DType dtype) {
  ModelFigures figures;
  figures.product_flops = gpu.peak_flops(dtype) * gpu.forward_share;
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
                   const ModelFigures& figures, const Rates& rates, Recompute recompute,
                   double attention_forward_s) {
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
  time.values = layers * (values(2 * width, figures.norm) +
                          values(static_cast<double>(model.hidden), figures.gate) +
                          values(values_in_heads(job.shape), figures.heads));
  time.head = product(head_flops(model, tokens)) + values(width, figures.norm) +
              values(static_cast<double>(model.vocab), figures.loss);
  if (!job.backward) return time;
  if (recompute != Recompute::none) time.recomputed = layers * attention_forward_s;
  if (recompute == Recompute::layer)
    time.recomputed += (time.projections + time.mlp) / passes +
                       layers * tokens *
                           (2 * width * figures.norm.forward +
                            static_cast<double>(model.hidden) * figures.gate.forward +
                            values_in_heads(job.shape) * figures.heads.forward);
  const double weights = model_weights(job.shape, model, job.layers);
  time.update = weights * figures.update_s;
  if (job.world_size > 1)
    time.reduction = reduction_bytes(weights, job.world_size) / rates.bytes_per_s +
                     2 * (job.world_size - 1) * rates.latency_s;
  return time;
}

}  // namespace ringscope
