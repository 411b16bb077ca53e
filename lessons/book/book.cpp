#include "lessons/book/book.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <map>
#include <stdexcept>
#include <utility>

#include "core/base/error.h"
#include "core/sim/ideal_timeline.h"
#include "core/trace/chrome_trace.h"
#include "lessons/book/page.h"

namespace ringscope::lessons {
namespace {

class Book : public Page {
 public:
  Book(const Lesson& lesson, Writer& writer, const std::string& trace_folder)
      : lesson_(lesson), writer_(writer), trace_folder_(trace_folder) {}

  Told tell() {
    writer_.begin(lesson_);
    lesson_.run(*this);
    show_until(lesson_.source.line_count + 1);
    const std::string& last = lesson_.elsewhere;
    const std::size_t end = last.starts_with("What breaks if ") ? last.find('\n') + 1 : 0;
    const std::size_t mark = last.find('?') + 1;
    if (end > 0)
      writer_.prose("## " + last.substr(0, mark) + "\n\n" + last.substr(mark + 1, end - mark - 1));
    if (!last.empty()) writer_.prose("## Elsewhere\n\n" + last.substr(end));
    for (const Asked& asked : asked_)
      if (!asked.answered)
        throw std::logic_error("'" + asked.question.text + "' is never answered");
    writer_.end(lesson_, told_.checks, told_.failed);
    return told_;
  }

  Guess predict(const std::string& question, const std::string& unit, At at) override {
    show_until(at);
    asked_.push_back({{question, unit}, {}, false});
    asked_.back().guess = writer_.ask(asked_.back().question);
    return {static_cast<int>(asked_.size()) - 1};
  }
  void answer(const Guess& guess, double actual, double tolerance, Source source, At at) override {
    show_until(at);
    Asked& asked = asked_.at(static_cast<std::size_t>(guess.number));
    asked.answered = true;
    const Cell cell(actual);
    writer_.answer(
        asked.question, source == Source::measured ? measured(cell.shown) : cell,
        asked.guess ? verdict_on(number_in(*asked.guess).value_or(0), actual, tolerance) : "");
  }
  void predict(const std::string& question, const std::string& unit, double actual,
               double tolerance, At at) override {
    answer(predict(question, unit, at), actual, tolerance, Source::computed, at);
  }

  void choose(const std::string& question, const std::vector<std::string>& options,
              const std::string& letters, At at) override {
    show_until(at);
    const Question asked{question, "", options, letters.size()};
    const std::optional<std::string> yours = writer_.ask(asked);
    writer_.answer(asked, spelled_out(letters, options),
                   !yours ? ""
                   : yours == letters
                       ? "You predicted exactly that."
                       : "You predicted " + spelled_out(*yours, options) + ", which is wrong.");
  }

  void draw(const std::string& question, const std::string& cells, At at) override {
    show_until(at);
    const Question asked{question, "", {}, 1, cells};
    const std::optional<std::string> yours = writer_.ask(asked);
    std::string verdict;
    if (yours) {
      int wrong = 0;
      for (std::size_t i = 0; i < cells.size(); ++i) wrong += (*yours)[i] != cells[i];
      const auto all = std::count_if(cells.begin(), cells.end(), [](char c) { return c != '/'; });
      verdict = wrong == 0 ? "You drew exactly that."
                           : fmt::format("You drew {} of {} cells otherwise.", wrong, all);
    }
    writer_.answer(asked, cells, verdict);
  }

  void value(const std::string& name, const Cell& value, const std::string& unit, At at) override {
    show_until(at);
    writer_.value(name, value, unit);
  }
  void table(const Table& table, At at) override {
    show_until(at);
    writer_.table(table);
  }
  void print(const std::string& text, At at) override {
    show_until(at);
    writer_.text(text);
  }

  void check(const std::string& claim, bool holds, At at) override {
    show_until(at);
    judge(claim, holds, "");
  }
  void equal(const std::string& claim, const Cell& found, const Cell& expected, At at) override {
    show_until(at);
    judge(claim, found.shown == expected.shown,
          fmt::format("{} found, {} expected", found.shown, expected.shown));
  }
  void at_most(const std::string& claim, double error, double bound, At at) override {
    show_until(at);
    judge(claim, error <= bound, fmt::format("{:g} found, at most {:g} expected", error, bound));
  }

  void region(const std::string& path, const std::string& name, At at) override {
    show_until(at);
    const Region region = region_of(path, name);
    writer_.listing(fmt::format("{}, line {}", path, region.first_line), region.text);
  }

  void trace(Recording recording, std::vector<StoryStep> story, const std::string& name,
             At at) override {
    show_until(at);
    const std::string file = lesson_.label() + (name.empty() ? "" : "-" + name) + ".json";
    recording.story = std::move(story);
    if (trace_folder_.empty()) {
      writer_.recording("runs/lessons/" + file, recording);
      return;
    }
    std::error_code error;
    std::filesystem::create_directories(trace_folder_, error);
    if (error)
      throw InputError(fmt::format("--out '{}': {}; accepted: a folder that exists or can be made",
                                   trace_folder_, error.message()));
    const std::string path = (std::filesystem::path(trace_folder_) / file).string();
    write_chrome_trace(path, recording);
    writer_.recording(path, recording);
  }

  void ring_trace(Recording recording, std::vector<StoryStep> story, const std::string& name,
                  At at) override {
    trace(ideal_timeline(std::move(recording)), std::move(story), name, at);
  }

  void picture(const std::string& file, const std::string& caption, At at) override {
    show_until(at);
    writer_.picture("lessons/" + lesson_.folder + "/" + file, caption);
  }

 private:
  struct Asked {
    Question question;
    std::optional<std::string> guess;
    bool answered = false;
  };

  // Show what stands above a call and has not been shown yet.
  void show_until(const At& at) {
    const Lines* const call = std::string_view(at.file).ends_with(lesson_.path())
                                  ? lesson_.source.call_at(at.line)
                                  : nullptr;
    if (call == nullptr)
      throw std::logic_error(fmt::format(
          "{}:{}: the page may be called only by {}, in the lesson's own function, by a "
          "statement of its own",
          at.file, at.line, lesson_.path()));
    show_until(call->first);
  }
  void show_until(int line) {
    const std::vector<Piece>& pieces = lesson_.source.pieces;
    for (; shown_ < pieces.size() && pieces[shown_].line < line; ++shown_) {
      const Piece& piece = pieces[shown_];
      if (piece.kind == Piece::Kind::code)
        writer_.listing("", piece.text);
      else if (!piece.text.empty())
        writer_.prose(piece.text);
    }
  }

  void judge(const std::string& claim, bool holds, const std::string& details) {
    ++told_.checks;
    if (!holds) ++told_.failed;
    writer_.check(claim, holds, holds ? "" : details);
  }

  const Lesson& lesson_;
  Writer& writer_;
  std::string trace_folder_;
  std::size_t shown_ = 0;  // number of pieces
  std::vector<Asked> asked_;
  Told told_;
};

}  // namespace

Told tell(const Lesson& lesson, Writer& writer, const std::string& trace_folder) {
  return Book(lesson, writer, trace_folder).tell();
}

std::string verdict_on(double guess, double actual, double tolerance) {
  if (guess == actual) return "You predicted exactly that.";
  const double off = std::abs(guess - actual);
  const std::string beginning = fmt::format("You predicted {}: ", Cell(guess).shown);
  if (off <= tolerance * std::abs(actual))
    return beginning + fmt::format("right, within {}.", Cell(off).shown);
  std::string how = fmt::format("{} too {}", Cell(off).shown, guess < actual ? "low" : "high");
  if (guess * actual > 0) {
    const double ratio = std::max(guess / actual, actual / guess);
    how += ratio < 2 ? fmt::format(", {:.0f} % off", 100 * off / std::abs(actual))
                     : fmt::format(", by a factor of {:.3g}", ratio);
  }
  return beginning + how + ".";
}

std::optional<double> number_in(const std::string& text) {
  std::string digits;
  for (const char c : text)
    if (c != ',' && c != '_' && c != ' ' && c != '\t' && c != '\r') digits += c;
  double value = 0;
  const char* const end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, value);
  if (error != std::errc() || stop == digits.data() || !std::isfinite(value)) return std::nullopt;
  static const std::map<std::string, double> factors = {
      {"", 1},     {"%", 1},       {"k", 1e3},     {"K", 1e3},     {"M", 1e6},    {"G", 1e9},
      {"T", 1e12}, {"Ki", 0x1p10}, {"Mi", 0x1p20}, {"Gi", 0x1p30}, {"Ti", 0x1p40}};
  const auto factor = factors.find(std::string(stop, end));
  if (factor == factors.end()) return std::nullopt;
  return value * factor->second;
}

std::string letters_in(const std::string& text, std::size_t options, std::size_t wanted) {
  std::string letters;
  for (const char c : text) {
    if (c == ',' || c == ' ' || c == '\t' || c == '\r') continue;
    if (c < 'a' || c >= 'a' + static_cast<int>(options) || letters.find(c) != std::string::npos)
      return "";
    letters += c;
  }
  return letters.size() == wanted ? letters : "";
}

std::string cells_in(const std::string& text, const std::string& like) {
  std::string cells;
  for (const char c : text)
    if (c != ' ' && c != '\t' && c != '\r') cells += c == 'x' ? '#' : c;
  if (cells.size() != like.size()) return "";
  for (std::size_t i = 0; i < cells.size(); ++i)
    if ((cells[i] == '/') != (like[i] == '/') ||
        std::string_view("#./").find(cells[i]) == std::string_view::npos)
      return "";
  return cells;
}

std::string drawn_rows(const std::string& cells, const std::string& indent) {
  std::string rows = indent;
  for (const char c : cells) rows += c == '/' ? "\n" + indent : std::string(1, c);
  return rows + "\n";
}

std::string spelled_out(const std::string& letters, const std::vector<std::string>& options) {
  std::string text;
  for (const char c : letters)
    text += (text.empty() ? "" : "; ") + options.at(static_cast<std::size_t>(c - 'a'));
  return text;
}

}  // namespace ringscope::lessons
