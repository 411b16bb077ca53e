// Stories through a trace file: what is written reads back, what is damaged is refused with the byte.
#include <gtest/gtest.h>

#include "tests/core/trace/trace_text.h"

namespace ringscope {
namespace story_trace_test {

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

std::string complaint(const std::string& text) {
  return complaint_of([&] { parse_chrome_trace(text); });
}

void expect_complaint_at(const std::string& text, std::size_t at, const std::string& part) {
  const std::string found = complaint(text);
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

TEST(Story, UnknownFieldsArePassedOver) {
  const std::string text =
      with(told(), "{\"text\": \"All", R"({"x": 1, "y": {"text": 2}, "z": ["lane"], "text": "All)");
  EXPECT_EQ(parse_chrome_trace(text), told_recording());
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
  for (const char* bad : {"2", "-1", "1.5", "99999999999999999999", "\"0\"", "null", "[0]", "{}"}) {
    value("\"step\": 1, \"rank\"", std::string(bad) + ", \"rank\"", "accepted");
    value("\"rank\": 0, \"lane\"", std::string(bad) + ", \"lane\"", "accepted");
  }
  value("\"step\": 1, \"rank\"", "2, \"rank\"", "2 given for step; an integer from 0 to 1");
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
  expect_part(complaint(with(text, "{\"text\": \"x\"}", "{\"text\": \"x\"}, {\"text\": \"x\"}")),
              "a story of more than 200 paragraphs");
}

}  // namespace story_trace_test
}  // namespace ringscope
