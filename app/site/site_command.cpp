// `ringscope site --recordings DIR`: what the site shows and only the program can make, which is the recordings of the lessons
// and of the viewer's examples. The pages around them are made by app/site/build.py, which `./ringscope site DIR` runs.
#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "app/command_line/commands.h"
#include "app/command_line/flags.h"
#include "app/report/terminal.h"
#include "app/view/view_command.h"
#include "core/base/fields.h"
#include "core/base/files.h"
#include "core/trace/chrome_trace.h"
#include "lessons/book/lesson.h"
#include "lessons/book/page.h"

namespace ringscope {
namespace {

void record_lessons(const std::string& folder) {
  ProgressBar bar("telling the lessons");
  double told = 0;
  for (const lessons::Lesson& lesson : lessons::all_lessons()) {
    bar.update(told++ / static_cast<double>(lessons::all_lessons().size()));
    if (const int failed = lessons::tell(lesson, folder).failed; failed > 0)
      throw RunError(fmt::format("lesson {}: {} checks failed", lesson.number, failed));
  }
}

// Write the examples that the desktop's viewer begins with, their pictures, and examples.json, which
// describes them.
void record_examples(const std::string& folder) {
  std::vector<Fields> examples;
  for (const viz::Example& example : viewer_examples()) {
    const std::vector<Recording> recordings = example.record();
    std::vector<std::string> files;
    for (const Recording& recording : recordings) {
      files.push_back(fmt::format("example-{}-{}.json", example.name, files.size() + 1));
      write_chrome_trace(folder + "/" + files.back(), recording);
    }
    const std::string png = example_picture(recordings), picture = example.name + ".png";
    if (!png.empty()) write_file(folder + "/" + picture, png);
    examples.push_back({{"files", files},
                        {"title", example.title},
                        {"text", example.text},
                        {"picture", png.empty() ? "" : picture}});
  }
  write_file(folder + "/examples.json", Json(examples).text());
}

}  // namespace

int carry_out(const SiteOptions& options) {
  try {
    std::filesystem::create_directories(options.recordings);
  } catch (const std::filesystem::filesystem_error& error) {
    throw InputError(fmt::format("--recordings '{}': {}; accepted: a folder that can be written to",
                                 options.recordings, error.code().message()));
  }
  for_flag("--recordings", [&] {
    record_lessons(options.recordings);
    record_examples(options.recordings);
    return 0;
  });
  return 0;
}

Finish declare_site(CommandFlags& flags) {
  const auto words = std::make_shared<std::vector<std::string>>();
  const auto recordings = std::make_shared<std::optional<std::string>>();
  flags.words("DIR", *words, "what the launcher of the source folder makes: ./ringscope site DIR");
  flags.path("--recordings", *recordings,
             "write the recordings that the site shows into this folder");
  return [words, recordings] {
    if (!words->empty() || !*recordings)
      throw InputError(
          "site: this program alone makes no pages; accepted: ./ringscope site DIR in the source "
          "folder, which does, or --recordings DIR");
    return SiteOptions{**recordings};
  };
}

}  // namespace ringscope
