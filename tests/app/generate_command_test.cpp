// `ringscope generate` as people call it: what is printed is the text that the library makes, in a
// form that no terminal minds; the figures are those of the formulas; what is wrong is said once.
#include <gtest/gtest.h>
#include <rapidjson/document.h>

#include "core/training/generate.h"
#include "tests/app/program.h"
#include "tests/core/training/checkpoint_case.h"

namespace ringscope {
namespace {

std::string from_hex(const std::string& hex) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2)
    bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return bytes;
}

class GenerateCommandTest : public ProgramTest {
 protected:
  // Says any bytes at all, most of which are no text.
  Checkpoint write_checkpoint(const std::string& name = "c", Index vocab = 256,
                              const std::string& mask = "causal") const {
    const Checkpoint checkpoint = small_checkpoint(vocab, mask);
    save_checkpoint(path(name), checkpoint);
    return checkpoint;
  }
};

TEST_F(GenerateCommandTest, PrintsThePromptAndWhatFollows) {
  const Checkpoint checkpoint = write_checkpoint();
  const Strings command{"generate", "--checkpoint", "c", "--prompt", "a ring", "--bytes", "40"};
  const rapidjson::Document json = run_for_json(command);
  const std::string text = json["text"].GetString();
  EXPECT_STREQ(json["prompt"].GetString(), "a ring");
  EXPECT_STREQ(json["prompt_hex"].GetString(), "612072696e67");
  EXPECT_EQ(
      from_hex(json["text_hex"].GetString()),
      generate_on_threads(checkpoint, {PartitionKind::zigzag, 4}, {"a ring", 40, {0.8, 0}}).text);

  const std::string printed = run_well(command);
  EXPECT_EQ(printed.substr(0, 6), "a ring");
  EXPECT_EQ(printed.substr(6, text.size()), text);
  EXPECT_TRUE(printed.size() == 6 + text.size() + 1 || text.ends_with('\n')) << printed;
  EXPECT_EQ(printed.back(), '\n');

  EXPECT_EQ(run_well(command + "--world-size 3 --partition fold --backend cpu"), printed);
  write_text("p.txt", "a ring");
  EXPECT_EQ(run_well("generate --checkpoint c --prompt-file p.txt --bytes 40"), printed);
  EXPECT_NE(run_well(command + "--seed 1"), printed);
  EXPECT_NE(run_well(command + "--temperature 0"), printed);
}

// Without a prompt it begins a line, of which nothing is printed.
TEST_F(GenerateCommandTest, NeedsNoPrompt) {
  const Checkpoint checkpoint = write_checkpoint();
  const Strings command = "generate --checkpoint c --bytes 1 --temperature 0";
  const rapidjson::Document json = run_for_json(command);
  EXPECT_STREQ(json["prompt_hex"].GetString(), "0a");
  EXPECT_TRUE(json["decode"]["bytes_per_s"].IsNull());  // the prompt's logits are enough
  const std::string text = json["text"].GetString();
  EXPECT_EQ(run_well(command), text.ends_with('\n') ? text : text + "\n");
}

TEST_F(GenerateCommandTest, ShowsWhatIsNoTextAsDigits) {
  write_checkpoint();
  const std::pair<std::string, std::string> all[] = {
      {"tab\tand line\n", "tab\tand line\n"},
      {"\x1b[2J\a\r\x7f", "\\x1b[2J\\x07\\x0d\\x7f"},
      {"\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80", "\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80"},
      {"\xff\xfe", "\\xff\\xfe"},
      {"\xc3(", "\\xc3("},                                    // half a character
      {"\xe2\x82\xc3\xa9", "\\xe2\\x82\xc3\xa9"},             // and one that is whole behind it
      {"\xc0\xaf\xe0\x80\xaf", "\\xc0\\xaf\\xe0\\x80\\xaf"},  // '/', longer than it has to be
      {"\xed\xa0\x80\xf4\x90\x80\x80", "\\xed\\xa0\\x80\\xf4\\x90\\x80\\x80"},
      {"\xc2\x9b\xe2\x80\xae", "\\xc2\\x9b\\xe2\\x80\\xae"},  // control characters of several bytes
  };
  std::string prompt, expected;
  for (const auto& [bytes, shown] : all) prompt += bytes + "|", expected += shown + "|";
  write_text("p", prompt);
  const Strings command = "generate --checkpoint c --prompt-file p --bytes 300 --temperature 1";
  const std::string printed = run_well(command);
  EXPECT_EQ(printed.substr(0, expected.size()), expected);
  int digits = 0;
  for (const char c : printed.substr(expected.size())) {
    EXPECT_TRUE(static_cast<unsigned char>(c) >= 0x20 || c == '\n' || c == '\t');
    digits += c == '\\';
  }
  EXPECT_GT(digits, 50);  // of 300 bytes drawn at random
}

TEST_F(GenerateCommandTest, SaysThatNobodyCanReadIt) {
  write_checkpoint();
  const ProgramResult result = run("generate --checkpoint c --bytes 5", "/dev/full");
  expect_ended(result, 3, {"stdout: writing failed"});
}

}  // namespace
}  // namespace ringscope
