#include "app/site/viewer_page.h"

#include <fmt/format.h>

#include <filesystem>

#include "app/report/fields.h"
#include "app/site/html.h"
#include "core/base/files.h"
#include "core/base/text.h"
#include "lessons/book/lesson.h"

namespace ringscope {
namespace {

// Return `text` as a literal of JavaScript that may stand in a page.
std::string literal(const std::string& text) {
  std::string quoted = Json(text).text();
  for (std::size_t at = 0; (at = quoted.find('<', at)) != std::string::npos;)
    quoted.replace(at, 1, "\\u003c");
  return quoted;
}

std::string page(const std::string& title, const std::string& scripts, bool is_part_of_site) {
  return filled(
      lessons::embedded_text("app/site/viewer.html"),
      {{"title", escaped(title)},
       {"text",
        is_part_of_site ? " <a href=\"../index.html\">The text of this site</a> does not." : ""},
       {"scripts", scripts}});
}

}  // namespace

std::string web_script() {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error).parent_path();
  for (const fs::path& path :
       {program.parent_path() / "share/ringscope/ringscope_web.js",
        fs::path(RINGSCOPE_SOURCE_DIR) / "build/wasm/viz/web/ringscope_web.js"})
    if (fs::is_regular_file(path, error)) return read_file(path.string(), "script");
  return "";
}

std::string viewer_page() {
  return page("The viewer · Ringscope",
              "<script src=\"ringscope.js\"></script>\n<script src=\"viewer.js\"></script>\n",
              true);
}

std::string viewer_page(const std::string& script,
                        const std::vector<EmbeddedRecording>& recordings) {
  std::string scripts;
  const auto add = [&](std::string text) {
    // Nothing inside may end the element.
    for (std::size_t at = 0; (at = text.find("</script", at)) != std::string::npos; at += 9)
      text.insert(at + 1, "\\");
    scripts += "<script>" + text + "</script>\n";
  };
  std::string title;
  for (const EmbeddedRecording& recording : recordings) {
    add(recording_script(recording.name, recording.text));
    title += recording.name + " · ";
  }
  add(script);
  add(std::string(lessons::embedded_text("app/site/viewer.js")));
  return page(title + "Ringscope", scripts, false);
}

std::string recording_script(const std::string& name, const std::string& text) {
  return fmt::format(
      "window.ringscopeRecordings = window.ringscopeRecordings || "
      "{{}};\nwindow.ringscopeRecordings[{}] = {};\n",
      literal(name), literal(text));
}

}  // namespace ringscope
