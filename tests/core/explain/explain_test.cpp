// Explanations of simulated runs whose fault is known: the first finding names it, and its time is
// what the same simulation takes less without the fault.
#include "core/explain/explain.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <sstream>
#include <string>
#include <vector>

#include "core/base/random.h"
#include "core/sim/recording.h"
#include "core/sim/scenario.h"
#include "core/trace/chrome_trace.h"

namespace ringscope {
namespace {

// A job, a machine with a fault, and the same without it.
struct FaultyCase {
  Cause cause = Cause::slow_rank;
  int rank = -1;
  SimulationRequest request;
  Granularity tile;
  Machine machine;
  PartitionKind even;  // the partition without the fault
  Machine healthy;
};

double draw(std::uint64_t seed, int what, double low, double high) {
  return low + (high - low) * (1 - std::exp(-exponential(seed, 77, static_cast<std::uint64_t>(what))));
}
int draw_int(std::uint64_t seed, int what, int low, int high) {
  return low + static_cast<int>(draw(seed, what, 0, 0.999999) * (high - low + 1));
}

Machine h100s(int world_size) {
  Machine machine;
  machine.world_size = world_size;
  machine.rates = {6.2e14, 5.2e14, 4.5e11, 3e-6};
  return machine;
}

FaultyCase faulty_case(Cause cause, std::uint64_t seed) {
  constexpr int kSizes[] = {2, 3, 4, 6, 8, 12, 16, 24, 32, 64, 128, 256};
  FaultyCase made;
  made.cause = cause;
  Problem& job = made.request.job;
  job.world_size = kSizes[draw_int(seed, 0, 0, cause == Cause::shared_cores ? 8 : 11)];
  job.shape = {.batch = 1,
               .num_heads = 16,
               .num_heads_kv = draw_int(seed, 1, 0, 1) == 0 ? 16 : 4,
               .seqlen = job.world_size * (4096 << draw_int(seed, 2, 0, 1)),
               .head_dim = 128};
  job.dtype = DType::bf16;
  job.backward = draw_int(seed, 3, 0, 1) == 1;
  const int mask = draw_int(seed, 4, 0, 2);
  if (mask > 0) job.mask = MaskSpec::parse("causal");
  job.partition = mask == 1 ? PartitionKind::zigzag : PartitionKind::striped;
  made.even = job.partition;
  made.request.pace = draw_int(seed, 5, 0, 1) == 0 ? Pace::in_step : Pace::buffers;
  job.kv_buffers = made.request.pace == Pace::buffers ? draw_int(seed, 6, 2, 4) : 2;
  made.healthy = made.machine = h100s(job.world_size);
  Machine& machine = made.machine;
  const auto n = static_cast<std::size_t>(job.world_size);
  made.rank = draw_int(seed, 7, 0, job.world_size - 1);
  const auto rank = static_cast<std::size_t>(made.rank);
  switch (cause) {
    case Cause::slow_rank:
      machine.speed.assign(n, 1);
      machine.speed[rank] = draw(seed, 8, 0.4, 0.9);
      break;
    case Cause::slow_link:
      machine.to_next.assign(n, {machine.rates.bytes_per_s, machine.rates.latency_s});
      machine.to_next[rank].bytes_per_s /= draw(seed, 8, 8, 40);
      break;
    case Cause::imbalance:
      job.mask = MaskSpec::parse("causal");
      job.partition = PartitionKind::contiguous;
      made.even = PartitionKind::zigzag;
      made.rank = job.world_size - 1;
      break;
    case Cause::shared_cores:
      made.request.pace = Pace::buffers;
      machine.cores = std::max(1, static_cast<int>(job.world_size * draw(seed, 8, 0.2, 0.8)));
      break;
    case Cause::step_overhead:
      made.healthy.step_s = 0;
      machine.step_s = draw(seed, 8, 5e-5, 5e-4);
      break;
    case Cause::jitter:
      machine.jitter = draw(seed, 8, 0.1, 0.6);
      machine.seed = seed;
      break;
    default:
      break;
  }
  return made;
}

TEST(Explain, NamesTheFaultOfSimulatedRuns) {
  constexpr Cause kCauses[] = {Cause::slow_rank,    Cause::slow_link,     Cause::imbalance,
                               Cause::shared_cores, Cause::step_overhead, Cause::jitter};
  int cases = 0, right = 0;
  for (std::uint64_t seed = 0; cases < 100; ++seed) {
    const Cause cause = kCauses[seed % std::size(kCauses)];
    FaultyCase made = faulty_case(cause, seed);
    const Problem& job = made.request.job;
    const Work work(job, made.tile);
    const RecordedSimulation recorded =
        record(made.request, work, made.machine, name_of(job.partition), std::nullopt);
    const double wall = recorded.simulation.wall_s();
    SimulationRequest even = made.request;
    even.job.partition = made.even;
    const double saved = wall - simulate(even, Work(even.job, made.tile), made.healthy).wall_s();
    if (saved < 0.02 * wall) continue;  // no fault worth the name
    ++cases;
    const Explanation why = explain(recorded.recording);
    const Diagnosis first = why.findings.empty() ? Diagnosis{} : why.findings.front();
    const bool names_rank = cause != Cause::slow_rank || first.rank == made.rank;
    const bool names_link =
        cause != Cause::slow_link ||
        (first.from == made.rank && first.to == (made.rank + 1) % job.world_size);
    const bool good = !why.findings.empty() && first.cause == cause && names_rank && names_link &&
                      std::abs(first.saved_s - saved) <= 0.1 * saved;
    right += good;
    if (!good) {
      std::string found;
      for (const Diagnosis& f : why.findings)
        found += std::string(name_of(f.cause)) + " " + std::to_string(f.rank) + " " +
                 std::to_string(1e3 * f.saved_s) + "; ";
      std::printf("seed %d: %s rank %d of %d, %s %s K=%d %s, saves %.3f of %.3f ms; found %s\n",
                  int(seed), std::string(name_of(cause)).c_str(), made.rank, job.world_size,
                  std::string(name_of(job.partition)).c_str(), job.mask.name().c_str(),
                  made.request.pace == Pace::in_step ? 0 : job.kv_buffers,
                  job.backward ? "backward" : "forward", 1e3 * saved, 1e3 * wall, found.c_str());
    }
  }
  std::printf("%d of %d right\n", right, cases);
  EXPECT_GE(right, 95);
}

}  // namespace
}  // namespace ringscope
