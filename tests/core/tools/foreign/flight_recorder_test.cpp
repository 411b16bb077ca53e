#include "core/tools/foreign/flight_recorder.h"

#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "tests/core/base/thrown.h"

namespace ringscope {
namespace {

// Small pickles as a flight recorder's dump has them.
namespace pickles {

std::string little(std::uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i) & 0xff);
  return text;
}
std::string of(const std::string& text) { return 'X' + little(text.size(), 4) + text; }
std::string of(int number) { return 'J' + little(static_cast<std::uint32_t>(number), 4); }
std::string of(bool truth) { return truth ? "\x88" : "\x89"; }
std::string list(const std::vector<std::string>& items) {
  std::string text = "](";
  for (const std::string& item : items) text += item;
  return text + 'e';
}
std::string dict(const std::vector<std::pair<std::string, std::string>>& items) {
  std::string text = "}(";
  for (const auto& [key, value] : items) text += of(key) + value;
  return text + 'u';
}
std::string whole(const std::string& value) { return "\x80\x02" + value + '.'; }

// An entry of group `group`, which the rank knows by the number `group` + 5.
std::string entry(int group, const std::string& name, int sequence, const std::string& state,
                  bool is_p2p = false) {
  return dict({{"process_group", of(std::to_string(group)) + of(std::string("GROUP")) + '\x86'},
               {"pg_id", of(group + 5)},
               {is_p2p ? "p2p_seq_id" : "collective_seq_id", of(sequence)},
               {"profiling_name", of("nccl:" + name)},
               {"state", of(state)},
               {"is_p2p", of(is_p2p)}});
}
// The dump of one rank of a job with one group, 0, of `ranks`: "[0, 1]".
std::string dump(const std::string& ranks, int completed, const std::vector<std::string>& entries) {
  return whole(
      dict({{"pg_config", dict({{"0", dict({{"ranks", of(ranks)}})}})},
            {"pg_status", dict({{"5", dict({{"last_completed_collective", of(completed)}})}})},
            {"entries", list(entries)}}));
}

}  // namespace pickles

using namespace pickles;

std::vector<FlightDump> dumps_of(const std::vector<std::string>& pickles) {
  std::vector<FlightDump> dumps;
  for (std::size_t i = 0; i < pickles.size(); ++i)
    if (!pickles[i].empty()) dumps.push_back(parse_flight_dump(pickles[i], static_cast<int>(i)));
  return dumps;
}

// A ring's step as batch_isend_irecv records it on one of four ranks.
std::string ring_step(int rank, int step, const std::string& state) {
  const auto at = [](int r) { return std::to_string((r + 4) % 4); };
  return entry(0, "send " + at(rank) + "->" + at(rank + 1), step, "scheduled", true) +
         entry(0, "recv " + at(rank) + "<-" + at(rank - 1), step, "scheduled", true) +
         entry(0, "coalesced", step, state, true);
}

TEST(FlightRecorder, NamesTheRankThatOthersWaitFor) {
  const std::string four = "[0, 1, 2, 3]", three = "[0, 1, 2]", now = "scheduled";
  const auto at = [&](const std::string& ranks, int done, const std::string& op, int sequence) {
    return dump(ranks, done, {entry(0, op, sequence, "scheduled")});
  };
  const auto ring = [&](int rank, const std::string& last) {
    return dump(four, 0, {ring_step(rank, 1, "completed"), ring_step(rank, 2, last)});
  };
  const struct {
    const char* what;
    std::vector<std::string> pickles;
    std::vector<int> culprits;  // -1: not sure
    const char* evidence;
  } cases[] = {
      {"a rank never came",
       {at(three, 6, "_all_gather_base", 7), dump(three, 6, {}),
        at(three, 6, "_all_gather_base", 7)},
       {1},
       "never came to all_gather_base 7 of group 0, in which ranks 0 and 2 wait"},
      {"a rank hangs in what the others have completed",
       {at(three, 7, "all_reduce", 8), at(three, 7, "all_reduce", 8),
        at(three, 6, "all_reduce", 7)},
       {2},
       "hangs in all_reduce 7 of group 0, which ranks 0 and 1 have completed"},
      {"a rank calls something else",
       {at(three, 6, "all_reduce", 7), at(three, 6, "all_gather", 7),
        at(three, 6, "all_reduce", 7)},
       {1},
       "calls all_gather 7"},
      {"a rank left no dump",
       {at(three, 6, "all_reduce", 7), "", at(three, 6, "all_reduce", 7)},
       {1},
       "left no dump"},
      {"all came",
       {at("[0, 1]", 6, "all_reduce", 7), at("[0, 1]", 6, "all_reduce", 7)},
       {-1},
       "none has completed it"},
      {"nothing pending", {dump("[0, 1]", 7, {}), dump("[0, 1]", 7, {})}, {}, ""},
      {"a rank of a ring never came to the next step",
       {ring(0, now), ring(1, now), dump(four, 0, {ring_step(2, 1, "completed")}), ring(3, now)},
       {2},
       "In all, 2 ranks wait for it"},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.what);
    const Explanation why = explain_hang(dumps_of(c.pickles));
    std::vector<int> culprits;
    for (const Diagnosis& finding : why.findings) {
      EXPECT_EQ(finding.cause, Cause::fault);
      culprits.push_back(finding.rank);
      EXPECT_EQ(finding.confidence >= 0.6, finding.rank >= 0);
    }
    EXPECT_EQ(culprits, c.culprits);
    if (!culprits.empty()) expect_contains(why.findings[0].evidence, c.evidence);
    ASSERT_FALSE(why.notes.empty());
  }
  const auto twice = dumps_of({dump(three, 6, {})});
  EXPECT_THROW(explain_hang({twice[0], twice[0]}), InputError);
}

// Spells a dump in the ways of the protocols 2 and 4, kept values included.
TEST(FlightRecorder, ReadsWhatPicklesMayHold) {
  const std::string entries = of(std::string("entries"));
  const std::string one = entry(0, "all_reduce", 3, "completed");
  for (const std::string& text :
       {"\x80\x02" + dict({{"entries", list({one})}}) + '.',
        "\x80\x02}" + entries + ']' + one + "as.", "\x80\x02}(" + entries + '(' + one + "tu.",
        "\x80\x02}" + entries + ']' + one + "q\x07" + "0h\x07" + "as.",
        "\x80\x04\x95" + little(9, 8) + "}\x94\x8c\x07" + "entries\x94]\x94" + one + "as."}) {
    const FlightDump dump = parse_flight_dump(text, 4);
    EXPECT_EQ(dump.rank, 4);
    ASSERT_EQ(dump.ops.size(), 1u);
    const auto& op = dump.ops[0];
    EXPECT_EQ(std::tuple(op.name, op.group, op.sequence, op.completed),
              std::tuple("all_reduce", "0", 3, true));
  }
}

// PyTorch writes the same as JSON, too.
TEST(FlightRecorder, ReadsDumpsInJson) {
  const auto text = [](const std::string& entries) {
    return R"({"version": "2.10", "pg_config": {"0": {"name": "0", "ranks": "[0, 1, 2]"}},
               "pg_status": {"5": {"last_completed_collective": 6}}, "entries": [)" +
           entries + "]}";
  };
  const std::string waits = text(
      R"({"process_group": ["0", "default_pg"], "pg_id": 5, "collective_seq_id": 7, "duration_ms": null,
          "profiling_name": "nccl:all_reduce", "state": "started", "is_p2p": false})");
  EXPECT_TRUE(may_be_flight_dump(waits));
  EXPECT_FALSE(may_be_flight_dump(R"({"traceEvents": [], "pg_config": {}})"));
  EXPECT_FALSE(may_be_flight_dump("{}"));
  const Explanation why = explain_hang(dumps_of({waits, text(""), waits}));
  ASSERT_EQ(why.findings.size(), 1u);
  EXPECT_EQ(why.findings[0].rank, 1);
  expect_contains(why.findings[0].evidence, "never came to all_reduce 7 of group 0");
  for (const char* bad : {"{", "[1]", R"({"entries": 3})", R"({"entries": []} x)"})
    EXPECT_THROW(parse_flight_dump(bad, 0), InputError) << bad;
}

// Python's whole numbers beyond 32 bits: as many bytes as they need, the last of which has the sign.
TEST(FlightRecorder, ReadsWholeNumbersOfAnyLength) {
  const std::vector<std::pair<std::string, std::int64_t>> numbers{
      {little(0, 0), 0},
      {little(0x7f, 1), 127},
      {little(0x80, 1), -128},
      {little(0x00ff, 2), 255},
      {little(0xff00, 2), -256},
      {little(0x0080000000, 5), std::int64_t{1} << 31},
      {little(0xff7fffffff, 5), -(std::int64_t{1} << 31) - 1},
      {little(0x8000000000000000, 8), INT64_MIN}};
  for (const auto& [bytes, number] : numbers)
    for (const std::string& size :
         {"\x8a" + little(bytes.size(), 1), "\x8b" + little(bytes.size(), 4)}) {
      const std::string entry = dict({{"pg_id", of(5)}, {"collective_seq_id", size + bytes}});
      const FlightDump dump = parse_flight_dump(whole(dict({{"entries", list({entry})}})), 0);
      ASSERT_EQ(dump.ops.size(), 1u);
      EXPECT_EQ(dump.ops[0].sequence, number);
    }
}

TEST(FlightRecorder, RefusesWhatIsNoPlainPickle) {
  const struct {
    std::string bytes;
    const char* part;
  } cases[] = {
      {"", "byte 0: the pickle ends here"},
      {"\x80\x02", "byte 2"},
      {"\x80\x01.", "protocol"},
      {"\x80\x02"
       "cos\nsystem\n(X\x02\0\0\0ls"
       "tR.",
       "may run code"},
      {std::string("\x80\x02X\xff\xff\xff\xff", 7), "ends here"},
      {"\x80\x02.", "no value"},
      {"\x80\x02]u.", "no mark"},
      {"\x80\x02]Na}e.", "no mark"},
      {"\x80\x02N(Ne.", "takes members"},
      {"\x80\x02}(Nu.", "key without its value"},
      {"\x80\x02h\x01.", "not kept"},
      {"\x80\x02N.", "no list of entries"},
      {whole(dict({{"entries", of(3)}})), "no list of entries"},
  };
  for (const auto& c : cases) {
    expect_contains(input_error_of([&] { parse_flight_dump(c.bytes, 0); }), c.part);
  }
  EXPECT_THROW(read_flight_dump("/nowhere/dump_1"), InputError);
  EXPECT_THROW(read_flight_dump("/nowhere/dump"), InputError);
}

}  // namespace
}  // namespace ringscope
