#include "tests/claims/eight_gpus.h"

#include "core/cost/balance.h"
#include "core/cost/flops.h"
#include "core/cost/traffic.h"
#include "core/sim/simulate.h"
#include "tests/claims/jobs.h"

namespace ringscope::claims {
namespace {

constexpr int kRanks = 8;
constexpr Index kRowsOfGpu = 8192;
constexpr double kCausalPairs = kRowsOfGpu * (kRowsOfGpu + 1) / 2.0;  // of the kernel by itself
constexpr Granularity kTile = {128, 128};

Job job_on(PartitionKind partition, bool backward) {
  Job job = job_of(32, 8, kRanks * kRowsOfGpu, kRanks, "causal", partition);
  job.backward = backward;
  return job;
}

// Seconds of the kernel by itself, by pass; of the ring, by pass, as published.
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

// A rank of contiguous blocks computes its causal own one and up to 7 whole ones; a rank of 2N
// chunks the same and 7 halves. Both pay for 8 steps. Two equations, two unknowns.
StepCosts fitted(double kernel, double contiguous, double zigzag) {
  const double half_block =
      kernel * kRowsOfGpu * kRowsOfGpu / 2 / kCausalPairs;  // at the causal speed
  const double slowness = (contiguous - zigzag) / ((kRanks - 1) * half_block);
  return {1 / slowness, (zigzag - kernel - (kRanks - 1) * half_block * slowness) / kRanks};
}

// Pairs of blocks with the causal mask in them count as many as a whole block does in their time.
Work weighted(const Job& job, double full_speed) {
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

Simulation simulated(const Job& job, const Work& work, const Machine& machine) {
  return simulate({.job = job, .pace = Pace::buffers}, work, machine);
}

struct OnePartition {
  double published, balance, tiles, with_costs;
};

OnePartition predict(const MeasuredGpus& gpus, bool backward, PartitionKind kind,
                     double MeasuredRuns::*runs, const StepCosts& forward_costs,
                     const StepCosts& backward_costs) {
  const Job job = job_on(kind, backward);
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

}  // namespace ringscope::claims
