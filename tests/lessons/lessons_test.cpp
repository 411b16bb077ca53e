// Tests every lesson that is built in: it runs, its claims hold, its page is the committed one, it
// is short enough, and its words are explained.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "core/base/markdown.h"
#include "lessons/book/lesson.h"
#include "lessons/book/page.h"
#include "lessons/book/zoo.h"
#include "tests/app/program.h"

#ifdef RINGSCOPE_HAS_VIEWER
#include "viz/window/fonts.h"
#include "viz/window/view.h"
#endif

namespace ringscope::lessons {
namespace {

const std::string kRoot = RINGSCOPE_SOURCE_DIR;
constexpr const char* kRemake =
    "; `cmake --build BUILD --target lesson_pages` writes the pages anew";
// The typeface that the committed pictures were drawn with.
[[maybe_unused]] constexpr const char* kFont = "Roboto 797e35f7f5d6";

std::string committed(const std::string& path) { return contents_of(kRoot + "/" + path); }

std::vector<std::string> terms_in(std::string_view markdown) {
  std::vector<std::string> terms;
  for (const TextBlock& block : blocks_of(markdown)) {
    if (block.kind == TextBlock::Kind::listing) continue;
    for (const TextSpan& span : spans_of(block.text))
      if (span.kind == TextSpan::Kind::term) terms.push_back(span.text);
  }
  return terms;
}

// Return whether a lesson writes a term in bold.
bool names(const Lesson& lesson, const Entry& entry) {
  std::string prose = lesson.elsewhere;
  for (const Piece& piece : lesson.source.pieces)
    if (piece.kind == Piece::Kind::prose) prose += "\n\n" + piece.text;
  for (const TextBlock& block : blocks_of(prose))
    for (const TextSpan& span : spans_of(block.text))
      if (span.kind == TextSpan::Kind::strong && find_entry(span.text) == &entry) return true;
  return false;
}

// Return the terms that a lesson introduces, without those of its section "Elsewhere".
std::vector<std::string> new_terms(const Lesson& lesson) {
  std::set<std::string> terms;
  for (const Piece& piece : lesson.source.pieces)
    if (piece.kind == Piece::Kind::prose)
      for (const std::string& term : terms_in(piece.text)) terms.insert(term);
  return {terms.begin(), terms.end()};
}

// What a picture shows, without coordinates and pixels, which machines round differently.
struct Shape {
  std::vector<std::string> texts;
  std::ptrdiff_t paths = 0;
};

Shape shape_of(const std::string& svg) {
  static const std::regex text(">([^<>]+)</t"), path("<path ");
  const auto found = [&svg](const std::regex& what) {
    return std::sregex_iterator(svg.begin(), svg.end(), what);
  };
  Shape shape;
  for (auto match = found(text); match != std::sregex_iterator(); ++match)
    shape.texts.push_back((*match)[1]);
  shape.paths = std::distance(found(path), std::sregex_iterator());
  return shape;
}

class EveryLesson : public testing::TestWithParam<int> {
 protected:
  const Lesson& lesson() const { return lesson_of_number(GetParam()); }
};

// One test, because a lesson runs once.
TEST_P(EveryLesson, HoldsAndItsPageIsUpToDate) {
  const Told told = tell(lesson());
  const std::string& page = told.page;
  EXPECT_EQ(told.failed, 0);
  EXPECT_NE(told.claims, "") << "no checks";
  EXPECT_NE((committed("lessons/checks.md") + "\n").find(claims_of(lesson(), told) + "\n"),
            std::string::npos)
      << "lessons/checks.md is stale" << kRemake;
  EXPECT_NE(page.find("> **Predict.** "), std::string::npos) << "no prediction";
  EXPECT_NE(page.find("\n|---|"), std::string::npos) << "no table";
  EXPECT_NE(page.find("\n## What breaks "), std::string::npos) << "what breaks if ...?";
  for (std::size_t at = 0; (at = page.find("lesson zoo ", at)) != std::string::npos;) {
    at += 11;
    EXPECT_NO_THROW(bug_of(page.substr(at, page.find('`', at) - at)));
  }
  const std::string path = "lessons/" + lesson().folder + "/README.md";
  EXPECT_EQ(committed(path), page) << path << " is stale" << kRemake;
  for (const auto& [file, svg] : told.drawings)
    EXPECT_EQ(committed("lessons/" + lesson().folder + "/" + file), svg)
        << file << " is stale" << kRemake;
  for (const StoryPicture& picture : told.pictures) {
    const std::string file = "lessons/" + lesson().folder + "/" + picture.file;
    const Shape there = shape_of(committed(file));
    EXPECT_GT(there.texts.size(), 5u) << file;
#ifdef RINGSCOPE_HAS_VIEWER
    // Measured times differ from run to run.
    if (picture.recording.info.base_time_ns != 0 || viz::font_name() != kFont) continue;
    const Shape drawn = shape_of(viz::story_picture(picture.recording, picture.paragraph));
    EXPECT_EQ(there.texts, drawn.texts) << file << " is stale" << kRemake;
    EXPECT_EQ(there.paths, drawn.paths) << file << " is stale" << kRemake;
#endif
  }
}

// Expect all of these terms in the glossary, as introduced by the lesson.
void expect_explained(const std::vector<std::string>& terms, int lesson) {
  for (const std::string& term : terms) {
    const Entry* const entry = find_entry(term);
    ASSERT_NE(entry, nullptr) << "'" << term << "' is not in lessons/glossary.txt";
    EXPECT_EQ(entry->lesson, lesson) << term;
  }
}

TEST_P(EveryLesson, IsShortAndSaysWhatIsKnownAndWhatIsNew) {
  EXPECT_LE(lesson().source.line_count, 190);
  EXPECT_LE(minutes_of(lesson()).reading, 10);
  EXPECT_GT(minutes_of(lesson()).exercise, 0) << "neither an exercise nor a question on paper";
  const std::string opening = lesson().source.pieces[0].text;
  for (const char* const part : {"**You know**", "**You will see**"})
    EXPECT_NE(opening.find(part), std::string::npos) << opening;
  EXPECT_LE(new_terms(lesson()).size(), 2u) << testing::PrintToString(new_terms(lesson()));
  expect_explained(new_terms(lesson()), lesson().number);
  EXPECT_NE(lesson().elsewhere, "") << "no section in lessons/elsewhere.txt";
  const std::vector<std::string> takeaways = lines_of(lesson().takeaways);
  EXPECT_EQ(takeaways.size(), 3u);
  for (const std::string& line : takeaways) EXPECT_TRUE(line.starts_with("- ")) << line;
  expect_explained(terms_in(lesson().elsewhere), lesson().number);
}

TEST_P(EveryLesson, ShowsAllOfItsPictures) {
  const std::string folder = kRoot + "/lessons/" + lesson().folder;
  const std::string page = contents_of(folder + "/README.md");
  static const std::regex picture(R"(!\[[^\]]*\]\(([^)]+)\))");
  std::set<std::string> there, shown;
  for (const auto& file : std::filesystem::directory_iterator(folder))
    if (file.path().extension() == ".png" || file.path().extension() == ".svg")
      there.insert(file.path().filename());
  for (std::sregex_iterator match(page.begin(), page.end(), picture), end; match != end; ++match)
    shown.insert((*match)[1]);
  EXPECT_EQ(there, shown);
}

std::vector<int> numbers_of_lessons() {
  std::vector<int> numbers;
  for (const Lesson& lesson : all_lessons()) numbers.push_back(lesson.number);
  return numbers;
}

INSTANTIATE_TEST_SUITE_P(Lessons, EveryLesson, testing::ValuesIn(numbers_of_lessons()),
                         [](const auto& lesson) { return lesson_of_number(lesson.param).folder; });

TEST(Contents, PagesAreUpToDate) {
  EXPECT_EQ(committed("lessons/README.md"), contents_page()) << "stale" << kRemake;
  EXPECT_EQ(committed("lessons/glossary.md"), glossary_page()) << "stale" << kRemake;
}

TEST(Contents, NumbersCountUpFromZeroAndEveryLessonIsOnAWay) {
  const std::vector<int> numbers = numbers_of_lessons();
  for (std::size_t i = 0; i < numbers.size(); ++i) EXPECT_EQ(numbers[i], static_cast<int>(i));
  std::set<int> on_a_way;
  for (const Way& way : ways_through()) on_a_way.insert(way.lessons.begin(), way.lessons.end());
  EXPECT_EQ(on_a_way, std::set<int>(numbers.begin(), numbers.end()));
}

// Return the lessons whose knowledge a lesson's opening takes for granted.
std::vector<int> known_in(const Lesson& lesson) {
  const std::string& opening = lesson.source.pieces[0].text;
  const std::size_t from = opening.find("**You know**"), to = opening.find("**You will see**");
  std::string known = opening.substr(from, to - from);
  known = std::regex_replace(known, std::regex(R"(\(optional:[^)]*\))"), "");
  static const std::regex number(R"((?:lessons?\s|\(|and\s|to\s)(\d+))");
  std::vector<int> numbers;
  for (std::sregex_iterator match(known.begin(), known.end(), number), end; match != end; ++match)
    numbers.push_back(std::stoi((*match)[1]));
  return numbers;
}

TEST(Contents, EveryWayKnowsWhatItsLessonsTakeForGranted) {
  std::vector<std::vector<int>> orders = {numbers_of_lessons()};
  for (const Way& way : ways_through()) orders.push_back(way.lessons);
  int mentions = 0;
  for (const std::vector<int>& order : orders) {
    std::set<int> read;
    for (const int number : order) {
      const Lesson& lesson = lesson_of_number(number);
      for (const auto& wanted : {lesson.needs(), known_in(lesson)})
        for (const int before : wanted)
          EXPECT_TRUE(read.contains(before)) << number << " builds on " << before;
      EXPECT_TRUE(read.insert(number).second) << number << " twice";
      mentions += static_cast<int>(known_in(lesson).size());
    }
  }
  EXPECT_GT(mentions, 30);
}

TEST(Glossary, EveryTermIsIntroducedByItsLessonAndDefinedWhereItSays) {
  std::set<std::string> seen;
  for (const Entry& entry : glossary()) {
    EXPECT_TRUE(seen.insert(entry.term).second) << entry.term << " twice";
    EXPECT_FALSE(entry.text.empty()) << entry.term;
    EXPECT_NE(committed(entry.file).find(entry.name), std::string::npos)
        << entry.term << ": no '" << entry.name << "' in " << entry.file;
    const Lesson& lesson = lesson_of_number(entry.lesson);
    bool introduced = names(lesson, entry);
    for (const auto& terms : {new_terms(lesson), terms_in(lesson.elsewhere)})
      for (const std::string& term : terms) introduced |= find_entry(term) == &entry;
    EXPECT_TRUE(introduced) << "lesson " << entry.lesson << " does not introduce '" << entry.term
                            << "'";
  }
}

}  // namespace
}  // namespace ringscope::lessons
