// What every recorded run must satisfy besides the right answer, whichever backend made it: the
// predicted work, messages and memory, and a trace that hangs together.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <sstream>
#include <tuple>
#include <vector>

#include "core/ring/loop_counts.h"
#include "core/ring/ring.h"
#include "core/threads/run.h"
#include "core/trace/chrome_trace.h"
#include "core/trace/summary.h"

namespace ringscope {

// Calls f(rank, event) for the slices of a lane.
template <class F>
void for_events(const Recording& recording, Lane lane, F&& f) {
  for (std::size_t rank = 0; rank < recording.events.size(); ++rank)
    for (const TraceEvent& event : recording.events[rank])
      if (event.lane == lane) f(static_cast<int>(rank), event);
}
template <class F>
void for_events(const RingRun& run, Lane lane, F&& f) {
  for_events(run.recording, lane, f);
}

// Of a run with backward pass: one compute slice a rank, step and pass, with the pairs of the
// closed forms.
inline void expect_predicted_pairs(const Problem& config, const RingRun& run) {
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
                               flops_of_a_pair(config.shape, event.pass));
    if (event.pass == Pass::forward) total += event.pairs;
    ++slices[{event.pass, rank, event.step}];
  });
  for (Index i = 0; i < mask.seqlen; ++i) expected_total += mask.allowed_keys(i).size();
  EXPECT_EQ(total, expected_total);
  EXPECT_EQ(slices.size(), static_cast<std::size_t>(2 * n * n));
  for (const auto& [which, count] : slices) EXPECT_EQ(count, 1);
}

// Each rank sends the bytes and computes the pairs that the program of its scheme says.
inline void expect_sent_as_counted(const Problem& config, const RingRun& run) {
  const RunSummary summary = summarize(run.recording);
  for (int rank = 0; rank < config.world_size; ++rank) {
    const LoopCounts counts = count_loop(config, rank);
    EXPECT_EQ(static_cast<double>(summary.ranks.at(rank).bytes_sent),
              counts.forward_bytes + counts.backward_bytes);
    EXPECT_EQ(summary.ranks.at(rank).pairs_by_step, counts.pairs_by_step);
  }
}

// Of a run with backward pass. Blocks go to the next rank, and their f32 gradients behind them: in a
// ring those of the block that was attended, in a reduce-scatter those of the next one.
inline void expect_predicted_hops_and_bytes(const Problem& config, const RingRun& run) {
  const int n = config.world_size;
  const AttentionShape& s = config.shape;
  const auto block_values = [&](int owner) {
    return s.batch * s.num_heads_kv * config.partition_of_sequence().rows_of(owner).size() *
           (s.head_dim + s.value_dim());
  };
  for_events(run, Lane::send, [&](int rank, const TraceEvent& event) {
    const bool kv = event.payload == Payload::kv;
    EXPECT_EQ(event.bytes, block_values(event.kv_owner) * (kv ? bytes_of(config.dtype) : 4));
    EXPECT_EQ(event.src, rank);
    EXPECT_EQ(event.dst, (rank + 1) % n);
    const RingSchedule ring{rank, n};
    const bool whole_ring = kv || config.scheme == scheme_named("ring");
    EXPECT_EQ(event.kv_owner, ring.owner(event.step + (whole_ring ? 0 : 1)));
  });
  expect_sent_as_counted(config, run);
  EXPECT_EQ(run.recording.dropped, std::vector<Index>(n, 0));
}

// On one lane slices nest or don't overlap; nobody waits while computing.
inline void expect_well_formed_lanes(const RingRun& run) {
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
}

inline void expect_every_send_has_its_receive(const Recording& recording) {
  std::map<Index, TraceEvent> sends, receives;
  for_events(recording, Lane::send, [&](int, const TraceEvent& event) {
    EXPECT_NE(event.flow, 0);
    EXPECT_TRUE(sends.emplace(event.flow, event).second) << "flow " << event.flow << " twice";
  });
  for_events(recording, Lane::recv, [&](int rank, const TraceEvent& event) {
    EXPECT_EQ(event.dst, rank);
    EXPECT_TRUE(receives.emplace(event.flow, event).second) << "flow " << event.flow << " twice";
  });
  ASSERT_EQ(sends.size(), receives.size());
  for (const auto& [flow, send] : sends) {
    ASSERT_TRUE(receives.contains(flow)) << "flow " << flow;
    const auto message_of = [](const TraceEvent& e) {
      return std::tuple(e.bytes, e.src, e.dst, e.kv_owner, e.step, e.pass, e.payload);
    };
    EXPECT_EQ(message_of(receives.at(flow)), message_of(send));
  }
}

// A block is attended after it has come, and passed on only then.
inline void expect_blocks_attended_after_they_arrived(const RingRun& run) {
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
}

inline void expect_trace_read_back_as_it_was(const RingRun& run) {
  std::ostringstream text;
  write_chrome_trace(text, run.recording);
  EXPECT_TRUE(parse_chrome_trace(text.str()) == run.recording);
}

// The books of a whole run in whatever scheme: what it held, sent and attended is what was foreseen, each
// allowed pair is attended once, and the trace hangs together.
inline void expect_books(const Problem& job, const RingRun& run) {
  EXPECT_EQ(run.peak_bytes, run.predicted_bytes);
  EXPECT_EQ(run.recording.dropped, std::vector<Index>(run.recording.dropped.size(), 0));
  expect_sent_as_counted(job, run);
  Index attended = 0, allowed = 0;
  for (const RankSummary& rank : summarize(run.recording).ranks) attended += rank.pairs;
  const Mask mask = job.mask.for_seqlen(job.shape.seqlen);
  for (Index i = 0; i < job.shape.queries(); ++i)
    mask.for_allowed(job.shape.first_query() + i, [&](Interval keys) { allowed += keys.size(); });
  EXPECT_EQ(attended, allowed);
  expect_every_send_has_its_receive(run.recording);
  expect_well_formed_lanes(run);
  expect_trace_read_back_as_it_was(run);
}

// The softmax samples of striped ranks lead to the final lse, and know how far they are from it.
inline void expect_samples_end_at_the_final_lse(const RingRun& run, double of_errors,
                                                double of_last) {
  const int n = run.recording.info.world_size;
  std::map<Index, SoftmaxSample> last;
  for (const SoftmaxSample& sample : run.recording.samples) {
    last[sample.query] = sample;
    EXPECT_EQ(sample.rank, sample.query % n);
    EXPECT_NEAR(sample.lse_error, std::abs(run.outputs.lse[sample.query] - sample.lse), of_errors);
  }
  for (const auto& [query, sample] : last) {
    EXPECT_NEAR(sample.lse, run.outputs.lse[query], of_last);
    EXPECT_EQ(sample.lse_error, 0);
    EXPECT_EQ(sample.step, n - 1);
  }
}

// What every whole run of a ring keeps, with as many buffers as it likes, to the byte of its memory.
inline void expect_the_rules(const Problem& config, const RingRun& run) {
  for (int rank = 0; rank < config.world_size; ++rank)
    EXPECT_EQ(run.peak_bytes.at(rank), predicted_rank_bytes(config, rank)) << "rank " << rank;
  EXPECT_EQ(run.peak_bytes, run.predicted_bytes);
  expect_predicted_pairs(config, run);
  expect_predicted_hops_and_bytes(config, run);
  expect_well_formed_lanes(run);
  expect_every_send_has_its_receive(run.recording);
  expect_blocks_attended_after_they_arrived(run);
  expect_trace_read_back_as_it_was(run);
}

}  // namespace ringscope
