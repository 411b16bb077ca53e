// Tests how a lesson's source is parsed, its prose read, and a reader's number judged.
#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/base/markdown.h"
#include "lessons/book/book.h"
#include "lessons/book/glossary.h"
#include "lessons/book/lesson.h"
#include "lessons/book/source.h"

namespace ringscope::lessons {
namespace {

constexpr const char* kLesson = R"(// # Title
// > One
// > sentence.
//
// Opening.
#include <vector>
namespace ringscope::lessons {
// On a helper.
int helper() {
  // its own comment
  return 1;
}
void lesson_02(Page& page) {
  const int a = helper();
  page.value("a;", a,
             "unit");  // 15 to 16
  //-
  const int hidden = 2;
  //+
  const int b = 3;

  // Prose,
  // two lines.
  for (;;) {
    // deep
  }
  const Guess guess = page.predict("?", "");
}

// after
}  // namespace ringscope::lessons
)";

TEST(Source, ComesApartIntoProseCodeAndCalls) {
  const LessonSource source = parse_lesson(kLesson, 2);
  EXPECT_EQ(source.title, "Title");
  EXPECT_EQ(source.summary, "One sentence.");
  ASSERT_EQ(source.pieces.size(), 6u);
  EXPECT_EQ(source.pieces[0].text, "Opening.\n\nOn a helper.\n");
  EXPECT_EQ(source.pieces[1].text, "int helper() {\n  // its own comment\n  return 1;\n}\n");
  EXPECT_EQ(source.pieces[2].text, "const int a = helper();\n");
  EXPECT_EQ(source.pieces[3].text, "const int b = 3;\n");
  EXPECT_EQ(source.pieces[4].text, "Prose,\ntwo lines.\n");
  EXPECT_EQ(source.pieces[5].text, "for (;;) {\n  // deep\n}\n");
  ASSERT_EQ(source.calls.size(), 2u);
  EXPECT_EQ(source.calls[0].first, 15);
  EXPECT_EQ(source.calls[0].last, 16);
  EXPECT_EQ(source.call_at(16), &source.calls[0]);
  EXPECT_EQ(source.call_at(17), nullptr);
}

TEST(Source, SaysWhatIsMissing) {
  const std::string text = kLesson;
  EXPECT_THROW(parse_lesson(text, 3), std::logic_error);
  EXPECT_THROW(parse_lesson(text.substr(text.find("// Opening")), 2), std::logic_error);
}

TEST(Regions, AreWhatStandsBetweenTheirMarks) {
  const std::string text =
      "a\n  // [one\n  b\n  // [two\n    c\n  // two]\n\n  d\n  // one]\n// [empty\n// empty]\n";
  const Region one = region_in(text, "file", "one");
  EXPECT_EQ(one.text, "b\n  c\n\nd\n");
  EXPECT_EQ(one.first_line, 3);
  EXPECT_EQ(region_in(text, "file", "two").text, "c\n");
  EXPECT_THROW(region_in(text, "file", "empty"), std::logic_error);
  EXPECT_THROW(region_in(text, "file", "none"), std::logic_error);
  EXPECT_THROW(region_in(text + text, "file", "one"), std::logic_error);
}

TEST(Prose, HasBlocksAndSpans) {
  const auto blocks =
      blocks_of("# Head\nOne\ntwo\n\n    a * b\n\n    c\n\n- item\n  more\n1. first\n");
  ASSERT_EQ(blocks.size(), 5u);
  EXPECT_EQ(blocks[1].text, "One two");
  EXPECT_EQ(blocks[2].text, "a * b\n\nc\n");
  EXPECT_EQ(blocks[3].text, "item more");
  EXPECT_EQ(blocks[4].marker, "1.");
  std::string spans;
  for (const TextSpan& span :
       spans_of("a * b, *new term* and `*code*`, **strong**, 2*3*4 [x](y) *open"))
    spans += "<" + span.text + ">";
  EXPECT_EQ(spans, "<a * b, ><new term>< and ><*code*><, ><strong><, 2*3*4 ><x>< *open>");
}

TEST(Prediction, IsJudged) {
  EXPECT_EQ(verdict_on(16, 16, 0), "You predicted exactly that.");
  EXPECT_EQ(verdict_on(15.9, 16, 0.05), "You predicted 15.9: right, within 0.1.");
  EXPECT_EQ(verdict_on(8, 16, 0.05), "You predicted 8: 8 too low, by a factor of 2.");
  EXPECT_EQ(verdict_on(20, 16, 0.05), "You predicted 20: 4 too high, 25 % off.");
  EXPECT_EQ(verdict_on(-2, 16, 0.05), "You predicted -2: 18 too low.");
  EXPECT_EQ(verdict_on(1, 0, 0.05), "You predicted 1: 1 too high.");
}

TEST(Prediction, OfLettersIsAsManyAsAreWanted) {
  EXPECT_EQ(letters_in("b", 3, 1), "b");
  EXPECT_EQ(letters_in(" c, a, b\r", 3, 3), "cab");
  for (const char* const text : {"", "d", "ab", "abb", "B", "1"})
    for (const std::size_t wanted : {1, 3}) EXPECT_EQ(letters_in(text, 3, wanted), "");
  EXPECT_EQ(letters_in("b", 3, 3), "");
  EXPECT_EQ(letters_in("cab", 3, 1), "");
  EXPECT_EQ(spelled_out("ba", {"first", "second"}), "second; first");
}

TEST(Prediction, OfADrawingHasItsRows) {
  EXPECT_EQ(cells_in("#x / ..\r", "../##"), "##/..");
  for (const char* const text : {"", "##", "##/.", "#/#..", "##/...", "##/.?", "##..#"})
    EXPECT_EQ(cells_in(text, "../##"), "") << text;
  EXPECT_EQ(drawn_rows("#./.#", " "), " #.\n .#\n");
}

TEST(Prediction, NumbersAreReadAsPeopleWriteThem) {
  EXPECT_EQ(number_in(" 1,024 "), 1024);
  EXPECT_EQ(number_in("1e6"), 1e6);
  EXPECT_EQ(number_in("64k"), 64000);
  EXPECT_EQ(number_in("2 Gi"), 0x1p31);
  EXPECT_EQ(number_in("50 %"), 50);
  EXPECT_EQ(number_in("-0.5"), -0.5);
  for (const char* text : {"", "many", "1 banana", "nan", "inf", "1e999"})
    EXPECT_EQ(number_in(text), std::nullopt) << text;
}

TEST(Cells, KeepWhatIsTheSameEverywhere) {
  EXPECT_EQ(Cell(-1234567).shown, "-1,234,567");
  EXPECT_EQ(Cell(999).shown, "999");
  EXPECT_EQ(Cell(0.123456).shown, "0.1235");
  EXPECT_EQ(bytes(1536).shown, "1.5 KiB");
  EXPECT_EQ(seconds(0.0123).shown, "12.3 ms");
  EXPECT_EQ(seconds(0.0123).kept, "\u2026");
  EXPECT_EQ(rounding(3e-8, 1e-6).kept, "at most 1e-06");
  EXPECT_EQ(rounding(3e-5, 1e-6).kept, "3.0e-05");
  EXPECT_EQ(rounding(std::nan(""), 1e-6).kept, "nan");
  Table table({"one", "two"});
  EXPECT_THROW(table.row(1), std::logic_error);
}

TEST(GlossaryText, IsReadStrictly) {
  const auto entries =
      parse_glossary("# head\n\nB | 2 | f.h | g\n  text\n  more\n\na | 1 | f.h | h\n  x\n");
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_EQ(entries[0].term, "a");
  EXPECT_EQ(entries[1].text, "text\nmore");
  EXPECT_EQ(entries[1].lesson, 2);
  EXPECT_THROW(parse_glossary("a | x | f.h | g\n"), std::logic_error);
  EXPECT_THROW(parse_glossary("a | 1 | f.h\n"), std::logic_error);
  EXPECT_THROW(parse_glossary("  text\n"), std::logic_error);
}

}  // namespace
}  // namespace ringscope::lessons
