// Traces that are damaged, or made to do damage: every one gets an InputError that names the byte, the
// value and what would be accepted. The viewer's loader stands on the same reader.
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "core/trace/chrome_trace_reader.h"
#include "tests/core/trace/trace_text.h"

namespace ringscope {
namespace {

const std::string& sample() {
  static const std::string text = trace_text_of(sample_recording(2, true));
  return text;
}

// The InputError that `text` gives, "" when it gives none. It must name a byte.
std::string complaint(const std::string& text) {
  const std::string message = complaint_of([&] { parse_chrome_trace(text); });
  if (message.empty()) return "";
  EXPECT_EQ(message.find("byte "), 0u) << message;
  const std::size_t colon = message.find_first_not_of("0123456789", 5);
  EXPECT_TRUE(colon > 5 && message.find(": ", colon) == colon) << message;
  return message;
}

void expect_complaint(const std::string& text, const std::string& part) {
  expect_part(complaint(text), part);
}

// `bad` put in place of the first value behind `key`, which the complaint must point at.
void expect_complaint_at(const std::string& key, const std::string& bad, const std::string& part) {
  const std::string from = "\"" + key + "\": ";
  const std::size_t at = sample().find(from) + from.size();
  expect_complaint(with(sample(), from, from + bad + ", \"x\": "),
                   "byte " + std::to_string(at) + ": " + part);
}

// If it may be cut off, what is whole is read, whatever is cut off; packed files are read likewise.
TEST(HostileTrace, ReadsWhatIsWholeUpToEveryByte) {
  const Recording whole = parse_chrome_trace(sample());
  std::size_t last = 0;
  for (std::size_t length = 0; length <= sample().size(); ++length) {
    HowWhole how = HowWhole::whole;
    std::size_t read = 0;
    Recording cut;
    const std::string message =
        complaint_of([&] { cut = parse_chrome_trace(sample().substr(0, length), &how); });
    if (!message.empty()) {
      ASSERT_EQ(last, 0u) << length << message;
      continue;
    }
    for (std::size_t rank = 0; rank < cut.events.size(); ++rank) {
      const auto& all = whole.events[rank];
      ASSERT_TRUE(std::equal(cut.events[rank].begin(), cut.events[rank].end(), all.begin()));
      read += cut.events[rank].size();
    }
    ASSERT_GE(read, std::max<std::size_t>(last, 1));
    last = read;
    ASSERT_EQ(how == HowWhole::whole, length + 1 >= sample().size()) << length;
    ASSERT_TRUE(how == HowWhole::part || cut.events == whole.events) << length;
  }
  std::string bad = sample();
  bad[bad.find("\"dur\"", bad.size() / 2)] = '\1';
  HowWhole how = HowWhole::whole;
  EXPECT_THROW(parse_chrome_trace(bad, &how), InputError);
}

// Any byte replaced: read or refused, but nothing else.
TEST(HostileTrace, EveryByteDamaged) {
  Recording recording = sample_recording(1, true);
  recording.story = {{.text = "a \u03b1",
                      .pass = Pass::forward,
                      .step = 0,
                      .rank = 0,
                      .lane = Lane::send,
                      .figure = Figure::mask}};
  const std::string whole = trace_text_of(recording);
  ASSERT_EQ(complaint(whole), "");
  for (std::size_t at = 0; at < whole.size(); ++at) {
    if (at + 2 <= whole.size()) {
      ASSERT_NE(complaint(whole.substr(0, at)), "") << at;
    }
    for (const char c : {'\0', '"', '9', '-', '{', '[', ']', '}', '\\', '\xff'}) {
      std::string text = whole;
      text[at] = c;
      complaint(text);
    }
  }
}

// Lines as our writer writes them are read by a shorter way. With another space in place of each line's
// end no line is one of them, and every byte keeps its place.
TEST(HostileTrace, LinesOfOurWriterAreReadLikeAnyOthers) {
  const auto read = [](const std::string& text, std::size_t chunk, TraceFile& file) {
    return complaint_of([&] {
      MemorySource source(text);
      read_trace(
          source, file, [](const TraceFields&) {}, 0, chunk);
    });
  };
  const auto expect_alike = [&](const std::string& text, std::size_t chunk) {
    std::string other = text;
    for (std::size_t at = 0; (at = other.find(",\n{", at)) != std::string::npos; ++at)
      other[at + 1] = '\r';
    TraceFile file, expected;
    std::string said = read(other, kTraceChunk, expected);
    if (const std::size_t at = said.find("byte value 13"); at != std::string::npos)
      said.replace(at, 13, "byte value 10");
    ASSERT_EQ(read(text, chunk, file), said) << text;
    ASSERT_EQ(file.recording, expected.recording) << text;
    ASSERT_EQ(file.slices, expected.slices);
    ASSERT_EQ(file.end, expected.end);
    ASSERT_EQ(file.how, expected.how);
    ASSERT_EQ(file.messages.size(), expected.messages.size());
  };
  Recording recording = whole_recording(2, true);
  recording.events[0].back().moved_ns = 12'345;
  const std::string whole = trace_text_of(recording);
  const std::size_t head = whole.find("traceEvents");
  const std::string words =
      "-0 -1 01 00 2 7 1e3 1.5 0.12 {} [] \"\" null NaN 4499999999999999.999 4500000000000000.000 "
      "999999999999999999 1000000000000000000 9223372036854775808 \"kv\" \"dkv\" \"k\\u0076\" "
      "\"wait\" \"\xff\" 0.0000 12.3456 .125 5.";
  const std::vector<std::string_view> values = split(words, ' ');
  constexpr char kBytes[] = "0123456789-.eEx\"{}[]:, \n\\\x7f\xff";  // and 0
  std::mt19937 draw(1);
  const auto below = [&draw](std::size_t end) { return draw() % end; };
  for (int i = 0; i < 20'000; ++i) {
    std::string text = whole;
    for (std::size_t damages = below(3); damages-- > 0;) {
      const std::size_t at = head + below(text.size() - head), size = below(4);
      const std::size_t value = text.find(": ", at), end = text.find_first_of(",}", value);
      const std::size_t line = text.find('\n', at), next = text.find('\n', line + 1);
      switch (below(6)) {
        case 0:
          text[at] = kBytes[below(sizeof kBytes)];
          break;
        case 1:
          text.erase(at, size);
          break;
        case 2:
          text.insert(at, 1, kBytes[below(sizeof kBytes)]);
          break;
        case 3:
          if (end < text.size())
            text.replace(value + 2, end - value - 2, values[below(values.size())]);
          break;
        case 4:
          if (line < next && next < text.size()) text.insert(line, text.substr(line, next - line));
          break;
        default:
          if (line < next && next < text.size()) text.erase(line, next - line);
      }
    }
    if (below(4) == 0) text.resize(head + below(text.size() - head));
    expect_alike(text, 1 + below(1'000));
    if (HasFatalFailure()) return;
  }
}

TEST(HostileTrace, NotARecording) {
  for (const char* text : {"", " ", "[]", "[{}]", "1", "\"x\"", "null", "true", "{", "}", "{}x",
                           "{}{}", "nan", "{\"traceEvents\": {}}", "{\"traceEvents\": 1}", "{}"})
    EXPECT_NE(complaint(text), "") << text;
  EXPECT_NE(complaint(std::string("{}\0", 3)), "");
  EXPECT_NE(complaint(sample() + '\0'), "");
  EXPECT_NE(complaint("\xef\xbb\xbf" + sample()), "");
  expect_complaint("[{\"ph\": \"X\"}]", "no \"ring\" object found; one accepted");
}

TEST(HostileTrace, NestingIsLimited) {
  for (const char* open : {"[", "{\"a\":", "{\"args\":", "{\"traceEvents\":[{\"args\":"}) {
    std::string text = "{\"x\":";
    for (int i = 0; i < 100000; ++i) text += open;
    expect_complaint(text, "nested deeper than 64 levels");
  }
  const auto nested = [](std::size_t levels) {
    return with(sample(), "\"displayTimeUnit\": \"ms\"",
                "\"x\": " + std::string(levels, '[') + std::string(levels, ']'));
  };
  EXPECT_EQ(complaint(nested(63)), "");
  const std::string deep = nested(64);
  expect_complaint(deep, "byte " + std::to_string(deep.find("[[[") + 63) + ": nested deeper");
}

TEST(HostileTrace, RanksAndStepsBelowWorldSize) {
  for (const char* bad : {"-1", "2", "1.5", "1e0", "2147483648", "99999999999999999999", "\"0\"",
                          "true", "null", "NaN", "[0]", "{}"})
    for (const char* key : {"step", "kv_owner", "src", "dst", "waiting_for"})
      expect_complaint_at(key, bad, "");
  expect_complaint_at("step", "2", "2 given for step; an integer from 0 to 1 accepted");
  expect_complaint_at("step", "\"1\"", "\"1\" given for step; an integer from 0 to 1 accepted");
  expect_complaint_at("src", "[0]", "an array given for src; an integer from 0 to 1");
  expect_complaint(with(sample(), "\"attend kv 0\", \"pid\": 0", "\"attend kv 0\", \"pid\": 2"),
                   "2 given for pid; an integer from 0 to 1 accepted");
  expect_complaint(with(sample(), "\"tid\": 0, \"ts\"", "\"tid\": 1, \"ts\""),
                   "1 given for tid; 0 accepted");
}

TEST(HostileTrace, Counts) {
  for (const char* bad : {"-1", "9223372036854775808", "1.0", "1e3", "\"1\"", "NaN", "null"})
    for (const char* key : {"pairs", "flops", "tiles_full", "tiles_partial", "tiles_skipped",
                            "bytes", "flow", "query"})
      expect_complaint_at(key, bad, "");
  expect_complaint_at("pairs", "-1",
                      "-1 given for pairs; an integer from 0 to 9223372036854775807 accepted");
  expect_complaint_at("query", "1000", "1000 given for query; an integer from 0 to 999 accepted");
}

TEST(HostileTrace, Times) {
  for (const char* key : {"ts", "dur", "cpu_us"})
    for (const char* bad :
         {"1.0001", "1e3", "4500000000000000.001", "-4500000000000001", "9223372036854775807",
          "99999999999999999999.5", "\"1\"", "NaN", "-inf", "null", "[]"})
      expect_complaint_at(key, bad, "");
  expect_complaint_at("ts", "NaN",
                      "NaN given for ts; microseconds with up to 3 decimals from "
                      "-4500000000000000 to 4500000000000000 accepted");
  expect_complaint_at("dur", "-0.001", "-0.001 given for dur; microseconds with");
  expect_complaint_at("dur", "4499999999999999.999", "dur ends later than");
  expect_complaint_at("cpu_us", "-1", "-1 given for cpu_us");

  Recording expected = sample_recording(2, true);
  expected.events[0][0].begin_ns = 1500;
  expected.events[0][0].end_ns = 2500;
  const std::string shorter =
      with(with(sample(), "\"ts\": 0.010", "\"ts\": 1.5"), "\"dur\": 1.000", "\"dur\": 1");
  EXPECT_EQ(parse_chrome_trace(shorter), expected);
}

TEST(HostileTrace, Samples) {
  for (const char* bad : {"1e39", "-1e39", "\"Infinity\"", "\"\"", "null", "[1]", "NaN", "-inf"})
    expect_complaint_at("row_sum", bad, "");
  for (const char* bad : {"01", "+1", ".5", "1.", "0x1", "1e", "--1"})
    EXPECT_NE(complaint(with(sample(), "\"row_sum\": 0", std::string("\"row_sum\": ") + bad)), "")
        << bad;
}

TEST(HostileTrace, FieldsAreNeededAndTyped) {
  for (const std::string& key : words_of(
           "schema_version partition mask scheme dtype backend world_size shape batch num_heads "
           "num_heads_kv seqlen head_dim ring traceEvents distributedInfo baseTimeNanoseconds pid "
           "tid ts dur args pass step kv_owner pairs flops cpu_us payload bytes src dst "
           "waiting_for flow row_max row_sum lse lse_error name id")) {
    const std::string from = "\"" + key + "\": ";
    EXPECT_NE(complaint(with_all(sample(), from, "\"_" + key.substr(1) + "\": ")), "")
        << key << " left out";
    EXPECT_NE(complaint(with_all(sample(), from, from + "false, \"x\": ")), "")
        << key << " of a wrong type";
  }
  expect_complaint(with(sample(), "\"world_size\"", "\"_world_size\""), "world_size missing");
  expect_complaint(with(sample(), "\"distributedInfo\"", "\"_distributedInfo\""),
                   "backend missing");
  expect_complaint(with(sample(), "\"kv_owner\"", "\"_kv_owner\""), "kv_owner missing");
  expect_complaint_at("schema_version", "2", "2 given for schema_version; 1 accepted");
  expect_complaint_at("pass", "\"sideways\"",
                      "\"sideways\" given for pass; \"forward\" or \"backward\" accepted");
}

TEST(HostileTrace, SpansOfModelsAndPartsOfKernels) {
  Recording recording = sample_recording(1, false);
  recording.info.training = RecordedLayer{.train_step = 12, .layer = 1, .layers = 2};
  recording.model = {{{ModelPart::reduction, Pass::forward, 1, 0, 10, 64}}};
  recording.kernel = {{{KernelPart::wait, 15, 3, 0, 9, 2, 4, 10, 15, 6}}};
  const std::string text = trace_text_of(recording);
  for (const auto& [from, to, part] :
       {std::tuple{"\"train_step\": 12", "\"train_step\": 0", "0 given for train_step"},
        {"\"layer\": 1, \"layers\"", "\"layer\": 2, \"layers\"",
         "2 given for layers; an integer from 3"},
        {"\"layers\": 2", "\"layers\": \"two\"", "\"two\" given for layers"},
        {"\"tid\": 4, \"ts\"", "\"tid\": 3, \"ts\"", "3 given for tid; 4 accepted"},
        {"\"part\": \"gradient reduction\"", "\"part\": \"tail\"",
         "\"tail\" given for part; one of \"embedding\", "},
        {"\"layer\": 1", "\"layer\": -1", "-1 given for layer"},
        {"\"bytes\": 64", "\"bytes\": 6.4", "6.4 given for bytes"},
        {"\"part\": ", "\"_part\": ", "part missing"},
        {"\"tid\": 71, \"ts\"", "\"tid\": 8, \"ts\"", "8 given for tid; 71 accepted"},
        {"\"part\": \"wait K\"", "\"part\": \"tail\"",
         "\"tail\" given for part; one of \"fetch\", "},
        {"\"sm\": 15", "\"sm\": 16", "16 given for sm"},
        {"\"role\": 3", "\"role\": 4", "4 given for role"},
        {"\"key_tile\": 4", "\"key_tile\": -2", "-2 given for key_tile"},
        {"\"ticks\": ", "\"_ticks\": ", "ticks missing"}})
    expect_complaint(with(text, from, to), part);
}

TEST(HostileTrace, NumbersOfATile) {
  Recording recording = sample_recording(2, false);
  recording.tile = sample_tile();
  recording.tile->out.clear();  // as of a run that failed
  const std::string text = trace_text_of(recording);
  EXPECT_EQ(parse_chrome_trace(text), recording);
  const std::string sizes = "lists of other sizes than those of one tile";
  for (const auto& [from, to, part] :
       {std::tuple{"\"kv_owner\": 0, \"softmax_scale\"", "\"kv_owner\": 2, \"softmax_scale\"",
                   std::string("2 given for kv_owner")},
        {"\"softmax_scale\": 0.125", "\"softmax_scale\": []", "given for softmax_scale"},
        {"\"queries\": [7, 999]", "\"queries\": 7", "no list given for queries"},
        {"\"queries\": [7, 999]", "\"queries\": [7, -1]", "-1 given for queries"},
        {"\"queries\": [7, 999]", "\"queries\": [7, 1000]", sizes},
        {"\"queries\": [7, 999]", "\"queries\": []", sizes},
        {"\"keys\": [0, 1, 2]", "\"keys\": [0, 1, 2, 3, 4, 5, 6]", sizes},
        {"\"q\": [0.1, ", "\"q\": [", sizes},
        {"\"k\": [", "\"k\": [7, ", sizes},
        {"\"v\": [", "\"_v\": [", sizes},
        {"\"scores\": [1, ", "\"scores\": [", sizes},
        {"\"scores\": [1, ", "\"scores\": [null, ", "given for scores"},
        {"\"scores\": [1, ", "\"scores\": [1e39, ", "given for scores"},
        {"\"row_max_before\": [\"-inf\", ", "\"row_max_before\": [", sizes},
        {"\"row_sum_before\": [0, ", "\"row_sum_before\": [", sizes},
        {"\"out_accum_before\": [0, ", "\"out_accum_before\": [", sizes},
        {"\"row_max\": [1, ", "\"row_max\": [", sizes},
        {"\"row_sum\": [1.5, ", "\"row_sum\": [", sizes},
        {"\"out_accum\": [2, ", "\"out_accum\": [", sizes},
        {"\"out_accum\": [2, ", "\"out\": [2], \"out_accum\": [2, ", sizes},
        {"\"rank\": 0, \"step\"", "\"_rank\": 0, \"step\"", "rank missing"}})
    expect_complaint(with(text, from, to), part);
}

// Members that a recording may lack.
TEST(HostileTrace, NumbersOfBuffers) {
  EXPECT_EQ(parse_chrome_trace(sample()).info.kv_buffers, 0);
  const auto with_buffers = [](const std::string& value) {
    return with(sample(), "\"dtype\": ", "\"kv_buffers\": " + value + ", \"dtype\": ");
  };
  EXPECT_EQ(parse_chrome_trace(with_buffers("3")).info.kv_buffers, 3);
  for (const char* bad : {"0", "2147483648", "-1", "\"2\"", "2.5", "[2]", "null", "true"})
    expect_complaint(with_buffers(bad), "given for kv_buffers; an integer from ");
}

TEST(HostileTrace, Machines) {
  Recording recording = sample_recording(3, true);
  recording.info.machine =
      RunMachine{"H100", "NVLink4", "InfiniBand", 3, 2, 1'000'000, 900'000, 16, 8};
  recording.info.command = "ringscope simulate --gpu \"H100\"";
  std::ostringstream out;
  write_chrome_trace(out, recording);
  EXPECT_EQ(parse_chrome_trace(out.str()).info, recording.info);
  for (const auto& [from, to, part] :
       {std::tuple{"\"device\": \"H100\"", "\"device\": 7", "given for device"},
        {"\"nodes\": 3", "\"nodes\": 4", "4 given for nodes"},
        {"\"cores\": 2", "\"cores\": 0", "0 given for cores"},
        {"\"forward_flops\": 1000000", "\"forward_flops\": 0.5", "given for forward_flops"},
        {"\"tile_rows\": 16", "\"tile_rows\": 9999999", "given for tile_rows"},
        {"\"nodes\": 3", "\"_nodes\": 3", "nodes missing"}})
    expect_complaint(with(out.str(), from, to), part);
}

TEST(HostileTrace, Shapes) {
  expect_complaint(with(sample(), "\"num_heads_kv\": 2", "\"num_heads_kv\": 3"),
                   "a divisor of heads");
  expect_complaint_at("batch", "0", "0 given for batch");
  expect_complaint(with(sample(), "\"batch\": 2", "\"batch\": 9223372036854775807"),
                   "fit in 64 bits");
  expect_complaint(with(sample(), "\"seqlen\": 1000", "\"seqlen\": 4294967296"), "seqlen");
}

// A short file must not make the reader allocate for a million ranks.
TEST(HostileTrace, WorldSizeInProportion) {
  for (const char* bad : {"0", "-1", "1000", "1000000", "1000000000", "2147483647", "4294967298"})
    expect_complaint_at("world_size", bad,
                        std::string(bad) + " given for world_size; an integer from 1 to ");
  expect_complaint(with(sample(), "\"world_size\": 2", "\"world_size\": 1"), "a list for 2 ranks");
}

TEST(HostileTrace, ListsAreForEveryRank) {
  const std::string errors = "\"clock_error_ns\": [25, 26]", dropped = "\"dropped_events\": [0, 3]";
  expect_complaint(with(sample(), errors, "\"clock_error_ns\": [25]"), "a list for 1 ranks");
  expect_complaint(with(sample(), errors, "\"clock_error_ns\": [25, -26]"),
                   "-26 given for clock_error_ns; an integer from 0 to");
  expect_complaint(with(sample(), dropped, "\"dropped_events\": [0, [3]]"),
                   "an array given for dropped_events");
  expect_complaint(with(sample(), dropped, "\"dropped_events\": 0"), "no list given");
  expect_complaint(with(sample(), "\"clock_offset_ns\": [", "\"clock_offset_ns\": [\"1\", "),
                   "\"1\" given");
}

TEST(HostileTrace, TwiceWhatMayBeOnce) {
  expect_complaint(with(sample(), "\"displayTimeUnit\"", "\"ring\": {}, \"displayTimeUnit\""),
                   "a \"ring\" object behind another one");
  expect_complaint(R"({"traceEvents": [{}], "ring": {}})", "behind another one or the events");
  expect_complaint(sample().substr(0, sample().rfind('}')) + ", \"traceEvents\": []}",
                   "a second \"traceEvents\" array");
}

TEST(HostileTrace, Failures) {
  const auto failing = [](const std::string& failure) {
    return with(sample(), "\"clock_offset_ns\"",
                "\"failure\": " + failure + ", \"clock_offset_ns\"");
  };
  EXPECT_EQ(complaint(failing(R"({"step": 1, "other": [1], "message": "x", "rank": 0})")), "");
  for (const char* no_object : {"1", "\"x\"", "null", "[{\"message\": \"x\"}]", "true"})
    expect_complaint(failing(no_object), "given for failure; an object accepted");
  for (const auto& [failure, part] : {std::pair{"{}", "message missing"},
                                      {R"({"message": 3})", "a string accepted"},
                                      {R"({"message": {"message": "x"}})", "a string accepted"},
                                      {R"({"message": "x", "rank": 2})", "2 given for rank"},
                                      {R"({"message": "x", "rank": -1})", "-1 given for rank"},
                                      {R"({"message": "x", "step": "1"})", "\"1\" given for step"},
                                      {R"({"message": "x", "step": 1e9})", "1e9 given for step"},
                                      {R"({"message": "x", "rank": [0]})", "given for rank"}})
    expect_complaint(failing(failure), part);
}

// What other programs add is passed over, wherever it stands and whatever it holds.
TEST(HostileTrace, TheUnknownIsPassedOver) {
  const std::string others =
      "{\"ph\": \"X\", \"cat\": \"cpu_op\", \"pid\": \"Spans\", \"tid\": [1], \"ts\": 1e300, "
      "\"args\": 3},\n"
      "{\"ph\": \"C\", \"ts\": -1, \"args\": {\"step\": {\"step\": []}, \"pid\": NaN}},\n"
      "{\"ph\": 5, \"cat\": \"compute\"}, {\"cat\": \"compute\"}, {}, [], null, 1, \"compute\", "
      "[{\"ph\": \"X\"}],\n"
      "{\"ph\": \"i\", \"cat\": \"compute\"}, {\"ph\": \"X\", \"cat\": \"softmax\"},\n";
  for (const std::string& text :
       {with(sample(), "{\"ph\"", others + "{\"ph\""),
        with(sample(), "\"ring\": {", "\"a\": {\"ring\": 1}, \"ring\": {\"a\": [{}], "),
        with(sample(), "\"args\": {\"pass\"",
             "\"other\": {\"ts\": 7}, \"args\": {\"x\": {\"step\": 9}, \"pass\"")})
    EXPECT_EQ(parse_chrome_trace(text), sample_recording(2, true));
}

}  // namespace
}  // namespace ringscope
