// Traces that other programs wrote, in the dialects of the Trace Event Format.
#include <gtest/gtest.h>

#include "tests/viz_data/trace_loader_text.h"

namespace ringscope::viz {
namespace {

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
