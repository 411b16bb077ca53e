#include "lessons/book/source.h"

#include <fmt/format.h>

#include <algorithm>
#include <regex>
#include <stdexcept>

#include "core/base/text.h"

namespace ringscope::lessons {
namespace {

std::size_t indentation(const std::string& line) {
  return std::min(line.find_first_not_of(' '), line.size());
}

bool is_boilerplate(const std::string& line) {
  static constexpr std::string_view kBeginnings[] = {"#include", "namespace", "}  // namespace",
                                                     "using "};
  return std::any_of(std::begin(kBeginnings), std::end(kBeginnings),
                     [&](std::string_view beginning) { return line.starts_with(beginning); });
}

// Return the line that ends the statement beginning on line `first` (counted from 0). It has the
// first semicolon outside of brackets, strings and comments.
std::size_t end_of_statement(const std::vector<std::string>& lines, std::size_t first) {
  int depth = 0;
  for (std::size_t at = first; at < lines.size(); ++at) {
    const std::string& line = lines[at];
    char quote = 0;
    for (std::size_t i = 0; i < line.size(); ++i) {
      const char c = line[i];
      if (quote != 0) {
        if (c == '\\') {
          ++i;
        } else if (c == quote) {
          quote = 0;
        }
      } else if (c == '"' || c == '\'') {
        quote = c;
      } else if (line.compare(i, 2, "//") == 0) {
        break;
      } else if (c == '(' || c == '{' || c == '[') {
        ++depth;
      } else if (c == ')' || c == '}' || c == ']') {
        --depth;
      } else if (c == ';' && depth == 0) {
        return at;
      }
    }
  }
  throw std::logic_error(fmt::format("the statement on line {} does not end", first + 1));
}

class Parser {
 public:
  Parser(std::string_view text, int number)
      : lines_(lines_of(text)), opening_(fmt::format("void lesson_{:02}(Page& page) {{", number)) {
    source_.text = text;
    source_.line_count = static_cast<int>(lines_.size());
  }

  LessonSource parse() {
    bool hidden = false, inside = false, ended = false;
    for (std::size_t at = 0; at < lines_.size() && !ended; ++at) {
      const std::string& line = lines_[at];
      const std::size_t margin = inside ? 2 : 0;
      const std::string_view rest = std::string_view(line).substr(indentation(line));
      if (rest == "//-" || rest == "//+") {
        hidden = rest == "//-";
      } else if (line == opening_) {
        inside = apart_ = true;
      } else if (inside && line == "}") {
        ended = true;
      } else if (inside && !hidden && indentation(line) == margin && calls_page(line)) {
        const std::size_t last = end_of_statement(lines_, at);
        source_.calls.push_back({static_cast<int>(at) + 1, static_cast<int>(last) + 1});
        apart_ = true;
        at = last;
      } else if (hidden || (!inside && is_boilerplate(line))) {
        blank_ = true;
      } else if (rest.starts_with("//") && indentation(line) == margin) {
        add(Piece::Kind::prose, at, std::string(rest.substr(rest.starts_with("// ") ? 3 : 2)));
      } else if (rest.empty()) {
        blank_ = true;
      } else {
        add(Piece::Kind::code, at, line.substr(std::min(margin, indentation(line))));
      }
    }
    if (!ended) throw std::logic_error("the function '" + opening_ + "' is missing");
    take_head();
    return std::move(source_);
  }

 private:
  static bool calls_page(const std::string& line) {
    static const std::regex pattern(R"(\bpage\.)");
    return std::regex_search(line, pattern);
  }

  void add(Piece::Kind kind, std::size_t at, const std::string& line) {
    std::vector<Piece>& pieces = source_.pieces;
    if (apart_ || pieces.empty() || pieces.back().kind != kind)
      pieces.push_back({kind, static_cast<int>(at) + 1, ""});
    else if (blank_)
      pieces.back().text += "\n";
    pieces.back().text += line + "\n";
    apart_ = blank_ = false;
  }

  // Take the title and the summary out of the first prose.
  void take_head() {
    if (source_.pieces.empty() || !source_.pieces[0].text.starts_with("# "))
      throw std::logic_error("the first line must be '// # Title'");
    std::vector<std::string> head = lines_of(source_.pieces[0].text);
    source_.title = head[0].substr(2);
    std::size_t at = 1;
    for (; at < head.size() && head[at].starts_with("> "); ++at)
      source_.summary += (source_.summary.empty() ? "" : " ") + head[at].substr(2);
    if (source_.summary.empty()) throw std::logic_error("after the title must come '// > Summary'");
    while (at < head.size() && head[at].empty()) ++at;
    source_.pieces[0].text.clear();
    for (; at < head.size(); ++at) source_.pieces[0].text += head[at] + "\n";
  }

  std::vector<std::string> lines_;
  std::string opening_;
  LessonSource source_;
  bool apart_ = false;  // the next line begins a new piece
  bool blank_ = false;  // a blank line came before
};

}  // namespace

const Lines* LessonSource::call_at(int line) const {
  const auto found = std::find_if(calls.begin(), calls.end(),
                                  [line](const Lines& call) { return call.contains(line); });
  return found == calls.end() ? nullptr : &*found;
}

LessonSource parse_lesson(std::string_view text, int number) {
  return Parser(text, number).parse();
}

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  for_each_line(text, [&](std::string_view line) { lines.emplace_back(line); });
  return lines;
}

}  // namespace ringscope::lessons
