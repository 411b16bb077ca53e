#include "app/command_line/commands.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <string_view>

#include "app/report/fields.h"
#include "app/report/terminal.h"
#include "core/base/program.h"
#include "core/trace/chrome_trace.h"

namespace ringscope {
namespace {

struct CommandEntry {
  const char *name, *help;
  const char* page;  // of the documentation
  Finish (*declare)(CommandFlags& flags);
};

constexpr CommandEntry kCommands[] = {
    {"run", "run attention on a ring of ranks", "app/run/run.md", declare_run},
    {"info", "what this build and this machine can do, and why not the rest", "README.md",
     [](CommandFlags& flags) -> Finish {
       const auto info = std::make_shared<InfoOptions>();
       flags.flag("--json", info->json, "print one JSON object");
       return [info] { return *info; };
     }},
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
    {"groups", "ranks split by heads, rows, layers and batches at once", "app/plan/plan.md",
     declare_groups},
    {"train", "a small language model on a text, with the ring inside", "app/train/train.md",
     declare_train},
    {"generate", "text from a checkpoint of train", "app/train/train.md", declare_generate},
    {"simulate", "a run on a machine that is not here, event by event", "app/simulate/simulate.md",
     declare_simulate},
    {"site", "lessons, viewer and reference as pages for a browser", "README.md", declare_site}};
constexpr std::string_view kHelp = "help";

// Return "run, info, ...".
std::string known_commands() {
  std::string names;
  for (const CommandEntry& command : kCommands) names += std::string(command.name) + ", ";
  return names.append(kHelp);
}

void require_known_command(const std::string& name) {
  if (name == kHelp || std::any_of(std::begin(kCommands), std::end(kCommands),
                                   [&](const CommandEntry& entry) { return entry.name == name; }))
    return;
  throw InputError(fmt::format("command '{}' given; accepted: {}", name, known_commands()));
}

// Note the words of the command line for the provenance of outputs, and in options that keep them.
// There the name of the recording itself is left out, so that what they draw does not depend on it.
Command with_command_line(Command command, const std::vector<std::string>& arguments) {
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
  note_call(all, !seed.empty() ? seed : resumes ? "of the checkpoint" : "0");
  set_trace_origin(provenance);
  std::visit(
      [&](auto& options) {
        if constexpr (requires { options.command; }) options.command = words;
      },
      command);
  return command;
}

}  // namespace

Command parse_command_line(const std::vector<std::string>& arguments) {
  CommandLine line("Ring attention, run, recorded and verified.", "ringscope", version_text());
  std::map<std::string_view, Finish> finish;
  for (const CommandEntry& command : kCommands)
    finish[command.name] =
        command.declare(line.add_command(command.name, command.help, command.page));
  std::vector<std::string> pages;
  line.add_command(std::string(kHelp),
                   "this text; or what --help texts become: man, markdown, bash, zsh", "README.md")
      .words("PAGE", pages, "man, markdown, bash or zsh: a page, completion for a shell");
  finish[kHelp] = [&] { return Help{help_page(pages.empty() ? "" : pages.front(), line)}; };

  if (!arguments.empty()) {
    if (!arguments.front().starts_with('-')) require_known_command(arguments.front());
    if (const std::optional<std::string> help = line.read(arguments)) return Help{*help};
    const std::string command = line.command();
    line.require_no_extras();
    if (!command.empty()) return with_command_line(finish.at(command)(), arguments);
  }
  throw InputError("no command given; accepted: " + known_commands() + "; see ringscope --help");
}

}  // namespace ringscope
