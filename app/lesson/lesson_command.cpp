// `ringscope lesson` lists the lessons, shows one, shows the glossary or the bug zoo, or tests the
// learner's solution of an exercise.

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <random>
#include <utility>

#include "app/command_line/commands.h"
#include "app/report/terminal.h"
#include "app/view/view_command.h"
#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/program.h"
#include "core/base/text.h"
#include "lessons/book/glossary.h"
#include "lessons/book/markdown_writer.h"
#include "lessons/book/terminal_writer.h"
#include "lessons/book/zoo.h"

namespace ringscope {

namespace {

// Return the terminal's size, or 80 x 24 if there is no terminal.
winsize size_of_terminal() {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) size.ws_col = 80;
  if (size.ws_row == 0) size.ws_row = 24;
  return size;
}

bool is_set(const char* variable) {
  const char* const value = std::getenv(variable);
  return value != nullptr && *value != '\0';
}

// Read one byte from stdin. Return none at its end.
std::optional<char> read_byte() {
  char byte = 0;
  for (;;) {
    const ssize_t count = ::read(STDIN_FILENO, &byte, 1);
    if (count == 1) return byte;
    if (count == 0 || errno != EINTR) return std::nullopt;
  }
}

// Deliver keys one by one and without echo while this object lives. Ctrl-C is delivered as a key
// too, so that no way out leaves the terminal in this mode.
class KeyByKey {
 public:
  KeyByKey() : good_(::tcgetattr(STDIN_FILENO, &before_) == 0) {
    if (!good_) return;
    termios raw = before_;
    raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO | ISIG);
    raw.c_cc[VMIN] = 1;
    raw.c_cc[VTIME] = 0;
    ::tcsetattr(STDIN_FILENO, TCSANOW, &raw);
  }
  ~KeyByKey() {
    if (good_) ::tcsetattr(STDIN_FILENO, TCSANOW, &before_);
  }
  KeyByKey(const KeyByKey&) = delete;
  KeyByKey& operator=(const KeyByKey&) = delete;

 private:
  termios before_{};
  bool good_;
};

// The terminal that the program was started in, through the interface that lessons use.
class TerminalConsole : public lessons::Console {
 public:
  // If `pauses`, wait for keys and answers, but only if both stdin and stdout are a terminal.
  explicit TerminalConsole(bool pauses) {
    const bool at_terminal = ::isatty(STDOUT_FILENO) == 1;
    const char* const term = std::getenv("TERM");
    colour_ =
        at_terminal && !is_set("NO_COLOR") && term != nullptr && std::string_view(term) != "dumb";
    somebody_reads_ = pauses && at_terminal && ::isatty(STDIN_FILENO) == 1;
  }

  void write(std::string_view text) override { print_out(text); }  // throws RunError
  int width() const override { return size_of_terminal().ws_col; }
  int height() const override { return size_of_terminal().ws_row; }
  bool colour() const override { return colour_; }
  bool somebody_reads() const override { return somebody_reads_; }

  bool wait_for_key() override {
    // A Ctrl-D pressed before this mode began reads as a zero.
    constexpr char kCtrlC = 3, kCtrlD = 4, kEarlyCtrlD = 0;
    const KeyByKey keys;
    for (;;) {
      const std::optional<char> key = read_byte();
      if (!key || *key == 'q' || *key == 'Q' || *key == kCtrlC) return false;
      if (*key == kCtrlD || *key == kEarlyCtrlD) return false;
      if (*key == ' ' || *key == '\n' || *key == '\r') return true;
    }
  }

  std::optional<std::string> read_line() override {
    std::string line;
    for (;;) {
      const std::optional<char> byte = read_byte();
      if (!byte) return line.empty() ? std::nullopt : std::optional(line);
      if (*byte == '\n') return line;
      line += *byte;
    }
  }

 private:
  bool colour_;
  bool somebody_reads_;
};

using lessons::Lesson;

void print_page(const std::string& place, const std::string& page) {
  if (place == "-") return print_out(page);
  AtomicFile file(place);
  file.write(page);
  file.commit();
}

void list_lessons() {
  const TerminalConsole console(false);
  for (const Lesson& lesson : lessons::all_lessons()) {
    print_out(fmt::format("{:>3}  {} ({:.0f} min)\n", lesson.number, lesson.source.title,
                          std::ceil(lessons::reading_minutes(lesson))));
    print_out(lessons::wrapped_text(console, lesson.source.summary, "     "));
  }
  print_out(fmt::format("\nBegin with: {} lesson 1\n", own_command()));
}

void show_entry(const TerminalConsole& console, const lessons::Entry& entry) {
  print_out(lessons::wrapped_text(console, "**" + entry.term + "**", ""));
  print_out(lessons::wrapped_text(console, entry.text, "  "));
  print_out(fmt::format("  lesson {}; {}: {}\n", entry.lesson, entry.file, entry.name));
}

void show_glossary(const std::vector<std::string>& words) {
  const TerminalConsole console(false);
  if (words.size() == 1) {
    for (const lessons::Entry& entry : lessons::glossary()) show_entry(console, entry);
    return;
  }
  const std::string term = fmt::format("{}", fmt::join(words.begin() + 1, words.end(), " "));
  const lessons::Entry* const entry = lessons::find_entry(term);
  if (entry == nullptr)
    contradiction("lesson glossary", fmt::format("'{}' given", term),
                  names_of_all(lessons::glossary()));
  show_entry(console, *entry);
}

void show_zoo(const LessonOptions& options) {
  TerminalConsole console(!options.no_pause);
  if (options.words.size() == 1) return ask_for_bugs(console, std::random_device()());
  show_bug(console, lessons::bug_of(options.words[1]));
}

int tell_lesson(const Lesson& lesson, const LessonOptions& options) {
  TerminalConsole console(!options.no_pause);
  try {
    const lessons::Told told = lessons::tell_at(console, lesson, options.out);
    if (told.failed == 0) return 0;
    print_error(
        fmt::format("lesson {}: {} of {} checks failed", lesson.number, told.failed, told.checks));
    return 1;
  } catch (const lessons::ReaderStopped&) {
    print_out(
        fmt::format("\nStopped. To begin again: {} lesson {}\n", own_command(), lesson.number));
    return 0;
  }
}

// Run `command` in a shell. Return its output (stdout and stderr) and its exit status.
std::pair<std::string, int> output_of(const std::string& command) {
  std::FILE* const pipe = ::popen((command + " 2>&1").c_str(), "r");
  if (pipe == nullptr) throw RunError("'" + command + "' can't be started");
  std::string output;
  std::array<char, 4096> part;
  for (std::size_t count; (count = std::fread(part.data(), 1, part.size(), pipe)) > 0;)
    output.append(part.data(), count);
  const int status = ::pclose(pipe);
  return {output, WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status)};
}

namespace fs = std::filesystem;

// Copy a step of the learner's ring from the stubs or from our solutions. What is there is kept in a
// file whose name ends in .old.
void take_step(const Lesson& lesson, const std::string& from) {
  const fs::path root = RINGSCOPE_SOURCE_DIR, mine = root / lesson.exercise();
  try {
    fs::create_directories(mine.parent_path());
    if (fs::exists(mine)) fs::rename(mine, mine.string() + ".old");
    fs::copy_file(root / "lessons" / from / mine.filename(), mine);
  } catch (const fs::filesystem_error& error) {
    throw RunError(error.what());
  }
  print_out(fmt::format("{} made from {}\n", lesson.exercise(),
                        from == "my_ring" ? "the stub" : "our version"));
}

int check_exercise(const Lesson& lesson, const std::string& out) {
  const std::string folder = RINGSCOPE_BUILD_DIR, target = "exercise_" + lesson.label();
  if (!fs::exists(fs::path(folder) / "CMakeCache.txt"))
    throw InputError(
        fmt::format("--check: '{}', where this program was built, is gone; accepted: a program "
                    "beside its build",
                    folder));
  const std::string header = lesson.exercise();
  const bool is_step = !lesson.hints().empty();
  for (const Lesson& step : lessons::all_lessons())
    if (is_step && !step.hints().empty() && step.number <= lesson.number &&
        !fs::exists(fs::path(RINGSCOPE_SOURCE_DIR) / step.exercise()))
      take_step(step, "my_ring");
  print_out(header + "\n");
  // Take the launcher's lock, because two builds of one folder at a time would spoil it.
  const std::string lock = (fs::path(RINGSCOPE_SOURCE_DIR) / "build/.lock").string();
  const auto [messages, built] =
      output_of(fmt::format("{}cmake --build '{}' --target {}",
                            fs::exists(lock) ? "flock '" + lock + "' " : "", folder, target));
  if (built != 0) {
    print_out(messages);
    print_error(header + ": building its test failed, see above");
    return 1;
  }
  std::string run = fmt::format("'{}/lessons/{}'", folder, target);
  if (is_step) {
    std::error_code error;  // the check says that it can't write there
    fs::create_directories(out, error);
    run += fmt::format(" '{}'", (fs::path(out) / ("my_ring-" + lesson.label() + ".json")).string());
  }
  const auto [results, status] = output_of(run);
  print_out(results);
  if (status == 0) return 0;
  if (status != 1) print_error(fmt::format("{}: its test ended with status {}", header, status));
  return 1;
}

std::string what_of(const LessonOptions& options) {
  return options.words.empty() ? "list" : options.words[0];
}

// The pages that are no lesson's, by their words.
const std::map<std::string, std::string (*)()> kOtherPages = {
    {"list", lessons::contents_page},
    {"glossary", lessons::glossary_page},
    {"zoo", [] { return std::string(lessons::embedded_text("lessons/zoo.md")); }},
    {"challenge", [] { return std::string(lessons::embedded_text("lessons/challenges.md")); }}};

// Return the lesson's number, or none for another page. Throw InputError for any other word.
std::optional<int> lesson_number(const LessonOptions& options) {
  const std::string what = what_of(options);
  if (kOtherPages.contains(what)) return std::nullopt;
  const std::optional<int> number = parse_number<int>(what);
  if (!number)
    throw InputError(
        fmt::format("lesson '{}' given; accepted: a number of ringscope lesson list, list, "
                    "glossary, zoo, challenge",
                    what));
  return number;
}

// Throw InputError for options that contradict each other.
void check(const LessonOptions& lesson) {
  const bool is_lesson = lesson_number(lesson).has_value();
  const std::string what = what_of(lesson);
  const std::size_t most = what == "zoo" || what == "challenge" ? 2 : 1;
  if (lesson.words.size() > most && what != "glossary")
    contradiction("lesson",
                  fmt::format("'{}' given after '{}'", lesson.words[most], lesson.words[most - 1]),
                  "one lesson at a time");
  if (lesson.check && !is_lesson)
    contradiction("--check", "given without a lesson", "lesson N --check");
  if (lesson.hint || lesson.take) {
    const char* const flag = lesson.hint ? "--hint" : "--take";
    if (!is_lesson || lessons::lesson_of_number(*lesson_number(lesson)).hints().empty())
      contradiction(flag, "given without a step of your ring",
                    "lesson 3, 4, 6, 7, 9, 10, 15 or 18");
    if (lesson.check || lesson.page || (lesson.hint && lesson.take))
      contradiction(flag, "given beside another thing to do", "one of them");
    if (lesson.take && *lesson.take != "ours" && *lesson.take != "stub")
      contradiction(flag, fmt::format("'{}' given", *lesson.take), "ours, stub");
  }
  if (lesson.check && lesson.page) contradiction("--check", "given beside --page", "one of them");
  if (lesson.page && lesson.words.size() > 1)
    contradiction("--page", "given beside a name", "lesson glossary|zoo|challenge --page FILE");
}

}  // namespace

int carry_out(const LessonOptions& options) {
  const std::optional<int> number = lesson_number(options);
  if (!number) {
    const std::string what = what_of(options);
    if (what == "challenge" && options.words.size() > 1) {
      const auto [text, is_whole] = lessons::score_of_plan(options.words[1]);
      print_out(text);
      return is_whole ? 0 : 1;
    }
    if (options.page || what == "challenge")
      print_page(options.page.value_or("-"), kOtherPages.at(what)());
    else if (what == "glossary")
      show_glossary(options.words);
    else if (what == "zoo")
      show_zoo(options);
    else
      list_lessons();
    return 0;
  }
  const Lesson& lesson = lessons::lesson_of_number(*number);
  if (options.check) return check_exercise(lesson, options.out);
  if (options.hint) {
    const std::string hint = lesson.hints().at(static_cast<std::size_t>(*options.hint - 1));
    print_out(lessons::wrapped_text(TerminalConsole(false), hint, ""));
    return 0;
  }
  if (options.take) {
    take_step(lesson, *options.take == "ours" ? "solutions" : "my_ring");
    return 0;
  }
  if (!options.page) return tell_lesson(lesson, options);
  int failed = 0;
  std::vector<lessons::StoryPicture> pictures;
  print_page(*options.page, lessons::page_of(lesson, failed, "", &pictures));
  for (const lessons::StoryPicture& picture : pictures) {
    const fs::path path = fs::path(*options.page).replace_filename(picture.file);
    // Measured times differ from run to run, so a picture of them is not drawn anew.
    const bool is_measured = picture.recording.info.base_time_ns != 0;
    if (*options.page != "-" && !(is_measured && fs::exists(path)))
      write_story_picture(picture.recording, picture.paragraph, path);
  }
  if (failed == 0) return 0;
  print_error(fmt::format("lesson {}: {} checks failed", lesson.number, failed));
  return 1;
}

Finish declare_lesson(CommandFlags& flags) {
  const auto lesson = std::make_shared<LessonOptions>();
  flags.words("WHAT", lesson->words,
              "a lesson's number; list (the default); glossary, and perhaps a term; zoo: which bug "
              "is this? (or one, by its name); challenge, and perhaps a file to score");
  flags.flag("--no-pause", lesson->no_pause, "tell all of it at once and ask nothing");
  flags.flag("--check", lesson->check, "build and test your version of the lesson's exercise");
  flags.integer("--hint", lesson->hint, "a hint for a step of your ring; 3 is nearly the answer", 1,
                3);
  flags.text("--take", "FROM", lesson->take,
             "begin a step of your ring from the stub or from ours: stub, ours");
  flags.path("--page", lesson->page,
             "write it as a page of Markdown, with its story's pictures beside it; -: to stdout");
  flags.text("--out", "DIR", lesson->out, "folder for recordings (runs/lessons)");
  return [lesson] {
    check(*lesson);
    return *lesson;
  };
}

}  // namespace ringscope
