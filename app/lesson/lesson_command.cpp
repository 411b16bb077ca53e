// `ringscope lesson` lists the lessons, shows one, shows the glossary or the bug zoo, or tests the
// learner's solution of an exercise.

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
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
#include "lessons/book/lesson.h"
#include "lessons/book/page.h"
#include "lessons/book/terminal.h"
#include "lessons/book/zoo.h"

namespace ringscope {

struct LessonOptions {
  // A number, list (or nothing), glossary, zoo, challenge, checks; perhaps a name.
  std::vector<std::string> words;
  bool no_pause = false;
  bool check = false;                // the learner's exercise instead of the lesson
  bool python = false;               // that of a step of the learner's ring in Python
  std::optional<int> hint;           // 1 to 3: for a step of the learner's ring
  std::optional<std::string> take;   // "ours" or "stub": begin that step from there
  std::optional<std::string> page;   // write Markdown there instead; "-": to stdout
  std::string out = "runs/lessons";  // folder for recordings
};

namespace {

bool is_set(const char* variable) {
  const char* const value = std::getenv(variable);
  return value != nullptr && *value != '\0';
}

// Return a line of stdin without its end, or none at the end. It is read byte by byte, because nothing
// behind it may be taken.
std::optional<std::string> read_line() {
  std::string line;
  for (;;) {
    char byte = 0;
    const ssize_t count = ::read(STDIN_FILENO, &byte, 1);
    if (count < 0 && errno == EINTR) continue;
    if (count != 1) return line.empty() ? std::nullopt : std::optional(line);
    if (byte == '\n') return line;
    line += byte;
  }
}

// Return the terminal that the program was started in. If `asks`, it waits for the reader, but only if
// both stdin and stdout are a terminal.
lessons::Terminal own_terminal(bool asks) {
  const bool at_terminal = ::isatty(STDOUT_FILENO) == 1;
  const char* const term = std::getenv("TERM");
  lessons::Console console{print_out};  // throws RunError
  if (asks && at_terminal && ::isatty(STDIN_FILENO) == 1) console.read_line = read_line;
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
    console.width = size.ws_col;
  if (size.ws_row > 0) console.height = size.ws_row;
  console.colour =
      at_terminal && !is_set("NO_COLOR") && term != nullptr && std::string_view(term) != "dumb";
  return lessons::Terminal(console);
}

using lessons::Lesson;

void print_page(const std::string& place, const std::string& page) {
  if (place == "-") return print_out(page);
  AtomicFile file(place);
  file.write(page);
  file.commit();
}

void list_lessons() {
  std::string list;
  for (const Lesson& lesson : lessons::all_lessons())
    list += fmt::format("{}. **{}** ({} min). {}\n", lesson.number, lesson.source.title,
                        lessons::minutes_of(lesson).reading, lesson.source.summary);
  own_terminal(false).show(fmt::format("{}\nBegin with: {} lesson 0\n", list, own_command()));
}

void show_glossary(const std::vector<std::string>& words) {
  const std::string term = fmt::format("{}", fmt::join(words.begin() + 1, words.end(), " "));
  const lessons::Entry* const entry = lessons::find_entry(term);
  if (!term.empty() && entry == nullptr)
    contradiction("lesson glossary", fmt::format("'{}' given", term),
                  names_of_all(lessons::glossary()));
  lessons::Terminal terminal = own_terminal(false);
  for (const lessons::Entry& each : lessons::glossary())
    if (term.empty() || &each == entry)
      terminal.show(fmt::format("**{}**: {} (lesson {}; {}: `{}`)\n", each.term, each.text,
                                each.lesson, each.file, each.name));
}

void show_zoo(const LessonOptions& options) {
  lessons::Terminal terminal = own_terminal(!options.no_pause);
  if (options.words.size() == 1) return ask_for_bugs(terminal, std::random_device()());
  own_terminal(false).show(lessons::bug_of(options.words[1]).text);
}

int tell_lesson(const Lesson& lesson, const LessonOptions& options) {
  lessons::Terminal terminal = own_terminal(!options.no_pause);
  try {
    const lessons::Told told = lessons::tell(lesson, options.out, &terminal);
    if (told.failed == 0) {
      terminal.show(fmt::format("All {} checks hold.", told.checks) +
                    (lesson.exercise().empty() ? ""
                                               : fmt::format(" Exercise: `{} lesson {} --check`",
                                                             own_command(), lesson.number)));
      return 0;
    }
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

// Return the file that the learner edits.
fs::path exercise_of(const Lesson& lesson, bool python) {
  const fs::path path = fs::path(RINGSCOPE_SOURCE_DIR) / lesson.exercise();
  return python ? fs::path(path).replace_extension(".py") : path;
}
// Return its path as seen from here.
std::string exercise_path(const Lesson& lesson, bool python) {
  return fs::proximate(exercise_of(lesson, python)).string();
}

// Copy a step of the learner's ring from the stubs or from our solutions. What is there is kept in a
// file whose name ends in .old.
void take_step(const Lesson& lesson, bool ours, bool python) {
  const fs::path root = RINGSCOPE_SOURCE_DIR, mine = exercise_of(lesson, python);
  const char* const from = ours ? "solutions" : python ? "my_ring/python" : "my_ring";
  try {
    fs::create_directories(mine.parent_path());
    if (fs::exists(mine)) fs::rename(mine, mine.string() + ".old");
    fs::copy_file(root / "lessons" / from / mine.filename(), mine);
  } catch (const fs::filesystem_error& error) {
    throw RunError(error.what());
  }
  print_out(fmt::format("{} made from {}\n", exercise_path(lesson, python),
                        ours ? "our version" : "the stub"));
}

// Make the steps up to this one that the learner lacks from their stubs.
void make_missing_steps(const Lesson& lesson, bool python) {
  for (const Lesson& step : lessons::all_lessons())
    if (!step.hints().empty() && step.number <= lesson.number &&
        !fs::exists(exercise_of(step, python)))
      take_step(step, false, python);
}

void name_next_step(const Lesson& lesson) {
  const auto next = std::ranges::find_if(lessons::all_lessons(), [&](const Lesson& other) {
    return other.number > lesson.number && !other.hints().empty();
  });
  if (next != lessons::all_lessons().end())
    print_out(fmt::format("the next step of your ring: lesson {}\n", next->number));
}

// Return a Python that has NumPy.
std::string python_with_numpy() {
  for (const char* const python : {"python3", "/usr/bin/python3"})
    if (output_of(fmt::format("{} -c 'import numpy'", python)).second == 0) return python;
  throw InputError("--python: no python3 with NumPy found; accepted: one, such as python3-numpy's");
}

// Check an exercise in Python: a step of the learner's ring, or a short one.
int check_in_python(const Lesson& lesson) {
  const bool is_step = !lesson.hints().empty();
  const std::string python = is_step ? python_with_numpy() : "python3";
  if (is_step) make_missing_steps(lesson, true);
  print_out(exercise_path(lesson, true) + "\n");
  const fs::path lessons = fs::path(RINGSCOPE_SOURCE_DIR) / "lessons";
  const fs::path mine = exercise_of(lesson, true);
  if (!fs::exists(mine))
    throw InputError(fmt::format(
        "--check: '{}' is gone; accepted: a program beside the tree that it was built from",
        mine.string()));
  const auto [results, status] = output_of(fmt::format(
      "PYTHONDONTWRITEBYTECODE=1 {} {} {} {}", python,
      shell_word(
          (lessons / (is_step ? "my_ring/python/check.py" : "python/exercises.py")).string()),
      lesson.number, shell_word((is_step ? mine.parent_path() : mine).string())));
  print_out(results);
  if (status == 0 && is_step) name_next_step(lesson);
  return status == 0 ? 0 : 1;
}

int check_exercise(const Lesson& lesson, const std::string& out) {
  if (lesson.exercise().empty())
    throw InputError(
        fmt::format("--check: lesson {} has questions on paper; accepted: a lesson with "
                    "an exercise, such as 1",
                    lesson.number));
  const std::string folder = RINGSCOPE_BUILD_DIR, target = "exercise_" + lesson.label();
  if (!fs::exists(fs::path(folder) / "CMakeCache.txt"))
    throw InputError(
        fmt::format("--check: '{}', where this program was built, is gone; accepted: a program "
                    "beside its build",
                    folder));
  const std::string header = exercise_path(lesson, false);
  const bool is_step = !lesson.hints().empty();
  if (is_step) make_missing_steps(lesson, false);
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
  if (status == 0 && is_step) name_next_step(lesson);
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
    {"checks", lessons::checks_page},
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
                    "glossary, zoo, challenge, checks",
                    what));
  return number;
}

// Throw InputError for options that contradict each other.
void check(const LessonOptions& lesson) {
  const bool is_lesson = lesson_number(lesson).has_value();
  const std::string what = what_of(lesson);
  const std::size_t most = what == "zoo" ? 2 : 1;
  if (lesson.words.size() > most && what != "glossary")
    contradiction("lesson",
                  fmt::format("'{}' given after '{}'", lesson.words[most], lesson.words[most - 1]),
                  "one lesson at a time");
  if (lesson.check && !is_lesson)
    contradiction("--check", "given without a lesson", "lesson N --check");
  const bool is_step =
      is_lesson && !lessons::lesson_of_number(*lesson_number(lesson)).hints().empty();
  if (lesson.hint || lesson.take) {
    const char* const flag = lesson.hint ? "--hint" : "--take";
    if (!is_step)
      contradiction(flag, "given without a step of your ring", "lesson 3, 4, 6, 7, 8, 9, 13 or 16");
    if (lesson.check || lesson.page || (lesson.hint && lesson.take))
      contradiction(flag, "given beside another thing to do", "one of them");
    if (lesson.take && *lesson.take != "ours" && *lesson.take != "stub")
      contradiction(flag, fmt::format("'{}' given", *lesson.take), "ours, stub");
  }
  if (lesson.check && lesson.page) contradiction("--check", "given beside --page", "one of them");
  if (lesson.python && !(is_step && (lesson.check || lesson.take)))
    contradiction("--python", "given without a check of a step of your ring",
                  "--check or --take with lesson 3, 4, 6, 7, 8, 9, 13 or 16");
  if (lesson.page && lesson.words.size() > 1)
    contradiction("--page", "given beside a name", "lesson glossary|zoo --page FILE");
}

}  // namespace

int carry_out(const LessonOptions& options) {
  const std::optional<int> number = lesson_number(options);
  if (!number) {
    const std::string what = what_of(options);
    if (options.page || what == "challenge" || what == "checks")
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
  if (options.check)
    return options.python || lesson.exercise().ends_with(".py")
               ? check_in_python(lesson)
               : check_exercise(lesson, options.out);
  if (options.hint) {
    const std::string hint = lesson.hints().at(*options.hint - 1);
    own_terminal(false).show(hint);
    return 0;
  }
  if (options.take) {
    take_step(lesson, *options.take == "ours", options.python);
    return 0;
  }
  if (!options.page) return tell_lesson(lesson, options);
  const lessons::Told told = lessons::tell(lesson);
  print_page(*options.page, told.page);
  for (const auto& [file, svg] : told.drawings)
    if (*options.page != "-") write_file(fs::path(*options.page).replace_filename(file), svg);
  for (const lessons::StoryPicture& picture : told.pictures) {
    const fs::path path = fs::path(*options.page).replace_filename(picture.file);
    // Measured times differ from run to run, so a picture of them is not drawn anew.
    const bool is_measured = picture.recording.info.base_time_ns != 0;
    if (*options.page != "-" && !(is_measured && fs::exists(path)))
      write_story_picture(picture.recording, picture.paragraph, path);
  }
  if (told.failed == 0) return 0;
  print_error(fmt::format("lesson {}: {} checks failed", lesson.number, told.failed));
  return 1;
}

Finish declare_lesson(CommandFlags& flags) {
  const auto lesson = std::make_shared<LessonOptions>();
  flags.words("WHAT", lesson->words,
              "a lesson's number; list (the default); glossary, and perhaps a term; zoo: which bug "
              "is this? (or one, by its name); challenge; checks: what each lesson's numbers were "
              "tried by");
  flags.flag("--no-pause", lesson->no_pause, "tell all of it at once and ask nothing");
  flags.flag("--check", lesson->check, "build and test your version of the lesson's exercise");
  flags.flag("--python", lesson->python,
             "with --check or --take: a step of your ring in Python, with NumPy");
  flags.integer("--hint", lesson->hint, "a hint for a step of your ring; 3 is nearly the answer", 1,
                3);
  flags.text("--take", "FROM", lesson->take,
             "begin a step of your ring from the stub or from ours: stub, ours");
  flags.path("--page", lesson->page,
             "write it as a page of Markdown, with its pictures beside it; -: to stdout");
  flags.text("--out", "DIR", lesson->out, "folder for recordings (runs/lessons)");
  return [lesson] {
    check(*lesson);
    return *lesson;
  };
}

}  // namespace ringscope
