// What the ring on one GPU records: the rules that hold for every run, and those of a device.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <tuple>

#ifdef RINGSCOPE_MODEL
#include "cuda/emulator/runtime.h"
#endif
#include "tests/core/ring/run_invariants.h"
#include "tests/cuda/one_gpu_ring.h"
#include "tests/schemes.h"

namespace ringscope::cuda {
namespace {

// Calls f(config, run) for masks, of which each has two partitions, and world sizes and schemes that take
// turns.
template <class F>
void for_runs(F&& f) {
  int turn = 0;
  for (const char* mask : {"full", "causal", "causal+window:9", "causal+documents:20,25"}) {
    const RingReference problem({2, 2, 1, 45, 5}, DType::f32, mask, 0.4f, 81);
    for (int i = 0; i < 2; ++i) {
      const PartitionKind partition = kAllPartitions[turn * 3 / 2 % 4];
      const int world_size = 1 + (turn * 3) % 8;
      Problem config = problem.config(partition, world_size, kRunSchemes[turn++ % 2]);
      config.kv_buffers = 2 + turn % 3;
      SCOPED_TRACE(described(problem, config));
      f(config, run(problem, config));
    }
  }
}

void expect_predicted_bytes(const Problem& config, const RingRun& run) {
  ASSERT_EQ(run.peak_bytes.size(), static_cast<std::size_t>(config.world_size));
  EXPECT_EQ(run.peak_bytes, run.predicted_bytes);
  for (int rank = 0; rank < config.world_size; ++rank)
    EXPECT_EQ(run.peak_bytes[rank], predicted_gpu_rank_bytes(config, rank)) << "rank " << rank;
}

// Slices lie within the run, and what a rank did and waited for fits into it.
void expect_to_fit_into_wall_time(const RingRun& run) {
  const double wall_ns = run.wall_s * 1e9;
  for (std::size_t rank = 0; rank < run.recording.events.size(); ++rank) {
    const double error_ns = static_cast<double>(run.recording.info.clock_error_ns[rank]);
    EXPECT_GT(error_ns, 0);
    double busy_ns = 0, first_ns = 1e18, last_ns = 0;
    for (const TraceEvent& event : run.recording.events[rank]) {
      first_ns = std::min(first_ns, static_cast<double>(event.begin_ns));
      last_ns = std::max(last_ns, static_cast<double>(event.end_ns));
      if (event.lane == Lane::compute || event.lane == Lane::wait)
        busy_ns += static_cast<double>(event.end_ns - event.begin_ns);
    }
    EXPECT_LE(last_ns - first_ns, wall_ns + 2 * error_ns) << "rank " << rank;
    EXPECT_LE(busy_ns, wall_ns + 2 * error_ns) << "rank " << rank;
  }
}

// Ranks take turns: no two of them compute at once, so a slice's length is its work's.
void expect_turns(const RingRun& run) {
  std::vector<TraceEvent> computing;
  for_events(run, Lane::compute, [&](int, const TraceEvent& event) {
    EXPECT_EQ(event.cpu_ns, event.end_ns - event.begin_ns);
    if (event.pairs > 0) computing.push_back(event);
  });
  std::sort(computing.begin(), computing.end(),
            [](const auto& a, const auto& b) { return a.begin_ns < b.begin_ns; });
  for (std::size_t i = 1; i < computing.size(); ++i)
    EXPECT_GE(computing[i].begin_ns, computing[i - 1].end_ns);
}

// Nobody waits for what was there already, nor for itself.
void expect_waits_for_peers(const Problem& config, const RingRun& run) {
  const int n = config.world_size;
  for_events(run, Lane::wait, [&](int rank, const TraceEvent& wait) {
    EXPECT_TRUE(wait.waiting_for == (rank + 1) % n || wait.waiting_for == (rank + n - 1) % n);
    EXPECT_NE(wait.waiting_for, rank);
    bool ended_within = false;
    for (const TraceEvent& event : run.recording.events[static_cast<std::size_t>(rank)])
      if ((event.lane == Lane::send || event.lane == Lane::recv) && event.pass == wait.pass &&
          event.payload == wait.payload)
        ended_within =
            ended_within || (wait.begin_ns < event.end_ns && event.end_ns <= wait.end_ns);
    EXPECT_TRUE(ended_within) << "rank " << rank << ", step " << wait.step;
  });
}

TEST(OneGpuRingTrace, KeepsTheRulesOfEveryRun) {
  if (skip_without_gpu()) return;
  for_runs([](const Problem& config, const RingRun& run) {
    EXPECT_EQ(run.recording.info.backend, "cuda");
    expect_predicted_pairs(config, run);
    expect_predicted_hops_and_bytes(config, run);
    expect_predicted_bytes(config, run);
    expect_well_formed_lanes(run);
    expect_every_send_has_its_receive(run.recording);
    expect_blocks_attended_after_they_arrived(run);
    expect_trace_read_back_as_it_was(run);
    expect_to_fit_into_wall_time(run);
    expect_turns(run);
    expect_waits_for_peers(config, run);
  });
}

TEST(OneGpuRingTrace, SoftmaxSamplesEndAtTheFinalLse) {
  if (skip_without_gpu()) return;
  const RingReference problem({1, 2, 2, 40, 4}, DType::f32, "causal", 0.5f, 82);
  const RingRun run = cuda::run(problem, problem.config(PartitionKind::striped, 4));
  ASSERT_EQ(run.recording.samples.size(), 4u * 4 * 3);
  expect_samples_end_at_the_final_lse(run, 1e-5, 1e-5);
}

// Each consumer of a multiprocessor goes through the parts of its tiles one after the other, within
// its kernel's slice, and the results do not change. A GPU has a block for every multiprocessor, so that
// those which stamp have work.
TEST(OneGpuRingTrace, KernelsStampTheirParts) {
#ifdef RINGSCOPE_MODEL
  constexpr Index kHeads = 2;
#else
  constexpr Index kHeads = 128;
#endif
  for (const int kernel : {6, 7}) {
    if (skip_without_device(kRungLimits)) return;
    const RingReference problem({1, kHeads, kHeads / 2, 300, 64}, DType::bf16, "causal", 0.4f, 83);
    Problem config = problem.config(PartitionKind::striped, 2);
    config.backward = kernel == 7;
    const auto with = [&](int stamped) {
      return run_on_gpu(config, problem.inputs, {}, {.kernels = {kernel, 0, stamped}});
    };
    const RingRun plain = with(0), run = with(3);
    EXPECT_EQ(run.outputs.out, plain.outputs.out);
    EXPECT_EQ(run.outputs.dq, plain.outputs.dq);
    EXPECT_EQ(run.peak_bytes, plain.peak_bytes);
    EXPECT_TRUE(plain.recording.kernel.empty());
    EXPECT_EQ(run.recording.info.dropped_stamps, std::vector<std::int64_t>(2, 0));
    expect_trace_read_back_as_it_was(run);
    ASSERT_EQ(run.recording.kernel.size(), 2u);
    for (std::size_t rank = 0; rank < 2; ++rank) {
      std::map<int, std::int64_t> end_of_lane;
      std::map<std::tuple<int, int, int, int, int>, std::map<KernelPart, int>> parts[2];
      for (const KernelSpan& span : run.recording.kernel[rank]) {
        EXPECT_LE(end_of_lane[span.tid()], span.begin_ns);
        EXPECT_LE(span.begin_ns, span.end_ns);
        end_of_lane[span.tid()] = span.end_ns;
        const auto slice =
            std::ranges::find_if(run.recording.events[rank], [&](const TraceEvent& e) {
              return e.lane == Lane::compute && e.pass == span.pass && e.step == span.step;
            });
        ASSERT_NE(slice, run.recording.events[rank].end());
        EXPECT_LE(slice->begin_ns, span.begin_ns);
        EXPECT_GE(slice->end_ns, span.end_ns);
        EXPECT_LT(span.multiprocessor, 3);
        if (span.role > 0 && span.visitor() >= 0)
          ++parts[static_cast<int>(span.pass)]
                 [{span.role, span.step, span.matrix, span.row_tile, span.key_tile}][span.part];
      }
      using enum KernelPart;
      const std::vector<KernelPart> expected[] = {
          {wait, scores, softmax, output},
          {wait_queries, wait_out_gradients, scores, softmax, weight_gradients, score_gradients,
           value_gradients, key_gradients, query_gradients}};
      for (int pass = 0; pass < 2; ++pass) {
        EXPECT_EQ(parts[pass].empty(), pass == 1 && !config.backward);
        for (const auto& [tile, counts] : parts[pass])
          for (const KernelPart part : expected[pass])
            EXPECT_EQ(counts.contains(part) ? counts.at(part) : 0, 1) << name_of(part);
      }
#ifdef RINGSCOPE_MODEL  // three of its four items a step, each of two key tiles at most
      std::set<std::tuple<int, int, int>> items;
      for (const auto& [tile, counts] : parts[0])
        items.insert({std::get<1>(tile), std::get<2>(tile), std::get<3>(tile)});
      EXPECT_EQ(items.size(), 2 * 3u);
      // Three tiles of queries of two heads visit the first tile of keys, and one visits the second.
      EXPECT_EQ(parts[1].size(), config.backward ? 2 * 2 * 2 * (3 + 1u) : 0);
#endif
    }
  }
}

TEST(OneGpuRingTrace, StampsWithoutRoomAreCounted) {
  if (skip_without_gpu()) return;
  StampLog log(2, 1);
  std::vector<StampLane> lanes(kKernelRoles);
#ifdef RINGSCOPE_MODEL
  EXPECT_EQ(model::pending_operations(), 0u) << "lanes are empty before any stream comes to them";
#endif
  lanes[2].asked = kStampsOfLane + 5;
  for (unsigned i = 0; i < kStampsOfLane; ++i)
    lanes[2].stamps[i] = {1000 + i, 3, i == 0 ? -1 - 7 : static_cast<int>(KernelPart::softmax)};
  device_memory().copy_in(log.of(1).lanes, lanes.data(), log.bytes(1, 1));
  std::int64_t dropped = 0;
  EXPECT_TRUE(log.spans(0, Pass::forward, 0, 100, dropped).empty());
  EXPECT_EQ(dropped, 0);
  const std::vector<KernelSpan> spans =
      log.spans(1, Pass::forward, 5000, 5000 + kStampsOfLane - 1, dropped);
  EXPECT_EQ(dropped, 5);
  ASSERT_EQ(spans.size(), kStampsOfLane - 1);
  EXPECT_EQ(spans[4], (KernelSpan{KernelPart::softmax, 0, 2, 0, 3, 7, 3, 5004, 5005, 1}));
}

}  // namespace
}  // namespace ringscope::cuda
