// What commands answer to good input, as answers.txt says.
#include <gtest/gtest.h>
#include <rapidjson/document.h>
#include <rapidjson/pointer.h>

#include <cmath>

#include "tests/app/call_table.h"

namespace ringscope {
namespace {

// Expect "/POINTER is KIND", or "/POINTER OP VALUE" with an operator among = (also of words and
// of lists as 1,2,3), ~ (to nine
// digits), > and # (elements of a list).
void expect_in(const rapidjson::Document& json, const std::string& what) {
  SCOPED_TRACE(what);
  std::istringstream words(what);
  std::string pointer, op, value;
  words >> pointer >> op >> value;
  const rapidjson::Value* const found = rapidjson::Pointer(pointer.c_str()).Get(json);
  ASSERT_EQ(found == nullptr, value == "absent");
  if (found == nullptr) return;
  if (op == "is") {
    EXPECT_TRUE(value == "null"   ? found->IsNull()
                : value == "true" ? found->IsTrue()
                                  : value == "false" && found->IsFalse());
  } else if (op == "#") {
    ASSERT_TRUE(found->IsArray());
    EXPECT_EQ(std::to_string(found->Size()), value);
  } else if (found->IsArray()) {
    std::string list;
    for (const auto& each : found->GetArray())
      list += (list.empty() ? "" : ",") + std::to_string(each.GetInt64());
    EXPECT_EQ(op + list, "=" + value);
  } else if (found->IsString()) {
    EXPECT_EQ(op + found->GetString(), "=" + value);
  } else {
    ASSERT_TRUE(found->IsNumber());
    const double number = found->GetDouble(), expected = std::stod(value);
    ASSERT_TRUE(op == "=" || op == "~" || op == ">");
    EXPECT_TRUE(op == "="   ? number == expected
                : op == ">" ? number > expected
                            : std::abs(number - expected) <= 1e-9 * std::abs(expected))
        << number;
  }
}

class AnswersTest : public ProgramTest {
 protected:
  // Expect parts of the text, or with ! what is not in it; or what begins with / of the JSON object.
  void expect_answer(const Strings& call, const Strings& parts) const {
    std::string command = "ringscope";
    for (const std::string& word : call) command += " " + word;
    SCOPED_TRACE(command);
    const bool in_json = parts.front().starts_with('/');
    const std::string text = run_well(in_json ? call + "--json" : call);
    if (in_json) {
      const rapidjson::Document json = json_of(text);
      for (const std::string& part : parts) expect_in(json, part);
      return;
    }
    for (const std::string& part : parts) {
      const bool is_there = part[0] != '!';
      EXPECT_EQ(text.find(part.substr(is_there ? 0 : 1)) != text.npos, is_there)
          << "'" << part << "': " << text;
    }
  }
};

TEST_F(AnswersTest, AreThoseOfTheTable) {
  write_text("mine.txt",
             "gpu mine\ntflops_16bit 100\nmemory_gb 10\nlink wire\ngb_per_s 10\nlatency_us 5\n");
  write_text("t.txt", std::string(2000, 'x') + std::string(2000, 'y'));
  EXPECT_GT(
      for_each_call("tests/app/answers.txt",
                    [&](const Strings& call, const Strings& parts) { expect_answer(call, parts); }),
      70);
}

}  // namespace
}  // namespace ringscope
