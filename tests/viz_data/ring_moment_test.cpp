// The ring at single moments of a run made by hand, whose every slice is known, and at all moments
// of real runs.
#include "viz/data/analysis/ring_moment.h"

#include <gtest/gtest.h>

#include <map>
#include <tuple>

#include "core/ring/ring.h"
#include "tests/viz_data/hand_made.h"
#include "tests/viz_data/recorded.h"
#include "tests/viz_data/simulated.h"

namespace ringscope::viz {
namespace ring_moment_test {

// Two ranks: rank 1 computes longer, so rank 0 waits for it; the block from rank 1 takes from 30,
// when both ends are at it, to 70.
Trace two_ranks() {
  HandMade made(2);
  made.compute(0, 0, 0, 40).wait(0, 1, 40, 72).compute(0, 1, 72, 92);
  made.compute(1, 0, 0, 60).compute(1, 1, 60, 100);
  made.hop(1, 0, {20, 70}, {30, 70}, 4000).hop(0, 0, {10, 20}, {10, 20}, 1000);
  return made.trace();
}

RingMoment moment_at(const Trace& trace, const Axis& axis, AxisMode mode, double position) {
  return ring_at(trace, axis, LinkHistory(trace), mode, position);
}

RingMoment at_time(const Trace& trace, double ns) {
  return moment_at(trace, Axis(trace), AxisMode::time, ns);
}

TEST(RingMoment, WhatRanksDo) {
  using Ranks = std::vector<RankMoment>;
  constexpr Pass kForward = Pass::forward;
  const Trace trace = two_ranks();
  EXPECT_EQ(at_time(trace, 10).ranks,
            (Ranks{{0, 0, kForward, RankMoment::computing, 0.25, -1, false, 0},
                   {0, 1, kForward, RankMoment::computing, 10.0 / 60, -1, false, 1}}));
  EXPECT_EQ(at_time(trace, 50).ranks,
            (Ranks{{1, 1, kForward, RankMoment::waiting, 0, 1, false, 1},
                   {0, 1, kForward, RankMoment::computing, 50.0 / 60, -1, false, 1}}));
  EXPECT_EQ(at_time(trace, 96).ranks,
            (Ranks{{1, 1, kForward, RankMoment::finished, 1, -1, true, 1},
                   {1, 0, kForward, RankMoment::computing, 0.9, -1, true, 0}}));
  EXPECT_EQ(at_time(trace, 100).ranks[1].doing, RankMoment::finished);
}

// A rank that waits until its own block has left, or another does, has the block that it attends next.
TEST(RingMoment, ABlockThatHasComeIsNotAwaited) {
  HandMade made(2);
  made.compute(0, 0, 0, 40).wait(0, 1, 40, 72).compute(0, 1, 72, 92).compute(1, 0, 0, 90);
  made.hop(1, 0, 0, 50).hop(0, 0, 0, 72);
  const Trace trace = made.trace();
  EXPECT_TRUE(at_time(trace, 49).ranks[0].awaits());
  for (const double ns : {50, 71}) {
    const RankMoment now = at_time(trace, ns).ranks[0];
    EXPECT_EQ(now.doing, RankMoment::waiting);
    EXPECT_EQ(now.held, 1);
    EXPECT_FALSE(now.awaits()) << ns;
  }
}

// A rank that has attended its last block stays at that step, waits for nothing that it would attend, and
// so say the files of earlier versions, whose last waits name a step and a block.
TEST(RingMoment, NothingIsLeftToAttendAfterTheLastBlock) {
  for (const bool old : {true, false})
    for (const bool needed : {true, false}) {
      HandMade made(4, "contiguous", "causal");
      made.compute(0, 0, 0, 40).wait(0, 1, 40, 70).compute(3, 0, 0, 60);
      for (int step = 1; step < 4; ++step) made.compute(3, step, 60 * step, 60 * step + 60);
      made.recording().info.hops = needed ? "needed" : "";
      if (!old) made.recording().events[0][1].step = made.recording().events[0][1].kv_owner = -1;
      const Trace trace = made.trace();
      const Axis axis(trace);
      EXPECT_EQ(trace.slices_of(0, Lane::wait)[0].step, -1);
      for (const double ns : {41, 69, 100, 240}) {
        const RankMoment now = at_time(trace, ns).ranks[0];
        EXPECT_EQ(std::tuple(now.step, now.kv_owner), std::tuple(0, 0)) << ns;
        EXPECT_TRUE(now.has_nothing_left() && !now.awaits()) << ns;
      }
      EXPECT_FALSE(at_time(trace, 39).ranks[0].has_nothing_left());
      EXPECT_FALSE(at_time(trace, 61).ranks[3].has_nothing_left());
      const RankMoment later = moment_at(trace, axis, AxisMode::steps, 2.5).ranks[0];
      EXPECT_EQ(later.kv_owner, needed ? -1 : 2);
      EXPECT_TRUE(later.has_nothing_left());
    }
}

// In schemes that attend blocks in an order of their own, at the beginning of every recorded slice.
TEST(RingMoment, RanksHoldTheBlockThatTheRecordingNames) {
  for (const char* name :
       {"two-level:2", "two-level:3", "mesh:2x3", "mesh:3x2", "bidirectional", "ulysses"}) {
    Problem config;
    config.shape = {.batch = 1, .num_heads = 6, .num_heads_kv = 6, .seqlen = 96, .head_dim = 8};
    config.world_size = 6;
    config.backward = true;
    set_scheme(config, name);
    const Tensors<float> in = random_tensors(config.shape, 7);
    const Recording recording = run_on_threads(config, {in.q, in.k, in.v, in.dout}).recording;
    const Trace trace = trace_of(recording);
    const Axis axis(trace);
    int compared = 0;
    for (int rank = 0; rank < 6; ++rank)
      for (const TraceEvent& slice : trace.slices_of(rank, Lane::compute)) {
        if (slice.end_ns == slice.begin_ns) continue;
        const double ns = static_cast<double>(slice.begin_ns - trace.begin_ns);
        const RankMoment now = moment_at(trace, axis, AxisMode::time, ns).ranks[rank];
        if (now.pass != slice.pass || axis.ring_step(now.step) != slice.step) continue;
        EXPECT_EQ(now.kv_owner, slice.kv_owner)
            << name << ", rank " << rank << ", step " << slice.step;
        ++compared;
      }
    EXPECT_GT(compared, 6) << name;
  }
}

// Where queries travel, a rank attends its own block with those that have come; and messages are named by
// what they carry.
TEST(RingMoment, WhatTravelsIsWhatTheSchemeSends) {
  struct Case {
    const char* scheme;
    const char* names[4];  // forward and backward, kv and dkv, from rank 0 to rank 1
  };
  for (const Case& c : {Case{"ring", {"KV", "dKV", "KV", "dKV"}},
                        {"allgather", {"KV", "dKV", "KV", "dKV"}},
                        {"pass-q", {"Q", "O", "Q", "dQ"}},
                        {"mesh:2x3", {"Q", "O", "Q", "dQ"}},
                        {"mesh:6x1", {"KV", "dKV", "KV", "dKV"}},
                        {"ulysses:2", {"heads", "heads", "heads", "heads"}},
                        {"hybrid:2", {"heads", "heads", "heads", "heads"}},
                        {"hybrid:1", {"KV", "dKV", "KV", "dKV"}}}) {
    RunInfo run;
    run.scheme = c.scheme;
    run.world_size = 6;
    int i = 0;
    for (const Pass pass : kAllPasses)
      for (const Payload payload : {Payload::kv, Payload::dkv})
        EXPECT_EQ(travel_of(run).name_of(pass, payload, 0, 1), c.names[i++]) << c.scheme;
  }
  const Trace trace =
      trace_of(record_run(PartitionKind::zigzag, "causal", scheme_named("pass-q"), 4, true));
  const Axis axis(trace);
  for (int step = 0; step < axis.steps(); ++step)
    for (int rank = 0; rank < 4; ++rank) {
      const RankMoment at = moment_at(trace, axis, AxisMode::steps, step + 0.5).ranks[rank];
      EXPECT_EQ(at.kv_owner, rank);
      EXPECT_EQ(at.held, (rank - step % 4 + 4) % 4) << step;
    }
}

TEST(RingMoment, BlocksOnTheirWay) {
  using Blocks = std::vector<BlockInFlight>;
  const Trace trace = two_ranks();
  EXPECT_EQ(at_time(trace, 5).in_flight, Blocks());
  EXPECT_EQ(at_time(trace, 15).in_flight, (Blocks{{0, 1, 0, Payload::kv, 0.5, 1000}}));
  EXPECT_EQ(at_time(trace, 25).in_flight, Blocks());  // the sender has begun, the receiver has not
  EXPECT_EQ(at_time(trace, 40).in_flight, (Blocks{{1, 0, 1, Payload::kv, 0.25, 4000}}));
  EXPECT_EQ(at_time(trace, 70).in_flight, Blocks());
}

TEST(RingMoment, WhatLinksHaveCarried) {
  using Links = std::vector<Link>;
  const double first = 1000 / (10 * 1e-9), second = 4000 / (40 * 1e-9);  // bytes a second
  const Trace trace = two_ranks();
  EXPECT_EQ(at_time(trace, 69).links, (Links{{0, 1, 1000, 1000, first}, {1, 0, 0, 4000, second}}));
  EXPECT_EQ(at_time(trace, 70).links[1].bytes_so_far, 4000);
}

TEST(RingMoment, OfRealRunsIsWhatTheSlicesSay) {
  for_recorded_runs([](const Recording& recording, const std::string& what) {
    const Trace trace = trace_of(recording);
    const Axis axis(trace);
    const LinkHistory history(trace);
    for (int i = 0; i <= 20; ++i) {
      const std::int64_t now = trace.begin_ns + trace.wall_ns() * i / 20;
      const RingMoment moment =
          ring_at(trace, axis, history, AxisMode::time, static_cast<double>(now - trace.begin_ns));
      std::map<int, std::int64_t> arrived;
      for (int rank = 0; rank < recording.info.world_size; ++rank) {
        const RankMoment& at = moment.ranks[rank];
        bool computing = false;
        for (const TraceEvent& s : trace.slices_of(rank, Lane::compute))
          if (s.begin_ns <= now && now < s.end_ns) {
            computing = true;
            EXPECT_EQ(at.kv_owner, s.kv_owner) << what;
            EXPECT_EQ(at.pass, s.pass) << what;
            EXPECT_DOUBLE_EQ(at.progress, static_cast<double>(now - s.begin_ns) /
                                              static_cast<double>(s.duration_ns()))
                << what;
          }
        EXPECT_EQ(at.doing == RankMoment::computing, computing) << what;
        for (const TraceEvent& s : trace.slices_of(rank, Lane::recv))
          if (s.end_ns <= now) arrived[rank] += s.bytes;
      }
      for (const Link& link : moment.links) EXPECT_EQ(link.bytes_so_far, arrived[link.dst]) << what;
      const int links = recording.info.world_size > 1 ? recording.info.world_size : 0;
      EXPECT_EQ(moment.links.size(), static_cast<std::size_t>(links)) << what;
    }
  });
}

// What the timeline draws at a moment, what the ring and the mask show, and the step of transport, Balance
// and ruler are one, also of ranks that have attended all that they attend.
TEST(RingMoment, AllSpeakOfTheStepOfTheSliceThatIsDrawn) {
  for (const Hops hops : {Hops::needed, Hops::all})
    for (const PartitionKind partition : {PartitionKind::contiguous, PartitionKind::zigzag})
      for (const bool backward : {false, true})
        for (const char* mask : {"causal", "causal+window:900"}) {
          Scenario scenario = simulated_scenario(8, partition, backward);
          scenario.job.hops = hops;
          scenario.job.mask = MaskSpec::parse(mask);
          Session session = session_of(simulated_trace(scenario));
          const Trace& trace = session.document().trace;
          const Axis& axis = session.document().axis;
          int left = 0;
          for (int i = 0; i < 97; ++i) {
            session.seek(session.length() * i / 96);
            const std::int64_t now = axis.time_at(AxisMode::time, 0, session.playback.position());
            for (int rank = 0; rank < 8; ++rank) {
              SCOPED_TRACE(testing::Message() << name_of(hops) << " " << name_of(partition) << " "
                                              << mask << ", rank " << rank << " at " << now);
              session.select_rank(rank);
              const RankMoment at = session.moment(0).ranks[rank];
              EXPECT_EQ(session.step_now(0), at.step);
              left += at.has_nothing_left();
              for (const Lane lane : {Lane::compute, Lane::wait})
                for (const TraceEvent& s : trace.slices_of(rank, lane)) {
                  if (now < s.begin_ns || now >= s.end_ns) continue;
                  EXPECT_EQ(at.has_nothing_left(), s.step < 0);
                  if (s.step < 0 || s.payload == Payload::dkv) continue;
                  EXPECT_EQ(at.step, axis_step(s, axis.forward_steps()));
                  EXPECT_EQ(at.kv_owner, s.kv_owner);
                }
            }
          }
          EXPECT_GT(left, 0);
          // In the end the mask shows all as attended.
          const MaskProgress progress = session.document().attended.progress_at(session.moment(0));
          for_each_slice(trace, Lane::compute, [&](int rank, const TraceEvent& s) {
            if (s.pairs > 0) {
              EXPECT_EQ(progress.done[static_cast<std::size_t>(rank * 8 + s.kv_owner)], 1)
                  << name_of(hops) << " " << name_of(partition) << " rank " << rank;
            }
          });
        }
}

TEST(RingMoment, OddTraces) {
  EXPECT_TRUE(moment_at(Trace{}, Axis{}, AxisMode::time, 0).ranks.empty());
  const Trace none = HandMade(3).trace();
  for (const AxisMode mode : {AxisMode::time, AxisMode::steps})
    EXPECT_EQ(moment_at(none, Axis(none), mode, 0).ranks.size(), 3u);
  for (std::uint32_t seed = 0; seed < 300; ++seed) {
    const Trace trace = random_trace(seed);
    const Axis axis(trace);
    for (const AxisMode mode : {AxisMode::time, AxisMode::steps})
      for (int i = -1; i <= 11; ++i)
        for (const RankMoment& rank :
             moment_at(trace, axis, mode, axis.length(mode) * i / 10).ranks) {
          EXPECT_GE(rank.progress, 0);
          EXPECT_LE(rank.progress, 1);
          EXPECT_GE(rank.kv_owner, -1);
          EXPECT_LT(rank.kv_owner, trace.info.world_size);
        }
  }
}

}  // namespace ring_moment_test
}  // namespace ringscope::viz
