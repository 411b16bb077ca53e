// What a run must do besides the right answer: the predicted work, messages and order of events.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <map>
#include <sstream>
#include <thread>

#include "core/ring/schedule.h"
#include "core/trace/chrome_trace.h"
#include "core/trace/summary.h"
#include "tests/ring/ring_case.h"

namespace ringscope {
namespace {

const char* const kMasks[] = {"full", "causal", "causal+window:9", "prefix:20",
                              "causal+documents:31,42"};

template <class F>
void for_events(const RingRun& run, Lane lane, F&& f) {
  for (std::size_t rank = 0; rank < run.recording.events.size(); ++rank)
    for (const TraceEvent& event : run.recording.events[rank])
      if (event.lane == lane) f(static_cast<int>(rank), event);
}

// Calls f(config, run) for every partition, world_size, scheme and mask.
template <class F>
void for_runs(F&& f) {
  const AttentionShape shape{2, 4, 2, 73, 5};
  for (const char* mask : kMasks) {
    const Tensors<float> in = random_tensors(shape, 61);
    for (const PartitionKind partition : kAllPartitions)
      for (const int n : {1, 2, 3, 8})
        for (const Scheme scheme : kAllSchemes)
          for (const DType dtype : {DType::f32, DType::bf16}) {
            SCOPED_TRACE(testing::Message()
                         << mask << ", " << name_of(partition) << ", world_size " << n << ", "
                         << name_of(scheme) << ", " << name_of(dtype));
            const RingConfig config{.shape = shape,
                                    .dtype = dtype,
                                    .softmax_scale = 0.4f,
                                    .mask = MaskSpec::parse(mask),
                                    .partition = partition,
                                    .world_size = n,
                                    .scheme = scheme,
                                    .backward = true};
            f(config, run_on_threads(config, {in.q, in.k, in.v, in.dout}));
          }
  }
}

TEST(Invariants, CountedPairsAreThePredictedOnes) {
  for_runs([](const RingConfig& config, const RingRun& run) {
    const int n = config.world_size;
    const Mask mask = config.mask.for_seqlen(config.shape.seqlen);
    Index total = 0, expected_total = 0;
    std::map<std::tuple<Pass, int, int>, int> slices;
    for_events(run, Lane::compute, [&](int rank, const TraceEvent& event) {
      const RingSchedule ring{rank, n};
      EXPECT_EQ(event.kv_owner, ring.owner(event.step));
      EXPECT_EQ(event.pairs, predicted_pairs(config, rank, event.step))
          << name_of(event.pass) << ", rank " << rank << ", step " << event.step;
      EXPECT_EQ(event.flops, event.pairs * config.shape.batch * config.shape.num_heads *
                                 config.shape.head_dim * (event.pass == Pass::forward ? 4 : 10));
      if (event.pass == Pass::forward) total += event.pairs;
      ++slices[{event.pass, rank, event.step}];
    });
    for (Index i = 0; i < mask.seqlen; ++i) expected_total += mask.allowed_keys(i).size();
    EXPECT_EQ(total, expected_total);
    EXPECT_EQ(slices.size(), static_cast<std::size_t>(2 * n * n));
    for (const auto& [which, count] : slices) EXPECT_EQ(count, 1);
  });
}

// Forward N-1 hops of KV. Backward, ring: again N-1 of KV, and N of its f32 gradient, the last one
// home; all-gather: reduce-scatter, N-1.
TEST(Invariants, HopsAndBytesAreThePredictedOnes) {
  for_runs([](const RingConfig& config, const RingRun& run) {
    const int n = config.world_size;
    const AttentionShape& s = config.shape;
    const auto block_values = [&](int owner) {
      return 2 * s.batch * s.num_heads_kv * config.partition_of_sequence().rows_of(owner).size() *
             s.head_dim;
    };
    std::vector<Index> bytes_sent(n, 0);
    std::map<std::tuple<Pass, Payload, int>, int> hops;
    for_events(run, Lane::send, [&](int rank, const TraceEvent& event) {
      const bool kv = event.payload == Payload::kv;
      EXPECT_EQ(event.bytes, block_values(event.kv_owner) * (kv ? bytes_of(config.dtype) : 4));
      EXPECT_EQ(event.src, rank);
      EXPECT_EQ(event.dst, (rank + 1) % n);
      const RingSchedule ring{rank, n};
      const bool whole_ring = kv || config.scheme == Scheme::ring;
      EXPECT_EQ(event.kv_owner, ring.owner(event.step + (whole_ring ? 0 : 1)));
      bytes_sent[rank] += event.bytes;
      ++hops[{event.pass, event.payload, rank}];
    });
    const int gradient_hops = n == 1 ? 0 : config.scheme == Scheme::ring ? n : n - 1;
    for (int rank = 0; rank < n; ++rank) {
      const auto count = [&](Pass pass, Payload payload) { return hops[{pass, payload, rank}]; };
      EXPECT_EQ(count(Pass::forward, Payload::kv), n - 1);
      EXPECT_EQ(count(Pass::backward, Payload::kv), n - 1);
      EXPECT_EQ(count(Pass::forward, Payload::dkv), 0);
      EXPECT_EQ(count(Pass::backward, Payload::dkv), gradient_hops);
    }
    const RunSummary summary = summarize(run.recording);
    ASSERT_EQ(summary.ranks.size(), static_cast<std::size_t>(n));
    for (int rank = 0; rank < n; ++rank) {
      EXPECT_EQ(summary.ranks[rank].bytes_sent, bytes_sent[rank]);
      for (int step = 0; step < n; ++step)
        EXPECT_EQ(summary.ranks[rank].pairs_by_step.at(step), predicted_pairs(config, rank, step));
    }
    EXPECT_EQ(run.recording.dropped, std::vector<Index>(n, 0));
  });
}

// C27 (S1): ring and all-gather move the same volume forward. C48: grouped heads send only their kv
// heads.
TEST(C27_C48_Volume, IsThatOfTheKvHeadsInEitherScheme) {
  for (const Index heads_kv : {1, 2, 4})
    for (const Scheme scheme : kAllSchemes) {
      const AttentionShape shape{1, 4, heads_kv, 64, 4};
      const Tensors<float> in = random_tensors(shape, 62);
      RingConfig config;
      config.shape = shape;
      config.world_size = 4;
      config.scheme = scheme;
      const RunSummary summary =
          summarize(run_on_threads(config, {in.q, in.k, in.v, {}}).recording);
      for (const RankSummary& rank : summary.ranks) {
        EXPECT_EQ(rank.bytes_sent, 3 * 2 * heads_kv * 16 * 4 * 4);
        EXPECT_EQ(rank.hops, 3);
      }
    }
}

std::vector<std::uint32_t> bits_of(const std::vector<float>& values) {
  std::vector<std::uint32_t> bits;
  for (const float x : values) bits.push_back(std::bit_cast<std::uint32_t>(x));
  return bits;
}

TEST(Invariants, RunsAreBitwiseRepeatableAlsoWithMoreThreadsThanCores) {
  const int many = static_cast<int>(3 * std::max(1u, std::thread::hardware_concurrency()));
  for (const DType dtype : kAllDTypes)
    for (const Scheme scheme : kAllSchemes) {
      const RingReference reference({1, 2, 1, 301, 16}, dtype, "causal", 0.25f, 63);
      const RingConfig config = reference.config(PartitionKind::zigzag, many, scheme);
      const AttentionOutputs first = run_on_threads(config, reference.inputs).outputs;
      for (int repeat = 0; repeat < 5; ++repeat) {
        const AttentionOutputs again = run_on_threads(config, reference.inputs).outputs;
        EXPECT_EQ(bits_of(again.out), bits_of(first.out));
        EXPECT_EQ(bits_of(again.lse), bits_of(first.lse));
        EXPECT_EQ(bits_of(again.dq), bits_of(first.dq));
        EXPECT_EQ(bits_of(again.dk), bits_of(first.dk));
        EXPECT_EQ(bits_of(again.dv), bits_of(first.dv));
      }
    }
}

TEST(Invariants, AllGatherGivesTheRingsForwardBitForBit) {
  for (const PartitionKind partition : kAllPartitions)
    for (const int n : {2, 5}) {
      const RingReference reference({1, 2, 1, 90, 8}, DType::f32, "causal+window:30", 0.4f, 64);
      const auto outputs = [&](Scheme scheme) {
        return run_on_threads(reference.config(partition, n, scheme), reference.inputs).outputs;
      };
      const AttentionOutputs ring = outputs(Scheme::ring), gathered = outputs(Scheme::allgather);
      EXPECT_EQ(bits_of(ring.out), bits_of(gathered.out));
      EXPECT_EQ(bits_of(ring.lse), bits_of(gathered.lse));
      EXPECT_EQ(bits_of(ring.dq), bits_of(gathered.dq));
      EXPECT_LE(max_abs_error(ring.dk, gathered.dk), 1e-5);
      EXPECT_LE(max_abs_error(ring.dv, gathered.dv), 1e-5);
      reference.check(reference.config(partition, n, Scheme::allgather));
    }
}

// On one lane slices nest or don't overlap; nobody waits while computing.
TEST(Invariants, LanesAreWellFormed) {
  for_runs([](const RingConfig&, const RingRun& run) {
    for (const auto& events : run.recording.events) {
      for (const Lane lane : kAllLanes) {
        std::vector<TraceEvent> slices;
        for (const TraceEvent& event : events)
          if (event.lane == lane) slices.push_back(event);
        for (std::size_t a = 0; a < slices.size(); ++a) {
          EXPECT_LE(slices[a].begin_ns, slices[a].end_ns);
          EXPECT_GE(slices[a].begin_ns, 0);
          for (std::size_t b = a + 1; b < slices.size(); ++b) {
            const TraceEvent &x = slices[a], &y = slices[b];
            const bool apart = x.end_ns <= y.begin_ns || y.end_ns <= x.begin_ns;
            const bool nested = (x.begin_ns <= y.begin_ns && y.end_ns <= x.end_ns) ||
                                (y.begin_ns <= x.begin_ns && x.end_ns <= y.end_ns);
            EXPECT_TRUE(apart || nested)
                << name_of(lane) << ", steps " << x.step << " and " << y.step;
          }
        }
      }
      for (const TraceEvent& wait : events)
        for (const TraceEvent& compute : events)
          if (wait.lane == Lane::wait && compute.lane == Lane::compute) {
            EXPECT_TRUE(wait.end_ns <= compute.begin_ns || compute.end_ns <= wait.begin_ns);
          }
    }
  });
}

TEST(Invariants, EverySendHasItsReceive) {
  for_runs([](const RingConfig&, const RingRun& run) {
    std::map<Index, TraceEvent> sends, receives;
    for_events(run, Lane::send, [&](int, const TraceEvent& event) {
      EXPECT_NE(event.flow, 0);
      EXPECT_TRUE(sends.emplace(event.flow, event).second) << "flow " << event.flow << " twice";
    });
    for_events(run, Lane::recv, [&](int rank, const TraceEvent& event) {
      EXPECT_EQ(event.dst, rank);
      EXPECT_TRUE(receives.emplace(event.flow, event).second) << "flow " << event.flow << " twice";
    });
    ASSERT_EQ(sends.size(), receives.size());
    for (const auto& [flow, send] : sends) {
      ASSERT_TRUE(receives.contains(flow)) << "flow " << flow;
      const TraceEvent& receive = receives.at(flow);
      EXPECT_EQ(receive.bytes, send.bytes);
      EXPECT_EQ(receive.src, send.src);
      EXPECT_EQ(receive.dst, send.dst);
      EXPECT_EQ(receive.kv_owner, send.kv_owner);
      EXPECT_EQ(receive.step, send.step);
      EXPECT_EQ(receive.pass, send.pass);
      EXPECT_EQ(receive.payload, send.payload);
    }
  });
}

// A block is attended after it has come, and passed on only then.
TEST(Invariants, BlocksAreAttendedAfterTheyArrived) {
  for_runs([](const RingConfig&, const RingRun& run) {
    for (const auto& events : run.recording.events)
      for (const TraceEvent& receive : events) {
        if (receive.lane != Lane::recv || receive.payload != Payload::kv) continue;
        for (const TraceEvent& later : events)
          if (later.pass == receive.pass && later.kv_owner == receive.kv_owner &&
              (later.lane == Lane::compute ||
               (later.lane == Lane::send && later.payload == Payload::kv))) {
            EXPECT_GE(later.begin_ns, receive.end_ns)
                << name_of(later.lane) << ", step " << later.step;
          }
      }
  });
}

TEST(Invariants, SoftmaxSamplesEndAtTheFinalLse) {
  const RingReference reference({1, 2, 2, 40, 4}, DType::f32, "causal", 0.5f, 65);
  const RingRun run = run_on_threads(reference.config(PartitionKind::striped, 4), reference.inputs);
  std::map<Index, SoftmaxSample> last;
  for (const SoftmaxSample& sample : run.recording.samples) last[sample.query] = sample;
  EXPECT_GE(last.size(), 4u);
  for (const SoftmaxSample& sample : run.recording.samples) {
    EXPECT_EQ(sample.rank, sample.query % 4);
    EXPECT_NEAR(sample.lse_error, std::abs(run.outputs.lse[sample.query] - sample.lse), 1e-6);
  }
  for (const auto& [query, sample] : last) {
    EXPECT_EQ(sample.lse, run.outputs.lse[query]);
    EXPECT_EQ(sample.lse_error, 0);
    EXPECT_EQ(sample.step, 3);
  }
}

TEST(Invariants, TheTraceIsReadBackAsItWas) {
  for_runs([](const RingConfig&, const RingRun& run) {
    std::ostringstream text;
    write_chrome_trace(text, run.recording);
    EXPECT_TRUE(parse_chrome_trace(text.str()) == run.recording);
  });
}

}  // namespace
}  // namespace ringscope
