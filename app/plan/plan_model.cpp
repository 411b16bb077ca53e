// A whole step of a model around the plan's attention: its time by part, and attention's share.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <tuple>
#include <vector>

#include "app/plan/plan.h"
#include "app/report/machine.h"
#include "core/base/text.h"
#include "core/ring/loop_counts.h"
#include "core/tools/cost/measure.h"
#include "core/tools/sim/simulate.h"
#include "core/training/matrix_product.h"

namespace ringscope {
namespace {

struct Part {
  const char* name;
  const char* key;
  double seconds;
  bool of_layers;  // else once per step
};

std::vector<Part> parts_of(const StepTime& step) {
  return {{"attention", "attention_s", step.attention, true},
          {"projections", "projections_s", step.projections, true},
          {"MLP", "mlp_s", step.mlp, true},
          {"norms, gates, heads", "values_s", step.values, true},
          {"head and loss", "head_s", step.head, false},
          {"computed again", "recomputed_s", step.recomputed, true},
          {"tensor: sums of rows", "tensor_s", step.tensor, true},
          {"pipeline: filling", "pipeline_s", step.pipeline, false},
          {"gradients added up", "reduction_s", step.reduction, false},
          {"weights gathered", "gathering_s", step.gathering, false},
          {"AdamW", "update_s", step.update, false}};
}

double tokens_of(const Plan& plan) {
  return static_cast<double>(plan.chosen.job.shape.batch) * plan.rows;
}

// Return the weights of a rank's share; without `share` those of the whole model.
double weights_of(const Plan& plan, bool share = false) {
  const PlanOptions& options = plan.options;
  const Problem& job = share ? options.job : options.whole;
  return model_weights(job.shape, share ? *options.model : *options.whole_model, job.layers);
}

// Return the model's FLOP/s of one rank.
double model_flops_per_s(const Plan& plan) {
  const PlanOptions& options = plan.options;
  return static_cast<double>(options.micro_batches) *
         model_flops(options.whole, *options.whole_model) /
         (options.split.tensor * options.split.pipeline * plan.chosen.job.world_size) /
         plan.model->step.total();
}

// Return whether attention's time is simulated from its tiles, rows and hops, as `simulate
// --measure` does. They matter in short sequences; in the longest ones they don't, and counting
// them would take long.
bool is_simulated(const Plan& plan) {
  const Problem& job = plan.chosen.job;
  return plan.model->kernels && !plan.options.is_searched() && is_plain(job) &&
         job.world_size <= 64 && job.shape.seqlen <= (1 << 17);
}

// Return the seconds of one layer's attention.
double simulated_seconds(const Plan& plan) {
  const Problem& job = plan.chosen.job;
  Machine machine;
  machine.world_size = job.world_size;
  machine.rates = plan.rates;
  machine.cores = cores();
  machine.cpu = std::make_shared<const CpuFigures>(*plan.model->kernels);
  return simulate({.job = job, .pace = Pace::buffers}, Work(job), machine).wall_s();
}

// A product of the size that a layer's weights make of many rows.
struct ProductBench {
  static constexpr Index kRows = 512, kWidth = 512;
  MatrixProduct product;
  std::vector<float> a = std::vector<float>(kRows * kWidth, 0.5f), b = a, c = a;

  void run() {
    product(Store::overwrite, row_major(a.data(), kRows, kWidth),
            row_major(b.data(), kWidth, kWidth), c.data());
  }
};

}  // namespace

ModelPlan model_plan(const Plan& plan) {
  const Problem& job = plan.options.job;
  const ModelSizes& sizes = *plan.options.model;
  if (!plan.is_measured) return {sizes, model_figures(plan.gpu, job.dtype), {}, {}};
  const int busy = std::min(cores(), job.world_size);
  std::vector<std::unique_ptr<ProductBench>> benches;
  for (int i = 0; i < busy; ++i) benches.push_back(std::make_unique<ProductBench>());
  const double seconds = slowest_thread(
      benches, [](ProductBench& bench) { return fastest_of(0.2, {[&] { bench.run(); }}); })[0];
  const double flops = 2.0 * ProductBench::kRows * ProductBench::kWidth * ProductBench::kWidth;
  ModelFigures figures;
  figures.product_flops = flops / seconds * busy / job.world_size;
  CpuFigures kernels = measured_kernels(job, job.world_size);
  kernels.start_s = 0;  // a rank's thread lasts for all layers
  return {sizes, figures, kernels, {}};
}

StepTime step_time(const Plan& plan) {
  const ModelPlan& model = *plan.model;
  const double attention_s =
      is_simulated(plan) ? simulated_seconds(plan) : plan.chosen.time.total();
  const PlanOptions& options = plan.options;
  Rates rates = plan.rates;
  rates.bytes_per_s = plan.weight_link.bytes_per_s;
  rates.latency_s = plan.weight_link.latency_s;
  StepTime step =
      step_time(plan.chosen.job, model.sizes, plan.rows, attention_s, model.figures, rates,
                options.model_memory, plan.chosen.time.forward.total(), options.micro_batches);
  add_split(step, plan.chosen.job, model.sizes, options.model_memory, options.split,
            options.whole.layers, plan.rows, plan.tensor_link, plan.pipeline_link,
            options.micro_batches);
  return step;
}

double tokens_per_s(const Plan& plan) {
  const AttentionShape& s = plan.chosen.job.shape;
  return static_cast<double>(plan.options.micro_batches * plan.options.split.data * s.batch *
                             s.seqlen) /
         plan.model->step.total();
}

// Return the share of the device's peak that a rank's FLOP/s are, or none for a machine that was
// measured, whose peak is not known.
std::optional<double> mfu_of(const Plan& plan) {
  if (plan.is_measured) return std::nullopt;
  return model_flops_per_s(plan) / plan.gpu.peak_flops(plan.chosen.job.dtype);
}

std::string model_text(const Plan& plan) {
  const Problem& job = plan.chosen.job;
  const StepTime& step = plan.model->step;
  const ModelSizes& sizes = *plan.options.whole_model;
  std::string text = labelled_line(
      20, "model",
      fmt::format("width {}, hidden {}, vocab {}, {}; {:.6g} weights", sizes.width, sizes.hidden,
                  sizes.vocab, count_text(plan.options.whole.layers, "layer"), weights_of(plan)));
  const auto row = [&](const char* name, double seconds, const std::string& layer,
                       const std::string& share) {
    return Fields{{"", name, job.backward ? "time of a step" : "time of a pass", -20,
                   [](const std::string& part) { return "  " + part; }},
                  {"", seconds, "in all", 13, seconds_text},
                  {"", layer, "a layer", 12},
                  {"", share, "share", 12}};
  };
  std::vector<Fields> rows;
  for (const Part& part : parts_of(step))
    if (part.seconds != 0)
      rows.push_back(
          row(part.name, part.seconds,
              part.of_layers ? seconds_text(part.seconds / static_cast<double>(step.layers)) : "",
              percent_text(part.seconds / step.total())));
  rows.push_back(row("all of it", step.total(), seconds_text(step.layer()), ""));
  text += table_text(rows);
  text += fmt::format("  {:<18}{:.6g} tokens/s, {:.4g} FLOP/s a rank{}\n", "throughput",
                      tokens_per_s(plan), model_flops_per_s(plan),
                      mfu_of(plan) ? ", MFU " + percent_text(*mfu_of(plan)) : "");
  return text;
}

Fields model_fields(const Plan& plan) {
  const Problem& job = plan.chosen.job;
  const ModelSizes &sizes = plan.model->sizes, &whole = *plan.options.whole_model;
  const StepTime& step = plan.model->step;
  Fields fields{{"width", whole.width},
                {"hidden", whole.hidden},
                {"vocab", whole.vocab},
                {"layers", plan.options.whole.layers},
                {"weights", weights_of(plan)},
                {"product_flops", plan.model->figures.product_flops},
                {"projection_flops", projection_flops(job.shape, sizes, tokens_of(plan))},
                {"mlp_flops", mlp_flops(sizes, tokens_of(plan))},
                {"head_flops", head_flops(sizes, tokens_of(plan))}};
  for (const Part& part : parts_of(step)) fields.emplace_back(part.key, part.seconds);
  return fields + Fields{{"layer_s", step.layer()},
                         {"total_s", step.total()},
                         {"attention_share", step.attention_share()},
                         {"tokens_per_s", tokens_per_s(plan)},
                         {"model_flops", model_flops(plan.options.whole, whole)},
                         {"mfu", mfu_of(plan)},
                         {"recompute", name_of(plan.options.model_memory.recompute)},
                         {"chunks", plan.options.model_memory.chunks},
                         {"zero_stage", plan.options.model_memory.zero_stage},
                         {"micro_batches", plan.options.micro_batches}};
}

void explain_model(PlanExplanation& all, const Plan& plan) {
  const Problem& job = plan.chosen.job;
  const ModelSizes& sizes = plan.model->sizes;
  const ModelFigures& figures = plan.model->figures;
  const StepTime& step = plan.model->step;
  const double tokens = tokens_of(plan), e = job.storage_bytes(), n = job.world_size;
  const bool measured = plan.is_measured, by_tiles = is_simulated(plan);
  all.say(fmt::format("model: T = b c rows of a rank = {:.0f}, W width, F hidden, V vocab; {}",
                      tokens,
                      job.backward ? "backward each product costs two, dx = dy w^T and dw = x^T dy"
                                   : "the forward pass only"));
  all.add("attention",
          by_tiles ? "a layer of `simulate --measure`, by tiles, rows and hops" : "time above",
          by_tiles ? "measured now; short blocks cost more than their FLOPs" : "as above",
          "{} a layer", seconds_text(step.attention / static_cast<double>(step.layers)));
  all.add("F of products", measured ? "FLOPs of a large product / time" : "peak x product_share",
          measured ? "measured now" : "table of hardware; without it attention's forward_share",
          "{:.4g} FLOP/s", figures.product_flops);

  constexpr const char* product = "2 x {:.0f} x {} x {} = {:.6g}";
  all.add("projections", "2 T W d (2H + 2G) a layer forward, of Q, K, V and the output",
          "two FLOPs a multiply-add: S0, Arithmetic Complexity",
          "2 x {:.0f} x {} x {} x {} = {:.6g}", tokens, sizes.width, job.shape.head_dim,
          2 * (job.shape.num_heads + job.shape.num_heads_kv),
          projection_flops(job.shape, sizes, tokens));
  all.add("MLP", "2 T W 3F a layer forward, gate, up and down",
          "S1 part one 2.2: rows by themselves, nothing is sent", product, tokens, sizes.width,
          3 * sizes.hidden, mlp_flops(sizes, tokens));
  all.add("head", "2 T W V forward",
          sizes.tied ? "once a step; its matrix is the embedding" : "once a step", product, tokens,
          sizes.width, sizes.vocab, head_flops(sizes, tokens));

  const std::tuple<const char*, const char*, ValueSeconds> values[] = {
      {"norms", "2 T W values a layer, T W before the head", figures.norm},
      {"gates", "T F values a layer", figures.gate},
      {"heads", "T (2H + 2G) d values a layer, turned and brought in order", figures.heads},
      {"loss", "T V values", figures.loss}};
  for (const auto& [name, formula, seconds] : values)
    all.add(name, formula, measured ? "not measured" : "bytes read and written / memory_gb_per_s",
            "{:.3g} s forward, {:.3g} s backward a value", seconds.forward, seconds.backward);

  if (step.tensor > 0)
    all.add("tensor", "4 sums a layer (6 with --recompute layer), 2 (T-1)/T b c W e / B + messages",
            "Megatron-LM; with --sequence-parallel the rows are gathered twice more", "{} in all",
            seconds_text(step.tensor));
  if (step.pipeline > 0)
    all.add("pipeline", "(P-1) / V of a micro-batch without the head, and (P-1) messages each way",
            "Narayanan et al., 2021, section 2.2",
            "{}; M micro-batches on the slowest stage besides", seconds_text(step.pipeline));

  constexpr const char* sent = "{:.6g} bytes sent by a rank, {}{}";
  const int stage = plan.options.model_memory.zero_stage;
  const double weights = weights_of(plan, true);
  const WeightTraffic traffic =
      weight_traffic(weights, e, plan.options.model_memory.sharers(job.world_size), stage,
                     job.layers, plan.options.micro_batches);
  if (job.backward) {
    const std::string sums = stage == 0 ? "2 " : stage == 1 ? "" : "a micro-batch ";
    all.add("weights", "V W (2 V W with a head of its own) + W + L (W d (2H + 2G) + 3 W F + 2 W)",
            stage > 0 ? "every rank updates an N-th" : "every rank updates all of them",
            "{:.6g} of a rank, AdamW {:.3g} s each", weights, figures.update_s);
    all.add("gradients", sums + "(N-1)/N of 4 bytes a weight / B + messages",
            "S1 part one 2.3: a sum over the context group; nothing hides it", sent,
            traffic.gradient_bytes, seconds_text(step.reduction), "");
  }
  if (stage > 0)
    all.add("gathered weights",
            (stage == 3 ? "2 a micro-batch " : "") + std::string("(N-1)/N e P / B"),
            "ZeRO, section 7; nothing hides it here", sent, traffic.weight_bytes,
            seconds_text(step.gathering), "");
  const double to_experts = 2 * 2 * tokens * static_cast<double>(sizes.width) * e * (n - 1) / n;
  const double to_host = 2 * kv_values(job.shape, plan.rows) * e;
  all.add("experts", "2 k T W e (N-1)/N a layer, rows to k experts on N ranks and back",
          "not in this plan; S3, Section 14: MoE silence", sent, to_experts,
          seconds_text(to_experts / plan.rates.bytes_per_s), " with k = 2");
  all.add("KV offload", "2 b c d G e a layer, to the host",
          "not in this plan; S3, 8D: KV-cache offloading", sent, to_host,
          seconds_text(to_host / find_link("PCIe5").bytes_per_s), " over PCIe5");
}

}  // namespace ringscope
