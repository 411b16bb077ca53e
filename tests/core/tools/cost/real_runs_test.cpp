// What the closed forms predict is what real runs on threads count: FLOPs, pairs and balance by
// rank and step, bytes, hops, peak memory.
#include <gtest/gtest.h>

#include <algorithm>

#include "core/threads/run.h"
#include "core/tools/cost/amounts.h"
#include "core/tools/cost/balance.h"
#include "core/trace/summary.h"
#include "tests/core/attention/random_problem.h"
#include "tests/schemes.h"

namespace ringscope {
namespace {

// Masks for 61 positions.
constexpr const char* kRunMasks[] = {"full",     "causal",    "causal+window:9",
                                     "window:7", "prefix:20", "causal+documents:30,31"};

// Runs every partition, scheme, mask and grouping of heads, forward and backward, on 1, 2, 3, and 8
// ranks, whose storage types and buffers take turns, and calls f(config, run).
template <class F>
void for_real_runs(F&& f) {
  int turn = 0;
  for (const Index heads_kv : {1, 4}) {
    const AttentionShape shape{2, 4, heads_kv, 61, 5};
    const Tensors<float> in = random_tensors(shape, 71);
    const AttentionInputs inputs{in.q, in.k, in.v, in.dout};
    for (const char* mask : kRunMasks)
      for (const PartitionKind partition : kAllPartitions)
        for (const Scheme* scheme : kRunSchemes)
          for (const int n : {1, 2, 3, 8})
            for (const bool backward : {false, true}) {
              const DType dtype = kAllDTypes[turn % 3];
              SCOPED_TRACE(testing::Message()
                           << mask << ", " << name_of(partition) << ", " << name_of(scheme) << ", "
                           << name_of(dtype) << ", world_size " << n << ", heads_kv " << heads_kv
                           << (backward ? ", backward" : ""));
              Problem config{.shape = shape,
                             .dtype = dtype,
                             .softmax_scale = std::nullopt,
                             .mask = MaskSpec::parse(mask),
                             .partition = partition,
                             .world_size = n,
                             .scheme = scheme,
                             .backward = backward};
              config.kv_buffers = 2 + turn++ % 5;
              f(config, run_on_threads(config, inputs));
            }
  }
}

// FLOPs of a pass, and bytes that a rank sent in a pass, as recorded.
double recorded_flops(const RingRun& run, Pass pass) {
  double flops = 0;
  for (const auto& events : run.recording.events)
    for (const TraceEvent& e : events)
      if (e.lane == Lane::compute && e.pass == pass) flops += static_cast<double>(e.flops);
  return flops;
}

double recorded_bytes(const RingRun& run, int rank, Pass pass) {
  double bytes = 0;
  for (const TraceEvent& e : run.recording.events[static_cast<std::size_t>(rank)])
    if (e.lane == Lane::send && e.pass == pass) bytes += static_cast<double>(e.bytes);
  return bytes;
}

void expect_flops(const Problem& config, const RingRun& run) {
  const double pairs = total_pairs(config);
  EXPECT_EQ(recorded_flops(run, Pass::forward), flops_of_pairs(config.shape, pairs, Pass::forward));
  EXPECT_EQ(recorded_flops(run, Pass::backward),
            config.backward ? flops_of_pairs(config.shape, pairs, Pass::backward) : 0);
}

void expect_balance(const Problem& config, const RingRun& run) {
  const Balance balance = balance_of(config);
  const RunSummary summary = summarize(run.recording);
  ASSERT_EQ(balance.steps.size(), static_cast<std::size_t>(config.world_size));
  EXPECT_FALSE(balance.sampled);
  for (std::size_t step = 0; step < balance.steps.size(); ++step) {
    Index slowest = 0;
    for (const RankSummary& rank : summary.ranks)
      slowest = std::max(slowest, rank.pairs_by_step[step]);
    EXPECT_EQ(balance.steps[step].slowest, static_cast<double>(slowest)) << "step " << step;
    EXPECT_EQ(balance.steps[step].has_hop, step + 1 < balance.steps.size());
  }
  EXPECT_NEAR(balance.ceiling(), summary.balance_ceiling, 1e-12);
  EXPECT_NEAR(balance.imbalance(), summary.imbalance, 1e-12);
}

void expect_traffic(const Problem& config, const RingRun& run) {
  const RunSummary summary = summarize(run.recording);
  for (int rank = 0; rank < config.world_size; ++rank) {
    const Traffic traffic = traffic_of(config, rank);
    EXPECT_EQ(traffic.forward_bytes, recorded_bytes(run, rank, Pass::forward)) << rank;
    EXPECT_EQ(traffic.backward_bytes, recorded_bytes(run, rank, Pass::backward)) << rank;
    const RankSummary& counted = summary.ranks[static_cast<std::size_t>(rank)];
    EXPECT_EQ(traffic.bytes(), static_cast<double>(counted.bytes_sent)) << rank;
    EXPECT_EQ(traffic.hops, counted.hops) << rank;
  }
}

void expect_largest_hops(const Problem& config, const RingRun& run) {
  Index largest_kv = 0, largest_gradient = 0;
  for (const auto& events : run.recording.events)
    for (const TraceEvent& e : events)
      if (e.lane == Lane::send) {
        Index& largest = e.payload == Payload::kv ? largest_kv : largest_gradient;
        largest = std::max(largest, e.bytes);
      }
  EXPECT_EQ(kv_hop_bytes(config), static_cast<double>(largest_kv));
  EXPECT_EQ(config.backward ? gradient_hop_bytes(config) : 0,
            static_cast<double>(largest_gradient));
}

void expect_memory(const Problem& config, const RingRun& run) {
  double peak = 0;
  for (int rank = 0; rank < config.world_size; ++rank) {
    const auto rows = static_cast<double>(config.partition_of_sequence().rows_of(rank).size());
    const auto measured = static_cast<double>(run.peak_bytes[static_cast<std::size_t>(rank)]);
    EXPECT_EQ(total_bytes(memory_parts(config, rows)), measured) << rank;
    peak = std::max(peak, measured);
  }
  EXPECT_EQ(peak_bytes(config), peak);
}

// One walk over all runs: hundreds of them, most of whose time is starting threads.
TEST(RealRuns, CountWhatIsPredicted) {
  for_real_runs([](const Problem& config, const RingRun& run) {
    expect_flops(config, run);
    expect_balance(config, run);
    expect_traffic(config, run);
    expect_largest_hops(config, run);
    expect_memory(config, run);
  });
}

}  // namespace
}  // namespace ringscope
