#include "app/command_line/commands.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <memory>
#include <string_view>

#include "app/report/fields.h"
#include "app/report/terminal.h"
#include "app/run/backend.h"
#include "core/base/program.h"
#include "core/base/text.h"
#include "core/trace/chrome_trace.h"
#include "lessons/book/lesson.h"

namespace ringscope {

// The text of --help or `ringscope help`, which is to be printed.
struct Help {
  std::string text;
};

int carry_out(const Help& help) {
  print_out(help.text);
  return 0;
}

namespace {

// Return what completes a flag's value: the words of a type such as "contiguous|striped|zigzag", but
// those that have a part to fill in, such as "documents:P"; "FILE" for a path, "NONE" for other values.
std::string completion_of(const std::string& type) {
  std::string words;
  if (type.find('|') != std::string::npos)
    for_each_part(type, '|', [&](std::string_view word) {
      if (std::ranges::none_of(word, [](char c) {
            return std::isupper(static_cast<unsigned char>(c)) != 0 || c == ':' || c == '[';
          }))
        words += (words.empty() ? "" : " ") + std::string(word);
    });
  if (!words.empty()) return words;
  return type.find("FILE") != type.npos || type.find("DIR") != type.npos ? "FILE" : "NONE";
}

// Return what `escape` makes of all characters of a text.
template <class Escape>
std::string escaped_by(const std::string& text, const Escape& escape) {
  std::string escaped;
  for (const char c : text) escaped += escape(c);
  return escaped;
}

// Escape what troff interprets: backslashes, hyphens, and a dot or apostrophe that begins a line.
std::string troff(const std::string& text) {
  const std::string escaped = escaped_by(text, [](char c) {
    return c == '\\' ? "\\e" : c == '-' ? "\\-" : std::string(1, c);
  });
  return escaped.starts_with('.') || escaped.starts_with('\'') ? "\\&" + escaped : escaped;
}

std::string man_page(const std::vector<DescribedCommand>& commands) {
  std::string sections;
  for (const DescribedCommand& command : commands) {
    sections += fmt::format(".SS \"ringscope {}\"\n{}.\n", command.name, troff(command.help));
    for (const DescribedFlag& flag : command.flags)
      sections += fmt::format(".TP\n\\fB{}\\fR{}\n{}\n", troff(flag.name),
                              flag.type.empty() ? "" : " \\fI" + troff(flag.type) + "\\fR",
                              troff(flag.help));
  }
  return filled(lessons::embedded_text("app/command_line/man.txt"),
                {{"version", troff(version_text())}, {"commands", sections}});
}

std::string markdown_page(const std::vector<DescribedCommand>& commands) {
  const auto cell = [](const std::string& text) {
    return escaped_by(text, [](char c) { return c == '|' ? "\\|" : std::string(1, c); });
  };
  std::string page =
      "# Commands\n\nEvery command with its flags, as `ringscope COMMAND --help` lists them.\n";
  for (const DescribedCommand& command : commands) {
    page +=
        fmt::format("\n## {}\n\n`ringscope {}`: {}.\n", command.name, command.name, command.help);
    if (!command.flags.empty()) page += "\n| flag | what it does |\n|---|---|\n";
    for (const DescribedFlag& flag : command.flags)
      page += fmt::format("| `{}{}` | {} |\n", flag.name,
                          flag.type.empty() ? "" : " " + cell(flag.type), cell(flag.help));
  }
  return page;
}

std::string bash_page(const std::vector<DescribedCommand>& commands) {
  std::string names, flags, values;
  for (const DescribedCommand& command : commands) {
    names += (names.empty() ? "" : " ") + command.name;
    flags += fmt::format("    {}) words=\"", command.name);
    for (const DescribedFlag& flag : command.flags) {
      if (!flag.name.starts_with('-')) continue;
      flags += flag.name + " ";
      if (!flag.type.empty())
        values += fmt::format("    {}:{}) words=\"{}\" ;;\n", command.name, flag.name,
                              completion_of(flag.type));
    }
    flags += "--help\" ;;\n";
  }
  return filled(lessons::embedded_text("app/command_line/completion.bash"),
                {{"names", names}, {"values", values}, {"flags", flags}});
}

// Escape what zsh interprets between quotes and brackets.
std::string zsh(const std::string& text) {
  return escaped_by(text, [](char c) -> std::string {
    if (c == '\'') return "'\\''";
    const bool is_special = c == '[' || c == ']' || c == ':' || c == '\\';
    return (is_special ? "\\" : "") + std::string(1, c);
  });
}

std::string zsh_page(const std::vector<DescribedCommand>& commands) {
  std::string names, cases;
  for (const DescribedCommand& command : commands) {
    names += fmt::format("    '{}:{}'\n", command.name, zsh(command.help));
    cases += fmt::format("    {})\n      _arguments", command.name);
    for (const DescribedFlag& flag : command.flags) {
      if (!flag.name.starts_with('-')) continue;
      cases += fmt::format(" \\\n        '{}[{}]", flag.name, zsh(flag.help));
      const std::string values = completion_of(flag.type);
      if (values == "FILE")
        cases += ":file:_files";
      else if (values != "NONE")
        cases += fmt::format(":value:({})", values);
      else if (!flag.type.empty())
        cases += fmt::format(":{}:", zsh(flag.type));
      cases += "'";
    }
    cases += " \\\n        '*:file:_files' ;;\n";
  }
  return filled(lessons::embedded_text("app/command_line/completion.zsh"),
                {{"names", names}, {"cases", cases}});
}

Finish declare_help(CommandFlags& flags) {
  const auto pages = std::make_shared<std::vector<std::string>>();
  flags.words("PAGE", *pages, "man, markdown, bash or zsh: a page, completion for a shell");
  return [pages] { return Help{help_page(pages->empty() ? "" : pages->front())}; };
}

struct CommandEntry {
  const char *name, *help;
  const char* page;  // of the documentation
  Finish (*declare)(CommandFlags& flags);
};

constexpr CommandEntry kCommands[] = {
    {"run", "run attention on a ring of ranks", "app/run/run.md", declare_run},
    {"info", "what this build and this machine can do, and why not the rest", "README.md",
     declare_info},
    {"demo", "one text, causal, in all four partitions, verified", "README.md", declare_demo},
    {"check", "are my attention's outputs right, and if not, what did I do?", "app/check/check.md",
     declare_check},
    {"view", "replay recordings", "app/view/view.md", declare_view},
    {"explain", "why a recorded run took as long as it did", "app/view/view.md", declare_explain},
    {"plan", "what a run will cost on a machine, by formula", "app/plan/plan.md", declare_plan},
    {"positions", "who holds what, in the conventions of several libraries", "app/run/run.md",
     declare_positions},
    {"lesson", "ring attention step by step, in lessons that run", "lessons/README.md",
     declare_lesson},
    {"train", "a small language model on a text, with the ring inside", "app/train/train.md",
     declare_train},
    {"generate", "text from a checkpoint of train", "app/train/train.md", declare_generate},
    {"simulate", "a run on a machine that is not here, event by event", "app/simulate/simulate.md",
     declare_simulate},
    {"site", "what the site shows: its pages are made by ./ringscope site DIR", "README.md",
     declare_site},
    {"help", "this text; or what --help texts become: man, markdown, bash, zsh", "README.md",
     declare_help}};

// Return "run, info, ...".
std::string known_commands() {
  std::string names;
  for (const CommandEntry& command : kCommands)
    names += (names.empty() ? "" : ", ") + std::string(command.name);
  return names;
}

// Note the words of the command line for the provenance of outputs and, without the name of the
// recording itself, for recordings, so that what they draw does not depend on it.
void note_command_line(const std::vector<std::string>& read) {
  const std::vector<std::string>& arguments = my_ring_call().empty() ? read : my_ring_call();
  std::string all = "ringscope", words = all;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string word = " " + shell_word(arguments[i]);
    all += word;
    if (!arguments[i].starts_with("--trace=") && arguments[i] != "--trace" &&
        (i == 0 || arguments[i - 1] != "--trace"))
      words += word;
  }
  const bool resumes = !value_before_reading("--resume", arguments).empty();
  const std::string seed = value_before_reading("--seed", arguments);
  note_call(all, !seed.empty() ? seed : resumes ? "of the checkpoint" : "0", words);
  set_trace_origin(provenance);
}

// A command line with all commands, and what becomes of each.
struct AllCommands {
  CommandLine line{"Ring attention, run, recorded and verified.", "ringscope", version_text()};
  std::map<std::string_view, Finish> finish;

  AllCommands() {
    for (const CommandEntry& command : kCommands)
      finish[command.name] =
          command.declare(line.add_command(command.name, command.help, command.page));
  }
};

}  // namespace

std::string help_page(const std::string& page) {
  const AllCommands commands;
  if (page.empty()) return commands.line.help();
  const std::pair<std::string_view, std::string (*)(const std::vector<DescribedCommand>&)>
      kPages[] = {
          {"man", man_page}, {"bash", bash_page}, {"zsh", zsh_page}, {"markdown", markdown_page}};
  for (const auto& [name, make] : kPages)
    if (name == page) return make(commands.line.described());
  throw InputError(fmt::format("help: '{}' given; accepted: man, bash, zsh, markdown", page));
}

Command parse_command_line(const std::vector<std::string>& arguments) {
  AllCommands all;
  if (!arguments.empty()) {
    const std::string& first = arguments.front();
    if (!first.starts_with('-') && !all.finish.contains(first))
      throw InputError(fmt::format("command '{}' given; accepted: {}", first, known_commands()));
    if (const std::optional<std::string> help = all.line.read(arguments)) return Help{*help};
    const std::string command = all.line.command();
    all.line.require_no_extras();
    if (!command.empty()) {
      note_command_line(arguments);
      return all.finish.at(command)();
    }
  }
  throw InputError("no command given; accepted: " + known_commands() + "; see ringscope --help");
}

}  // namespace ringscope
