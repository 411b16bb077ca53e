#include "lessons/book/glossary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <regex>
#include <stdexcept>

#include "lessons/book/lesson.h"

namespace ringscope::lessons {
namespace {

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return result;
}

// Parse "term | lesson | file | name".
Entry entry_of_head(const std::string& line, int line_number) {
  static const std::regex head(R"(([^|]+) \| (\d{1,4}) \| ([^|]+) \| (.+))");
  std::smatch part;
  if (std::regex_match(line, part, head) && std::stoi(part[2]) > 0)
    return {part[1], std::stoi(part[2]), part[3], part[4], ""};
  throw std::logic_error(
      fmt::format("lessons/glossary.txt, line {}: '{}' is not 'term | lesson | file | name'",
                  line_number, line));
}

}  // namespace

std::vector<Entry> parse_glossary(std::string_view text) {
  std::vector<Entry> entries;
  int line_number = 0;
  for (const std::string& line : lines_of(text)) {
    ++line_number;
    if (line.empty() || line.starts_with('#')) continue;
    if (!line.starts_with("  "))
      entries.push_back(entry_of_head(line, line_number));
    else if (entries.empty())
      throw std::logic_error(
          fmt::format("lessons/glossary.txt, line {}: text before the first term", line_number));
    else
      entries.back().text += (entries.back().text.empty() ? "" : "\n") + line.substr(2);
  }
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return lower(a.term) < lower(b.term); });
  return entries;
}

const std::vector<Entry>& glossary() {
  static const std::vector<Entry> entries = parse_glossary(embedded_text("lessons/glossary.txt"));
  return entries;
}

const Entry* find_entry(std::string_view term) {
  const auto found = std::find_if(glossary().begin(), glossary().end(), [&](const Entry& entry) {
    return lower(entry.term) == lower(term);
  });
  return found == glossary().end() ? nullptr : &*found;
}

}  // namespace ringscope::lessons
