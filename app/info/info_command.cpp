#include "app/command_line/commands.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "app/report/fields.h"
#include "app/report/machine.h"
#include "app/report/terminal.h"
#include "app/run/backend.h"
#include "app/view/view_command.h"
#include "core/attention/vectors.h"
#include "core/base/text.h"

namespace ringscope {

struct InfoOptions {
  bool json = false;
};

namespace {

std::string compiler() {
#if defined(__clang__)
  return "Clang " __clang_version__;
#else
  return "GCC " __VERSION__;
#endif
}

std::string build_type() {
  std::string text;
#ifdef __OPTIMIZE__
  text = "optimised";
#else
  text = "not optimised";
#endif
#ifdef NDEBUG
  text += ", assertions off";
#else
  text += ", assertions on";
#endif
#ifdef __SANITIZE_ADDRESS__
  text += ", AddressSanitizer";
#endif
#ifdef __SANITIZE_THREAD__
  text += ", ThreadSanitizer";
#endif
  return text;
}

}  // namespace

int carry_out(const InfoOptions& options) {
  const MemoryLimit memory = available_memory();
  const std::string no_viewer = why_no_viewer();
  std::vector<std::pair<std::string, std::string>> lines{
      {"version", version_text()},
      {"compiler", compiler()},
      {"build", build_type()},
      {"cpu kernel", fmt::format("{}, {} floats wide, the width it was compiled for", vector_isa(),
                                 vector_width())},
      {"amx", has_amx() ? "yes: bf16 is multiplied by it" : fmt::format("no: {}", why_no_amx())},
      {"cores", std::to_string(cores())},
      {"memory", fmt::format("{} {}", bytes_text(memory.bytes), memory.source)}};
  for (const Backend backend : kAllOf<Backend>)
    lines.emplace_back(fmt::format("backend {}", name_of(backend)), availability(backend));
  lines.emplace_back("dtypes", "f32, bf16, f16 stored; f32 computed with");
  lines.emplace_back("view", !no_viewer.empty() ? "no: " + no_viewer
                             : can_show_windows()
                                 ? "yes: in a window, or --screenshot"
                                 : "yes: --screenshot; no window, for no display is set");
  if (options.json) {
    Fields fields;
    for (auto& [what, value] : lines) {
      std::replace(what.begin(), what.end(), ' ', '_');
      fields.emplace_back(what, value);
    }
    print_out(json_line(fields + Fields{{"details", cuda_details()}}));
    return 0;
  }
  std::string text;
  for (const auto& [what, value] : lines) text += labelled_line(14, what, value);
  print_out(text + cuda_details());
  return 0;
}

Finish declare_info(CommandFlags& flags) {
  const auto info = std::make_shared<InfoOptions>();
  flags.flag("--json", info->json, "print one JSON object");
  return [info] { return *info; };
}

}  // namespace ringscope
