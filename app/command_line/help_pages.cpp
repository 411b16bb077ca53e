#include "app/command_line/commands.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>

#include "app/report/terminal.h"
#include "core/base/text.h"
#include "lessons/book/lesson.h"

namespace ringscope {
namespace {

// What a flag's value can be, for completion.
struct ShellCompletion {
  enum class Kind { no_value, words, path, other } kind;
  std::vector<std::string> words;
};

// Return the words of a type such as "contiguous|striped|zigzag", but those that have a part to
// fill in, such as "hybrid:U"; other types stand for values, such as N or FILE.
ShellCompletion completion_of(const std::string& type) {
  using Kind = ShellCompletion::Kind;
  if (type.empty()) return {Kind::no_value, {}};
  std::vector<std::string> words;
  if (type.find('|') != std::string::npos)
    for_each_part(type, '|', [&](std::string_view word) {
      if (std::none_of(word.begin(), word.end(), [](char c) {
            return std::isupper(static_cast<unsigned char>(c)) != 0 || c == ':' || c == '[';
          }))
        words.emplace_back(word);
    });
  if (!words.empty()) return {Kind::words, words};
  const bool is_path =
      type.find("FILE") != std::string::npos || type.find("DIR") != std::string::npos;
  return {is_path ? Kind::path : Kind::other, {}};
}

// Escape what troff interprets: backslashes, hyphens, and a dot or apostrophe that begins a line.
std::string troff(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '\\') {
      escaped += "\\e";
    } else if (c == '-') {
      escaped += "\\-";
    } else {
      escaped += c;
    }
  }
  return escaped.starts_with('.') || escaped.starts_with('\'') ? "\\&" + escaped : escaped;
}

std::string man_page(const std::vector<DescribedCommand>& commands) {
  std::string page = fmt::format(
      ".TH RINGSCOPE 1 \"\" \"{}\" \"User Commands\"\n"
      ".SH NAME\nringscope \\- ring attention, layer by layer, recorded\n"
      ".SH SYNOPSIS\n.B ringscope\n.I COMMAND\n[\\fIFLAGS\\fR]\n"
      ".SH DESCRIPTION\nRingscope computes exact attention over a sequence that is dealt out to "
      "several ranks, forward and backward. It records every run, verifies it against a plain f64 "
      "computation, and replays it in a viewer. Begin with\n.B ringscope demo\nand\n"
      ".BR \"ringscope lesson 1\" .\n.SH COMMANDS\n",
      troff(version_text()));
  for (const DescribedCommand& command : commands) {
    page += fmt::format(".SS \"ringscope {}\"\n{}.\n", command.name, troff(command.help));
    for (const DescribedFlag& flag : command.flags)
      page += fmt::format(".TP\n\\fB{}\\fR{}\n{}\n", troff(flag.name),
                          flag.type.empty() ? "" : " \\fI" + troff(flag.type) + "\\fR",
                          troff(flag.help));
  }
  return page +
         ".SH EXIT STATUS\n.TP\n0\ngood\n.TP\n1\nthe numbers are wrong (\\-\\-verify), or a check "
         "of a lesson failed\n.TP\n2\nbad usage or bad input; one line on stderr says which, and "
         "what is accepted\n.TP\n3\nsomething failed while running\n";
}

std::string markdown_page(const std::vector<DescribedCommand>& commands) {
  const auto cell = [](const std::string& text) {
    std::string escaped;
    for (const char c : text) escaped += c == '|' ? "\\|" : std::string(1, c);
    return escaped;
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
      const auto& [kind, words] = completion_of(flag.type);
      if (kind == ShellCompletion::Kind::no_value) continue;
      values += fmt::format("    {}:{}) words={} ;;\n", command.name, flag.name,
                            kind == ShellCompletion::Kind::words
                                ? fmt::format("\"{}\"", fmt::join(words, " "))
                            : kind == ShellCompletion::Kind::path ? "FILE"
                                                                  : "NONE");
    }
    flags += "--help\" ;;\n";
  }
  return filled(lessons::embedded_text("app/command_line/completion.bash"),
                {{"names", names}, {"values", values}, {"flags", flags}});
}

// Escape what zsh interprets between quotes and brackets.
std::string zsh(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '\'') {
      escaped += "'\\''";
      continue;
    }
    if (c == '[' || c == ']' || c == ':' || c == '\\') escaped += '\\';
    escaped += c;
  }
  return escaped;
}

std::string zsh_page(const std::vector<DescribedCommand>& commands) {
  std::string names, cases;
  for (const DescribedCommand& command : commands) {
    names += fmt::format("    '{}:{}'\n", command.name, zsh(command.help));
    cases += fmt::format("    {})\n      _arguments", command.name);
    for (const DescribedFlag& flag : command.flags) {
      if (!flag.name.starts_with('-')) continue;
      cases += fmt::format(" \\\n        '{}[{}]", flag.name, zsh(flag.help));
      const auto& [kind, words] = completion_of(flag.type);
      if (kind == ShellCompletion::Kind::words)
        cases += fmt::format(":value:({})", fmt::join(words, " "));
      else if (kind == ShellCompletion::Kind::path)
        cases += ":file:_files";
      else if (kind == ShellCompletion::Kind::other)
        cases += fmt::format(":{}:", zsh(flag.type));
      cases += "'";
    }
    cases += " \\\n        '*:file:_files' ;;\n";
  }
  return filled(lessons::embedded_text("app/command_line/completion.zsh"),
                {{"names", names}, {"cases", cases}});
}

}  // namespace

std::string help_page(const std::string& page, const CommandLine& line) {
  if (page.empty()) return line.help();
  if (page == "man") return man_page(line.described());
  if (page == "markdown") return markdown_page(line.described());
  if (page == "bash") return bash_page(line.described());
  if (page == "zsh") return zsh_page(line.described());
  throw InputError(fmt::format("help: '{}' given; accepted: man, bash, zsh, markdown", page));
}

int carry_out(const Help& help) {
  print_out(help.text);
  return 0;
}

}  // namespace ringscope
