// Writes the pages of Markdown: lessons, their contents, and the glossary. Answers are folded, and
// whatever differs between machines is left out.
#pragma once

#include <string>
#include <vector>

#include "core/trace/event.h"
#include "lessons/book/lesson.h"

namespace ringscope::lessons {

// A picture that a page shows beside a paragraph of a recording's story.
struct StoryPicture {
  std::string file;  // beside the page
  Recording recording;
  int paragraph = 0;  // from 0
};

// Return a lesson's page. `failed` receives the number of failed checks, and `pictures` what to draw
// beside the page. Recordings are made in `trace_folder` if it is given.
std::string page_of(const Lesson& lesson, int& failed, const std::string& trace_folder = "",
                    std::vector<StoryPicture>* pictures = nullptr);
// Return lessons/README.md and lessons/glossary.md.
std::string contents_page();
std::string glossary_page();

}  // namespace ringscope::lessons
