#include "lessons/book/embedded.h"

#include <algorithm>
#include <regex>
#include <stdexcept>
#include <vector>

#include "lessons/book/source.h"

namespace ringscope::lessons {

std::string_view embedded_text(std::string_view path) {
  for (const EmbeddedFile& file : embedded_files())
    if (file.path == path) return file.text;
  throw std::logic_error(std::string(path) + ": not built in; page.region needs literal strings");
}

Region region_of(const std::string& path, const std::string& name) {
  return region_in(embedded_text(path), path, name);
}

Region region_in(std::string_view text, const std::string& path, const std::string& name) {
  static const std::regex any_mark(R"(\s*// (\[[\w-]+|[\w-]+\]))");
  const auto is_mark = [](const std::string& line, const std::string& mark) {
    const std::size_t first = line.find_first_not_of(' ');
    return first != std::string::npos && line.substr(first) == "// " + mark;
  };
  std::vector<std::string> listed;
  int begins = 0, ends = 0, first_line = 0, line_number = 0;
  for (const std::string& line : lines_of(text)) {
    ++line_number;
    if (is_mark(line, "[" + name)) {
      ++begins;
    } else if (is_mark(line, name + "]")) {
      ++ends;
    } else if (begins == 1 && ends == 0 && !std::regex_match(line, any_mark)) {
      if (first_line == 0) first_line = line_number;
      listed.push_back(line);
    }
  }
  if (begins != 1 || ends != 1 || listed.empty())
    throw std::logic_error(path + ": not exactly one region '" + name + "' with lines in it");

  std::size_t margin = std::string::npos;
  for (const std::string& line : listed) margin = std::min(margin, line.find_first_not_of(' '));
  Region region{path, first_line, ""};
  for (const std::string& line : listed)
    region.text += line.substr(std::min(margin, line.size())) + "\n";
  return region;
}

}  // namespace ringscope::lessons
