// The rules of the written format, checked with another parser than our reader's; and that what was
// written is read back.
#include <gtest/gtest.h>
#include <rapidjson/document.h>

#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <sstream>

#include "core/base/error.h"
#include "core/trace/chrome_trace.h"
#include "tests/core/trace/trace_text.h"
#include "tests/temporary_folder.h"

namespace ringscope {
namespace {

// The written JSON, with numbers as the text that stands in the file.
class ChromeTrace : public testing::Test {
 protected:
  void parse(const Recording& recording) {
    text_ = trace_text_of(recording);
    document_.Parse<rapidjson::kParseNumbersAsStringsFlag>(text_.c_str());
    ASSERT_FALSE(document_.HasParseError()) << document_.GetErrorOffset();
    ASSERT_TRUE(document_["traceEvents"].IsArray());
  }
  // Calls f(event) for every event of that phase.
  template <class F>
  void for_each(const std::string& phase, F&& f) const {
    for (const auto& event : document_["traceEvents"].GetArray())
      if (phase == event["ph"].GetString()) f(event);
  }
  static std::string field(const rapidjson::Value& object, const char* name) {
    EXPECT_TRUE(object.HasMember(name)) << name;
    return object.HasMember(name) && object[name].IsString() ? object[name].GetString() : "";
  }
  // Nanoseconds of a time in microseconds, which must have exactly three decimals.
  static std::int64_t nanoseconds(const std::string& text) {
    const std::size_t point = text.find('.');
    EXPECT_EQ(text.size(), point + 4) << text;
    EXPECT_EQ(text.find_first_not_of("0123456789", text[0] == '-'), point) << text;
    EXPECT_EQ(text.find_first_not_of("0123456789", point + 1), std::string::npos) << text;
    return std::stoll(text.substr(0, point) + text.substr(point + 1));
  }

  std::string text_;
  rapidjson::Document document_;
};

TEST_F(ChromeTrace, HeadSaysWhatRan) {
  parse(sample_recording(3, true));
  EXPECT_EQ(text_.find("{\n\"schemaVersion\": 1,\n\"distributedInfo\": "), 0u)
      << text_.substr(0, 100);
  // Holistic Trace Analysis looks for the regular expression "rank": (\d+), and the first match
  // counts.
  const std::size_t rank = text_.find("\"rank\"");
  EXPECT_EQ(text_.find("\"rank\": 0,"), rank);
  EXPECT_LT(rank, 200u);
  EXPECT_EQ(field(document_["distributedInfo"], "backend"), "cpu");
  EXPECT_EQ(field(document_["distributedInfo"], "world_size"), "3");
  const auto& ring = document_["ring"];
  for (const auto& [key, value] : {std::pair("schema_version", "1"),
                                   {"partition", "zigzag"},
                                   {"mask", "causal+window:17"},
                                   {"scheme", "ring"},
                                   {"dtype", "f32"}})
    EXPECT_EQ(field(ring, key), value);
  EXPECT_EQ(field(ring["shape"], "seqlen"), "1000");
  EXPECT_EQ(field(ring["shape"], "num_heads"), "4");
  EXPECT_EQ(field(ring["shape"], "num_heads_kv"), "2");
  EXPECT_EQ(ring["clock_offset_ns"].Size(), 3u);
  EXPECT_EQ(ring["clock_error_ns"].Size(), 3u);
  EXPECT_STREQ(ring["dropped_events"][1].GetString(), "3");
  EXPECT_EQ(field(document_, "baseTimeNanoseconds"), "1700000000123456789");
}

TEST_F(ChromeTrace, RanksAndLanesHaveNames) {
  parse(sample_recording(3, false));
  std::map<std::string, std::string> processes, threads;
  for_each("M", [&](const auto& event) {
    const std::string pid = field(event, "pid"), name = field(event, "name");
    if (name == "process_name") processes[pid] = field(event["args"], "name");
    if (name == "thread_name")
      threads[pid + ":" + field(event, "tid")] = field(event["args"], "name");
  });
  EXPECT_EQ(processes, (std::map<std::string, std::string>{
                           {"0", "rank 0"}, {"1", "rank 1"}, {"2", "rank 2"}}));
  EXPECT_EQ(threads.size(), 12u);
  EXPECT_EQ(threads["2:0"], "compute");
  EXPECT_EQ(threads["2:1"], "send");
  EXPECT_EQ(threads["2:2"], "recv");
  EXPECT_EQ(threads["2:3"], "wait");
}

TEST_F(ChromeTrace, SlicesSayWhatTheyAreAbout) {
  parse(sample_recording(3, true));
  std::set<std::string> names;
  for_each("X", [&](const auto& event) {
    const auto& args = event["args"];
    const std::string cat = field(event, "cat"), owner = field(args, "kv_owner");
    const bool backward = field(args, "pass") == "backward";
    EXPECT_FALSE(field(args, "step").empty());
    std::string name = cat + " " + owner;
    if (cat == "compute") {
      for (const char* key :
           {"pairs", "flops", "tiles_full", "tiles_partial", "tiles_skipped", "stream"})
        EXPECT_FALSE(field(args, key).empty()) << key;
      EXPECT_GE(nanoseconds(field(args, "cpu_us")), 900);
      name = "attend kv " + owner;
    } else if (cat == "wait") {
      name = "wait for rank " + field(args, "waiting_for");
    } else {
      for (const char* key : {"bytes", "src", "dst"}) EXPECT_FALSE(field(args, key).empty()) << key;
      EXPECT_EQ(field(args, cat == "send" ? "src" : "dst"), field(event, "pid"));
      name = cat + " " + field(args, "payload") + " " + owner;
    }
    EXPECT_EQ(field(event, "name"), backward ? name + " (backward)" : name);
    names.insert(field(event, "name"));
  });
  for (const char* name : {"attend kv 2", "send kv 0", "recv dkv 2 (backward)", "wait for rank 1"})
    EXPECT_TRUE(names.contains(name)) << name;
}

// Each message has one flow: it starts inside the send slice and ends, not earlier, inside the recv
// slice.
TEST_F(ChromeTrace, FlowsJoinSendsToReceives) {
  const Recording recording = sample_recording(4, true);
  parse(recording);
  struct End {
    int rank, tid;
    std::int64_t at;
    std::string kind;  // cat and name, which must agree
  };
  std::map<std::string, End> starts, finishes;
  const auto collect = [&](std::map<std::string, End>& ends) {
    return [&](const auto& event) {
      const End end{std::stoi(field(event, "pid")), std::stoi(field(event, "tid")),
                    nanoseconds(field(event, "ts")), field(event, "cat") + field(event, "name")};
      EXPECT_TRUE(ends.emplace(field(event, "id"), end).second) << "id twice";
    };
  };
  for_each("s", collect(starts));
  for_each("f", collect(finishes));
  for_each("f", [&](const auto& event) { EXPECT_EQ(field(event, "bp"), "e"); });
  EXPECT_EQ(starts.size(), 4u * (3 + 3 + 4));  // ranks x (kv forward, kv backward, dkv)
  ASSERT_EQ(finishes.size(), starts.size());
  const auto slice_of = [&](const End& end, std::int64_t flow) {
    for (const TraceEvent& e : recording.events[end.rank])
      if (e.flow == flow && static_cast<int>(e.lane) == end.tid) return e;
    ADD_FAILURE() << "no slice for flow " << flow;
    return TraceEvent{};
  };
  for (const auto& [id, start] : starts) {
    ASSERT_TRUE(finishes.contains(id));
    const End& finish = finishes.at(id);
    EXPECT_EQ(start.kind, finish.kind);
    EXPECT_LE(start.at, finish.at);
    const TraceEvent send = slice_of(start, std::stoll(id)),
                     recv = slice_of(finish, std::stoll(id));
    EXPECT_EQ(send.lane, Lane::send);
    EXPECT_EQ(recv.lane, Lane::recv);
    EXPECT_EQ(send.dst, finish.rank);
    EXPECT_GE(start.at, send.begin_ns);
    EXPECT_LT(start.at, send.end_ns);
    EXPECT_GE(finish.at, recv.begin_ns);
    EXPECT_LT(finish.at, recv.end_ns);
  }
}

// A flow whose other end was dropped would confuse viewers.
TEST_F(ChromeTrace, HalfFlowsAreLeftOut) {
  Recording recording = sample_recording(2, false);
  std::erase_if(recording.events[1], [](const TraceEvent& e) { return e.lane == Lane::recv; });
  parse(recording);
  std::size_t starts = 0, finishes = 0;
  for_each("s", [&](const auto&) { ++starts; });
  for_each("f", [&](const auto&) { ++finishes; });
  EXPECT_EQ(starts, 1u);  // of rank 1's send
  EXPECT_EQ(finishes, 1u);
}

TEST_F(ChromeTrace, SoftmaxSamplesAreInstants) {
  parse(sample_recording(2, false));
  std::vector<std::string> sums, maxima;
  for_each("i", [&](const auto& event) {
    EXPECT_EQ(field(event, "s"), "t");
    EXPECT_EQ(field(event, "cat"), "softmax");
    EXPECT_EQ(field(event, "tid"), "0");
    maxima.push_back(field(event["args"], "row_max"));
    sums.push_back(field(event["args"], "row_sum"));
  });
  EXPECT_EQ(maxima, (std::vector<std::string>{"-inf", "0.1", "-inf", "0.1"}));
  EXPECT_EQ(sums, (std::vector<std::string>{"0", "1e-41", "0", "1e-41"}));
}

TEST_F(ChromeTrace, OneEventALine) {
  parse(sample_recording(2, true));
  std::istringstream lines(text_);
  std::string line;
  std::size_t events = 0;
  while (std::getline(lines, line))
    if (line.starts_with("{\"ph\"")) ++events;
  EXPECT_EQ(events, document_["traceEvents"].Size());
}

TEST(ChromeTraceRoundTrip, Samples) {
  for (const int world_size : {1, 2, 3, 8})
    for (const bool backward : {false, true}) {
      Recording recording = sample_recording(world_size, backward);
      EXPECT_EQ(parse_chrome_trace(trace_text_of(recording)), recording);
      recording.info.training = RecordedLayer{7, 1, 3};
      recording.info.travel = Travel{Travels::heads, true, false, world_size};
      recording.info.softcap = 1.5f;
      recording.model.resize(static_cast<std::size_t>(world_size));
      recording.model[0] = {{ModelPart::attention, Pass::backward, 2, 10, 5000},
                            {ModelPart::reduction, Pass::forward, -1, 5000, 5001, 64}};
      recording.info.dropped_stamps.assign(static_cast<std::size_t>(world_size), 7);
      recording.kernel.resize(static_cast<std::size_t>(world_size));
      recording.kernel[0] = {
          {KernelPart::wait, 15, 3, 0, 9, 2, 4, 10, 15, 6},
          {KernelPart::epilogue, 0, 0, world_size - 1, 0, 0, -1, 15, 15, 0},
          {KernelPart::query_gradients, 0, 1, 0, 0, -1, 3, 16, 17, 2, Pass::backward}};
      recording.tile = sample_tile();
      EXPECT_EQ(parse_chrome_trace(trace_text_of(recording)), recording);
    }
}

// Those of older versions do not say what travels, and a wait has the step of the hop that was waited for.
TEST(ChromeTraceRoundTrip, WaitsOfOldRecordingsLeadToWhatTheirRankAttendsNext) {
  Recording recording = sample_recording(3, true);
  recording.info.travel.reset();
  const Recording read = parse_chrome_trace(trace_text_of(recording));
  EXPECT_FALSE(read.info.travel);
  int waits = 0;
  for (std::size_t rank = 0; rank < 3; ++rank)
    for (std::size_t i = 0; i < recording.events[rank].size(); ++i) {
      TraceEvent expected = recording.events[rank][i];
      if (expected.lane == Lane::wait) {
        ++waits;
        const bool is_last = ++expected.step == 3;
        expected.kv_owner = is_last ? -1 : (static_cast<int>(rank) + 3 - expected.step) % 3;
        if (is_last) expected.step = -1;
      }
      EXPECT_EQ(read.events[rank][i], expected);
    }
  EXPECT_EQ(waits, 18);
  // Of a run that broke off, nobody knows what would have come next.
  recording.info.failure = RunEnd{"killed", 1, 0};
  EXPECT_EQ(parse_chrome_trace(trace_text_of(recording)), recording);
}

// How a run failed stands in the "ring" object, as far as it is known.
TEST_F(ChromeTrace, FailuresAreSaid) {
  Recording recording = sample_recording(3, false);
  parse(recording);
  EXPECT_FALSE(document_["ring"].HasMember("failure"));
  recording.info.failure = RunEnd{"a \"quoted\"\nmessage", 2, 1};
  parse(recording);
  EXPECT_EQ(field(document_["ring"]["failure"], "message"), "a \"quoted\"\nmessage");
  EXPECT_EQ(field(document_["ring"]["failure"], "rank"), "2");
  EXPECT_EQ(field(document_["ring"]["failure"], "step"), "1");
  EXPECT_EQ(parse_chrome_trace(text_), recording);
  recording.info.failure = RunEnd{"", -1, -1};
  parse(recording);
  EXPECT_EQ(document_["ring"]["failure"].MemberCount(), 1u);
  EXPECT_EQ(parse_chrome_trace(text_), recording);
}

TEST(ChromeTraceRoundTrip, NothingRecorded) {
  Recording recording;
  recording.events.resize(1);
  EXPECT_EQ(parse_chrome_trace(trace_text_of(recording)), recording);
}

TEST(ChromeTraceRoundTrip, Extremes) {
  Recording recording = sample_recording(2, false);
  recording.info.base_time_ns = INT64_MIN;
  recording.info.clock_offset_ns = {INT64_MIN, INT64_MAX};
  recording.dropped = {0, INT64_MAX};
  TraceEvent& e = recording.events[0][0];
  e.pairs = e.flops = e.tiles_full = e.tiles_partial = e.tiles_skipped = INT64_MAX;
  for (const std::int64_t ns :
       {std::int64_t{0}, std::int64_t{1}, std::int64_t{-1}, std::int64_t{-999}, std::int64_t{-1000},
        std::int64_t{-1001}, std::int64_t{4'499'999'999'999'999'999},
        std::int64_t{-4'499'999'999'999'999'999}}) {
    e.begin_ns = e.end_ns = ns;
    e.cpu_ns = std::abs(ns);
    recording.samples[0].at_ns = ns;
    EXPECT_EQ(parse_chrome_trace(trace_text_of(recording)), recording) << ns;
  }
}

TEST(ChromeTraceRoundTrip, FloatsToTheLastBit) {
  Recording recording = sample_recording(1, false);
  std::uint32_t bits = 1;
  for (int i = 0; i < 20000; ++i) {
    bits = bits * 1664525u + 1013904223u;
    const float value = std::bit_cast<float>(bits);
    if (std::isnan(value)) continue;
    recording.samples.push_back(
        {.row_max = value, .row_sum = -value, .lse = 0.0f, .lse_error = -0.0f});
  }
  const Recording back = parse_chrome_trace(trace_text_of(recording));
  ASSERT_EQ(back, recording);
  EXPECT_TRUE(std::signbit(back.samples.back().lse_error));

  recording.samples = {{.lse = std::numeric_limits<float>::quiet_NaN()}};
  EXPECT_TRUE(std::isnan(parse_chrome_trace(trace_text_of(recording)).samples[0].lse));
}

TEST(ChromeTraceRoundTrip, Strings) {
  for (const std::string& name :
       {std::string(), std::string("\"}, {\"ph\": \"X\""), std::string("a\\"),
        std::string("\n\r\t\x01\x7f"), std::string("nul\0inside", 10),
        std::string("\xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80"), std::string("</script>"),
        std::string(100000, '\\'), std::string("{} %s {0}")}) {
    Recording recording = sample_recording(1, false);
    recording.info.backend = recording.info.mask = recording.info.partition = name;
    recording.info.scheme = recording.info.dtype = name;
    recording.info.origin = {{"version", name}, {"command", name}, {"time", "now"}};
    EXPECT_EQ(parse_chrome_trace(trace_text_of(recording)), recording);
  }
  // Bytes that JSON cannot hold are no reason to lose a recording.
  Recording recording = sample_recording(1, false);
  recording.info.mask = "ranges:\xff";
  recording.info.failure = RunEnd{"cannot open \xff\xfe.npy \xc3\xa9", 0, -1};
  const RunInfo read = parse_chrome_trace(trace_text_of(recording)).info;
  EXPECT_EQ(read.mask, "ranges:?");
  EXPECT_EQ(read.failure->message, "cannot open ??.npy ??");
}

TEST(ChromeTraceRoundTrip, ListsMustBeForEveryRank) {
  Recording recording = sample_recording(3, false);
  recording.events.pop_back();
  EXPECT_THROW(trace_text_of(recording), InputError);
  recording = sample_recording(3, false);
  recording.dropped.pop_back();
  EXPECT_THROW(trace_text_of(recording), InputError);
  recording.dropped.clear();
  EXPECT_EQ(parse_chrome_trace(trace_text_of(recording)), recording);
}

TEST(ChromeTraceFiles, RoundTripAndErrors) {
  const TemporaryFolder folder;
  const std::string path = folder.path("trace.json");
  const Recording recording = sample_recording(2, true);
  write_chrome_trace(path, recording);
  EXPECT_EQ(read_chrome_trace(path), recording);
  const auto complaint = [](const std::string& file) {
    return complaint_of([&] { read_chrome_trace(file); });
  };
  std::ofstream(path, std::ios::app) << "x";
  EXPECT_EQ(complaint(path).find(path + ": byte "), 0u) << complaint(path);
  const std::string absent = folder.path("absent");
  EXPECT_EQ(complaint(absent),
            absent + ": No such file or directory; a readable recorded trace accepted");
  expect_part(complaint(folder.path()), "is a directory");
  EXPECT_THROW(write_chrome_trace("/dev/full", recording), RunError);
  EXPECT_THROW(write_chrome_trace(folder.path(), recording), InputError);
}

// ---
// Stories through a trace file: what is written reads back, what is damaged is refused with the byte.

Recording told_recording() {
  Recording recording = sample_recording(2, true);
  recording.story = {
      {.text = "All of it."},
      {.text = "\"Quoted\", \\ and\na new line; \u03b1 \u00d7 **strong**",
       .figure = Figure::balance},
      {.text = "Rank 1 waits.", .pass = Pass::backward, .step = 1, .rank = 0, .lane = Lane::wait},
      {.text = std::string(kMaxStoryText, 'x'), .step = 0, .rank = 1},
  };
  return recording;
}

std::string told() { return trace_text_of(told_recording()); }

void expect_complaint_at(const std::string& text, std::size_t at, const std::string& part) {
  const std::string found = complaint_of([&] { parse_chrome_trace(text); });
  EXPECT_EQ(found.find("byte " + std::to_string(at) + ": "), 0u) << found << " at " << at;
  expect_part(found, part);
}

TEST(Story, ReadsBack) { EXPECT_EQ(parse_chrome_trace(told()), told_recording()); }

TEST(Story, NoneIsNotWritten) {
  EXPECT_EQ(trace_text_of(sample_recording(2, true)).find("story"), std::string::npos);
}

// Before the events, and read as well behind them.
TEST(Story, WhereverItStandsBehindTheHead) {
  const std::string text = told();
  const std::size_t begin = text.find("\"story\""), end = text.find("\"baseTime");
  EXPECT_LT(begin, text.find("\"traceEvents\""));
  const std::string story = text.substr(begin, end - begin);
  std::string moved = with(text, story, "");
  moved.insert(moved.rfind('}'), ", " + story.substr(0, story.rfind(',')));
  EXPECT_EQ(parse_chrome_trace(moved), told_recording());
}

TEST(Story, WhatIsWrongIsNamedWithItsByte) {
  const std::string text = told();
  const std::size_t list = text.find("\"story\": ") + 9;
  for (const char* bad : {"1", "\"x\"", "{\"text\": \"x\"}"})
    expect_complaint_at(with(text, "\"story\": [", std::string("\"story\": ") + bad + ", \"x\": ["),
                        list, "no list of objects given for \"story\"");
  for (const char* bad : {"1, ", "\"x\", ", "[], "})
    expect_complaint_at(with(text, "\"story\": [", std::string("\"story\": [") + bad), list + 1,
                        "no list of objects given for \"story\"");

  const auto value = [&](const std::string& from, const std::string& bad, const std::string& part) {
    const std::size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    expect_complaint_at(with(text, from, from.substr(0, from.find(": ") + 2) + bad),
                        at + from.find(": ") + 2, part);
  };
  value("\"step\": 1, \"rank\"", "2, \"rank\"", "2 given for step; an integer from 0 to 1");
  value("\"rank\": 0, \"lane\"", "-1, \"lane\"", "-1 given for rank; an integer from 0 to 1");
  value("\"lane\": \"wait\"", "\"late\"", "one of \"compute\", \"send\", \"recv\", \"wait\"");
  value("\"lane\": \"wait\"", "3", "3 given for lane");
  value("\"pass\": \"backward\"", "\"sideways\"", "\"forward\" or \"backward\"");
  value("\"figure\": \"balance\"", "\"table\"", "\"timeline\", \"ring\", \"mask\", \"balance\"");
  value("\"text\": \"All of it.\"", "\"\"", "a text of 0 bytes");
  value("\"text\": \"All of it.\"", "7", "7 given for text; a string");
  value("\"text\": \"x", "\"xx", "a text of more than 2000 bytes");

  const std::string textless = with(text, "{\"text\": \"All of it.\"}", "{}");
  expect_complaint_at(textless, textless.find("{}") + 1, "text missing");
}

TEST(Story, ParagraphsAreLimited) {
  Recording recording = sample_recording(1, false);
  recording.story.assign(kMaxStorySteps, {.text = "x"});
  const std::string text = trace_text_of(recording);
  EXPECT_EQ(parse_chrome_trace(text), recording);
  const std::string longer =
      with(text, "{\"text\": \"x\"}", "{\"text\": \"x\"}, {\"text\": \"x\"}");
  expect_part(complaint_of([&] { parse_chrome_trace(longer); }),
              "a story of more than 200 paragraphs");
}

}  // namespace
}  // namespace ringscope
