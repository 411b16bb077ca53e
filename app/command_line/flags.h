// Who asked for it: what goes wrong below the command line is told with the flag that led there.
#pragma once

#include <fmt/format.h>

#include <charconv>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/math.h"

namespace CLI {
class App;
}

namespace ringscope {

// Returns f(). What it throws of InputError and RunError is thrown on with `flag` ("--q", or
// "--dtype:" where no file name follows) before the message.
template <class F>
auto for_flag(const std::string& flag, F&& f) {
  try {
    return f();
  } catch (const InputError& error) {
    throw InputError(flag + " " + error.what());
  } catch (const RunError& error) {
    throw RunError(flag + " " + error.what(), error.rank(), error.step());
  }
}

// ---
// The program's commands and their flags. CLI11 splits the command line and writes the help; values
// are read here, and refused in one manner: what is wrong is told with the flag, the value, and
// what would be accepted. No other file needs CLI11's headers, which take long to compile.

// Numbers are read here, not by CLI11, which accepts what overflows and does not say what it
// wanted.
template <class T>
T integer_of_flag(const std::string& flag, const std::string& text, T least, T most) {
  T value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error == std::errc() && stop == end && value >= least && value <= most) return value;
  throw InputError(
      fmt::format("{}: '{}' given; accepted: an integer from {} to {}", flag, text, least, most));
}

// Of a number that need not be an integer.
enum class Accepted { above_0, from_0, below_1 };  // up to 1e9; up to 1e9; from 0

double number_of_flag(const std::string& flag, const std::string& text, Accepted accepted);
// Above 0, and far from where clocks in nanoseconds end.
double seconds_of_flag(const std::string& flag, const std::string& text);

// "FLAG: WHY; accepted: ...", of flags that don't go together.
[[noreturn]] void contradiction(const std::string& flag, const std::string& why,
                                const std::string& accepted);

// The value of `flag` as far as it can be told before the command line is read; "" for none.
std::string value_before_reading(const std::string& flag,
                                 const std::vector<std::string>& arguments);

// One command's. What they are read into must outlive the reading.
class CommandFlags {
 public:
  explicit CommandFlags(CLI::App* command) : command_(command) {}

  void flag(const std::string& name, bool& target, const std::string& help);
  // A flag with a value, which `read` takes.
  void value(const std::string& name, const std::string& type, const std::string& help,
             std::function<void(const std::string&)> read);
  // One whose value may be left out; `read` then takes "".
  void optional_value(const std::string& name, const std::string& type, const std::string& help,
                      std::function<void(const std::string&)> read);
  void path(const std::string& name, std::optional<std::string>& target, const std::string& help);
  void size(const std::string& name, std::optional<Index>& target, const std::string& help);
  // An integer from 1.
  template <class T>
  void count(const std::string& name, T& target, const std::string& help) {
    value(name, "N", help, [&target, name](const std::string& text) {
      target = integer_of_flag<Index>(name, text, 1, Index{std::numeric_limits<int>::max()} + 1);
    });
  }
  // A name that `read` understands.
  template <class T, class Parse>
  void name(const std::string& flag, T& target, const std::string& accepted,
            const std::string& help, Parse read) {
    value(flag, accepted, help, [&target, flag, read](const std::string& text) {
      try {
        target = read(text);
      } catch (const InputError& error) {
        // Some complain about a part of the text only.
        const std::string what = error.what();
        throw InputError(what.starts_with("'" + text + "'")
                             ? flag + ": " + what
                             : fmt::format("{} '{}': {}", flag, text, what));
      }
    });
  }
  // One that may be given several times, and takes all the words up to the next flag.
  void values(const std::string& name, const std::string& type, std::vector<std::string>& target,
              const std::string& help);
  // What is no flag, under this `name` in the help.
  void words(const std::string& name, std::vector<std::string>& target, const std::string& help);
  // Without that flag the command is refused.
  void require(const std::string& name);

  // Whether a flag was given. After the reading.
  bool given(const std::string& name) const;

  // What CLI11 lets pass, or refuses without saying what it wanted: flags given twice, without the
  // value that they take or with one that they don't. Throws InputError.
  void require_well_formed(const std::vector<std::string>& arguments) const;

 private:
  CLI::App* command_;
  std::map<std::string, std::string> types_;  // of the value; "": takes none
  std::set<std::string> optional_;            // may do without the value that they take
  std::set<std::string> repeated_;            // flags that may be given several times
};

// A command and its flags, for pages about them.
struct DescribedFlag {
  std::string name, type, help;  // type: of the value; "" takes none
};
struct DescribedCommand {
  std::string name, help;
  std::vector<DescribedFlag> flags;
};

// The whole: a command, and what was given with it.
class CommandLine {
 public:
  CommandLine(const std::string& description, const std::string& program);
  ~CommandLine();

  // The flags last as long as this. `page` is the file that describes the command in full, from the
  // source folder, which its --help names.
  CommandFlags& add_command(const std::string& name, const std::string& help,
                            const std::string& page);

  // The text of `ringscope --help`, and all commands in the order in which they were added.
  std::string help() const;
  std::vector<DescribedCommand> described() const;

  // Reads `arguments`, at least one. Returns the text of the help if that was asked for. Throws
  // InputError.
  std::optional<std::string> read(const std::vector<std::string>& arguments);
  // The command that was read, "" for none; and what else was given with it, which would be
  // InputError.
  std::string command() const;
  void require_no_extras() const;

 private:
  std::unique_ptr<CLI::App> app_;
  std::map<std::string, CommandFlags> commands_;
};

}  // namespace ringscope
