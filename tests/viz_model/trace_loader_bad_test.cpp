// Recordings of ours that are damaged, or made to do damage: every one gets an InputError that names
// the byte or the field, the value and what would be accepted.
#include <gtest/gtest.h>

#include "tests/viz_model/trace_loader_text.h"

namespace ringscope::viz {
namespace {

const std::string& sample() {
  static const std::string text = text_of(whole_recording());
  return text;
}

TEST(BadRecording, TruncatedAtEveryByte) {
  ASSERT_EQ(complaint(sample()), "");
  for (std::size_t length = 0; length + 2 <= sample().size(); ++length)
    ASSERT_NE(complaint(sample().substr(0, length)), "") << length;
}

// Any byte replaced: read or refused, but nothing else.
TEST(BadRecording, EveryByteDamaged) {
  const std::string whole = text_of(whole_recording(1));
  for (std::size_t at = 0; at < whole.size(); ++at)
    for (const char c : {'\0', '"', '9', '-', '{', ']', '\\', '\xff'}) {
      std::string text = whole;
      text[at] = c;
      complaint(text);
    }
}

TEST(BadRecording, RanksAndStepsBelowWorldSize) {
  for (const char* bad : {"-1", "2", "1.5", "1e0", "2147483648", "99999999999999999999", "\"0\"",
                          "true", "null", "NaN", "[0]", "{}"})
    for (const char* key : {"step", "kv_owner", "src", "dst", "waiting_for"})
      expect_complaint_at(sample(), key, bad, "");
  expect_complaint_at(sample(), "step", "2", "2 given for step; an integer from 0 to 1 accepted");
  expect_complaint_at(sample(), "step", "\"1\"",
                      "\"1\" given for step; an integer from 0 to 1 accepted");
  expect_complaint_at(sample(), "src", "[0]", "an array given for src; an integer from 0 to 1");
  expect_complaint(with(sample(), "\"attend kv 0\", \"pid\": 0", "\"attend kv 0\", \"pid\": 2"),
                   "2 given for pid; an integer from 0 to 1 accepted");
  expect_complaint(with(sample(), "\"tid\": 0, \"ts\"", "\"tid\": 1, \"ts\""),
                   "1 given for tid; 0 accepted");
}

TEST(BadRecording, Counts) {
  for (const char* bad : {"-1", "9223372036854775808", "1.0", "1e3", "\"1\"", "NaN", "null"})
    for (const char* key : {"pairs", "flops", "tiles_full", "tiles_partial", "tiles_skipped",
                            "bytes", "flow", "query"})
      expect_complaint_at(sample(), key, bad, "");
  expect_complaint_at(sample(), "pairs", "-1",
                      "-1 given for pairs; an integer from 0 to 9223372036854775807 accepted");
  expect_complaint_at(sample(), "query", "1000",
                      "1000 given for query; an integer from 0 to 999 accepted");
}

TEST(BadRecording, Times) {
  for (const char* key : {"ts", "dur", "cpu_us"})
    for (const char* bad :
         {"1.0001", "1e3", "4500000000000000.001", "9223372036854775807", "99999999999999999999.5",
          "\"1\"", "-0.001", "-1", "-4500000000000001", "NaN", "-inf", "null", "[]"})
      expect_complaint_at(sample(), key, bad, "");
  expect_complaint_at(sample(), "ts", "NaN",
                      "NaN given for ts; microseconds with up to 3 decimals from 0 to "
                      "4500000000000000 accepted");
  expect_complaint_at(sample(), "dur", "-0.001", "-0.001 given for dur; microseconds with");
  expect_complaint_at(sample(), "dur", "4499999999999999.999", "dur ends later than");
}

TEST(BadRecording, Samples) {
  for (const char* bad : {"1e39", "-1e39", "\"Infinity\"", "\"\"", "null", "[1]", "NaN"})
    expect_complaint_at(sample(), "row_sum", bad, "");
  for (const char* bad : {"01", "+1", ".5", "1.", "0x1", "1e", "--1"})
    EXPECT_NE(complaint(with(sample(), "\"row_sum\": 0", std::string("\"row_sum\": ") + bad)), "")
        << bad;
}

TEST(BadRecording, KvBuffers) {
  for (const char* bad : {"0", "-1", "2147483648", "\"2\"", "2.5", "[2]", "null"})
    expect_complaint(
        with(sample(), "\"scheme\": ", std::string("\"kv_buffers\": ") + bad + ", \"scheme\": "),
        "given for kv_buffers; an integer from 1 to 2147483647");
}

TEST(BadRecording, FieldsAreNeededAndTyped) {
  for (const char* key : {"schema_version",
                          "partition",
                          "mask",
                          "scheme",
                          "dtype",
                          "backend",
                          "world_size",
                          "shape",
                          "batch",
                          "num_heads",
                          "seqlen",
                          "num_heads_kv",
                          "head_dim",
                          "traceEvents",
                          "baseTimeNanoseconds",
                          "distributedInfo",
                          "pid",
                          "tid",
                          "ts",
                          "dur",
                          "args",
                          "pass",
                          "step",
                          "kv_owner",
                          "pairs",
                          "flops",
                          "cpu_us",
                          "payload",
                          "bytes",
                          "src",
                          "dst",
                          "waiting_for",
                          "flow",
                          "row_max",
                          "row_sum",
                          "lse",
                          "lse_error",
                          "id"}) {
    const std::string from = std::string("\"") + key + "\": ";
    EXPECT_NE(complaint(with_all(sample(), from, std::string("\"_") + (key + 1) + "\": ")), "")
        << key << " left out";
    EXPECT_NE(complaint(with_all(sample(), from, from + "false, \"x\": ")), "")
        << key << " of a wrong type";
  }
  expect_complaint(with(sample(), "\"world_size\"", "\"_world_size\""), "world_size missing");
  expect_complaint(with(sample(), "\"distributedInfo\"", "\"_distributedInfo\""),
                   "backend missing");
  expect_complaint(with(sample(), "\"kv_owner\"", "\"_kv_owner\""), "kv_owner missing");
  expect_complaint(with(sample(), "\"schema_version\": 1", "\"schema_version\": 2"),
                   "2 given for schema_version; 1 accepted");
  expect_complaint(with(sample(), "\"pass\": \"forward\"", "\"pass\": \"sideways\""),
                   "\"sideways\" given for pass; \"forward\" or \"backward\" accepted");
}

TEST(BadRecording, Shapes) {
  expect_complaint(with(sample(), "\"num_heads_kv\": 2", "\"num_heads_kv\": 3"),
                   "a divisor of heads");
  expect_complaint(with(sample(), "\"batch\": 2", "\"batch\": 0"), "0 given for batch");
  expect_complaint(with(sample(), "\"batch\": 2", "\"batch\": 9223372036854775807"),
                   "fit in 64 bits");
  expect_complaint(with(sample(), "\"seqlen\": 1000", "\"seqlen\": 4294967296"), "seqlen");
}

// A short file must not make the loader allocate for a billion ranks.
TEST(BadRecording, WorldSizeInProportion) {
  for (const char* bad : {"0", "-1", "1000", "1000000", "1000000000", "2147483647", "4294967298"})
    expect_complaint(with(sample(), "\"world_size\": 2", std::string("\"world_size\": ") + bad),
                     std::string(bad) + " given for world_size; an integer from 1 to ");
  expect_complaint(with(sample(), "\"world_size\": 2", "\"world_size\": 1"), "a list for 2 ranks");
  expect_complaint(with(sample(), "\"clock_error_ns\": [25, 26]", "\"clock_error_ns\": [25]"),
                   "a list for 1 ranks");
  expect_complaint(with(sample(), "\"clock_error_ns\": [25, 26]", "\"clock_error_ns\": [25, -1]"),
                   "-1 given");
  expect_complaint(with(sample(), "\"dropped_events\": [0, 0]", "\"dropped_events\": 0"),
                   "no list given");
}

TEST(BadRecording, TwiceWhatMayBeOnce) {
  expect_complaint(with(sample(), "\"displayTimeUnit\"", "\"ring\": {}, \"displayTimeUnit\""),
                   "a second \"ring\" object");
  expect_complaint(sample().substr(0, sample().rfind('}')) + ", \"traceEvents\": []}",
                   "a second \"traceEvents\" array");
}

TEST(BadRecording, FlowsThatDangle) {
  // Rank 0's first send has flow 1, and so has rank 1's first receive.
  expect_complaint(with(sample(), "\"flow\": 1}", "\"flow\": 999}"),
                   "1 given for flow; one that a send slice has as well accepted");
  expect_complaint(with(sample(), "\"flow\": 1}", "\"flow\": 0}"),
                   "1 given for flow; one that a send slice has as well accepted");
  expect_complaint(with_all(sample(), "\"flow\": 1}", "\"flow\": 2}"),
                   "2 given for flow a second time; one send and one recv slice with it accepted");
  const std::string send_event = "{\"ph\": \"s\", \"id\": 1,";
  const std::string recv_event = "{\"ph\": \"f\", \"bp\": \"e\", \"id\": 1,";
  expect_complaint(with(sample(), recv_event, "{\"ph\": \"x\", \"id\": 1,"),
                   "1 given for id of an \"s\" event only; one \"s\" and one \"f\" accepted");
  expect_complaint(with(sample(), send_event, "{\"ph\": \"x\", \"id\": 1,"),
                   "1 given for id of an \"f\" event only");
  expect_complaint(with(sample(), send_event,
                        send_event +
                            " \"ts\": 0, \"pid\": 0, \"tid\": 1, "
                            "\"cat\": \"flow\"}, " +
                            send_event),
                   "1 given for id of a second \"s\" event; one accepted");
}

TEST(BadRecording, FlowEventsOutsideTheirSlices) {
  const std::size_t at = sample().find("{\"ph\": \"s\"");
  const std::string head = sample().substr(0, at), tail = sample().substr(at);
  expect_complaint(head + with(tail, "\"pid\": 0", "\"pid\": 1"),
                   "the flow of a send slice there accepted");
  expect_complaint(head + with(tail, "\"ts\": ", "\"ts\": 999"),
                   "the flow of a send slice there accepted");
  expect_complaint(head + with(tail, "\"tid\": 1", "\"tid\": 2"), "2 given for tid; 1 accepted");
  // Both events of a flow that no slice has.
  const std::string pair =
      "{\"ph\": \"s\", \"cat\": \"flow\", \"id\": 77, \"pid\": 0, \"tid\": 1, \"ts\": 0},\n"
      "{\"ph\": \"f\", \"cat\": \"flow\", \"id\": 77, \"pid\": 1, \"tid\": 2, \"ts\": 0},\n";
  expect_complaint(head + pair + tail, "77 given for id of an \"s\" event at 0 ns on rank 0");
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
  expect_complaint(text_of(recording),
                   "ts: the slice of rank 0 that begins at 510 ns on lane compute lies half over");
}

TEST(BadRecording, NestingIsLimited) {
  for (const char* open : {"[", "{\"a\":", "{\"args\":", "{\"traceEvents\":[{\"args\":"}) {
    std::string text = "{\"x\":";
    for (int i = 0; i < 100000; ++i) text += open;
    expect_complaint(text, "nested deeper than 64 levels");
  }
  const auto nested = [](int levels) {
    return with(sample(), "\"displayTimeUnit\": \"ms\"",
                "\"x\": " + std::string(static_cast<std::size_t>(levels), '[') +
                    std::string(static_cast<std::size_t>(levels), ']'));
  };
  EXPECT_EQ(complaint(nested(63)), "");
  const std::string deep = nested(64);
  expect_complaint(deep, "byte " + std::to_string(deep.find("[[[") + 63) + ": nested deeper");
}

// What other programs add is passed over, wherever it stands and whatever it holds.
TEST(BadRecording, TheUnknownIsPassedOver) {
  const std::string others =
      "{\"ph\": \"X\", \"cat\": \"cpu_op\", \"pid\": \"Spans\", \"tid\": [1], \"ts\": 1e300, "
      "\"args\": 3},\n"
      "{\"ph\": \"C\", \"ts\": -1, \"args\": {\"step\": {\"step\": []}, \"pid\": NaN}},\n"
      "{\"ph\": 5, \"cat\": \"compute\"}, {\"cat\": \"compute\"}, {}, [], null, 1, \"compute\", "
      "[{\"ph\": \"X\"}],\n"
      "{\"ph\": \"i\", \"cat\": \"compute\"}, {\"ph\": \"X\", \"cat\": \"softmax\"},\n";
  const Trace expected = parse_trace(sample());
  for (const std::string& text :
       {with(sample(), "{\"ph\"", others + "{\"ph\""),
        with(sample(), "\"ring\": {", "\"a\": {\"ring\": 1}, \"ring\": {\"a\": [{}], "),
        with(sample(), "\"args\": {\"pass\"",
             "\"other\": {\"ts\": 7}, \"args\": {\"x\": {\"step\": 9}, \"pass\"")}) {
    const Trace trace = parse_trace(text);
    EXPECT_EQ(trace.run, expected.run);
    EXPECT_EQ(trace.slice_count, expected.slice_count);
    EXPECT_EQ(trace.slices_of(0, ringscope::Lane::compute),
              expected.slices_of(0, ringscope::Lane::compute));
  }
}

}  // namespace
}  // namespace ringscope::viz
