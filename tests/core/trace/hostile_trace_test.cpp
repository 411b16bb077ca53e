// Traces that are damaged, or made to do damage: every one gets an InputError that names a byte.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <sstream>

#include "core/base/error.h"
#include "core/trace/chrome_trace.h"
#include "tests/core/trace/sample_recording.h"

namespace ringscope {
namespace {

std::string sample(int world_size = 2) {
  std::ostringstream out;
  write_chrome_trace(out, sample_recording(world_size, true));
  return out.str();
}

// `text` with the first `from` replaced, which must be there.
std::string with(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? "" : text.replace(at, from.size(), to);
}

// The InputError that `text` gives, "" when it gives none. It must name a byte and be one line.
std::string complaint(const std::string& text) {
  try {
    parse_chrome_trace(text);
    return "";
  } catch (const InputError& error) {
    const std::string message = error.what();
    EXPECT_EQ(message.find("byte "), 0u) << message;
    const std::size_t colon = message.find_first_not_of("0123456789", 5);
    EXPECT_TRUE(colon > 5 && message.find(": ", colon) == colon) << message;
    EXPECT_TRUE(std::all_of(message.begin(), message.end(), [](unsigned char c) {
      return std::isprint(c) != 0;
    })) << message;
    EXPECT_LT(message.size(), 250u) << message;
    return message;
  }
}

void expect_complaint(const std::string& text, const std::string& part) {
  const std::string found = complaint(text);
  EXPECT_NE(found.find(part), std::string::npos) << "'" << found << "' lacks '" << part << "'";
}

TEST(HostileTrace, TruncatedAtEveryByte) {
  const std::string whole = sample();
  ASSERT_EQ(complaint(whole), "");
  for (std::size_t length = 0; length + 2 <= whole.size(); ++length)
    ASSERT_NE(complaint(whole.substr(0, length)), "") << length;
}

// Any byte replaced: read or refused, but nothing else.
TEST(HostileTrace, EveryByteDamaged) {
  const std::string whole = sample(1);
  for (std::size_t at = 0; at < whole.size(); ++at)
    for (const char c : {'\0', '"', '9', '-', '{', ']', '\\', '\xff'}) {
      std::string text = whole;
      text[at] = c;
      complaint(text);
    }
}

TEST(HostileTrace, NotAnObject) {
  for (const char* text : {"", " ", "[]", "[{}]", "1", "\"x\"", "null", "true", "{", "}", "{}x",
                           "{}{}", "nan", "{\"traceEvents\": {}}", "{\"traceEvents\": 1}", "{}"})
    EXPECT_NE(complaint(text), "") << text;
  EXPECT_NE(complaint(std::string("{}\0", 3)), "");
  EXPECT_NE(complaint(sample() + '\0'), "");
  EXPECT_NE(complaint("\xef\xbb\xbf" + sample()), "");
}

TEST(HostileTrace, NestingIsLimited) {
  for (const char* open : {"[", "{\"a\":", "{\"args\":", "{\"traceEvents\":[{\"args\":"}) {
    std::string text = "{\"x\":";
    for (int i = 0; i < 100000; ++i) text += open;
    expect_complaint(text, "nested deeper than 32 levels");
  }
  const auto nested = [](int levels) {
    return with(sample(), "\"displayTimeUnit\": \"ms\"",
                "\"x\": " + std::string(levels, '[') + std::string(levels, ']'));
  };
  EXPECT_EQ(complaint(nested(31)), "");
  expect_complaint(nested(32), "nested deeper");
}

TEST(HostileTrace, NumbersInRange) {
  const std::string bad_ranks[] = {
      "-1",    "2",    "1.5",  "1e0", "2147483648", "99999999999999999999",
      "\"0\"", "true", "null", "[0]", "{}"};
  for (const std::string& bad : bad_ranks) {
    expect_complaint(with(sample(), "\"step\": 0", "\"step\": " + bad), "byte");
    expect_complaint(with(sample(), "\"kv_owner\": 0", "\"kv_owner\": " + bad), "byte");
    expect_complaint(with(sample(), "\"src\": 0", "\"src\": " + bad), "byte");
    expect_complaint(with(sample(), "\"dst\": 1", "\"dst\": " + bad), "byte");
    expect_complaint(with(sample(), "\"waiting_for\": 1", "\"waiting_for\": " + bad), "byte");
    expect_complaint(
        with(sample(), "\"attend kv 0\", \"pid\": 0", "\"attend kv 0\", \"pid\": " + bad), "byte");
  }
  for (const char* bad : {"-1", "9223372036854775808", "1.0", "1e3", "\"1\""}) {
    for (const char* key : {"pairs", "flops", "tiles_full", "tiles_partial", "tiles_skipped",
                            "bytes", "flow", "query"}) {
      const std::string from = std::string("\"") + key + "\": ";
      expect_complaint(with(sample(), from, from + bad + ", \"x\": "), key);
    }
  }
  for (const char* bad : {"1.0001", "1e3", "4500000000000000.000", "-4500000000000001",
                          "9223372036854775807", "99999999999999999999.5", "\"1\""})
    expect_complaint(with(sample(), "\"ts\": ", std::string("\"ts\": ") + bad + ", \"x\": "),
                     "given for ts; microseconds with up to 3 decimals");
  expect_complaint(with(sample(), "\"dur\": ", "\"dur\": -0.001, \"x\": "), "given for dur");
  expect_complaint(with(sample(), "\"dur\": ", "\"dur\": 4499999999999999.999, \"x\": "),
                   "ends later");
  expect_complaint(with(sample(), "\"cpu_us\": ", "\"cpu_us\": -1, \"x\": "), "given for cpu_us");
  for (const char* bad : {"1e39", "-1e39", "\"Infinity\"", "\"\"", "null", "[1]"})
    expect_complaint(with(sample(), "\"row_sum\": 0", std::string("\"row_sum\": ") + bad),
                     "row_sum");
  for (const char* bad : {"NaN", "nan", "Infinity", "-inf", "01", "+1", ".5", "1.", "0x1"})
    EXPECT_NE(complaint(with(sample(), "\"row_sum\": 0", std::string("\"row_sum\": ") + bad)), "")
        << bad;
}

TEST(HostileTrace, TimesInShorterSpellings) {
  Recording expected = sample_recording(2, true);
  expected.events[0][0].begin_ns = 1500;
  expected.events[0][0].end_ns = 2500;
  const std::string text =
      with(with(sample(), "\"ts\": 0.010", "\"ts\": 1.5"), "\"dur\": 1.000", "\"dur\": 1");
  EXPECT_EQ(parse_chrome_trace(text), expected);
}

TEST(HostileTrace, FieldsAreNeededAndTyped) {
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
                          "num_heads_kv",
                          "seqlen",
                          "head_dim",
                          "baseTimeNanoseconds",
                          "traceEvents",
                          "ring",
                          "distributedInfo",
                          "pid",
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
                          "lse_error"}) {
    const std::string from = std::string("\"") + key + "\": ";
    // All of them, for metadata and flows have some as well.
    std::string text = sample();
    for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos;) text[at + 1] = '_';
    EXPECT_NE(complaint(text), "") << key << " left out";
    text = sample();
    for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += from.size())
      text.insert(at + from.size(), "false, \"x\": ");
    EXPECT_NE(complaint(text), "") << key << " of a wrong type";
  }
  expect_complaint(with(sample(), "\"schema_version\": 1", "\"schema_version\": 2"),
                   "2 given for schema_version; 1 accepted");
  expect_complaint(with(sample(), "\"pass\": \"forward\"", "\"pass\": \"sideways\""),
                   "\"sideways\" given for pass; \"forward\" or \"backward\" accepted");
  expect_complaint(with(sample(), "\"tid\": 0, \"ts\"", "\"tid\": 1, \"ts\""),
                   "1 given for tid; 0 accepted");
}

TEST(HostileTrace, KvBuffers) {
  EXPECT_EQ(parse_chrome_trace(sample()).info.kv_buffers, 0);
  const auto with_buffers = [](const char* value) {
    return with(sample(),
                "\"scheme\": ", std::string("\"kv_buffers\": ") + value + ", \"scheme\": ");
  };
  EXPECT_EQ(parse_chrome_trace(with_buffers("3")).info.kv_buffers, 3);
  for (const char* bad : {"0", "-1", "2147483648", "\"2\"", "2.5", "[2]", "null"})
    expect_complaint(with_buffers(bad), "given for kv_buffers; an integer from 1 to 2147483647");
}

TEST(HostileTrace, Shapes) {
  expect_complaint(with(sample(), "\"num_heads_kv\": 2", "\"num_heads_kv\": 3"),
                   "a divisor of heads");
  expect_complaint(with(sample(), "\"batch\": 2", "\"batch\": 0"), "0 given for batch");
  expect_complaint(with(sample(), "\"batch\": 2", "\"batch\": 9223372036854775807"),
                   "fit in 64 bits");
  expect_complaint(with(sample(), "\"seqlen\": 1000", "\"seqlen\": 4294967296"), "seqlen");
}

// A short file must not make the reader allocate for a million ranks.
TEST(HostileTrace, WorldSizeInProportion) {
  for (const char* bad : {"0", "-1", "1000", "1000000", "1000001", "2147483647", "4294967298"})
    expect_complaint(with(sample(), "\"world_size\": 2", std::string("\"world_size\": ") + bad),
                     "byte");
  expect_complaint(with(sample(), "\"world_size\": 2", "\"world_size\": 1"), "a list for 2 ranks");
  expect_complaint(
      with(with(with(with(sample(), "\"world_size\": 2", "\"world_size\": 1"), "[0, -1000]", "[]"),
                "[25, 26]", "[]"),
           "[0, 3]", "[]"),
      "1 given where ranks or steps below world_size 1");
  expect_complaint(
      "{\"traceEvents\": [{\"ph\": \"X\", \"cat\": \"wait\", \"pid\": 999999, \"tid\": 3}]}",
      "999999 given for pid");
}

TEST(HostileTrace, ListsAreForEveryRank) {
  expect_complaint(with(sample(), "\"clock_error_ns\": [25, 26]", "\"clock_error_ns\": [25]"),
                   "a list for 1 ranks");
  expect_complaint(with(sample(), "\"clock_error_ns\": [25, 26]", "\"clock_error_ns\": [25, -26]"),
                   "-26");
  expect_complaint(with(sample(), "\"dropped_events\": [0, 3]", "\"dropped_events\": [0, [3]]"),
                   "another kind of value given");
  expect_complaint(with(sample(), "\"clock_offset_ns\": [", "\"clock_offset_ns\": [\"1\", "),
                   "\"1\" given");
}

TEST(HostileTrace, Failures) {
  const auto failing = [](const std::string& failure) {
    return with(sample(), "\"clock_offset_ns\"",
                "\"failure\": " + failure + ", \"clock_offset_ns\"");
  };
  EXPECT_EQ(complaint(failing(R"({"step": 1, "other": [1], "message": "x", "rank": 0})")), "");
  for (const char* no_object : {"1", "\"x\"", "null", "[{\"message\": \"x\"}]", "true"})
    expect_complaint(failing(no_object), "given for failure; an object accepted");
  expect_complaint(failing("{}"), "message missing");
  expect_complaint(failing(R"({"message": 3})"), "a string accepted");
  expect_complaint(failing(R"({"message": {"message": "x"}})"), "a string accepted");
  expect_complaint(failing(R"({"message": "x", "rank": 2})"), "2 given for rank");
  expect_complaint(failing(R"({"message": "x", "rank": -1})"), "-1 given for rank");
  expect_complaint(failing(R"({"message": "x", "step": "1"})"), "\"1\" given for step");
  expect_complaint(failing(R"({"message": "x", "step": 1e9})"), "1e9 given for step");
  expect_complaint(failing(R"({"message": "x", "rank": [0]})"), "given for rank");
}

// What other programs add is passed over, wherever it stands and whatever it holds.
TEST(HostileTrace, TheUnknownIsPassedOver) {
  const Recording expected = sample_recording(2, true);
  const std::string others =
      "{\"ph\": \"X\", \"cat\": \"cpu_op\", \"pid\": \"Spans\", \"tid\": [1], \"ts\": 1e300, "
      "\"args\": 3},\n"
      "{\"ph\": \"C\", \"ts\": -1, \"args\": {\"step\": {\"step\": []}, \"pid\": null}},\n"
      "{\"ph\": 5, \"cat\": \"compute\"}, {\"cat\": \"compute\"}, {}, [], null, 1, \"compute\", "
      "[{\"ph\": \"X\"}],\n"
      "{\"ph\": \"i\", \"cat\": \"compute\"}, {\"ph\": \"X\", \"cat\": \"softmax\"},\n";
  EXPECT_EQ(parse_chrome_trace(with(sample(), "{\"ph\"", others + "{\"ph\"")), expected);
  EXPECT_EQ(parse_chrome_trace(
                with(sample(), "\"ring\": {", "\"a\": {\"ring\": 1}, \"ring\": {\"a\": [{}], ")),
            expected);
  EXPECT_EQ(
      parse_chrome_trace(with(sample(), "\"args\": {\"pass\"",
                              "\"other\": {\"ts\": 7}, \"args\": {\"x\": {\"step\": 9}, \"pass\"")),
      expected);
}

TEST(HostileTrace, KeysInAnyOrder) {
  std::string text = sample();
  const std::size_t events = text.find("\"traceEvents\""), end = text.rfind("\n}");
  const std::string head = text.substr(2, events - 2);
  text = "{" + text.substr(events, end - events) + ", " + head.substr(0, head.rfind(',')) + "}";
  EXPECT_EQ(parse_chrome_trace(text), sample_recording(2, true));
}

}  // namespace
}  // namespace ringscope
