#include "tests/claims/predicted_page.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/cost/amounts.h"
#include "core/cost/balance.h"
#include "core/cost/hardware.h"
#include "core/sim/searched.h"
#include "core/sim/simulate.h"
#include "tests/claims/claim.h"
#include "tests/claims/jobs.h"

namespace ringscope::claims {

namespace {

constexpr int kRanks = 8;
constexpr Index kRowsOfGpu = 8192;
constexpr double kCausalPairs = kRowsOfGpu * (kRowsOfGpu + 1) / 2.0;  // of the kernel by itself
constexpr Granularity kTile = {128, 128};

Problem job_on(PartitionKind partition, bool backward) {
  Problem job = job_of(32, 8, kRanks * kRowsOfGpu, kRanks, "causal", partition);
  job.backward = backward;
  return job;
}

// The seconds of each pass: of the kernel by itself, or of the ring, as published.
struct PassSeconds {
  double forward, backward;
};
PassSeconds kernel_seconds(const MeasuredGpus& gpus) {
  return {1 / gpus.forward.kernel, 1 / gpus.both.kernel - 1 / gpus.forward.kernel};
}
PassSeconds ring_seconds(const MeasuredGpus& gpus, double MeasuredRuns::*partition) {
  return {1 / (gpus.forward.*partition),
          1 / (gpus.both.*partition) - 1 / (gpus.forward.*partition)};
}

// Fit two unknowns to two equations. A rank of contiguous blocks computes its own causal one and up
// to 7 whole ones, and a rank of 2N chunks its own and 7 halves. Both pay for 8 steps.
StepCosts fitted(double kernel, double contiguous, double zigzag) {
  const double half_block =
      kernel * kRowsOfGpu * kRowsOfGpu / 2 / kCausalPairs;  // at the causal speed
  const double slowness = (contiguous - zigzag) / ((kRanks - 1) * half_block);
  return {1 / slowness, (zigzag - kernel - (kRanks - 1) * half_block * slowness) / kRanks};
}

// Weight the pairs of blocks with a causal mask by the speed of whole blocks.
Work weighted(const Problem& job, double full_speed) {
  const Work work(job);
  std::vector<Index> rows;
  std::vector<double> pairs, computed;
  for (int rank = 0; rank < kRanks; ++rank) {
    rows.push_back(work.rows(rank));
    for (int owner = 0; owner < kRanks; ++owner) {
      const bool has_mask = job.partition == PartitionKind::striped || rank == owner;
      pairs.push_back(work.pairs(rank, owner));
      computed.push_back(pairs.back() * (has_mask ? full_speed : 1));
    }
  }
  return Work(std::move(rows), std::move(pairs), std::move(computed));
}

Simulation simulated(const Problem& job, const Work& work, const Machine& machine) {
  return simulate({.job = job, .pace = Pace::buffers}, work, machine);
}

struct OnePartition {
  double published, balance, tiles, with_costs;
};

OnePartition predict(const MeasuredGpus& gpus, bool backward, PartitionKind kind,
                     double MeasuredRuns::*runs, const StepCosts& forward_costs,
                     const StepCosts& backward_costs) {
  const Problem job = job_on(kind, backward);
  const PassSeconds kernel = kernel_seconds(gpus);
  const double ideal = kRanks * (kernel.forward + (backward ? kernel.backward : 0));
  const auto flops = [&](Pass pass, double pairs) {
    return flops_of_pairs(job.shape, pairs, pass) /
           (pass == Pass::forward ? kernel.forward : kernel.backward);
  };
  OnePartition result{};
  result.published = ideal * ((backward ? gpus.both : gpus.forward).*runs);
  result.balance = balance_of(job).ceiling();

  // The kernel by itself computes whole tiles too.
  const double kernel_pairs =
      Work(job_of(32, 8, kRowsOfGpu, 1, "causal"), kTile).computed_pairs(0, 0);
  Machine machine;
  machine.world_size = kRanks;
  machine.rates = {flops(Pass::forward, kernel_pairs), flops(Pass::backward, kernel_pairs),
                   gpus.link_bytes_per_s, 0};
  const Simulation tiles = simulated(job, Work(job, kTile), machine);
  result.tiles = ideal / tiles.wall_s();

  const auto with = [&](const StepCosts& costs) {
    machine.rates.forward_flops = costs.full_speed * flops(Pass::forward, kCausalPairs);
    machine.rates.backward_flops = costs.full_speed * flops(Pass::backward, kCausalPairs);
    machine.step_s = costs.step_s;
    return simulated(job, weighted(job, costs.full_speed), machine);
  };
  double wall = with(forward_costs).forward_s;
  if (backward) wall += with(backward_costs).backward_s;
  result.with_costs = ideal / wall;
  return result;
}

EightGpus predict(const MeasuredGpus& gpus, bool backward) {
  const PassSeconds kernel = kernel_seconds(gpus),
                    contiguous = ring_seconds(gpus, &MeasuredRuns::contiguous),
                    zigzag = ring_seconds(gpus, &MeasuredRuns::zigzag);
  EightGpus all;
  all.gpus = gpus.name;
  all.backward = backward;
  all.forward_costs = fitted(kernel.forward, contiguous.forward, zigzag.forward);
  all.backward_costs = fitted(kernel.backward, contiguous.backward, zigzag.backward);
  const auto fill = [&](PartitionKind kind, double MeasuredRuns::*runs, double Shares::*share) {
    const OnePartition one =
        predict(gpus, backward, kind, runs, all.forward_costs, all.backward_costs);
    all.published.*share = one.published;
    all.balance.*share = one.balance;
    all.tiles.*share = one.tiles;
    all.with_costs.*share = one.with_costs;
  };
  fill(PartitionKind::contiguous, &MeasuredRuns::contiguous, &Shares::contiguous);
  fill(PartitionKind::zigzag, &MeasuredRuns::zigzag, &Shares::zigzag);
  fill(PartitionKind::striped, &MeasuredRuns::striped, &Shares::striped);
  all.hop_s = kv_hop_bytes(job_on(PartitionKind::zigzag, false)) / gpus.link_bytes_per_s;
  all.step_s = kernel.forward * kRowsOfGpu * kRowsOfGpu / 2 / kCausalPairs;
  return all;
}

}  // namespace

const std::vector<MeasuredGpus>& measured_gpus() {
  // Links: an H800's NVLink has 400 GB/s, an A100's 600, both directions together.
  static const std::vector<MeasuredGpus> all = {
      {"8 H800", 200e9, {591.5, 38.5, 63.0, 55.0}, {154.7, 10.4, 17.4, 16.0}},
      {"8 A100", 300e9, {373.4, 24.0, 38.2, 32.5}, {94.7, 6.2, 10.6, 9.75}}};
  return all;
}

std::vector<EightGpus> eight_gpus() {
  std::vector<EightGpus> all;
  for (const MeasuredGpus& gpus : measured_gpus())
    for (const bool backward : {false, true}) all.push_back(predict(gpus, backward));
  return all;
}

namespace {

struct Measured {
  Index seqlen;
  double published, limit;
};

struct Setup {
  std::string machine;
  int ring;
  Granularity tile;
  double attention_flops, other_flops;  // of a device
  const char* link;
  std::vector<Measured> measured;
};

// The 3B model: its width, those of its MLP's hidden layer and of its vocabulary, layers and heads.
constexpr double kWidth = 3200, kHidden = 8640, kVocabulary = 32000, kLayers = 26;
constexpr Index kHeads = 32;
constexpr double kModelParts = 2;

std::vector<Setup> setups() {
  const double a100 = find_gpu("A100").peak_flops(DType::bf16);
  const double tpu = find_gpu("TPUv4").peak_flops(DType::bf16);
  return {{"8 A100",
           4,
           {2048, 4096},
           a100 / 2,
           a100,
           "NVLink3",
           {{16384, 0.94, 1.38},
            {32768, 1.09, 1.51},
            {65536, 1.23, 1.61},
            {131072, 1.36, 1.67},
            {262144, 1.45, 1.71}}},
          {"16 TPUv4",
           8,
           {2048, 2048},
           tpu,
           tpu,
           "TPUv4-ICI",
           {{32768, 1.09, 1.45},
            {131072, 1.36, 1.71},
            {262144, 1.50, 1.78},
            {524288, 1.60, 1.83},
            {786432, 1.65, 1.84}}}};
}

// Return a layer's attention, forward and backward, on one device's share of the heads.
Problem attention_job(const Setup& setup, Index seqlen, PartitionKind kind) {
  Problem job;
  const Index heads = kHeads / static_cast<Index>(kModelParts);
  job.shape = {1, heads, heads, seqlen, static_cast<Index>(kWidth) / kHeads};
  job.dtype = DType::bf16;
  job.mask = MaskSpec::parse("causal");
  job.partition = kind;
  job.world_size = setup.ring;
  job.backward = true;
  return job;
}

// Return the time of everything else in a layer, with its share of embedding and output. These are
// products with weights: two FLOPs a weight and token forward, and twice that backward.
double other_seconds(const Setup& setup, Index seqlen) {
  const double weights =
      4 * kWidth * kWidth + 3 * kWidth * kHidden + kVocabulary * kWidth / kLayers;
  const double tokens = static_cast<double>(seqlen) / setup.ring;
  return 3 * 2 * weights * tokens / kModelParts / setup.other_flops;
}

double seconds_by_pairs(const Setup& setup, const Problem& job) {
  const double pairs = balance_of(job).slowest_steps();
  return (flops_of_pairs(job.shape, pairs, Pass::forward) +
          flops_of_pairs(job.shape, pairs, Pass::backward)) /
         setup.attention_flops;
}

double seconds_simulated(const Setup& setup, const Problem& job) {
  Machine machine;
  machine.world_size = setup.ring;
  machine.rates = {setup.attention_flops, setup.attention_flops, find_link(setup.link).bytes_per_s,
                   0};
  return simulate({.job = job}, Work(job, setup.tile), machine).wall_s();
}

}  // namespace

std::vector<StripedSpeedup> striped_speedups() {
  std::vector<StripedSpeedup> all;
  for (const Setup& setup : setups())
    for (const Measured& measured : setup.measured) {
      const Problem before = attention_job(setup, measured.seqlen, PartitionKind::contiguous);
      const Problem after = attention_job(setup, measured.seqlen, PartitionKind::striped);
      const double other = other_seconds(setup, measured.seqlen);
      const double slow = seconds_simulated(setup, before) + other;
      const double fast = seconds_simulated(setup, after) + other;
      const double g = measured.published;
      all.push_back(
          {setup.machine, setup.ring, measured.seqlen, g, measured.limit,
           (seconds_by_pairs(setup, before) + other) / (seconds_by_pairs(setup, after) + other),
           slow / fast, g > 1 ? std::max(0.0, (slow - g * fast) / (g - 1) / fast) : 0});
    }
  return all;
}

namespace {

constexpr Granularity kGranularity = {128, 128};

SearchedGain gain_under(const char* mask, int world_size) {
  const Rates rates = rates_of(find_gpu("H100"), find_link("NVLink4"), DType::bf16);
  Problem job = job_of(32, 8, 131072, world_size, mask);
  const auto ring = [&](std::string_view partition, const Work& work) {
    Balance balance = balance_of(work);
    const LayerTime time = layer_time(job, balance, rates);
    return TiledRing{partition, std::move(balance), time};
  };
  SearchedGain gain;
  gain.mask = mask;
  gain.world_size = world_size;
  job.partition = PartitionSpec::parse(kSearched);
  deal_out(job, kGranularity);
  gain.searched = ring(kSearched, Work(job, kGranularity));
  for (const PartitionKind kind : kAllPartitions) {
    job.partition = kind;
    gain.fixed.push_back(ring(name_of(kind), Work(job, kGranularity)));
  }
  return gain;
}

}  // namespace

const TiledRing& SearchedGain::best_fixed() const {
  return *std::ranges::min_element(fixed, {},
                                   [](const TiledRing& ring) { return ring.time.total(); });
}

std::vector<SearchedGain> searched_gains() {
  std::vector<SearchedGain> gains;
  for (const char* mask :
       {"causal", "window:8192", "causal+window:8192", "prefix:32768",
        "documents:50000,40000,20000,15000,6072", "causal+documents:50000,40000,20000,15000,6072",
        "causal+window:8192+documents:50000,40000,20000,15000,6072",
        "causal+documents:30000,3000,900,25000,700,12000,8000,600,17000,5000,11000,2872,15000"})
    gains.push_back(gain_under(mask, 8));
  for (const char* mask : {"causal+window:8192", "causal+documents:50000,40000,20000,15000,6072"})
    gains.push_back(gain_under(mask, 64));
  return gains;
}

namespace {

constexpr const char* kPredictedHead =
    R"(<!-- Written by `claims_tests --predicted FILE` from tests/claims: edit those. -->
# Predicted beside published

What Ringscope's formulas and its simulator say of runs that others measured, on machines that this
project does not have, each beside what was measured; and what a searched partition gains. A test
(`./ringscope test -L claims`) asserts the numbers.

[The scoreboard](../bench/published/scoreboard.md) holds the simulator to 360 published measurements,
row by row; `build/release/bench/published --csv FILE` does the same with any others.

)";

constexpr const char* kEightHead =
    R"(## Three partitions on eight GPUs

Published: a PyTorch ring, each of whose steps calls an attention kernel and merges what comes back
(<https://github.com/zhuzilin/ring-flash-attention>, README at commit 01c8baf). The job is an 8B
model's attention: causal, 8,192 tokens a GPU, 32 heads and 8 kv heads of 128, bf16. 100 % is the
kernel by itself, at the speed that was measured with it on one GPU's tokens.

The predictions take that kernel's speed as F, and one direction of the GPUs' NVLink as B (assumed:
200 GB/s on H800, 300 GB/s on A100).

- *balance*: the closed form alone, mean over slowest rank, summed over steps (C20).
- *tiles, link*: simulated, whole tiles of 128 x 128, two KV buffers. A kernel on one GPU computes
  half-empty tiles on its diagonal too, and a zigzag ring has fewer of them: that is how more than
  100 % can come out.
- *two costs*: simulated again, with two numbers that are fitted to the contiguous and the zigzag
  run: how much faster the kernel is on a block without a mask, and what a step costs besides its
  pairs. The striped run was not used for the fit.

| | partition | published | balance | tiles, link | two costs |
|---|---|---|---|---|---|
)";

constexpr const char* kStripedHead =
    R"(## Striping whole training steps

Published: a 3B model's training step, striped over contiguous (arXiv:2311.09431, tables 3 and 4).
"8 A100" and "16 TPUv4" are the machines; half of the devices split the model, so the rings have 4
and 8 ranks. Attention skips whole tiles only, of 2,048 x 4,096 positions on the GPUs and 2,048 x
2,048 on the TPUs, and runs in TF32 on the GPUs, at half the rate of the rest of the step.

- *limit*: all FLOPs at the peak, attention by pairs. The paper computes such a bound too.
- *tiles, link*: attention simulated in those tiles over one link (NVLink 3, ICI), the rest at the
  peak.
- *missing*: what both steps would have to take besides, in units of the predicted striped step, to
  bring the prediction down to what was published.

| | ring | tokens | published | paper's limit | limit | tiles, link | missing |
|---|---|---|---|---|---|---|---|
)";

constexpr const char* kGainsHead =
    R"(## Partitions found by search

No fixed partition was made for windows, prefixes or documents. `--partition searched` (of `plan` and
`simulate`) cuts the sequence into chunks of whole tiles and deals these out, the one with most
work first, each to the rank where it makes the steps of a ring most even. Below: the balance ceiling of tiles of 128
x 128 (mean over slowest rank, summed over steps), and the time of a layer's forward pass by formula;
)";

std::string percent(double share) { return fmt::format("{:.1f} %", 100 * share); }

std::string eight_section(const std::vector<EightGpus>& all) {
  std::string text = kEightHead;
  for (const EightGpus& one : all) {
    const std::string what = one.gpus + (one.backward ? ", forward and backward" : ", forward");
    const auto row = [&](const char* name, double Shares::*share, bool is_fitted) {
      text += fmt::format("| {} | {} | {} | {} | {} | {}{} |\n", what, name,
                          percent(one.published.*share), percent(one.balance.*share),
                          percent(one.tiles.*share), percent(one.with_costs.*share),
                          is_fitted ? " (fitted)" : "");
    };
    row("contiguous", &Shares::contiguous, true);
    row("zigzag", &Shares::zigzag, true);
    row("striped", &Shares::striped, false);
  }
  text += "\n| | kernel on a block without mask | a step besides its pairs |\n|---|---|---|\n";
  for (const EightGpus& one : all) {
    const StepCosts& costs = one.backward ? one.backward_costs : one.forward_costs;
    text +=
        fmt::format("| {}, {} | {:.2f} times as fast | {:.2f} ms |\n", one.gpus,
                    one.backward ? "backward" : "forward", costs.full_speed, 1e3 * costs.step_s);
  }
  const EightGpus &h800 = all[0], &a100 = all[2];
  return text +
         fmt::format(
             "\nContiguous ranks reach what balance leaves them, to within {:.1f} points forward: "
             "their loss is imbalance. Zigzag and striped ranks are even, and still lose 15 to 30 "
             "points forward. It is not the link: a hop takes {:.2f} ms beside a zigzag step of "
             "{:.2f} ms on H800 ({:.2f} beside {:.2f} on A100). A cost for every step explains it, "
             "{:.2f} and {:.2f} ms forward: at the memory's 3.35 and 2.04 TB/s that is about 2 GB, "
             "some dozen times the output in f32 that such a step converts, rescales and adds, in "
             "operations of their own. (A kernel that carries its state from step to step, as "
             "those of `cuda/kernels` do, has no such pass.) Contiguous ranks have the same cost, "
             "but blocks without a mask, on which the kernel is faster, make up for it; this is "
             "why their figure looks so close to the ceiling. With the two costs the striped runs, "
             "which were not fitted, come out within {:.1f} points. What the model leaves out: "
             "transfers that slow a kernel down while they run, and lengths that are no multiple "
             "of a tile, which striped steps have in that code. Either may be why striped runs are "
             "slower forward than predicted.\n\n",
             100 * std::max(h800.balance.contiguous - h800.published.contiguous,
                            a100.balance.contiguous - a100.published.contiguous),
             1e3 * h800.hop_s, 1e3 * h800.step_s, 1e3 * a100.hop_s, 1e3 * a100.step_s,
             1e3 * h800.forward_costs.step_s, 1e3 * a100.forward_costs.step_s, 100 * [&] {
               double most = 0;
               for (const EightGpus& one : all)
                 most = std::max(most, std::abs(one.published.striped - one.with_costs.striped));
               return most;
             }());
}

std::string striped_section(const std::vector<StripedSpeedup>& all) {
  std::string text = kStripedHead;
  for (const StripedSpeedup& one : all)
    text += fmt::format("| {} | {} | {} | {:.2f} | {:.2f} | {:.2f} | {:.2f} | {} |\n", one.machine,
                        one.ring, with_separators(static_cast<double>(one.seqlen)), one.published,
                        one.published_limit, one.limit, one.in_tiles,
                        one.missing > 0 ? fmt::format("{:.2f}", one.missing) : "–");
  return text +
         "\nThe limits agree. Tiles explain the beginning of each column: at 4,096 tokens a rank a "
         "block is one tile wide on the GPUs, nothing can be skipped, and striping gains nothing "
         "(0.94 was measured: it costs something). Tiles don't explain the end: at the longest "
         "sequences 1.62 and 1.80 are predicted where 1.45 and 1.65 were measured. The simulation "
         "runs all FLOPs at the peak, hides every hop behind a longer step, and leaves out "
         "exponentials, norms, the optimiser and the splitting of the model; whatever both steps "
         "have in common besides FLOPs brings the ratio down, and the last column says how much of "
         "it there must be. That it shrinks as sequences grow fits a cost that grows with the "
         "tokens and not with their square. On the TPUs at 32,768 tokens the prediction is too "
         "low: one link of 50 GB/s is slower than a step there, which hides what striping saves, "
         "and the machine may have used more than one of its links.\n\n";
}

std::string times_text(double seconds) { return fmt::format("{:.2f} ms", 1e3 * seconds); }

std::string gains_section(const std::vector<SearchedGain>& all) {
  std::string text = kGainsHead + std::string(kGainJob) + ".\n\n| mask | ranks |";
  for (const TiledRing& ring : all[0].fixed) text += fmt::format(" {} |", ring.partition);
  text +=
      " searched | best fixed | searched | gain "
      "|\n|---|---|---|---|---|---|---|---|---|---|\n";
  for (const SearchedGain& gain : all) {
    text += fmt::format("| `{}` | {} |", gain.mask, gain.world_size);
    for (const TiledRing& ring : gain.fixed)
      text += fmt::format(" {:.3f} |", ring.balance.ceiling());
    const TiledRing& best = gain.best_fixed();
    text += fmt::format(" {:.3f} | {}, {} | {} | {:.2f} |\n", gain.searched.balance.ceiling(),
                        best.partition, times_text(best.time.total()),
                        times_text(gain.searched.time.total()),
                        best.time.total() / gain.searched.time.total());
  }
  return text +
         "\nStriped and folded ranks are even under every mask; what they lose is tiles, because a "
         "tile of rows that lie world_size positions apart spans so many more of them, and more of "
         "it is masked. That loss grows with the number of ranks, and so does the gain, until the "
         "link sets the pace, as it does for the window on 64 ranks. Contiguous ranks and zigzag "
         "waste no tiles and are uneven. Dealing out tiles instead of positions is both even and "
         "whole. Under the causal mask there is nothing to find: zigzag is as good as any. "
         "Where a rank gets few chunks, as of the documents on 64 ranks, the deal is whole but not "
         "even.\n";
}

}  // namespace

std::string predicted_page(const std::vector<EightGpus>& eight,
                           const std::vector<StripedSpeedup>& striped,
                           const std::vector<SearchedGain>& gains) {
  return kPredictedHead + eight_section(eight) + striped_section(striped) + gains_section(gains);
}

}  // namespace ringscope::claims
