// The time of a model's step, against sums written out here. (What real models do:
// tests/core/training/training_run_test.cpp.)
#include "core/tools/cost/model_step.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/tools/cost/time.h"
#include "tests/core/base/thrown.h"
#include "tests/temporary_folder.h"

namespace ringscope {
namespace model_step_test {

const Rates kRates{1e10, 8e9, 4e7, 2e-4};
const ModelSizes kSizes{48, 130, 256};
// Every figure another one, so that none can stand for another.
const ModelFigures kFigures{3e9,   {1e-9, 2e-9}, {3e-9, 5e-9}, {7e-9, 11e-9}, {13e-9, 17e-9},
                            19e-9, 5e9,          6e8};
const Link kLink{"", 4e7, 2e-4}, kToCopies{"", 3e7, 3e-4}, kToExperts{"", 2e7, 5e-4};
const StepLinks kLinks{kLink, kToCopies, kToExperts, {"", 1e6, 1e-3}, {"", 2e6, 5e-4}};

Problem job_of(int n, bool backward) {
  Problem job;
  job.shape = {2, 8, 4, 1023, 16};
  job.world_size = n;
  job.backward = backward;
  job.layers = 5;
  return job;
}

StepTime time_of(const Problem& job) {
  return step_time(job, kSizes, job.max_rows(), layer_time(job, balance_of(job), kRates).total(),
                   kFigures, kLinks);
}

TEST(ModelStep, IsTheSumOfItsParts) {
  for (const int n : {1, 2, 4})
    for (const bool backward : {false, true}) {
      const Problem job = job_of(n, backward);
      const StepTime time = time_of(job);
      const double tokens = 2 * std::ceil(1023.0 / n), products = (backward ? 3 : 1) / 3e9;
      const auto both = [&](double forward, double back) {
        return tokens * (backward ? forward + back : forward);
      };
      EXPECT_DOUBLE_EQ(time.attention, 5 * layer_time(job, balance_of(job), kRates).total());
      EXPECT_DOUBLE_EQ(time.projections, 5 * products * 2 * tokens * 48 * 16 * (8 + 4 + 4 + 8));
      EXPECT_DOUBLE_EQ(time.mlp, 5 * products * 2 * tokens * 48 * 130 * 3);
      EXPECT_NEAR(
          time.values,
          5 * (2 * 48 * both(1e-9, 2e-9) + 130 * both(3e-9, 5e-9) + 24 * 16 * both(7e-9, 11e-9)),
          1e-12);
      EXPECT_NEAR(time.head,
                  products * 3 / 5 * 2 * tokens * 48 * 256 + 48 * both(1e-9, 2e-9) +
                      256 * both(13e-9, 17e-9),
                  1e-12);
      const double weights = 256 * 48 + 48 + 5 * (48 * (24 * 16) + 3 * 48 * 130 + 2 * 48);
      EXPECT_DOUBLE_EQ(time.update, backward ? weights * 19e-9 : 0);
      EXPECT_NEAR(
          time.reduction,
          backward && n > 1 ? 2 * (n - 1.0) / n * 4 * (weights + 1) / 4e7 + 2 * (n - 1) * 2e-4 : 0,
          1e-12);
      EXPECT_DOUBLE_EQ(time.total(), time.attention + time.projections + time.mlp + time.values +
                                         time.head + time.reduction + time.gathering + time.update);
      EXPECT_DOUBLE_EQ(time.attention_share(), time.attention / time.total());
      EXPECT_DOUBLE_EQ(time.layer() * 5,
                       time.attention + time.projections + time.mlp + time.values);
    }
}

// By stage of ZeRO, what is dealt out is updated in part, summed in half the bytes, and gathered. Stages of
// a pipeline keep gathered weights until the step is over. Copies of what is dealt out are added up.
TEST(ModelStep, SendsAndUpdatesByTheStageOfZero) {
  constexpr double kN = 4, kWeights = 1e6, kLayers = 5, kBatches = 3, kPart = (kN - 1) / kN;
  const double sum = kPart * 4 * (kWeights + 1), gather = kPart * 2 * kWeights;
  ModelMemory kept{3}, copied{2}, copied_3{3};
  kept.keeps_gathered = true;
  copied.shards = copied_3.shards = 2;
  const double half =
      4 * (kWeights + 1) / 2;  // N = S = 2, and two copies of a half: 2 (1 - 1/2) / 2
  const std::tuple<ModelMemory, WeightTraffic> stages[] = {
      {{0}, {2 * sum, 0, 0, 2 * (kN - 1), 0, 0}},
      {{1}, {sum, gather, 0, kN - 1, kN - 1, 0}},
      {{2}, {kBatches * sum, gather, 0, kBatches * (kN - 1), kN - 1, 0}},
      {{3},
       {kBatches * sum, 2 * kBatches * gather, 0, kBatches * (kN - 1),
        2 * kBatches * kLayers * (kN - 1), 0}},
      {kept, {sum, gather, 0, kN - 1, kLayers * (kN - 1), 0}},
      {copied, {kBatches * half, kWeights, half, kBatches, 1, 2}},
      {copied_3,
       {kBatches * half, 2 * kBatches * kWeights, half, kBatches, 2 * kBatches * kLayers, 2}}};
  for (const auto& [memory, expected] : stages) {
    SCOPED_TRACE(memory.zero_stage);
    const WeightTraffic sent = weight_traffic(kWeights, 2, 4, memory, 5, 3);
    EXPECT_DOUBLE_EQ(sent.gradient_bytes, expected.gradient_bytes);
    EXPECT_DOUBLE_EQ(sent.weight_bytes, expected.weight_bytes);
    EXPECT_DOUBLE_EQ(sent.copy_bytes, expected.copy_bytes);
    EXPECT_DOUBLE_EQ(sent.gradient_messages, expected.gradient_messages);
    EXPECT_DOUBLE_EQ(sent.weight_messages, expected.weight_messages);
    EXPECT_DOUBLE_EQ(sent.copy_messages, expected.copy_messages);

    const Problem job = job_of(4, true);
    const double own = model_weights(job.shape, kSizes, job.layers);
    const StepTime time =
        step_time(job, kSizes, job.max_rows(), 1, kFigures, kLinks, memory, 0.25, 3);
    const WeightTraffic of_step = weight_traffic(own, 4, 4, memory, 5, 3);
    const int shards = memory.zero_stage == 0 ? 1 : memory.shards > 0 ? 2 : 4;
    EXPECT_DOUBLE_EQ(time.update, own * 19e-9 / shards);
    EXPECT_NEAR(time.reduction,
                of_step.gradient_bytes / 4e7 + of_step.gradient_messages * 2e-4 +
                    of_step.copy_bytes / 3e7 + of_step.copy_messages * 3e-4,
                1e-12);
    EXPECT_DOUBLE_EQ(time.gathering, of_step.weight_bytes / 4e7 + of_step.weight_messages * 2e-4);
    EXPECT_DOUBLE_EQ(time.attention, 3 * 5);
  }
  EXPECT_EQ(weight_traffic(kWeights, 2, 1, {3}, 5, 3).weight_bytes, 0);
}

// What is computed again: in all layers but the last, whose values are still there, and in pieces
// the MLP's gate and up in all.
TEST(ModelStep, CountsWhatIsComputedAgain) {
  const Problem job = job_of(2, true);
  const double tokens = 2 * 512, attention = 0.25, gate_and_up = 2 * tokens * 48 * 2 * 130 / 3e9;
  const auto again = [&](const ModelMemory& memory) {
    return step_time(job, kSizes, job.max_rows(), 1, kFigures, kLinks, memory, attention)
        .recomputed;
  };
  const auto heads = [&](double of_d) {  // projected and brought into order
    return 2 * tokens * 48 * 16 * of_d / 3e9 + tokens * 16 * of_d * 7e-9;
  };
  EXPECT_EQ(again({}), 0);
  EXPECT_NEAR(again({0, Recompute::attention}), 4 * (attention + heads(8 + 4 + 4)), 1e-12);
  const double mlp = gate_and_up + tokens * 130 * 3e-9;
  const double layer = attention + heads(8 + 4 + 4 + 8) + tokens * 2 * 48 * 1e-9;
  EXPECT_NEAR(again({0, Recompute::layer}), 4 * (layer + mlp), 1e-12);
  EXPECT_NEAR(again({0, Recompute::layer, false, 3}), 4 * layer + 5 * mlp, 1e-12);
  EXPECT_NEAR(again({0, Recompute::none, false, 3}), 5 * mlp, 1e-12);
}

// Return the sum of the bill's parts whose names begin with one of `names`; of all parts without.
double bytes_of(const std::vector<MemoryPart>& bill, std::initializer_list<const char*> names) {
  double sum = 0;
  for (const MemoryPart& part : bill)
    for (const char* const name : names)
      if (std::string_view(part.name).starts_with(name)) sum += part.bytes;
  return names.size() == 0 ? total_bytes(bill) : sum;
}

// The stage of a pipeline with most to do sets its pace: here the last one, with the head, if it has as
// many layers as the others. The first one keeps several micro-batches' activations.
TEST(ModelStep, SplitsByHeadsLayersAndBatches) {
  Problem job = job_of(4, true);
  const ModelSizes sizes{48, 130, 256, false};
  for (const Index layers : {12, 11}) {
    job.layers = layers;
    const ModelSplit split{2, 3, 5, 2, true};
    const Problem share = split.share_of(job);
    EXPECT_EQ(share.shape.num_heads, 4);
    EXPECT_EQ(share.layers, 4);
    const ModelSizes own = split.share_of(sizes);
    EXPECT_EQ(own.hidden, 65);
    ModelMemory memory{1};
    split.tell(memory, true, 7);
    EXPECT_EQ(memory.sharers(4), 20);
    EXPECT_EQ(memory.in_flight, 4);  // 3 + 2/2
    const StepTime stage = step_time(share, own, 256, 1, kFigures, kLinks, memory, 0.25, 7);
    StepTime time = stage;
    add_split(time, share, own, memory, split, layers, 256, kLinks, 7);
    const double rows = 2 * 256 * 48 * 4, of_layers = layers == 12 ? 1 : 0.75;
    const double sums = 7 * 4 * 10 * (0.5 * rows / 1e6 + 1e-3);
    const double all = stage.attention + stage.projections + stage.mlp + stage.values + sums;
    const bool head_counts = of_layers * all + stage.head > all;
    EXPECT_EQ(head_counts, layers == 12);
    EXPECT_NEAR(time.tensor, sums, 1e-9);
    EXPECT_EQ(time.head, head_counts ? stage.head : 0);
    EXPECT_NEAR(time.pipeline, 2 * (all / 7 / 2 + 2 * (rows / 2 / 2e6 + 5e-4)), 1e-9);
    EXPECT_EQ(time.reduction, stage.reduction);
    // Weights and what is dealt out of them; activations of 16 layers of a stage that has 4.
    const std::vector<MemoryPart> bill = model_memory_parts(share, own, memory, 256);
    EXPECT_DOUBLE_EQ(bytes_of(bill, {"optimizer"}),
                     8 * std::ceil((model_weights(share.shape, own, 4) + 1) / 20));
    EXPECT_DOUBLE_EQ(bytes_of(bill, {"MLP"}), 16 * 3.0 * 65 * 512 * 4);
    EXPECT_DOUBLE_EQ(bytes_of(bill, {"residual"}), 16 * (4 * 48 * 4 + 8) * 256.0);
  }
}

// A mixture of experts and latent attention, from sums written out here: four of five layers have eight
// experts of 40, of which a row passes two and one that is shared, and the fifth an MLP of 130.
TEST(ModelStep, CountsExpertsAndLatentAttention) {
  ModelSizes sizes{48, 130, 256};
  sizes.experts = 8, sizes.active = 2, sizes.shared = 1, sizes.expert_hidden = 40,
  sizes.dense = 0.2;
  const Problem job = job_of(4, true);
  const double attention = 48 * 16 * 24, expert = 3 * 48 * 40, router = 48 * 8;
  const double of_experts = 4 * 8 * expert;
  const double all =
      256 * 48 + 48 + 5 * (attention + 2 * 48) + 3 * 48 * 130 + 4 * (expert + router) + of_experts;
  EXPECT_NEAR(model_weights(job.shape, sizes, 5), all, 1e-6);
  EXPECT_NEAR(expert_weights(sizes, 5), of_experts, 1e-6);
  EXPECT_NEAR(5 * mlp_flops(sizes, 100), 200 * (3 * 48 * 130 + 4 * (3 * expert + router)), 1e-6);

  // Two ranks share the experts: 512 rows go to two of them in four layers, in both passes and back.
  ModelMemory memory{1};
  memory.expert_ranks = 2;
  const auto time = [&] { return step_time(job, sizes, 256, 1, kFigures, kLinks, memory, 0.25); };
  const double bytes = 0.8 * 2 * 512 * 48 * 4 / 2;
  EXPECT_NEAR(time().experts, 5 * 4 * (bytes / 2e7 + 5e-4), 1e-9);
  memory.recompute = Recompute::layer;
  EXPECT_NEAR(time().experts, 5 * 6 * (bytes / 2e7 + 5e-4), 1e-9);
  const WeightTraffic of_rest = weight_traffic(all - of_experts, 4, 4, memory, 5, 1),
                      of_half = weight_traffic(of_experts / 2, 4, 2, memory, 5, 1);
  EXPECT_NEAR(time().gathering,
              (of_rest.weight_bytes + of_half.weight_bytes) / 4e7 + (3 + 1) * 2e-4, 1e-9);
  const auto bill = model_memory_parts(job, sizes, memory, 256);
  EXPECT_NEAR(bytes_of(bill, {"weights"}), 4 * (all - of_experts / 2), 1e-3);
  EXPECT_NEAR(bytes_of(bill, {"optimizer"}), 8 * std::ceil((all + 1) / 4), 1e-3);
  EXPECT_NEAR(bytes_of(bill, {"rows sent"}), 0.8 * 2 * 48 * 512 * 4, 1e-3);
  EXPECT_NEAR(bytes_of(bill, {"MLP"}), 3 * (0.2 * 130 + 0.8 * 3 * 40) * 512 * 4, 1e-3);

  // Keys of 20 and values of 12 in 8 heads, of 24 and 10 values; 6 of a key are apart.
  ModelSizes latent{48, 130, 256};
  latent.q_rank = 24, latent.kv_rank = 10, latent.rope = 6, latent.key_dim = 20;
  const double weights = 48 * 24 + 24 * 8 * 20 + 48 * (10 + 6) + 10 * 8 * (14 + 12) + 8 * 12 * 48;
  EXPECT_DOUBLE_EQ(projection_flops(job.shape, latent, 100), 200 * weights);
}

// All that a rank keeps but two layers' lies on the host; moving it costs what no computing hides.
TEST(ModelStep, MovesActivationsToTheHost) {
  const Problem job = job_of(2, true);
  for (const Recompute recompute : kAllOf<Recompute>) {
    ModelMemory memory{0, recompute};
    const double all = total_bytes(activation_parts(job, kSizes, memory, 512));
    memory.offloads = true;
    const double left = total_bytes(activation_parts(job, kSizes, memory, 512)),
                 moved = offloaded_bytes(job, kSizes, memory, 512);
    EXPECT_DOUBLE_EQ(all - left, moved);
    if (recompute == Recompute::layer) EXPECT_DOUBLE_EQ(moved, 3 * 48.0 * 1024 * 4);
    for (const double rate : {6e8, 1e5}) {
      ModelFigures figures = kFigures;
      figures.host_bytes_per_s = rate;
      StepTime time = step_time(job, kSizes, 512, 1, figures, kLinks, memory, 0.25, 3);
      const double offload = std::exchange(time.offload, 0);
      Problem forward = job;
      forward.backward = false;
      const double first =
                       5 * step_time(forward, kSizes, 512, 0.25, figures, kLinks, memory).layer(),
                   second = 5 * time.layer() / 3 - first, moving = moved / rate;
      EXPECT_NEAR(offload, 3 * (std::max(0.0, moving - first) + std::max(0.0, moving - second)),
                  1e-9 * moving);
      EXPECT_EQ(offload > 0, rate < 1e6);
    }
  }
}

// By the models' cards: all weights, and those that a row passes, with or without the embedding.
TEST(ModelStep, WeightsOfMixturesOfExperts) {
  for (const auto& [name, all, passed] : {std::tuple{"deepseek-v3", 671e9, 37e9},
                                          {"qwen3-30b-a3b", 30.5e9, 3.3e9},
                                          {"qwen3-235b-a22b", 235e9, 22e9},
                                          {"gpt-oss-20b", 20.9e9, 3.6e9},
                                          {"gpt-oss-120b", 116.8e9, 5.1e9}}) {
    const NamedModel model = find_model(name);
    EXPECT_NEAR(model_weights(model.heads, model.sizes, model.layers) / all, 1, 0.005) << name;
    const double flops =
        static_cast<double>(model.layers) *
            (projection_flops(model.heads, model.sizes, 0.5) + mlp_flops(model.sizes, 0.5)) +
        2 * head_flops(model.sizes, 0.5);
    EXPECT_NEAR(flops / passed, 1, 0.17) << name;
  }
}

// A rank of a ring of `world_size` with `rows` rows that trains it in bf16.
Problem training_of(const NamedModel& model, int world_size, Index rows) {
  Problem job;
  job.shape = model.heads;
  job.shape.batch = 1;
  job.shape.seqlen = world_size * rows;
  job.world_size = world_size;
  job.dtype = DType::bf16;
  job.backward = true;
  job.layers = model.layers;
  return job;
}

// Expect bills within 10 % of what is published, and the line that says so on the page.
void expect_published(const std::string& what, double published, double ours) {
  constexpr double kGiB = 1 << 30;
  const double ratio = ours / published;
  EXPECT_LE(std::abs(ratio - 1), 0.1) << what;
  if (what.empty()) return;  // not on the page
  static const std::string page = contents_of(RINGSCOPE_SOURCE_DIR "/bench/README.md");
  expect_contains(page, fmt::format("| {} | {:.1f} | {:.1f} | {:.2f} |", what, published / kGiB,
                                    ours / kGiB, ratio));
}

// The bill of Llama 3 beside what Megatron-LM reports before it trains, with recomputed attention
// (megatron/training/theoretical_memory_usage.py@00caa53): 18 bytes a weight without a distributed
// optimizer, 6 + 12/N with one, and for each layer T W (18 + 4 F/W) bytes of activations.
TEST(ModelStep, BillOfLlama3IsWithinTenPercentOfMegatrons) {
  for (const auto& [name, published_weights] :
       {std::pair{"llama3-8b", 8.03e9}, {"llama3-70b", 70.55e9}})
    for (const int zero_stage : {0, 1})
      for (const Index rows : {4096, 32768}) {
        const NamedModel model = find_model(name);
        const Problem job = training_of(model, 16, rows);
        const auto tokens = static_cast<double>(rows), layers = static_cast<double>(model.layers);
        const auto width = static_cast<double>(model.sizes.width);
        const double over_width = static_cast<double>(model.sizes.hidden) / width;
        const double weights = model_weights(model.heads, model.sizes, model.layers);
        EXPECT_NEAR(weights / published_weights, 1, 0.005) << name;  // of the models' cards
        const auto bill =
            model_memory_parts(job, model.sizes, {zero_stage, Recompute::none, true}, tokens);
        const double state = weights * (zero_stage == 0 ? 18 : 6 + 12.0 / 16);
        // A rank's share of the optimizer is rounded up to whole weights.
        EXPECT_NEAR(bytes_of(bill, {"weights", "gradients of weights", "optimizer"}), state, 12);
        const double activations = layers * tokens * width * (18 + 4 * over_width);
        EXPECT_NEAR(bytes_of(bill, {"residual", "MLP", "other layers"}) / activations, 1, 0.1);
        const double ends =
            tokens * (8 + width + 4 * (width + static_cast<double>(model.sizes.vocab)));
        expect_published(rows == 4096
                             ? ""
                             : fmt::format("{}, 16 GPUs, {} tokens each{}", name, rows,
                                           zero_stage > 0 ? ", distributed optimizer" : ""),
                         state + activations + ends, bytes_of(bill, {}));
      }
  // Without activations 70B takes 420 + 280 + 560 GB of weights, gradients and moments: "Building
  // Foundation Model on AWS" (speakerdeck.com/keitaw/building-foundation-model-on-aws), slide 3.
  const NamedModel large = find_model("llama3-70b");
  expect_published("llama3-70b, weights, gradients and moments of one copy", 1260e9,
                   18 * model_weights(large.heads, large.sizes, large.layers));
}

// Measured on H100 by the authors of torchtitan (pytorch/torchtitan,
// benchmarks/llama3_h100_202412_torchtitan.md, tables 1 to 4): memory that PyTorch had reserved.
// Weights, gradients and moments are f32 and all dealt out, 16 bytes; activations are bf16.
TEST(ModelStep, BillOfLlama3IsWithinTenPercentOfWhatWasMeasured) {
  constexpr double kGiB = 1 << 30;
  const auto bill = [](const char* name, int world_size, Index rows, Recompute recompute) {
    const NamedModel model = find_model(name);
    return total_bytes(model_memory_parts(
        training_of(model, world_size, rows), model.sizes,
        {.zero_stage = 3, .recompute = recompute, .logit_bytes = 14}, static_cast<double>(rows)));
  };
  expect_published("llama3-8b, ring of 8 over 262,144 tokens, layers recomputed", 84.5 * kGiB,
                   bill("llama3-8b", 8, 32768, Recompute::layer));
  expect_published("llama3-8b, what 8 GPUs hold more than 128 do", 15.0 * kGiB,
                   bill("llama3-8b", 8, 16384, Recompute::none) -
                       bill("llama3-8b", 128, 16384, Recompute::none));
  // 16 sequences of 8,192 tokens on 8 GPUs that split heads and rows (TP 8 with sequence parallelism).
  const double large = bill("llama3-70b", 256, 16 * 8192 / 8, Recompute::layer);
  expect_published("llama3-70b, 256 GPUs (FSDP 32, TP 8), layers recomputed", 71.9 * kGiB, large);
  expect_published("the same with asynchronous TP", 67.6 * kGiB, large);
}

TEST(ModelStep, FiguresOfTheTable) {
  Gpu gpu;
  gpu.flops_16bit = 100e12;
  gpu.flops_f32 = 10e12;
  gpu.forward_share = 0.5;
  EXPECT_EQ(model_figures(gpu, DType::bf16).product_flops, 50e12);
  EXPECT_EQ(model_figures(gpu, DType::f32).product_flops, 5e12);
  EXPECT_EQ(model_figures(gpu, DType::f32).norm.forward, 0);  // nothing is known of its memory
  EXPECT_EQ(model_figures(gpu, DType::f32).update_s, 0);
  gpu.memory_bytes_per_s = 2e12;
  const ModelFigures figures = model_figures(gpu, DType::bf16);
  EXPECT_DOUBLE_EQ(figures.norm.forward, 4 * 2 / 2e12);
  EXPECT_DOUBLE_EQ(figures.gate.backward, 5 * 2 / 2e12);
  EXPECT_DOUBLE_EQ(figures.update_s, 8 * 4 / 2e12);  // f32, whatever is computed in
  EXPECT_THROW(model_figures(gpu, DType::bf16, true), InputError);
  gpu.flops_8bit = 200e12;
  gpu.product_share_8bit = 0.25;
  EXPECT_DOUBLE_EQ(model_figures(gpu, DType::bf16, true).product_flops, 50e12);
  gpu.product_share_8bit = 0.4;
  EXPECT_DOUBLE_EQ(model_figures(gpu, DType::bf16, true).product_flops, 80e12);
  EXPECT_DOUBLE_EQ(model_figures(gpu, DType::bf16, true).head_flops, 50e12);
  gpu.fa2 = {0.25, 0.125};
  take_kernels(gpu, "fa2");
  EXPECT_EQ(gpu.forward_share, 0.25);
  EXPECT_EQ(gpu.backward_share, 0.125);
  EXPECT_EQ(model_figures(gpu, DType::bf16).product_flops, 50e12);  // other kernels
  EXPECT_THROW(take_kernels(gpu, "fa3"), InputError);
  gpu.flops_f32.reset();
  EXPECT_THROW(model_figures(gpu, DType::f32), InputError);
}

}  // namespace model_step_test
}  // namespace ringscope
