// Writes a lesson as a page of Markdown. Answers are folded, and whatever differs between machines
// is left out.
#pragma once

#include <string>

#include "lessons/book/writer.h"

namespace ringscope::lessons {

class MarkdownWriter : public Writer {
 public:
  // Return the whole page. Call this after the lesson has been told.
  const std::string& page() const { return page_; }

  void begin(const Lesson& lesson) override;
  void prose(const std::string& markdown) override;
  void listing(const std::string& origin, const std::string& code) override;
  std::optional<double> ask(const Question& question) override;
  void answer(const Question& question, const Cell& actual, const std::string& verdict) override;
  void value(const std::string& name, const Cell& value, const std::string& unit) override;
  void table(const Table& table) override;
  void text(const std::string& text) override;
  void check(const std::string& claim, bool holds, const std::string& details) override;
  void recording(const std::string& file, const std::vector<StoryStep>& story) override;
  void picture(const std::string& file, const std::string& caption) override;
  void end(const Lesson& lesson, int checks, int failed) override;

 private:
  // Write an item. Consecutive items form one list.
  void item(const std::string& text);
  void paragraph(const std::string& text);

  std::string page_;
  bool in_list_ = false;
  bool just_asked_ = false;
};

// Return a lesson's page. `failed` receives the number of failed checks.
std::string page_of(const Lesson& lesson, int& failed);
// Return lessons/README.md and lessons/glossary.md.
std::string contents_page();
std::string glossary_page();

// Return the anchor that Markdown makes of a heading.
std::string anchor_of(const std::string& heading);

}  // namespace ringscope::lessons
