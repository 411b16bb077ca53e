#include "app/command_line/commands.h"

#include <fmt/format.h>

#include <string>

#include "app/report/fields.h"
#include "app/report/machine.h"
#include "app/report/terminal.h"
#include "app/run/backend.h"
#include "app/view/view_command.h"
#include "core/attention/tile_product.h"
#include "core/base/text.h"

namespace ringscope {
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

std::string line(std::string_view what, std::string_view value) {
  return labelled_line(14, what, value);
}

}  // namespace

int carry_out(const InfoOptions&) {
  const MemoryLimit memory = available_memory();
  std::string text;
  text += line("version", version_text());
  text += line("compiler", compiler());
  text += line("build", build_type());
  text += line("cpu kernel", fmt::format("{}, {} floats wide, the width it was compiled for",
                                         kVectorIsa, kVectorWidth));
  text += line("cores", std::to_string(cores()));
  text += line("memory", fmt::format("{} {}", bytes_text(memory.bytes), memory.source));
  for (const Backend backend : kAllBackends)
    text += line(fmt::format("backend {}", name_of(backend)), availability(backend));
  text += line("dtypes", "f32, bf16, f16 stored; f32 computed with");
  const std::string no_viewer = why_no_viewer();
  if (!no_viewer.empty()) {
    text += line("view", "no: " + no_viewer);
  } else if (can_show_windows()) {
    text += line("view", "yes: in a window, or --screenshot");
  } else {
    text += line("view", "yes: --screenshot; no window, for no display is set");
  }
  text += line("lesson", "yes: ringscope lesson list");
  text += line("plan", "yes: by formula, for hardware by name, from a file, or measured here");
  text += line("simulate", "yes: on hardware by name, from a file, or measured here");
  text += line("train", "yes: on threads or MPI processes, as backends are");
  text += line("generate", "yes: from a checkpoint of train");
  text += line("groups", "yes: ranks split by heads, rows, layers and batches");
  text += cuda_details();
  text += link_details();
  print_out(text);
  return 0;
}

}  // namespace ringscope
