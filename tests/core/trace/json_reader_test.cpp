// The scanner and RapidJSON come to the same verdict on the same text.
#include "core/trace/json_reader.h"

#include <gtest/gtest.h>
#include <rapidjson/memorystream.h>
#include <rapidjson/reader.h>

#include <algorithm>
#include <random>

#include "tests/core/trace/trace_text.h"
#include "tests/temporary_folder.h"

namespace ringscope {
namespace {

// All tokens of a text, one a line; "" when it is refused. `beyond_json`: it was taken, but is no
// JSON.
std::string scanned(std::string_view text, std::size_t chunk, bool& beyond_json) {
  MemorySource source(text);
  std::string tokens;
  beyond_json = false;
  try {
    JsonReader reader(source, chunk);
    for (JsonToken token = reader.next(); token != JsonToken::end; token = reader.next()) {
      const bool is_literal = token == JsonToken::literal;
      beyond_json = beyond_json || (is_literal && reader.text() != "true" &&
                                    reader.text() != "false" && reader.text() != "null");
      tokens += std::to_string(static_cast<int>(token));
      if (is_literal || token == JsonToken::key || token == JsonToken::string ||
          token == JsonToken::number)
        tokens += reader.text();
      tokens += '\n';
    }
    beyond_json = beyond_json || reader.cut_short();
  } catch (const InputError&) {
    return "";
  }
  return tokens;
}

struct Tokens : rapidjson::BaseReaderHandler<rapidjson::UTF8<>, Tokens> {
  std::string text;
  int depth = 0, deepest = 0;
  bool add(JsonToken token, std::string_view value = {}) {
    text += std::to_string(static_cast<int>(token));
    text += value;
    text += '\n';
    return true;
  }
  bool Null() { return add(JsonToken::literal, "null"); }
  bool Bool(bool value) { return add(JsonToken::literal, value ? "true" : "false"); }
  bool RawNumber(const char* s, unsigned n, bool) { return add(JsonToken::number, {s, n}); }
  bool String(const char* s, unsigned n, bool) { return add(JsonToken::string, {s, n}); }
  bool Key(const char* s, unsigned n, bool) { return add(JsonToken::key, {s, n}); }
  bool StartObject() { return open(JsonToken::begin_object); }
  bool StartArray() { return open(JsonToken::begin_array); }
  bool EndObject(unsigned) { return close(JsonToken::end_object); }
  bool EndArray(unsigned) { return close(JsonToken::end_array); }
  bool open(JsonToken token) {
    deepest = std::max(deepest, ++depth);
    return add(token);
  }
  bool close(JsonToken token) {
    --depth;
    return add(token);
  }
};

std::string rapid(std::string_view text) {
  constexpr unsigned kFlags = rapidjson::kParseIterativeFlag |
                              rapidjson::kParseValidateEncodingFlag |
                              rapidjson::kParseNumbersAsStringsFlag;
  rapidjson::MemoryStream stream(text.data(), text.size());
  rapidjson::Reader reader;
  Tokens tokens;
  const bool good = !reader.Parse<kFlags>(stream, tokens).IsError() &&
                    stream.Tell() == text.size() && tokens.deepest <= JsonReader::kMaxDepth;
  return good ? tokens.text : "";
}

void expect_same_verdict(const std::string& text) {
  const std::string theirs = rapid(text);
  bool beyond_json = false;
  const std::string ours = scanned(text, 1 << 16, beyond_json);
  if (!beyond_json) {
    ASSERT_EQ(ours, theirs) << text;
  }
  bool again = false;
  for (const std::size_t chunk : {1, 3}) ASSERT_EQ(scanned(text, chunk, again), ours) << text;
}

TEST(JsonScanner, AgreesOnSmallTexts) {
  // Separated by bars.
  const std::string texts =
      "| |0|-0|-|1.|.1|1e|1e+|1E-07|01|-01|00|1.2.3|1-1|tru|true|truefalse|nulll|\"|\"\\\"|"
      "\"\\u12\"|\"\\u12G4\"|\"\\ud83d\"|\"\\ud83d\\u0041\"|\"\\ud83d\\ude00\"|\"\\u0000\"|"
      "\"\t\"|\"\x7f\"|\"\x80\"|\"\xc3\xa4\"|\"\xc0\x80\"|\"\xe0\x80\x80\"|"
      "\"\xed\xa0\x80\"|\"\xf4\x90\x80\x80\"|\"\xf0\x9f\x98\x80\"|\"\xf0\x9f\x98\"|[|]|[]|"
      "[ ]|[1,]|[,]|[1 2]|{}|{\"a\"}|{\"a\":}|{\"a\":1,}|{,}|{\"a\" : 1 , \"b\":[ {} ,2]}|"
      "[}|{]|[]]|{}{}|[] []|//|[/**/]|'a'|{a:1}|\xef\xbb\xbf[]|[1]\n|[-]|[+1]|[1a]|[1e5x]|"
      "[truex]|";
  for_each_part(texts, '|', [](std::string_view text) { expect_same_verdict(std::string(text)); });
}

// Words of JSON put together at random, and a recording damaged at random. (Numbers beyond a
// double's range, which RapidJSON alone refuses, are too long to come about.)
TEST(JsonScanner, AgreesOnRandomTexts) {
  const unsigned seed = 20240607;
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  const std::string words[] = {"{",  "}",    "[",      "]",    ",", ":",  "\"a\"",        "\"\\n\"",
                               "1",  "-2.5", "true",   "null", " ", "\n", "\"\xc3\xa4\"", "0",
                               "[]", "{}",   "\"k\":", "1,"};
  for (int round = 0; round < 20000; ++round) {
    std::string text;
    for (std::size_t i = random() % 9 + 1; i > 0; --i) text += words[random() % std::size(words)];
    expect_same_verdict(text);
  }
  const std::string whole = trace_text_of(whole_recording(1, false));
  expect_same_verdict(whole);
  for (int round = 0; round < 300; ++round) {
    std::string text = whole;
    for (std::size_t i = random() % 3 + 1; i > 0; --i)
      text[random() % text.size()] = "\"\\{}[]:,0-. \n\x01\x80\xc3ut"[random() % 18];
    expect_same_verdict(text);
  }
}

TEST(JsonScanner, NumbersThatJsonDoesNotKnow) {
  bool beyond_json = false;
  for (const char* word : {"NaN", "nan", "-nan", "inf", "-inf", "Inf", "Infinity", "-Infinity"}) {
    EXPECT_EQ(scanned(word, 8, beyond_json), std::string("7") + word + "\n");
    EXPECT_TRUE(beyond_json);
  }
  for (const char* word : {"-true", "nann", "+inf", "INF", "-", "infinity"})
    EXPECT_EQ(scanned(word, 8, beyond_json), "") << word;
}

TEST(JsonScanner, VeryLongTokens) {
  const std::string text = "[\"" + std::string(1 << 20, 'x') + "\"]";
  bool beyond_json = false;
  EXPECT_EQ(scanned(text, 16, beyond_json).size(), (1u << 20) + 6);
}

// A character that its string does not hold whole is refused, and nothing behind the text is read:
// the chunk ends with the text, so AddressSanitizer would see it.
TEST(JsonReader, RefusesACharacterThatIsCutOffAtTheEnd) {
  for (const char* text : {"\"\xf0\"", "\"\xf0\x9f\"", "\"\xe2\"", "\"a\xc3\""}) {
    bool beyond_json = false;
    EXPECT_EQ(scanned(text, std::string_view(text).size(), beyond_json), "");
  }
}

// Two members of gzip's, together {"traceEvents": [1, 2, 3]}.
constexpr char kPacked[] =
    "\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\xff\xab\x56\x2a\x29\x4a\x4c\x4e\x75"
    "\x2d\x4b\xcd\x2b\x29\x56\xb2\x52\x88\x06\x00\x8d\xab\xd6\x7e\x11\x00\x00"
    "\x00\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\xff\x33\xd4\x51\x30\xd2\x51\x30"
    "\x8e\xad\x05\x00\x76\x30\x1a\x54\x09\x00\x00\x00";
constexpr std::size_t kPackedBytes = sizeof kPacked - 1;

// The text of a file with these bytes, read in pieces of `size`.
std::string unpacked(std::string_view bytes, std::size_t size) {
  const TemporaryFolder folder;
  folder.write("text", std::string(bytes));
  const InputFile file(folder.path("text"), "text");
  FileSource source(file);
  std::string text;
  std::vector<char> piece(size);
  try {
    while (const std::size_t got = source.read(piece.data(), size)) text.append(piece.data(), got);
  } catch (const InputError& error) {
    text.append("|").append(error.what());
  }
  return text;
}

class PackedText : public testing::Test {
 protected:
  void SetUp() override {
    try {
      unpacked(packed, 9);
    } catch (const InputError& error) {
      GTEST_SKIP() << error.what();
    }
  }
  const std::string packed{kPacked, kPackedBytes};
};

TEST_F(PackedText, IsUnpackedAsItIsRead) {
  for (const std::size_t size : {1, 5, 4096})
    EXPECT_EQ(unpacked(packed, size), "{\"traceEvents\": [1, 2, 3]}");
  // Zeros may fill up a file behind its last member.
  EXPECT_EQ(unpacked(packed + std::string(100'000, '\0'), 4096), "{\"traceEvents\": [1, 2, 3]}");
  EXPECT_NE(unpacked(packed + std::string(9, '\0') + "x", 4096).find("|gzip's data is"),
            std::string::npos);
  EXPECT_EQ(unpacked("plain", 2), "plain");
}

// What is whole comes before the complaint, and nothing is read beyond it.
TEST_F(PackedText, ThatIsCutOffOrDamagedIsRefusedBehindWhatIsWhole) {
  for (std::size_t size = 3; size < packed.size(); ++size) {
    const std::string text = unpacked(packed.substr(0, size), 4096);
    const bool is_first_member = size == packed.find("\x1f\x8b", 2);
    const std::string_view whole = std::string_view("{\"traceEvents\": [1, 2, 3]}");
    const std::size_t end = std::min(text.find('|'), text.size());
    EXPECT_EQ(text.substr(0, end), whole.substr(0, end)) << size;
    EXPECT_EQ(text.find("cut off") == std::string::npos, is_first_member) << size << ": " << text;
  }
  std::string damaged = packed;
  damaged[14] ^= 0x55;
  EXPECT_NE(unpacked(damaged, 4096).find("|gzip's data is damaged near byte"), std::string::npos);
}

}  // namespace
}  // namespace ringscope
