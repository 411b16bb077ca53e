// The time of a model's step, against sums written out here. (What real models do:
// tests/core/training/training_run_test.cpp.)
#include "core/tools/cost/model_step.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/tools/cost/time.h"
#include "tests/core/base/thrown.h"

namespace ringscope {
namespace model_step_test {

const Rates kRates{1e10, 8e9, 4e7, 2e-4};
const ModelSizes kSizes{48, 130, 256};
// Every figure another one, so that none can stand for another.
const ModelFigures kFigures{3e9, {1e-9, 2e-9}, {3e-9, 5e-9}, {7e-9, 11e-9}, {13e-9, 17e-9}, 19e-9};

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
                   kFigures, kRates);
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
      EXPECT_NEAR(
          time.head,
          products * 2 * tokens * 48 * 256 + 48 * both(1e-9, 2e-9) + 256 * both(13e-9, 17e-9),
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

// By stage of ZeRO, what is dealt out is updated in part, summed in half the bytes, and gathered.
TEST(ModelStep, SendsAndUpdatesByTheStageOfZero) {
  constexpr double kN = 4, kWeights = 1e6, kLayers = 5, kBatches = 3, kPart = (kN - 1) / kN;
  const double sum = kPart * 4 * (kWeights + 1), gather = kPart * 2 * kWeights;
  const std::tuple<int, double, double, double, double> stages[] = {
      {0, 2 * sum, 0, 2 * (kN - 1), 0},
      {1, sum, gather, kN - 1, kN - 1},
      {2, kBatches * sum, gather, kBatches * (kN - 1), kN - 1},
      {3, kBatches * sum, 2 * kBatches * gather, kBatches * (kN - 1),
       2 * kBatches * kLayers * (kN - 1)}};
  for (const auto& [stage, gradients, weights, sums, gathers] : stages) {
    const WeightTraffic sent = weight_traffic(kWeights, 2, 4, stage, 5, 3);
    EXPECT_DOUBLE_EQ(sent.gradient_bytes, gradients) << stage;
    EXPECT_DOUBLE_EQ(sent.weight_bytes, weights) << stage;
    EXPECT_DOUBLE_EQ(sent.gradient_messages, sums) << stage;
    EXPECT_DOUBLE_EQ(sent.weight_messages, gathers) << stage;

    const Problem job = job_of(4, true);
    const double own = model_weights(job.shape, kSizes, job.layers);
    const StepTime time =
        step_time(job, kSizes, job.max_rows(), 1, kFigures, kRates, {stage}, 0.25, 3);
    const WeightTraffic of_step = weight_traffic(own, 4, 4, stage, 5, 3);
    EXPECT_DOUBLE_EQ(time.update, own * 19e-9 / (stage == 0 ? 1 : 4));
    EXPECT_DOUBLE_EQ(time.reduction,
                     of_step.gradient_bytes / 4e7 + of_step.gradient_messages * 2e-4);
    EXPECT_DOUBLE_EQ(time.gathering, of_step.weight_bytes / 4e7 + of_step.weight_messages * 2e-4);
    EXPECT_DOUBLE_EQ(time.attention, 3 * 5);
  }
  EXPECT_EQ(weight_traffic(kWeights, 2, 1, 3, 5, 3).weight_bytes, 0);
}

// What is computed again: in all layers but the last, whose values are still there, and in pieces
// the MLP's gate and up in all.
TEST(ModelStep, CountsWhatIsComputedAgain) {
  const Problem job = job_of(2, true);
  const double tokens = 2 * 512, attention = 0.25, gate_and_up = 2 * tokens * 48 * 2 * 130 / 3e9;
  const auto again = [&](const ModelMemory& memory) {
    return step_time(job, kSizes, job.max_rows(), 1, kFigures, kRates, memory, attention)
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
    const StepTime stage = step_time(share, own, 256, 1, kFigures, kRates, memory, 0.25, 7);
    StepTime time = stage;
    add_split(time, share, own, memory, split, layers, 256, {"", 1e6, 1e-3}, {"", 2e6, 5e-4}, 7);
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
  static const std::string page = [] {
    std::ifstream file(RINGSCOPE_SOURCE_DIR "/bench/README.md");
    return std::string(std::istreambuf_iterator<char>(file), {});
  }();
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

// The longer the sequence, the more of a step is attention: the rest grows with it, attention with
// its square.
TEST(ModelStep, AttentionsShareGrowsWithTheSequence) {
  double share = 0;
  for (const Index seqlen : {64, 512, 4096, 32768}) {
    Problem job = job_of(2, true);
    job.shape.seqlen = seqlen;
    const double now = time_of(job).attention_share();
    EXPECT_GT(now, share);
    share = now;
  }
  EXPECT_GT(share, 0.9);
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
  gpu.flops_f32.reset();
  EXPECT_THROW(model_figures(gpu, DType::f32), InputError);
}

}  // namespace model_step_test
}  // namespace ringscope
