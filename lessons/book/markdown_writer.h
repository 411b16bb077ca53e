// Writes the pages of Markdown: lessons, their contents, and the glossary. Answers are folded, and
// whatever differs between machines is left out.
#pragma once

#include <string>

#include "lessons/book/lesson.h"

namespace ringscope::lessons {

// Return a lesson's page. `failed` receives the number of failed checks. Recordings are made in
// `trace_folder` if it is given.
std::string page_of(const Lesson& lesson, int& failed, const std::string& trace_folder = "");
// Return lessons/README.md and lessons/glossary.md.
std::string contents_page();
std::string glossary_page();

}  // namespace ringscope::lessons
