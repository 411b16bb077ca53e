// Our own recordings, written by the recorder's writer and loaded again, or made into traces at once.
#include "core/tools/foreign/trace_files.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "tests/viz_data/recorded.h"
#include "tests/viz_data/trace_loader_text.h"
#include "viz/data/analysis/critical_path.h"
#include "viz/data/timeline/axis.h"
#include "viz/data/timeline/palette.h"

namespace ringscope::viz {
namespace {

// Everything that `trace` holds is what `recording` holds, and nothing is missing.
void expect_same(const Trace& trace, const Recording& recording) {
  ASSERT_TRUE(trace.is_ring);
  EXPECT_EQ(trace.info, recording.info);
  EXPECT_EQ(trace.samples, recording.samples);
  const int n = recording.info.world_size;
  ASSERT_EQ(trace.ranks.size(), static_cast<std::size_t>(n));
  std::size_t count = 0;
  std::map<std::int64_t, std::pair<const TraceEvent*, const TraceEvent*>> messages;
  for (int rank = 0; rank < n; ++rank) {
    const auto& events = recording.events[rank];
    const RankTrack& track = trace.ranks[rank];
    EXPECT_EQ(track.pid, rank);
    ASSERT_EQ(track.lanes, 4u);
    for (const Lane lane : kAllLanes) {
      const TraceLane& found = trace.lanes[track.first_lane + static_cast<std::size_t>(lane)];
      EXPECT_EQ(found.name, name_of(lane));
      EXPECT_EQ(found.rank, static_cast<std::uint32_t>(rank));
      EXPECT_EQ(found.tid, static_cast<int>(lane));
      std::vector<TraceEvent> expected;
      for (const TraceEvent& e : events)
        if (e.lane == lane) expected.push_back(e);
      std::stable_sort(
          expected.begin(), expected.end(),
          [](const TraceEvent& a, const TraceEvent& b) { return a.begin_ns < b.begin_ns; });
      const std::span<const TraceEvent> slices = trace.slices_of(rank, lane);
      ASSERT_EQ(slices.size(), expected.size());
      for (std::size_t i = 0; i < slices.size(); ++i) {
        TraceEvent slice = slices[i];
        const TraceEvent& e = expected[i];
        EXPECT_EQ(slice.flow != 0, e.flow != 0);
        if (e.flow != 0) {
          const TraceFlow& flow = trace.flows[slice.flow - 1];
          const SliceId here{trace.row_of(rank, lane), static_cast<std::uint32_t>(i)};
          EXPECT_EQ(lane == Lane::send ? flow.from : flow.to, here);
          const TraceEvent& other = trace.slice(lane == Lane::send ? flow.to : flow.from);
          EXPECT_EQ(other.kv_owner, e.kv_owner);
          EXPECT_EQ(other.peer(), rank);
          EXPECT_EQ(other.flow, slice.flow);
        }
        if (lane == Lane::compute) {
          EXPECT_EQ(trace.name(slice), "attend kv " + std::to_string(e.kv_owner) +
                                           (e.pass == Pass::backward ? " (backward)" : ""));
        }
        slice.name = 0;
        slice.flow = e.flow;
        if (lane == Lane::wait)  // which lead to what their rank attends next
          slice.step = e.step, slice.kv_owner = e.kv_owner;
        EXPECT_EQ(slice, e);
        ++count;
      }
    }
  }
  EXPECT_EQ(trace.slice_count, count);
}

TEST(TraceLoader, ReadsBackWhatTheRecorderWrote) {
  for (const int world_size : {1, 2, 3, 8})
    for (const bool backward : {false, true}) {
      SCOPED_TRACE(testing::Message() << world_size << (backward ? " backward" : ""));
      const Recording recording = whole_recording(world_size, backward);
      const Trace trace = parse_trace(trace_text_of(recording));
      expect_same(trace, recording);
      EXPECT_TRUE(trace.notices.empty());
      EXPECT_EQ(trace.flows.size(),
                world_size == 1 ? 0u
                : backward      ? static_cast<std::size_t>(world_size * (3 * world_size - 2))
                                : static_cast<std::size_t>(world_size * (world_size - 1)));
      EXPECT_EQ(forward_step_count(trace), world_size);
      EXPECT_EQ(step_count(trace), backward ? 2 * world_size : world_size);
    }
}

TEST(TraceLoader, ExtentAndTitle) {
  const Trace trace = parse_trace(trace_text_of(whole_recording(4, false)), "runs/x.json");
  EXPECT_EQ(trace.begin_ns, 0);              // rank 0's first send
  EXPECT_EQ(trace.end_ns, 3 * 2000 + 1521);  // rank 3's last wait
  EXPECT_EQ(trace.wall_ns(), 7521);
  EXPECT_EQ(trace.path, "runs/x.json");
  EXPECT_EQ(title_of(trace), "zigzag · causal+window:17 · 4 ranks");
  RunInfo run;
  for (const auto& [buffers, way] : {std::pair{0, ""}, {2, ""}, {3, " · 3 buffers"}}) {
    run.kv_buffers = buffers;
    EXPECT_EQ(way_of(run), way);
  }
  run.scheme = "allgather";
  EXPECT_EQ(way_of(run), " · allgather");
  EXPECT_EQ(title_of(parse_trace(trace_text_of(whole_recording(1, false)))),
            "zigzag · causal+window:17 · 1 rank");
  EXPECT_EQ(title_of(parse_trace(R"([{"ph": "X", "ts": 1}])", "runs/x.json")), "x.json");
}

TEST(TraceLoader, OrderOfEventsDoesNotMatter) {
  Recording recording = whole_recording(3, true);
  for (auto& events : recording.events) std::shuffle(events.begin(), events.end(), std::mt19937(7));
  expect_same(parse_trace(trace_text_of(recording)), recording);
}

TEST(TraceLoader, DroppedEventsAreNoticed) {
  Recording recording = whole_recording();
  recording.dropped = {1, 3};
  // A receive that was not recorded leaves its send without an end.
  auto& events = recording.events[1];
  events.erase(std::find_if(events.begin(), events.end(),
                            [](const TraceEvent& e) { return e.lane == Lane::recv; }));
  const Trace trace = parse_trace(trace_text_of(recording));
  ASSERT_EQ(trace.notices.size(), 1u);
  EXPECT_EQ(trace.notices[0], "4 events found the recorder's buffer full and are missing");
  EXPECT_EQ(trace.flows.size(), 7u);  // of 8
}

TEST(TraceLoader, SlicesThatNestGetRowsOfTheirOwn) {
  Recording recording = whole_recording(1, false);
  TraceEvent inner = recording.events[0][0];
  inner.begin_ns += 100;
  inner.end_ns -= 100;
  recording.events[0].push_back(inner);
  const Trace trace = parse_trace(trace_text_of(recording));
  const TraceLane& lane = trace.lanes[0];
  ASSERT_EQ(lane.rows, 2u);
  EXPECT_EQ(trace.rows[lane.first_row + 1].depth, 1u);
  EXPECT_EQ(trace.slices(lane.first_row + 1)[0].begin_ns, inner.begin_ns);
  EXPECT_EQ(trace.slices_of(0, Lane::compute).size(), 1u);
}

// Wherever the chunks' borders fall.
TEST(TraceLoader, ChunksOfAnySize) {
  Recording recording = whole_recording(2, true);
  recording.info.mask = "causal \"\\\n \xc3\xa4\xe2\x82\xac";
  const std::string text = trace_text_of(recording);
  const std::string bad = with(text, "\"kv_owner\": 1", "\"kv_owner\": 7");
  const std::string at = "byte " + std::to_string(bad.find("\"kv_owner\": 7") + 12) + ": 7 given";
  for (std::size_t chunk : {1, 2, 3, 5, 7, 8, 13, 64, 100, 1000, 4095, 65536}) {
    SCOPED_TRACE(chunk);
    expect_same(parse_trace(text, "", chunk), recording);
    expect_part(complaint_of([&] { parse_trace(bad, "", chunk); }), ": " + at);
  }
}

// ---
// Recordings in memory become what their files would become.

// What a kernel stamped lies in lanes below the rank's own, and what was lost is said.
TEST(RecordedTrace, KernelsHaveLanes) {
  Recording recording = record_run(PartitionKind::zigzag, "causal", scheme_named("ring"), 2, false);
  recording.info.dropped_stamps = {0, 4};
  recording.kernel.resize(2);
  recording.kernel[1] = {{KernelPart::softmax, 2, 1, 1, 5, 3, 4, 10, 15, 6},
                         {KernelPart::epilogue, 2, 0, 1, 5, 3, -1, 15, 15, 0}};
  const Trace trace = parse_trace(trace_text_of(recording), "made");
  EXPECT_TRUE(trace.has_kernel());
  EXPECT_FALSE(trace.has_model());
  ASSERT_EQ(trace.notices.size(), 1u);
  EXPECT_EQ(trace.notices[0], "4 stamps found the kernel's buffer full and are missing");
  EXPECT_EQ(trace.ranks[0].lanes, 4u);
  ASSERT_EQ(trace.ranks[1].lanes, 6u);
  EXPECT_EQ(trace.lanes[8].name, "SM 2 producer");
  EXPECT_EQ(trace.lanes[9].name, "SM 2 consumer 0");
  const TraceEvent& slice = trace.slices(trace.lanes[9].first_row)[0];
  EXPECT_EQ(trace.name(slice), "softmax 4");
  EXPECT_EQ(kernel_part(slice), KernelPart::softmax);
  EXPECT_EQ(slice.step, 1);
  const KernelSpan* span = kernel_span(trace, {trace.lanes[9].first_row, 0});
  ASSERT_NE(span, nullptr);
  EXPECT_EQ(*span, recording.kernel[1][0]);
  EXPECT_EQ(kernel_span(trace, {trace.row_of(1, Lane::compute), 0}), nullptr);
  EXPECT_EQ(slice_color(Theme::dark, ColorBy::owner, slice, 2),
            kernel_color(Theme::dark, KernelPart::softmax));
}

TEST(RecordedTrace, OfNothing) {
  Recording recording;
  recording.info.world_size = 2;
  recording.events.resize(2);
  const Trace trace = to_trace(recording, "none");
  EXPECT_EQ(trace.ranks.size(), 2u);
  EXPECT_EQ(trace.slice_count, 0u);
  EXPECT_EQ(trace.rows.size(), 8u);
}

// The slices of some ranks, under their own names, and a timeline can be made of them.
TEST(RecordedTrace, ASampleHasTheRanksThatWereAskedFor) {
  const Recording recording =
      record_run(PartitionKind::striped, "causal", scheme_named("ring"), 5, false);
  const Trace all = to_trace(recording, "all"), some = sample_trace(recording, {1, 4}, "some");
  ASSERT_EQ(some.ranks.size(), 2u);
  EXPECT_EQ(some.ranks[0].name, "rank 1");
  EXPECT_EQ(some.ranks[1].name, "rank 4");
  EXPECT_EQ(some.ranks[1].pid, 4);
  EXPECT_EQ(some.info.world_size, 5);
  EXPECT_TRUE(some.flows.empty());
  EXPECT_FALSE(critical_path_of(all).segments.empty());
  EXPECT_TRUE(critical_path_of(some).segments.empty());
  const auto& there = all.slices_of(4, Lane::compute);
  const auto& here = some.slices_of(1, Lane::compute);
  ASSERT_EQ(here.size(), there.size());
  for (std::size_t i = 0; i < here.size(); ++i) EXPECT_EQ(here[i].begin_ns, there[i].begin_ns);
  const Axis axis(some);
  EXPECT_EQ(axis.steps(), 5);
  EXPECT_GT(axis.length(AxisMode::time), 0);
}

// ---
// Files.

std::string loading_complaint(const std::vector<std::string>& paths) {
  return complaint_of([&] { load_traces(paths); });
}

// Larger than several chunks of the real size.
TEST_F(TraceFile, LargeFileWithProgress) {
  Recording recording = whole_recording(2, true);
  const auto pattern = recording.events;
  for (std::int64_t round = 1; round < 250; ++round)
    for (std::size_t rank = 0; rank < 2; ++rank)
      for (TraceEvent e : pattern[rank]) {
        e.begin_ns += 10000 * round;
        e.end_ns += 10000 * round;
        if (e.flow != 0) e.flow += 100 * round;
        recording.events[rank].push_back(e);
      }
  const std::string text = trace_text_of(recording);
  ASSERT_GT(text.size(), 4 * kTraceChunk);
  const std::string path = write("large.json", text);
  LoadProgress progress;
  const Trace trace = load_trace(path, &progress);
  expect_same(trace, recording);
  EXPECT_EQ(progress.bytes_total, static_cast<std::int64_t>(text.size()));
  EXPECT_EQ(progress.bytes_done, static_cast<std::int64_t>(text.size()));
  EXPECT_EQ(progress.slices, static_cast<std::int64_t>(trace.slice_count));

  LoadProgress both;
  load_traces({path, path}, &both);
  EXPECT_EQ(both.bytes_total, 2 * static_cast<std::int64_t>(text.size()));
  EXPECT_EQ(both.bytes_done, both.bytes_total);
  EXPECT_EQ(both.slices, 2 * static_cast<std::int64_t>(trace.slice_count));

  LoadProgress cancelled;
  cancelled.cancel = true;
  EXPECT_THROW(load_trace(path, &cancelled), InputError);
}

TEST_F(TraceFile, RecordingsInTheOrderGiven) {
  Recording other = whole_recording();
  other.info.partition = "contiguous";
  const std::string a = write("a.json", trace_text_of(whole_recording()));
  const std::string b = write("b.json", trace_text_of(other));
  const std::vector<Trace> traces = load_traces({b, a, b});
  ASSERT_EQ(traces.size(), 3u);
  EXPECT_EQ(traces[0].info.partition, "contiguous");
  EXPECT_EQ(traces[1].info.partition, "zigzag");
  EXPECT_EQ(traces[1].path, a);
  EXPECT_EQ(traces[2].path, b);
}

TEST_F(TraceFile, MoreThanATableHasColumnsForAreRefused) {
  const std::string path = write("a.json", R"([{"ph": "X", "ts": 1}])");
  std::vector<std::string> paths(kMostRecordings, path);
  EXPECT_EQ(load_traces(paths).size(), 63u);
  paths.push_back(path);
  EXPECT_EQ(loading_complaint(paths),
            path + ": recording 64 given; accepted: up to 63, which are compared");
}

TEST_F(TraceFile, DifferentWorldSizesAreRefused) {
  const std::string two = write("two.json", trace_text_of(whole_recording(2)));
  const std::string three = write("three.json", trace_text_of(whole_recording(3)));
  const std::string foreign = write("foreign.json", R"([{"ph": "X", "ts": 1}])");
  EXPECT_EQ(
      loading_complaint({two, foreign, three}),
      three + ": world_size 3 given, but 2 in " + two + "; recordings of one world_size accepted");
  EXPECT_EQ(loading_complaint({two, foreign}), "");
}

// The reader's own complaints are in tests/core/trace; the loader names the file.
TEST_F(TraceFile, WhatIsNoTrace) {
  const std::string empty = write("empty.json", "");
  EXPECT_EQ(loading_complaint({empty}), empty + ": byte 0: an empty file; a JSON trace accepted");
  const std::string packed = write("packed.json.gz", "\x1f\x8b\x08");
  EXPECT_EQ(loading_complaint({packed}).find(packed + ": "), 0u);
  EXPECT_TRUE(loading_complaint({packed}).find("is cut off") != std::string::npos ||
              loading_complaint({packed}).find("this build can't unpack") != std::string::npos)
      << loading_complaint({packed});
}

}  // namespace
}  // namespace ringscope::viz
