#include "lessons/book/markdown_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/base/markdown.h"
#include "lessons/book/book.h"
#include "lessons/book/glossary.h"

namespace ringscope::lessons {
namespace {

// Return a line with its new terms linked to the glossary.
std::string with_links(const std::string& line) {
  std::string text;
  for (const TextSpan& span : spans_of(line)) {
    const bool is_link = span.kind == TextSpan::Kind::link;
    const char* const mark = span.kind == TextSpan::Kind::strong ? "**"
                             : span.kind == TextSpan::Kind::code ? "`"
                                                                 : "";
    if (span.kind == TextSpan::Kind::term)
      text += "[*" + span.text + "*](../glossary.md#" + anchor_of(span.text) + ")";
    else
      text += is_link ? "[" + span.text + "](" + span.target + ")" : mark + span.text + mark;
  }
  return text;
}

std::string table_row(const std::vector<std::string>& cells) {
  std::string text = "|";
  for (const std::string& cell : cells) text += " " + cell + " |";
  return text + "\n";
}

// Describe what a story's paragraph points at.
std::string place_of(const StoryStep& step) {
  std::string place = fmt::format("The {}", name_of(step.figure.value_or(Figure::timeline)));
  if (step.pass) place += fmt::format(", {}", name_of(*step.pass));
  if (step.rank >= 0) place += fmt::format(", rank {}", step.rank);
  if (step.step >= 0) place += fmt::format(", step {}", step.step);
  if (step.lane) place += fmt::format(", {}", name_of(*step.lane));
  return place;
}

// Return links to lessons, as "01 Title" or as "01", from `folder`.
std::string links_to(const std::vector<int>& numbers, const std::string& folder, bool titles) {
  std::string text;
  for (const Lesson& lesson : all_lessons())
    if (std::ranges::count(numbers, lesson.number) > 0)
      text += fmt::format("{}[{}{}]({}{}/README.md)", text.empty() ? "" : ", ", lesson.label(),
                          titles ? " " + lesson.source.title : "", folder, lesson.folder);
  return text;
}

class MarkdownWriter : public Writer {
 public:
  // Return the whole page. Call this after the lesson has been told.
  const std::string& page() const { return page_; }
  std::vector<StoryPicture>& stories() { return stories_; }

  void begin(const Lesson& lesson) override {
    page_ = "<!-- Made from lesson.cpp, by the target lesson_pages. -->\n";
    paragraph(fmt::format("# {} {}", lesson.label(), lesson.source.title));
    paragraph(fmt::format(
        "[All lessons](../README.md) · [the program](lesson.cpp) · to step through it: "
        "`./ringscope lesson {}` · about {:.0f} minutes{}",
        lesson.number, std::ceil(reading_minutes(lesson)),
        lesson.needs().empty() ? "" : " · read before: " + links_to(lesson.needs(), "../", false)));
  }

  void prose(const std::string& markdown) override {
    std::string text;
    for (const std::string& line : lines_of(markdown))
      text += (line.starts_with("    ") ? line : with_links(line)) + "\n";
    paragraph(text);
  }

  void listing(const std::string& origin, const std::string& code) override {
    if (!origin.empty()) {
      const std::string path = origin.substr(0, origin.find(','));
      paragraph(fmt::format("[{}](../../{}){}:", path, path, origin.substr(path.size())));
    }
    paragraph("```cpp\n" + code + "```");
  }

  std::optional<std::string> ask(const Question& question) override {
    std::string text = question.text + (question.unit.empty() ? "" : " (" + question.unit + ")");
    for (std::size_t i = 0; i < question.options.size(); ++i)
      text += fmt::format(" **{})** {}", static_cast<char>('a' + i), question.options[i]);
    paragraph("> **Predict.** " + text);
    just_asked_ = true;
    return std::nullopt;
  }

  void answer(const Question& question, const Cell& actual, const std::string&) override {
    const std::string summary = just_asked_ ? "Answer" : "Answer: " + question.text;
    if (!question.cells.empty())
      return paragraph(fmt::format("<details><summary>{}</summary>\n\n```text\n{}```\n</details>",
                                   summary, drawn_rows(question.cells, "")));
    paragraph(fmt::format("<details><summary>{}</summary>\n\n**{}{}{}**\n</details>", summary,
                          actual.kept, question.unit.empty() ? "" : " ", question.unit));
  }

  void value(const std::string& name, const Cell& value, const std::string& unit) override {
    item(name + ": **" + value.kept + (unit.empty() ? "" : " " + unit) + "**");
  }

  void table(const Table& table) override {
    std::string text = table_row(table.head());
    for (std::size_t i = 0; i < table.head().size(); ++i) text += i == 0 ? "|---|" : "---:|";
    text += "\n";
    for (const std::vector<Cell>& row : table.rows()) {
      std::vector<std::string> cells;
      for (const Cell& cell : row) cells.push_back(cell.kept);
      text += table_row(cells);
    }
    paragraph(text);
  }

  void text(const std::string& text) override {
    paragraph("```text\n" + text + (text.ends_with('\n') ? "" : "\n") + "```");
  }

  void check(const std::string& claim, bool holds, const std::string& details) override {
    item((holds ? "✓ " : "**WRONG** ") + claim + (details.empty() ? "" : ": " + details));
  }

  void recording(const std::string& file, const Recording& recording) override {
    paragraph("The lesson records this run, with a story: `./ringscope view " + file + "`.");
    const std::string name =
        file.substr(file.rfind('/') + 3, file.rfind('.') - file.rfind('/') - 3);
    for (std::size_t i = 0; i < recording.story.size(); ++i) {
      const StoryStep& step = recording.story[i];
      stories_.push_back(
          {fmt::format("story{}-{}.svg", name, i + 1), recording, static_cast<int>(i)});
      paragraph(fmt::format("{}. {}\n\n   ![{}]({})", i + 1, step.text, place_of(step),
                            stories_.back().file));
    }
  }

  void picture(const std::string& file, const std::string& caption) override {
    paragraph("![" + caption + "](" + file.substr(file.rfind('/') + 1) + ")");
  }

  void end(const Lesson& lesson, int, int) override {
    if (const std::vector<int> next = lesson.next(); !next.empty())
      paragraph("**Next**: " + links_to(next, "../", true));
  }

 private:
  // Write an item. Consecutive items form one list.
  void item(const std::string& text) {
    if (!in_list_ && !page_.empty()) page_ += "\n";
    page_ += "- " + text + "\n";
    in_list_ = true;
  }

  void paragraph(const std::string& text) {
    if (!page_.empty()) page_ += "\n";
    page_ += text + (text.ends_with('\n') ? "" : "\n");
    in_list_ = just_asked_ = false;
  }

  std::string page_;
  std::vector<StoryPicture> stories_;
  bool in_list_ = false;
  bool just_asked_ = false;
};

}  // namespace

std::string page_of(const Lesson& lesson, int& failed, const std::string& trace_folder,
                    std::vector<StoryPicture>* pictures) {
  MarkdownWriter writer;
  failed = tell(lesson, writer, trace_folder).failed;
  if (pictures != nullptr) *pictures = std::move(writer.stories());
  return writer.page();
}

std::string contents_page() {
  std::string text =
      "<!-- Made by the target lesson_pages. -->\n\n# Lessons\n\n"
      "Lessons 1 to 18 lead from two matrix products to a model that writes; those from 19 on take "
      "up one question each.\nEach page names the lessons to read before it, and those that follow "
      "on it. The numbers follow this order, except that 28 comes before 17.\n"
      "[Three ways](#three-ways-through) lead through all of them. Those who know FlashAttention "
      "may "
      "begin at 5.\n`./ringscope lesson N` steps through lesson N and asks for "
      "predictions; the "
      "pages here are the same text.\nEach ends with an exercise: `./ringscope lesson N --check` "
      "names the file to edit, and tries "
      "it.\nThose of lessons 3, 4, 6, 7, 9, 10, 15 and 18 build one ring, yours, in the folder "
      "`my_ring`.\nWords are explained in the [glossary](glossary.md). The [bug zoo](zoo.md) shows "
      "mistakes that others made: `./ringscope lesson zoo`.\nWhen your ring is done, try the three "
      "[challenges](challenges.md).\n\n"
      "Some words have more than one meaning here: a *block* is of keys and values, or of a GPU's "
      "threads; a *group* is of ranks, of heads, or of calls that a library starts at once; a "
      "*lane* is a line of a timeline, or a thread of a warp; a *stage* is some of a model's "
      "layers, or a buffer of a kernel; a *word* is a piece of text, or four bytes of memory.\n\n"
      "| | lesson | | minutes |\n|---:|---|---|---:|\n";
  for (const Lesson& lesson : all_lessons())
    text += fmt::format("| {} | [{}]({}/README.md) | {} | {:.0f} |\n", lesson.label(),
                        lesson.source.title, lesson.folder, lesson.source.summary,
                        std::ceil(reading_minutes(lesson)));
  text += "\n## Three ways through\n\n";
  for (const Way& way : ways_through()) {
    text += fmt::format("- **{}**: {}. Read", way.name, way.aim);
    for (const int number : way.lessons)
      text += (number == way.lessons[0] ? " " : ", ") + links_to({number}, "", false);
    text += ".\n";
  }
  return text;
}

std::string glossary_page() {
  std::string text = "<!-- Made from glossary.txt, by the target lesson_pages. -->\n\n# Glossary\n";
  for (const Entry& entry : glossary()) {
    text += fmt::format("\n## {}\n\n{}\n\nDefined in [{}](../{}): `{}`. ", entry.term, entry.text,
                        entry.file, entry.file, entry.name);
    text += "Lesson " + links_to({entry.lesson}, "", true) + ".\n";
  }
  return text;
}

}  // namespace ringscope::lessons
