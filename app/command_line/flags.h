// Commands, their flags, and errors that name the flag which led to them. CLI11 splits the command
// line and writes the help; the values are read here. No other file needs CLI11's headers, because
// they take long to compile.
#pragma once

#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/base/describe.h"
#include "core/base/error.h"
#include "core/base/math.h"

namespace CLI {
class App;
}

namespace ringscope {

// Return f(). Throw its InputError or RunError again with `flag` before the message. `flag` is
// "--q", or "--dtype:" where no file name follows.
template <class F>
auto for_flag(const std::string& flag, F&& f) {
  try {
    return f();
  } catch (const InputError& error) {
    throw InputError(flag + " " + error.what(), error.fault());
  } catch (const RunError& error) {
    throw RunError(flag + " " + error.what(), error.rank(), error.step());
  }
}

// Return f(). Throw its InputError, which names a flag without its dashes, again with them.
template <class F>
auto with_dashes(F&& f) {
  try {
    return f();
  } catch (const InputError& error) {
    throw InputError(std::string("--") + error.what());
  }
}

// Return the two numbers of a text such as "128x64", or none if it is not of this form.
std::optional<std::pair<Index, Index>> sizes_in(const std::string& text);

// T, or what an optional T holds.
template <class T>
struct ValueOf {
  using Type = T;
};
template <class T>
struct ValueOf<std::optional<T>> {
  using Type = T;
};
template <class T>
using Value = typename ValueOf<T>::Type;

// Throw InputError "FLAG: WHY; accepted: ..." for flags that don't go together.
[[noreturn]] void contradiction(const std::string& flag, const std::string& why,
                                const std::string& accepted);

// Return the first value of `flag`, found without parsing the command line, or "" for none.
std::string value_before_reading(const std::string& flag,
                                 const std::vector<std::string>& arguments);

// The flags of one command. Their targets must outlive the reading of the command line.
class CommandFlags {
 public:
  explicit CommandFlags(CLI::App* command) : command_(command) {}

  CommandFlags& flag(const std::string& name, bool& target, const std::string& help);
  // Add a flag with a value, which `read` takes.
  CommandFlags& value(const std::string& name, const std::string& type, const std::string& help,
                      std::function<void(const std::string&)> read);
  // Add a flag whose value may be left out; `read` then takes "".
  void optional_value(const std::string& name, const std::string& type, const std::string& help,
                      std::function<void(const std::string&)> read);
  // Add the flag of the row `name` of a struct that describes itself. `help`, if any, replaces the row's.
  template <class S>
  CommandFlags& row(S& object, const std::string& name, const std::string& help = "") {
    describe(object, [&](const MemberRow& row, auto&& member) {
      if (row.name != name) return;
      const std::string flag = "--" + name;
      const std::string text = with_default(help.empty() ? row.help : help, text_of(member));
      if constexpr (std::is_same_v<decltype(member), bool&>)
        this->flag(flag, member, text);
      else
        value(flag, std::string(row.type), text, [&object, name, flag](const std::string& given) {
          read_member(object, name, given, flag);
        });
    });
    return *this;
  }
  // Add the flags of all rows that have help.
  template <class S>
  void rows(S& object) {
    describe(object, [&](const MemberRow& row, auto&&) {
      if (!row.help.empty()) this->row(object, std::string(row.name));
    });
  }
  // Add a flag whose value is taken as it is.
  template <class T>
  CommandFlags& text(const std::string& name, const std::string& type, T& target,
                     const std::string& help) {
    return value(name, type, help, [&target](const std::string& given) { target = given; });
  }
  template <class T>
  CommandFlags& path(const std::string& name, T& target, const std::string& help) {
    return text(name, "FILE", target, help);
  }
  // Add a flag that takes an integer in [least, most].
  template <class T>
  CommandFlags& integer(const std::string& name, T& target, const std::string& help,
                        Value<T> least = 1, Value<T> most = std::numeric_limits<Value<T>>::max(),
                        const std::string& type = "N") {
    return value(name, type, help, [&target, name, least, most](const std::string& given) {
      target = for_flag(name + ":", [&] { return integer_in<Value<T>>(given, least, most); });
    });
  }
  // Add a flag that takes an integer from 1 to 2^31, the largest of all sizes.
  CommandFlags& count(const std::string& name, Index& target, const std::string& help) {
    return integer(name, target, help, 1, Index{1} << 31);
  }
  // Add a flag that takes a number. The target becomes `unit` times that.
  template <class T>
  CommandFlags& number(const std::string& name, T& target, const Range& accepted,
                       const std::string& help, double unit = 1, const std::string& type = "X") {
    return value(name, type, help, [&target, name, accepted, unit](const std::string& given) {
      target = unit * for_flag(name + ":", [&] { return number_in(given, accepted); });
    });
  }
  // Add a flag that takes a name, which `read` understands. Its errors name the name.
  template <class T, class Parse>
  CommandFlags& name(const std::string& flag, T& target, const std::string& accepted,
                     const std::string& help, Parse read) {
    return value(flag, accepted, help, [&target, flag, read](const std::string& text) {
      target = for_flag(flag + ":", [&] { return read(text); });
    });
  }
  // Add a flag that takes one of a few words.
  CommandFlags& one_of(const std::string& name, const std::vector<std::string>& words,
                       std::optional<std::string>& target, const std::string& help);
  // Add a flag with a value that may be given several times; `read` takes each value.
  void each_value(const std::string& name, const std::string& type, const std::string& help,
                  std::function<void(const std::string&)> read);
  // Add a flag that may be given several times and takes all the words up to the next flag.
  void values(const std::string& name, const std::string& type, std::vector<std::string>& target,
              const std::string& help);
  // Add the arguments that are not flags. The help shows them as `name`.
  void words(const std::string& name, std::vector<std::string>& target, const std::string& help);
  // Make the command fail without this flag.
  void require(const std::string& name);
  // Make it fail if the flag that was added last is given without one of `others`, as in
  // "--trace FILE", "--text FILE or --random" or, with the values that do, "--backend cuda|nccl".
  CommandFlags& needs(const std::string& others);

  // Return whether a flag is one of the command's and was given. Valid after CommandLine::read().
  bool given(const std::string& name) const;

  // Throw InputError for a flag that was given without what it needs.
  void require_needs() const;
  // Throw InputError for what CLI11 lets pass, or refuses without saying what it wanted: a flag
  // given twice, without the value that it takes, or with a value that it doesn't take.
  void require_well_formed(const std::vector<std::string>& arguments) const;

 private:
  // Return `help` with the default for {}.
  static std::string with_default(std::string_view help, const std::string& otherwise);
  // Return whether a flag was given, and has one of the values that `other` names, if it does.
  bool has(const std::string& other) const;

  CLI::App* command_;
  std::string last_;                                        // the flag that was added last
  std::vector<std::pair<std::string, std::string>> needs_;  // a flag, and what it needs
  std::map<std::string, std::string> types_;                // of the value; "": takes none
  std::set<std::string> optional_;                          // flags whose value may be left out
  std::set<std::string> repeated_;                          // flags that may be given several times
};

// A command and its flags, as help pages describe them.
struct DescribedFlag {
  std::string name, type, help;  // type: of the value; "": takes none
};
struct DescribedCommand {
  std::string name, help;
  std::vector<DescribedFlag> flags;
};

// The whole command line: all commands, and what was given.
class CommandLine {
 public:
  CommandLine(const std::string& description, const std::string& program,
              const std::string& version);
  ~CommandLine();

  // Add a command. The returned flags live as long as this object. `page` is the file that
  // describes the command in full, relative to the source folder; the command's --help names it.
  CommandFlags& add_command(const std::string& name, const std::string& help,
                            const std::string& page);

  // Return the text of `ringscope --help`; return all commands in the order of their addition.
  std::string help() const;
  std::vector<DescribedCommand> described() const;

  // Read `arguments`, at least one. Return the text of the help or the version if that was asked
  // for. Throw InputError.
  std::optional<std::string> read(const std::vector<std::string>& arguments);
  // Return the command that was read, or "" for none. Throw InputError if anything else was given
  // with it.
  std::string command() const;
  void require_no_extras() const;

 private:
  std::unique_ptr<CLI::App> app_;
  std::map<std::string, CommandFlags> commands_;
};

}  // namespace ringscope
