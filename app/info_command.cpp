#include "app/info_command.h"

#include <fmt/format.h>

#include <string>
#include <thread>

#include "app/memory.h"
#include "app/terminal.h"
#include "core/attention/vector.h"

namespace ringscope {
namespace {

constexpr const char* kVersion = "0.1.0";

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

std::string line(const char* what, const std::string& value) {
  return fmt::format("{:<14}{}\n", what, value);
}

}  // namespace

int info_command() {
  const MemoryLimit memory = available_memory();
  std::string text;
  text += line("version", kVersion);
  text += line("compiler", compiler());
  text += line("build", build_type());
  text += line("cpu kernel", fmt::format("{}, {} floats wide, the width it was compiled for",
                                         kVectorIsa, kVectorWidth));
  text += line("cores", std::to_string(std::thread::hardware_concurrency()));
  text += line("memory", fmt::format("{} {}", bytes_text(memory.bytes), memory.source));
  text += line("backend cpu", "yes: a thread a rank");
  for (const char* absent : {"backend mpi", "backend cuda", "backend nccl"})
    text += line(absent, "no: not in this build");
  text += line("dtypes", "f32, bf16, f16 stored; f32 computed with");
  text += line("view", "no: not in this build; a trace opens in https://ui.perfetto.dev");
  for (const char* absent : {"lesson", "plan", "simulate"})
    text += line(absent, "no: not in this build");
  print_out(text);
  return 0;
}

}  // namespace ringscope
