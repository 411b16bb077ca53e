// Our own recordings, written by the recorder's writer and loaded again, or made into traces at once.
#include "core/tools/foreign/trace_files.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "tests/viz_data/recorded.h"
#include "tests/viz_data/trace_loader_text.h"
#include "viz/data/analysis/critical_path.h"
#include "viz/data/analysis/findings.h"
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

// A run may write a file per rank. Those of another run, and the same file again, are recordings of
// their own.
TEST_F(TraceFile, TheFilesOfARunsRanksAreOneRecording) {
  for (const int world_size : {2, 5}) {
    Recording run = whole_recording(world_size, true);
    std::vector<std::string> files;
    const auto write_ranks = [&](const std::string& name) {
      for (int rank = 0; rank < run.info.world_size; ++rank) {
        files.push_back(write(name + std::to_string(rank) + ".json", ""));
        AtomicFile file(files.back());
        write_chrome_trace_of_rank(file, run, rank);
        file.commit();
      }
    };
    write_ranks("rank");
    const std::vector<Trace> traces = load_traces({files.rbegin(), files.rend()});
    ASSERT_EQ(traces.size(), 1u);
    expect_same(traces[0], run);
    EXPECT_EQ(traces[0].path + "/", testing::TempDir());
    ++run.info.base_time_ns;
    write_ranks("other");
    EXPECT_EQ(load_traces(files).size(), 2u);
    EXPECT_EQ(load_traces({files[0], files[1], files[0]}).size(), 2u);
  }
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

// ---
// Recordings of ours that are damaged, or made to do damage: every one gets an InputError that names
// the byte or the field, the value and what would be accepted.

const std::string& sample() {
  static const std::string text = trace_text_of(whole_recording());
  return text;
}

// The reader's complaints are its own tests' (tests/core/trace/hostile_trace_test.cpp); the viewer
// holds nothing before the base time.
TEST(BadRecording, TimesBeforeTheBaseTime) {
  ASSERT_EQ(complaint(sample()), "");
  for (const char* bad : {"-0.001", "-1", "-4500000000000001"}) {
    const std::size_t at = sample().find("\"ts\": ") + 6;
    expect_complaint(with(sample(), "\"ts\": ", std::string("\"ts\": ") + bad + ", \"x\": "),
                     "byte " + std::to_string(at) + ": " + bad +
                         " given for ts; microseconds with up to 3 decimals from 0 to "
                         "4500000000000000 accepted");
  }
}

// Up to wherever it is cut off, it is shown, and said to be cut off.
TEST(BadRecording, CutOffAtEveryByte) {
  const std::string whole = trace_text_of(whole_recording());
  const std::size_t all = parse_trace(whole).slice_count;
  std::size_t slices = 0;
  for (std::size_t length = 1; length + 1 < whole.size(); ++length) try {
      const Trace trace = parse_trace(whole.substr(0, length));
      ASSERT_GE(trace.slice_count, std::max<std::size_t>(slices, 1)) << length;
      // What is left of its slices does not say why the run took so long.
      ASSERT_TRUE(trace.is_part ? explanation_of(trace).ranks.empty() : trace.slice_count == all);
      slices = trace.slice_count;
      ASSERT_NE(trace.notices.back().find("cut off"), std::string::npos) << length;
    } catch (const InputError&) {
      ASSERT_EQ(slices, 0u) << length;
    }
  EXPECT_EQ(slices, all);
  EXPECT_FALSE(parse_trace(whole.substr(0, whole.size() - 2)).is_part);
}

TEST(BadRecording, FlowsThatDangle) {
  // Rank 0's first send has flow 1, and so has rank 1's first receive.
  expect_complaint(with(sample(), "\"flow\": 1,", "\"flow\": 999,"),
                   "1 given for flow; one that a send slice has as well accepted");
  expect_complaint(with(sample(), "\"flow\": 1,", "\"flow\": 0,"),
                   "1 given for flow; one that a send slice has as well accepted");
  expect_complaint(with_all(sample(), "\"flow\": 1,", "\"flow\": 2,"),
                   "2 given for flow a second time; one send and one recv slice with it accepted");
}

TEST(BadRecording, SendsOfOthers) {
  expect_complaint(with(sample(), "\"src\": 0, \"dst\": 1", "\"src\": 1, \"dst\": 1"),
                   "1 given for src; its pid, 0, accepted");
  expect_complaint(with(sample(), "\"src\": 0, \"dst\": 1", "\"src\": 0, \"dst\": 0"),
                   "two ends of one message accepted");
}

TEST(BadRecording, SlicesHalfOverOthers) {
  Recording recording = whole_recording();
  TraceEvent other = recording.events[0][0];
  other.begin_ns += 500;
  other.end_ns += 500;
  recording.events[0].push_back(other);
  expect_complaint(trace_text_of(recording),
                   "ts: the slice of rank 0 that begins at 510 ns on lane compute lies half over");
}

// ---
// Traces that other programs wrote, in the dialects of the Trace Event Format.

// An array of events, one X slice for each {ts, dur} on one thread.
std::string slices(const std::vector<std::pair<std::string, std::string>>& times) {
  std::string text = "[";
  for (const auto& [ts, dur] : times)
    text += std::string(text.size() > 1 ? "," : "") + R"({"ph":"X","pid":1,"tid":1,"ts":)" + ts +
            (dur.empty() ? "" : ",\"dur\":" + dur) + "}";
  return text + "]";
}

TEST(ForeignTrace, ObjectOrArray) {
  const std::string events =
      R"([{"name": "a", "ph": "X", "pid": 7, "tid": 9, "ts": 2, "dur": 3},
          {"name": "b", "ph": "X", "pid": 7, "tid": 8, "ts": 1.5, "dur": 0.25}])";
  for (const std::string& text :
       {events, "{\"traceEvents\": " + events + "}",
        "{\"x\": [{}], \"traceEvents\":" + events + "}",
        "{\"ring\": 1, \"distributedInfo\": [], \"traceEvents\":" + events + "}"}) {
    const Trace trace = parse_trace(text);
    EXPECT_FALSE(trace.is_ring);
    EXPECT_EQ(step_count(trace), 0);
    ASSERT_EQ(trace.ranks.size(), 1u);
    EXPECT_EQ(trace.ranks[0].pid, 7);
    EXPECT_EQ(trace.ranks[0].name, "7");
    ASSERT_EQ(trace.lanes.size(), 2u);  // by tid
    EXPECT_EQ(trace.lanes[0].name, "thread 8");
    EXPECT_EQ(trace.lanes[1].tid, 9);
    const TraceEvent& a = trace.slices(1)[0];
    EXPECT_EQ(trace.name(a), "a");
    TraceEvent expected = plain_slice();
    expected.name = a.name;
    expected.begin_ns = 2000;
    expected.end_ns = 5000;
    EXPECT_EQ(a, expected);
    EXPECT_EQ(trace.begin_ns, 1500);
    EXPECT_EQ(trace.end_ns, 5000);
    EXPECT_EQ(trace.slice_count, 2u);
    EXPECT_TRUE(trace.notices.empty());
  }
}

TEST(ForeignTrace, TimesInAnySpelling) {
  const std::pair<const char*, std::int64_t> cases[] = {
      {"0", 0},
      {"12", 12000},
      {"12.3456", 12346},  // to the nearest nanosecond
      {"12.3454", 12345},
      {"1.5e3", 1500000},
      {"1.5E+3", 1500000},
      {"25e-4", 3},
      {"1e-9", 0},
      {"\"12.5\"", 12500},
      {"\"3\"", 3000},
      {"1700000000123456.789", 1700000000123456789},
      {"1700000000123456.7891234567890123", 1700000000123456789},
      {"0.000000000000000000000000001e30", 1000000},
      {"-0", 0}};
  for (const auto& [text, ns] : cases) {
    const Trace trace = parse_trace(slices({{text, "1"}}));
    EXPECT_EQ(trace.begin_ns, ns) << text;
  }
  EXPECT_EQ(parse_trace(slices({{"5", ""}})).wall_ns(), 0);
  EXPECT_EQ(parse_trace(slices({{"5", "null"}})).wall_ns(), 0);
}

TEST(ForeignTrace, TimesThatAreNone) {
  for (const char* bad : {"-1", "-0.001", "\"-1\"", "NaN", "nan", "-Infinity", "\"nan\"", "\"\"",
                          "1e300", "\"1e99999999999999999999\"", "4500000000000001", "true", "[]",
                          "{}", "\"12x\"", "\"1e\"", "\".\""}) {
    const std::string text = slices({{"1", "1"}, {bad, "1"}});
    expect_complaint(text, "byte " + std::to_string(text.rfind(bad)) + ": ");
    expect_complaint(text, "given for ts; microseconds from 0 to 4500000000000000 accepted");
    expect_complaint(slices({{"1", bad}}), "given for dur; microseconds from 0 to");
  }
  expect_complaint(slices({{"4500000000000000", "1"}}), "dur ends later than");
  expect_complaint(R"([{"ph": "X", "dur": 1}])", "byte 21: ts missing");
}

TEST(ForeignTrace, NothingToShow) {
  for (const char* text :
       {"[]", "[{}]", "{\"traceEvents\": []}", R"([{"ph": "M", "ts": 1}])",
        R"([{"ph": "E", "ts": 1}])", R"([{"ph": "C", "ts": -1}])", "[1, [2], null]"})
    expect_complaint(text, "no slices found");
  for (const char* text : {"{}", "{\"traceEvents\": {}}", "{\"traceEvents\": 1}"})
    expect_complaint(text, "no traceEvents array found");
  for (const char* text : {"1", "\"x\"", "null", "true"})
    expect_complaint(text, "byte 0: no object or array found");
  for (const char* text : {" ", "}", "{}x", "nan x", "\xef\xbb\xbf[]", "[{]", "{\"a\" 1}", "{1: 2}",
                           "[1 2]", "[1,]", "{\"a\": 1,}", "[\"\\x\"]", "[\"\\ud800\"]", "[01]"})
    EXPECT_EQ(complaint(text).find("byte "), 0u) << text << ": " << complaint(text);
  EXPECT_NE(complaint(std::string("[]\0", 3)), "");
}

TEST(ForeignTrace, BeginAndEnd) {
  const Trace trace = parse_trace(R"([
      {"ph": "B", "name": "outer", "pid": 1, "tid": 1, "ts": 10},
      {"ph": "B", "name": "inner", "pid": 1, "tid": 1, "ts": 12},
      {"ph": "B", "name": "other", "pid": 1, "tid": 2, "ts": 13},
      {"ph": "E", "pid": 1, "tid": 1, "ts": 14},
      {"ph": "E", "pid": 1, "tid": 1, "ts": 20},
      {"ph": "E", "pid": 1, "tid": 2, "ts": 15},
      {"ph": "E", "pid": 1, "tid": 2, "ts": 16},
      {"ph": "B", "name": "unfinished", "pid": 1, "tid": 2, "ts": 17}])");
  ASSERT_EQ(trace.rows.size(), 3u);
  const auto expect = [&](std::uint32_t row, std::uint32_t i, const char* name, int begin,
                          int end) {
    const TraceEvent& slice = trace.slices(row)[i];
    EXPECT_EQ(trace.name(slice), name);
    EXPECT_EQ(slice.begin_ns, begin * 1000);
    EXPECT_EQ(slice.end_ns, end * 1000);
  };
  expect(0, 0, "outer", 10, 20);
  expect(1, 0, "inner", 12, 14);
  expect(2, 0, "other", 13, 15);
  expect(2, 1, "unfinished", 17, 20);
  EXPECT_EQ(trace.notices,
            (std::vector<std::string>{"1 \"E\" events without a \"B\" are left out",
                                      "1 \"B\" events without an \"E\" are drawn to the end"}));
}

TEST(ForeignTrace, NamesAndOrderFromMetadata) {
  const Trace trace = parse_trace(R"({"traceEvents": [
      {"ph": "X", "pid": "Spans", "tid": "one", "ts": 1},
      {"ph": "X", "pid": 5, "tid": 2, "ts": 1},
      {"ph": "X", "pid": 5, "tid": 3, "ts": 1},
      {"ph": "X", "pid": "4", "tid": 1, "ts": 1},
      {"ph": "M", "name": "process_name", "pid": 5, "args": {"name": "server"}},
      {"ph": "M", "name": "process_sort_index", "pid": "Spans", "args": {"sort_index": 9}},
      {"ph": "M", "name": "process_name", "pid": 99, "args": {"name": "without slices"}},
      {"ph": "M", "name": "thread_name", "pid": 5, "tid": 2, "args": {"name": "worker "}},
      {"ph": "M", "name": "thread_sort_index", "pid": 5, "tid": 3, "args": {"sort_index": -1}}]})");
  ASSERT_EQ(trace.ranks.size(), 3u);
  EXPECT_EQ(trace.ranks[0].name, "4");
  EXPECT_EQ(trace.ranks[0].pid, 4);
  EXPECT_EQ(trace.ranks[1].name, "server 5");
  EXPECT_EQ(trace.ranks[1].lanes, 2u);
  EXPECT_EQ(trace.ranks[2].name, "Spans");
  ASSERT_EQ(trace.lanes.size(), 4u);
  EXPECT_EQ(trace.lanes[1].name, "thread 3");
  EXPECT_EQ(trace.lanes[2].name, "worker");
  EXPECT_EQ(trace.lanes[3].name, "thread one");
  EXPECT_EQ(trace.lanes[3].rank, 2u);
}

// Rows by {begin, end} in microseconds.
std::vector<std::vector<std::pair<int, int>>> rows_of_text(const std::string& text) {
  const Trace trace = parse_trace(text);
  std::vector<std::vector<std::pair<int, int>>> rows;
  for (std::uint32_t row = 0; row < trace.rows.size(); ++row) {
    EXPECT_EQ(trace.rows[row].depth, rows.size());
    rows.emplace_back();
    for (const TraceEvent& slice : trace.slices(row))
      rows.back().emplace_back(slice.begin_ns / 1000, slice.end_ns / 1000);
  }
  return rows;
}

TEST(ForeignTrace, NestedAndOverlappingSlices) {
  using Rows = std::vector<std::vector<std::pair<int, int>>>;
  EXPECT_EQ(rows_of_text(slices({{"0", "10"}, {"10", "5"}, {"15", "0"}})),
            (Rows{{{0, 10}, {10, 15}, {15, 15}}}));
  // Inner ones first in the file, and two levels of them.
  EXPECT_EQ(rows_of_text(slices({{"2", "1"}, {"1", "4"}, {"0", "10"}, {"6", "1"}})),
            (Rows{{{0, 10}}, {{1, 5}, {6, 7}}, {{2, 3}}}));
  // Overlapping ones are kept, and what lies inside the lower one lies below it.
  EXPECT_EQ(rows_of_text(slices({{"0", "10"}, {"5", "10"}, {"11", "1"}, {"20", "1"}})),
            (Rows{{{0, 10}, {20, 21}}, {{5, 15}}, {{11, 12}}}));
  // A staircase needs two rows, however long.
  std::vector<std::pair<std::string, std::string>> stairs;
  for (int i = 0; i < 1000; ++i) stairs.emplace_back(std::to_string(10 * i), "15");
  EXPECT_EQ(rows_of_text(slices(stairs)).size(), 2u);
  // The same slice many times.
  std::vector<std::pair<std::string, std::string>> copies(1000, {"1", "5"});
  EXPECT_EQ(rows_of_text(slices(copies)).size(), 1000u);
  copies.push_back(copies.front());
  expect_complaint(slices(copies), "more than 1000 slices over each other");
}

// The format lets an array of events end with the text, so that a crash loses nothing.
TEST(ForeignTrace, ArrayWithoutItsEnd) {
  const std::string whole = slices({{"1", "1"}, {"3", "1"}});
  for (const std::string& end : {std::string(""), std::string(","), std::string(",\n")}) {
    const Trace trace = parse_trace(whole.substr(0, whole.size() - 1) + end);
    EXPECT_EQ(trace.slice_count, 2u);
    EXPECT_EQ(trace.notices.size(), 1u);
  }
  EXPECT_EQ(parse_trace(whole.substr(0, whole.size() - 2)).slice_count, 1u);
  EXPECT_EQ(parse_trace("{\"traceEvents\": " + whole.substr(0, whole.size() - 1)).slice_count, 2u);
  expect_complaint(whole.substr(0, 9), "the text ends");
}

// None of it is needed to draw a timeline.
TEST(ForeignTrace, TheUnknownIsPassedOver) {
  const Trace trace = parse_trace(R"({"traceEvents": [
      {"ph": "b", "id": 1, "ts": -5}, {"ph": "i", "ts": "x"}, {"ph": "C", "args": {"a": 1}}, {"ph": "XX"},
      {"ph": 3}, 17, [{"ph": "X"}], {"ph": "N", "id": {}}, {"ph": "P", "stack": [1, [2, {"a": {}}]]},
      {"ph": "X", "name": ["x"], "cat": 3, "ts": 1, "dur": 2, "args": [1, {"step": -1}]}],
      "stackFrames": {"1": {"name": "\u00e4\ud83d\ude00"}}, "metadata": null})");
  EXPECT_EQ(trace.slice_count, 1u);
  EXPECT_EQ(trace.name(trace.slices(0)[0]), "");
}

TEST(ForeignTrace, NamesAreUnescaped) {
  const Trace trace = parse_trace(
      "[{\"ph\": \"X\", \"ts\": 1, \"name\": "
      "\"a\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e4\\u20AC\\ud83d\\ude00\xc3\xa4\"}]");
  EXPECT_EQ(trace.name(trace.slices(0)[0]),
            "a\"\\/\b\f\n\r\t\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\xc3\xa4");
}

}  // namespace
}  // namespace ringscope::viz
