#include "lessons/book/lesson.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <regex>
#include <stdexcept>

#include "core/base/error.h"
#include "core/base/markdown.h"
#include "core/base/text.h"

namespace ringscope::lessons {

// ---
// A lesson's source.

namespace {

std::size_t indentation(std::string_view line) {
  return std::min(line.find_first_not_of(' '), line.size());
}

bool is_boilerplate(std::string_view line) {
  return line.starts_with("#include") || line.starts_with("namespace") ||
         line.starts_with("}  // namespace") || line.starts_with("using ");
}

// Return whether a table or a drawing begins, whose code is of no interest.
bool begins_figure(std::string_view line) {
  return line.starts_with("Table ") || line.starts_with("Drawing ");
}

bool calls_page(std::string_view line) { return line.find("page.") != std::string_view::npos; }

// Return the last line of the statement that begins on line `first` at `margin`: all further lines are
// indented more, but perhaps for the end of a lambda.
std::size_t end_of_statement(const std::vector<std::string>& lines, std::size_t first,
                             std::size_t margin) {
  std::size_t last = first;
  while (last + 1 < lines.size() && !lines[last + 1].empty() &&
         (indentation(lines[last + 1]) > margin || lines[last + 1].find('}') == margin))
    ++last;
  return last;
}

// Take the title and the summary out of the first prose.
void take_head(LessonSource& source) {
  if (source.pieces.empty() || !source.pieces[0].text.starts_with("# "))
    throw std::logic_error("the first line must be '// # Title'");
  const std::vector<std::string> head = lines_of(source.pieces[0].text);
  source.title = head[0].substr(2);
  std::size_t at = 1;
  for (; at < head.size() && head[at].starts_with("> "); ++at)
    source.summary += (source.summary.empty() ? "" : " ") + head[at].substr(2);
  if (source.summary.empty()) throw std::logic_error("after the title must come '// > Summary'");
  while (at < head.size() && head[at].empty()) ++at;
  source.pieces[0].text.clear();
  for (; at < head.size(); ++at) source.pieces[0].text += head[at] + "\n";
}

}  // namespace

const Lines* LessonSource::call_at(int line) const {
  const auto found = std::find_if(calls.begin(), calls.end(), [line](const Lines& call) {
    return call.first <= line && line <= call.last;
  });
  return found == calls.end() ? nullptr : &*found;
}

LessonSource parse_lesson(std::string_view text, int number) {
  const std::vector<std::string> lines = lines_of(text);
  const std::string opening = fmt::format("void lesson_{:02}(Page& page) {{", number);
  LessonSource source{.text = std::string(text), .line_count = static_cast<int>(lines.size())};
  bool hidden = false, inside = false, ended = false;
  bool apart = false;  // the next line begins a new piece
  bool blank = false;  // a blank line came before
  const auto add = [&](Piece::Kind kind, std::size_t at, std::string_view line) {
    std::vector<Piece>& pieces = source.pieces;
    if (apart || pieces.empty() || pieces.back().kind != kind)
      pieces.push_back({kind, static_cast<int>(at) + 1, ""});
    else if (blank)
      pieces.back().text += "\n";
    pieces.back().text += std::string(line) + "\n";
    apart = blank = false;
  };
  for (std::size_t at = 0; at < lines.size() && !ended; ++at) {
    const std::string& line = lines[at];
    const std::size_t margin = inside ? 2 : 0, indent = indentation(line);
    const std::string_view rest = std::string_view(line).substr(indent);
    hidden |= inside && indent == margin && begins_figure(rest);
    if (rest == "//-" || rest == "//+") {
      hidden = rest == "//-";
    } else if (line == opening) {
      inside = apart = true;
    } else if (inside && line == "}") {
      ended = true;
    } else if (inside && indent == margin && calls_page(line)) {
      hidden = false;
      const std::size_t last = end_of_statement(lines, at, margin);
      source.calls.push_back({static_cast<int>(at) + 1, static_cast<int>(last) + 1});
      apart = true;
      at = last;
    } else if (rest.empty() || hidden || (!inside && is_boilerplate(line))) {
      blank = true;
    } else if (rest.starts_with("//") && indent == margin) {
      add(Piece::Kind::prose, at, rest.substr(rest.starts_with("// ") ? 3 : 2));
    } else {
      add(Piece::Kind::code, at, std::string_view(line).substr(std::min(margin, indent)));
    }
  }
  if (!ended) throw std::logic_error("the function '" + opening + "' is missing");
  take_head(source);
  return source;
}

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  for_each_line(text, [&](std::string_view line) { lines.emplace_back(line); });
  return lines;
}

std::vector<std::pair<std::string, std::string>> sections_of(std::string_view page) {
  std::vector<std::pair<std::string, std::string>> sections;
  for (const std::string& line : lines_of(page))
    if (line.starts_with("## "))
      sections.emplace_back(line.substr(3), "");
    else if (!sections.empty())
      sections.back().second += line + "\n";
  return sections;
}

// ---
// The lessons.

namespace {

// Return the section "## NN" of a built-in file, without empty lines around it.
std::string section_of(std::string_view path, const std::string& label) {
  for (const auto& [head, text] : sections_of(embedded_text(path)))
    if (const std::size_t first = text.find_first_not_of('\n');
        head == label && first != std::string::npos)
      return text.substr(first, text.find_last_not_of('\n') + 1 - first) + "\n";
  return "";
}

std::vector<std::string> paragraphs_of(const std::string& text) {
  std::vector<std::string> paragraphs(1);
  for (const std::string& line : lines_of(text))
    if (!line.empty())
      paragraphs.back() += line + "\n";
    else if (!paragraphs.back().empty())
      paragraphs.emplace_back();
  if (paragraphs.back().empty()) paragraphs.pop_back();
  return paragraphs;
}

std::vector<Lesson> read_lessons() {
  std::vector<Lesson> lessons;
  for (const EmbeddedLesson& embedded : embedded_lessons()) {
    Lesson lesson{embedded.number, embedded.folder, embedded.run, {}, {}};
    try {
      lesson.source = parse_lesson(embedded_text(lesson.path()), lesson.number);
    } catch (const std::logic_error& error) {
      throw std::logic_error(lesson.path() + ": " + error.what());
    }
    lesson.elsewhere = section_of("lessons/elsewhere.txt", lesson.label());
    lesson.takeaways = section_of("lessons/takeaways.txt", lesson.label());
    lesson.worked = paragraphs_of(section_of("lessons/answers.txt", lesson.label()));
    for (const EmbeddedFile& file : embedded_files())
      if (file.path == "lessons/python/" + lesson.folder.substr(3) + ".py")
        lesson.python = file.text;
    lessons.push_back(std::move(lesson));
  }
  return lessons;
}

// What each lesson builds on, from lesson 0 on.
const std::vector<std::vector<int>> kNeeds = {
    {},   {},   {1},          {2},      {3}, {4},     {5},  {6},  {7},
    {8},  {9},  {8},          {10, 11}, {6}, {10},    {14}, {14}, {6},
    {12}, {18}, {12, 14, 17}, {13, 19}, {4}, {6, 22}, {23}, {24}, {25}};

// What a lesson needs that no lesson teaches.
const std::map<int, std::string> kPrerequisites = {
    {1, "C++ or NumPy, and products of matrices"},
    {2, "variance"},
    {6, "threads"},
    {9, "calculus: the quotient rule and the chain rule"},
    {13, "processes that exchange messages"},
    {14, "a transformer's layer, and what an optimizer does"},
    {17, "how a float is stored"},
    {22, "CUDA: what a kernel launch is"}};

auto count_lines(std::string_view text) { return std::count(text.begin(), text.end(), '\n'); }

}  // namespace

std::vector<std::string> Lesson::hints() const {
  std::vector<std::string> hints;
  for (const std::string& line : lines_of(section_of("lessons/my_ring/hints.txt", label())))
    if (!line.empty()) hints.push_back(line);
  return hints;
}

const std::vector<int>& Lesson::needs() const { return kNeeds.at(number); }

std::string Lesson::prerequisite() const {
  const auto found = kPrerequisites.find(number);
  return found == kPrerequisites.end() ? "" : found->second;
}

std::vector<int> Lesson::next() const {
  std::vector<int> after;
  for (const Lesson& other : all_lessons())
    if (std::ranges::count(other.needs(), number) > 0) after.push_back(other.number);
  return after;
}

std::string Lesson::exercise() const {
  if (source.text.find("## Exercise") == std::string::npos) return "";
  const bool in_python = source.text.find("/exercise.py`") != std::string::npos;
  return hints().empty() ? "lessons/" + folder + "/exercise" + (in_python ? ".py" : ".h")
                         : "my_ring/" + folder + ".h";
}

std::string Lesson::label() const { return fmt::format("{:02}", number); }

std::span<const Lesson> all_lessons() {
  static const std::vector<Lesson> lessons = read_lessons();
  return lessons;
}

const Lesson& lesson_of_number(int number) {
  std::vector<int> numbers;
  for (const Lesson& lesson : all_lessons()) {
    if (lesson.number == number) return lesson;
    numbers.push_back(lesson.number);
  }
  throw InputError(fmt::format("lesson: '{}' given; accepted: list, glossary, {}", number,
                               fmt::join(numbers, ", ")));
}

Minutes minutes_of(const Lesson& lesson) {
  static const std::regex word(R"(\S+)"), question(R"(page\.(predict|choose|draw)\()"),
      table(R"(page\.table\()"), region(R"#(page\.region\("([^"]+)",\s*"([^"]+)")#");
  const auto count = [](const std::string& text, const std::regex& pattern) {
    return static_cast<double>(
        std::distance(std::sregex_iterator(text.begin(), text.end(), pattern), {}));
  };
  const std::string& text = lesson.source.text;
  double minutes = count(text, table) / 2 + count(lesson.elsewhere, word) / 200;
  for (const Piece& piece : lesson.source.pieces)
    minutes += piece.kind == Piece::Kind::prose
                   ? count(piece.text, word) / 200
                   : static_cast<double>(count_lines(piece.text)) * 4 / 60;
  for (std::sregex_iterator match(text.begin(), text.end(), region), end; match != end; ++match)
    minutes += static_cast<double>(count_lines(
                   region_in(embedded_text((*match)[1].str()), (*match)[1], (*match)[2]).text)) *
               4 / 60;
  const int on_paper = static_cast<int>(lesson.worked.size());
  const int of_code = lesson.exercise().empty() ? 0 : lesson.hints().empty() ? 15 : 40;
  return {static_cast<int>(std::ceil(minutes)), static_cast<int>(count(text, question)) - on_paper,
          3 * on_paper + of_code};
}

const std::vector<Way>& ways_through() {
  static const std::vector<Way> ways = {
      {"The idea",
       "why a ring gives exactly what one machine would, and keeps all ranks busy",
       {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 18, 19}},
      {"Systems",
       "what a run costs, what fits, what hangs, and who is slow",
       {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 18, 19, 13, 21, 14, 15, 17, 20, 16}},
      {"GPUs",
       "how a kernel keeps its units busy, and which numbers may have sixteen bits",
       {1, 2, 3, 4, 5, 6, 22, 23, 24, 25, 26, 17}}};
  return ways;
}

std::string_view embedded_text(std::string_view path) {
  for (const EmbeddedFile& file : embedded_files())
    if (file.path == path) return file.text;
  throw std::logic_error(std::string(path) + ": not built in; page.region needs literal strings");
}

Region region_in(std::string_view text, const std::string& path, const std::string& name) {
  const auto is_any_mark = [](std::string_view code) {
    return code.starts_with("// [") ||
           (code.starts_with("// ") && code.ends_with(']') && code.find(' ', 3) == code.npos);
  };
  std::vector<std::string> listed;
  int begins = 0, ends = 0, first_line = 0, line_number = 0;
  for (const std::string& line : lines_of(text)) {
    ++line_number;
    const std::string code = line.substr(indentation(line));
    begins += code == "// [" + name;
    ends += code == "// " + name + "]";
    if (begins == 1 && ends == 0 && !is_any_mark(code)) {
      if (first_line == 0) first_line = line_number;
      listed.push_back(line);
    }
  }
  if (begins != 1 || ends != 1 || listed.empty())
    throw std::logic_error(path + ": not exactly one region '" + name + "' with lines in it");

  std::size_t margin = std::string::npos;
  for (const std::string& line : listed) margin = std::min(margin, line.find_first_not_of(' '));
  Region region{first_line, ""};
  for (const std::string& line : listed)
    region.text += line.substr(std::min(margin, line.size())) + "\n";
  return region;
}

// ---
// The glossary.

std::vector<Entry> parse_glossary(std::string_view text) {
  static const std::regex head(R"(([^|]+) \| (0|[1-9]\d{0,3}) \| ([^|]+) \| (.+))");
  std::vector<Entry> entries;
  for (const std::string& line : lines_of(text)) {
    std::smatch part;
    if (line.empty() || line.starts_with('#')) continue;
    if (std::regex_match(line, part, head))
      entries.push_back({part[1], std::stoi(part[2]), part[3], part[4], ""});
    else if (line.starts_with("  ") && !entries.empty())
      entries.back().text += (entries.back().text.empty() ? "" : "\n") + line.substr(2);
    else
      throw std::logic_error("lessons/glossary.txt: '" + line +
                             "' is neither 'term | lesson | file | name' nor its text");
  }
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return anchor_of(a.term) < anchor_of(b.term); });
  return entries;
}

const std::vector<Entry>& glossary() {
  static const std::vector<Entry> entries = parse_glossary(embedded_text("lessons/glossary.txt"));
  return entries;
}

const Entry* find_entry(const std::string& term) {
  const auto found = std::find_if(glossary().begin(), glossary().end(), [&](const Entry& entry) {
    return anchor_of(entry.term) == anchor_of(term);
  });
  return found == glossary().end() ? nullptr : &*found;
}

}  // namespace ringscope::lessons
