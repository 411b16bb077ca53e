#include "app/command_line/flags.h"

#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <numeric>

namespace ringscope {
namespace {

// Return the number of characters to insert, delete or replace to turn `a` into `b`.
std::size_t distance_of(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t above_left = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = above_left + (a[i] == b[j] ? 0 : 1);
      above_left = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

// What other programs call our flags, and how people write what they mean.
constexpr std::pair<std::string_view, std::string_view> kNamesElsewhere[] = {
    {"--tp", "--tensor"},        {"--cp", "--context"},
    {"--pp", "--pipeline"},      {"--dp", "--data"},
    {"--fsdp", "--zero"},        {"--hsdp", "--shard"},
    {"--ac", "--recompute"},     {"--vp", "--interleave"},
    {"--mbs", "--batch"},        {"--gbs", "--sequences"},
    {"--seq-len", "--seqlen"},   {"--num-heads", "--heads"},
    {"--nproc", "--world-size"}, {"--num-kv-heads", "--heads-kv"},
    {"--ep", "--expert"},        {"--fp8", "--products"},
    {"--precision", "--dtype"},  {"--causal", "--mask causal"}};

// Return "--flag, or " for the flag of `app` that an unknown one means or comes closest to, or "".
std::string near_match(const CLI::App& app, const std::string& mistyped) {
  const std::string name = mistyped.substr(0, mistyped.find('='));
  for (const auto& [elsewhere, ours] : kNamesElsewhere)
    if (name == elsewhere &&
        app.get_option_no_throw(std::string(ours.substr(0, ours.find(' ')))) != nullptr)
      return std::string(ours) + ", or ";
  std::string best;
  std::size_t least = name.size() < 8 ? 2 : 3;  // nothing that takes as many changes
  for (const CLI::Option* option : app.get_options())
    for (const std::string& known : option->get_lnames())
      if (const std::size_t distance = distance_of(name, "--" + known); distance < least) {
        least = distance;
        best = "--" + known + ", or ";
      }
  return best;
}

// Throw InputError for the first argument that `command` left unread. `command` is the name in
// "ringscope run", or "" for the program.
void refuse_extras(const CLI::App& app, const std::string& command) {
  const std::vector<std::string> extras = app.remaining();
  const auto found =
      std::ranges::find_if(extras, [](const std::string& extra) { return extra != "--"; });
  if (found == extras.end()) return;
  const std::string& first = *found;
  throw InputError(fmt::format("{} '{}' given; accepted: {}see ringscope {}--help",
                               first.starts_with('-') ? "unknown flag" : "argument", first,
                               first.starts_with("--") ? near_match(app, first) : "",
                               command.empty() ? "" : command + " "));
}

// Writes help as CLI11 itself did until 2.4; later releases break lines and name groups in capitals.
class HelpWriter : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode /*mode*/) const override {
    std::string usage = fmt::format("{}\nUsage: {} [OPTIONS]", app->get_description(), name);
    std::string positionals, options, commands;
    for (const CLI::Option* option : app->get_options()) {
      const bool is_positional = option->get_positional();
      (is_positional ? positionals : options) +=
          line(make_option_name(option, is_positional) + make_option_opts(option),
               option->get_description());
      if (is_positional) usage += " " + make_option_usage(option);
    }
    for (const CLI::App* command : app->get_subcommands({}))
      commands += line(command->get_name(), command->get_description());
    if (!positionals.empty()) positionals = "\nPositionals:\n" + positionals;
    if (!commands.empty()) {
      usage += " [SUBCOMMAND]";
      commands = "\nSubcommands:\n" + commands;
    }
    const std::string footer = app->get_footer();
    return fmt::format("{}\n{}\nOptions:\n{}{}{}", usage, positionals, options, commands,
                       footer.empty() ? "" : "\n" + footer + "\n");
  }

 private:
  // Return "  what    text", in two lines where `what` is long.
  static std::string line(const std::string& what, const std::string& text) {
    constexpr std::size_t kColumn = 30;
    const bool is_long = what.size() + 2 >= kColumn;
    return fmt::format("  {:{}}{}{}\n", what, is_long ? 0 : kColumn - 2,
                       is_long ? "\n" + std::string(kColumn, ' ') : "", text);
  }
};

}  // namespace

std::optional<std::pair<Index, Index>> sizes_in(const std::string& text) {
  const std::size_t cross = std::min(text.find('x'), text.size());
  const auto first = parse_number<Index>(text.substr(0, cross));
  const auto second =
      parse_number<Index>(std::string_view(text).substr(std::min(cross + 1, text.size())));
  if (!first || !second) return std::nullopt;
  return std::pair{*first, *second};
}

void contradiction(const std::string& flag, const std::string& why, const std::string& accepted) {
  throw InputError(flag + ": " + why + "; accepted: " + accepted);
}

std::string value_before_reading(const std::string& flag,
                                 const std::vector<std::string>& arguments) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == flag && i + 1 < arguments.size()) return arguments[i + 1];
    if (arguments[i].starts_with(flag + "=")) return arguments[i].substr(flag.size() + 1);
  }
  return "";
}

CommandFlags& CommandFlags::flag(const std::string& name, bool& target, const std::string& help) {
  command_->add_flag(name, target, help);
  types_[last_ = name] = "";
  return *this;
}

CommandFlags& CommandFlags::value(const std::string& name, const std::string& type,
                                  const std::string& help,
                                  std::function<void(const std::string&)> read) {
  // CLI11 would also take the next flag for the value.
  const auto checked = [name, type, read = std::move(read)](const std::string& text) {
    if (text.starts_with("--"))
      throw InputError(fmt::format("{}: no value before '{}'; accepted: {}", name, text, type));
    read(text);
  };
  types_[last_ = name] = type;
  command_->add_option_function<std::string>(name, checked, help)->type_name(type);
  return *this;
}

void CommandFlags::optional_value(const std::string& name, const std::string& type,
                                  const std::string& help,
                                  std::function<void(const std::string&)> read) {
  types_[name] = type;
  optional_.insert(name);
  command_
      ->add_option_function<std::vector<std::string>>(
          name,
          [read = std::move(read)](const std::vector<std::string>& values) {
            read(values.empty() ? "" : values.front());
          },
          help)
      ->type_name("[" + type + "]")
      ->expected(0, 1);
}

CommandFlags& CommandFlags::one_of(const std::string& name, const std::vector<std::string>& words,
                                   std::optional<std::string>& target, const std::string& help) {
  return value(name, fmt::format("{}", fmt::join(words, "|")), help,
               [name, words, &target](const std::string& text) {
                 if (std::ranges::find(words, text) == words.end())
                   contradiction(name, fmt::format("'{}' given", text),
                                 fmt::format("{}", fmt::join(words, ", ")));
                 target = text;
               });
}

void CommandFlags::each_value(const std::string& name, const std::string& type,
                              const std::string& help,
                              std::function<void(const std::string&)> read) {
  types_[name] = type;
  repeated_.insert(name);
  command_
      ->add_option_function<std::vector<std::string>>(
          name,
          [read = std::move(read)](const std::vector<std::string>& values) {
            std::ranges::for_each(values, read);
          },
          help)
      ->type_name(type)
      ->allow_extra_args(false);
}

void CommandFlags::values(const std::string& name, const std::string& type,
                          std::vector<std::string>& target, const std::string& help) {
  types_[name] = type;
  repeated_.insert(name);
  command_->add_option(name, target, help)->type_name(type);
}

void CommandFlags::words(const std::string& name, std::vector<std::string>& target,
                         const std::string& help) {
  command_->add_option(name, target, help);
}

void CommandFlags::require(const std::string& name) { command_->get_option(name)->required(); }

CommandFlags& CommandFlags::needs(const std::string& others) {
  needs_.emplace_back(last_, others);
  return *this;
}

std::string CommandFlags::with_default(std::string_view help, const std::string& otherwise) {
  std::string text(help);
  if (const auto at = text.find("{}"); at != text.npos) text.replace(at, 2, otherwise);
  return text;
}

bool CommandFlags::given(const std::string& name) const {
  return types_.contains(name) && command_->count(name) > 0;
}

bool CommandFlags::has(const std::string& other) const {
  const std::size_t blank = std::min(other.find(' '), other.size());
  const std::string name = other.substr(0, blank);
  if (!given(name)) return false;
  const std::string values = other.substr(std::min(blank + 1, other.size()));
  if (values.empty() || values == types_.at(name)) return true;
  const std::string value = command_->get_option(name)->results().back();
  return ("|" + values + "|").find("|" + value + "|") != std::string::npos;
}

void CommandFlags::require_needs() const {
  for (const auto& [flag, others] : needs_) {
    if (!given(flag)) continue;
    bool is_met = false;
    for (std::size_t at = 0, end = 0; end != others.npos && !is_met; at = end + 4) {
      end = others.find(" or ", at);
      is_met = has(others.substr(at, end - at));
    }
    if (!is_met) contradiction(flag, "given without " + others, "it together with " + others);
  }
}

void CommandFlags::require_well_formed(const std::vector<std::string>& arguments) const {
  std::set<std::string> seen;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::size_t equals = arguments[i].find('=');
    const std::string name = arguments[i].substr(0, equals);
    const auto known = types_.find(name);
    if (known == types_.end()) continue;
    const std::string& type = known->second;
    if (!seen.insert(name).second && !repeated_.contains(name))
      throw InputError(fmt::format("{}: '{}' given after another {}; accepted: one of them", name,
                                   arguments[i], name));
    if (type.empty() && equals != std::string::npos)
      throw InputError(
          fmt::format("{}: '{}' given; accepted: {} without a value", name, arguments[i], name));
    if (!type.empty() && !optional_.contains(name) &&
        (equals == arguments[i].size() - 1 ||
         (equals == std::string::npos && i + 1 == arguments.size())))
      throw InputError(fmt::format("{}: no value given; accepted: {} {}", name, name, type));
  }
}

CommandLine::CommandLine(const std::string& description, const std::string& program,
                         const std::string& version)
    : app_(std::make_unique<CLI::App>(description, program)) {
  app_->formatter(std::make_shared<HelpWriter>());  // commands that are added take it over
  app_->set_version_flag("--version", version, "print the version and the commit");
  app_->require_subcommand(0, 1);
  // CLI11's own error about extra arguments does not say what would be accepted.
  app_->allow_extras();
}

CommandLine::~CommandLine() = default;

CommandFlags& CommandLine::add_command(const std::string& name, const std::string& help,
                                       const std::string& page) {
  CLI::App* const command = app_->add_subcommand(name, help);
  command->footer("In full: " + page + " (installed: /usr/share/doc/ringscope/" + page + ")");
  command->allow_extras();
  return commands_.emplace(name, CommandFlags(command)).first->second;
}

std::optional<std::string> CommandLine::read(const std::vector<std::string>& arguments) {
  const std::string& first = arguments.front();
  const auto flags = commands_.find(first);
  if (flags != commands_.end()) flags->second.require_well_formed(arguments);
  try {
    app_->parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::CallForHelp&) {
    const auto chosen = app_->get_subcommands();
    return chosen.empty() ? app_->help() : chosen.front()->help();
  } catch (const CLI::CallForVersion& version) {
    return std::string(version.what()) + "\n";
  } catch (const CLI::ParseError& error) {
    throw InputError(fmt::format("{}; accepted: see ringscope {}--help", error.what(),
                                 first.starts_with('-') ? "" : first + " "));
  }
  if (flags != commands_.end()) flags->second.require_needs();
  return std::nullopt;
}

std::string CommandLine::help() const { return app_->help(); }

std::vector<DescribedCommand> CommandLine::described() const {
  std::vector<DescribedCommand> commands;
  for (const CLI::App* command : app_->get_subcommands({})) {
    commands.push_back({command->get_name(), command->get_description(), {}});
    for (const CLI::Option* option : command->get_options())
      if (option->get_name() != "--help")
        commands.back().flags.push_back(
            {option->get_name(),
             option->get_items_expected_max() == 0 ? "" : option->get_type_name(),
             option->get_description()});
  }
  return commands;
}

std::string CommandLine::command() const {
  const auto chosen = app_->get_subcommands();
  return chosen.empty() ? "" : chosen.front()->get_name();
}

void CommandLine::require_no_extras() const {
  for (const CLI::App* command : app_->get_subcommands())
    refuse_extras(*command, command->get_name());
  refuse_extras(*app_, "");
}

}  // namespace ringscope
