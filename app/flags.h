// One command's flags, added to a CLI11 subcommand. Values are read when the command line is, and
// refused in one manner: what is wrong is told with the flag, the value, and what would be accepted.
#pragma once

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <charconv>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/math.h"

namespace ringscope {

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

class CommandFlags {
 public:
  explicit CommandFlags(CLI::App* command) : command_(command) {}

  void flag(const std::string& name, bool& target, const std::string& help) {
    command_->add_flag(name, target, help);
    types_[name] = "";
  }
  // A flag with a value, which `read` takes. CLI11 would also hand over the next flag as the value.
  template <class Read>
  CLI::Option* value(const std::string& name, const std::string& type, const std::string& help,
                     Read read) {
    const auto checked = [name, type, read](const std::string& text) {
      if (text.starts_with("--"))
        throw InputError(fmt::format("{}: no value before '{}'; accepted: {}", name, text, type));
      read(text);
    };
    types_[name] = type;
    return command_->add_option_function<std::string>(name, checked, help)->type_name(type);
  }
  void path(const std::string& name, std::optional<std::string>& target, const std::string& help) {
    value(name, "FILE", help, [&target](const std::string& text) { target = text; });
  }
  void size(const std::string& name, std::optional<Index>& target, const std::string& help) {
    value(name, "N", help, [&target, name](const std::string& text) {
      target = integer_of_flag<Index>(name, text, 1, std::numeric_limits<Index>::max());
    });
  }
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

  // What CLI11 lets pass, or refuses without saying what it wanted: flags given twice, without the
  // value that they take or with one that they don't.
  void require_well_formed(const std::vector<std::string>& arguments) const {
    std::set<std::string> seen;
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      const std::size_t equals = arguments[i].find('=');
      const std::string name = arguments[i].substr(0, equals);
      const auto known = types_.find(name);
      if (known == types_.end()) continue;
      const std::string& type = known->second;
      if (!seen.insert(name).second)
        throw InputError(fmt::format("{}: '{}' given after another {}; accepted: one of them", name,
                                     arguments[i], name));
      if (type.empty() && equals != std::string::npos)
        throw InputError(
            fmt::format("{}: '{}' given; accepted: {} without a value", name, arguments[i], name));
      if (!type.empty() && (equals == arguments[i].size() - 1 ||
                            (equals == std::string::npos && i + 1 == arguments.size())))
        throw InputError(fmt::format("{}: no value given; accepted: {} {}", name, name, type));
    }
  }

  CLI::App* command_;
  std::map<std::string, std::string> types_;  // of the value; "": takes none
};

}  // namespace ringscope
