#include "core/base/text.h"

#include <fmt/format.h>

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

}  // namespace ringscope
