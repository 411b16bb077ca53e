// Recordings of ours that are damaged, or made to do damage: every one gets an InputError that names
// the byte or the field, the value and what would be accepted.
#include <gtest/gtest.h>

#include "tests/viz_data/trace_loader_text.h"
#include "viz/data/analysis/findings.h"

namespace ringscope::viz {
namespace {

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

}  // namespace
}  // namespace ringscope::viz
