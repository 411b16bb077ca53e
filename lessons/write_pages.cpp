// Writes every page that is made from lessons (README.md of each, contents, glossary) into the
// source tree: the target lesson_pages. A page that stays the same is left alone.
#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <fstream>
#include <sstream>
#include <string>

#include "core/base/files.h"
#include "lessons/book/markdown_writer.h"

namespace ringscope::lessons {
namespace {

void write_page(const std::string& path, const std::string& page) {
  std::ostringstream old;
  old << std::ifstream(path, std::ios::binary).rdbuf();
  if (old.str() == page) return;
  AtomicFile file(path);
  file.write(page);
  file.commit();
  fmt::print("written: {}\n", path);
}

// Returns how many checks failed.
int write_pages(const std::string& folder) {
  int all_failed = 0;
  for (const Lesson& lesson : all_lessons()) {
    int failed = 0;
    write_page(folder + "/" + lesson.folder + "/README.md", page_of(lesson, failed));
    if (failed > 0) fmt::print(stderr, "lesson {}: {} checks failed\n", lesson.number, failed);
    all_failed += failed;
  }
#ifdef RINGSCOPE_ALL_LESSONS
  write_page(folder + "/README.md", contents_page());
  write_page(folder + "/glossary.md", glossary_page());
#endif
  return all_failed;
}

}  // namespace
}  // namespace ringscope::lessons

int main(int argc, char** argv) {
  try {
    if (argc == 2) return ringscope::lessons::write_pages(argv[1]) == 0 ? 0 : 1;
    fmt::print(stderr, "write_lesson_pages: one argument accepted, the folder lessons\n");
    return 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "write_lesson_pages: {}\n", error.what());
    return 3;
  }
}
