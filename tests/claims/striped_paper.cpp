#include "tests/claims/striped_paper.h"

#include <algorithm>

#include "core/cost/amounts.h"
#include "core/cost/balance.h"
#include "core/cost/hardware.h"
#include "core/sim/simulate.h"

namespace ringscope::claims {
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

// Of the 3B model: width, of the hidden layer of its MLP, of its vocabulary; layers; heads.
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

// A layer's attention, forward and backward, on one device's share of the heads.
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

// Everything else of a layer, with its share of embedding and output: products with weights, forward
// and twice that backward, two FLOPs a weight and token.
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

}  // namespace ringscope::claims
