#include "core/base/text.h"

#include <fmt/format.h>

#include <iterator>

#include "core/base/error.h"
#include "core/base/files.h"

namespace ringscope {

namespace {
constexpr Index kMostBytes = Index{1} << 20;
}  // namespace

std::string read_table(const std::string& path, const std::string& kind) try {
  const InputFile file(path, kind);
  if (file.size() > kMostBytes)
    throw InputError(fmt::format("{} bytes in it; accepted: at most {}", file.size(), kMostBytes));
  std::string text(static_cast<std::size_t>(file.size()), '\0');
  file.read(text.data(), file.size(), 0);
  return text;
} catch (const InputError& error) {
  throw InputError(about_file(path, error.what()));
}

std::vector<std::string> words_of(std::string_view line) {
  std::vector<std::string> words;
  line = line.substr(0, line.find('#'));
  while (true) {
    line.remove_prefix(std::min(line.find_first_not_of(" \t\r"), line.size()));
    if (line.empty()) return words;
    const std::size_t end = std::min(line.find_first_of(" \t\r"), line.size());
    words.emplace_back(line.substr(0, end));
    line.remove_prefix(end);
  }
}

std::string seconds_text(double seconds) {
  if (seconds >= 1) return fmt::format("{:.2f} s", seconds);
  if (seconds >= 1e-3) return fmt::format("{:.2f} ms", seconds * 1e3);
  return fmt::format("{:.1f} us", seconds * 1e6);
}

std::string bytes_text(double bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB", "YiB"};
  std::size_t unit = 0;
  for (; bytes >= 1024 && unit + 1 < std::size(kUnits); ++unit) bytes /= 1024;
  return fmt::format("{:.{}f} {}", bytes, unit == 0 ? 0 : 1, kUnits[unit]);
}

std::string gb_text(double bytes) {
  if (bytes >= 0.995e9) return fmt::format("{:.2f} GB", bytes / 1e9);
  if (bytes >= 0.995e6) return fmt::format("{:.2f} MB", bytes / 1e6);
  return fmt::format("{:.2f} kB", bytes / 1e3);
}

std::string count_text(Index count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

}  // namespace ringscope
