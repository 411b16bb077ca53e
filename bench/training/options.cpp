#include "bench/training/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <sstream>

#include "core/base/error.h"

namespace ringscope {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> words_of(const std::string& text, char between) {
  std::vector<std::string> words;
  std::istringstream stream(text);
  for (std::string word; std::getline(stream, word, between);) words.push_back(word);
  return words;
}

Index count_of(const std::string& flag, const std::string& text) {
  Index value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error == std::errc() && stop == end && value >= 1 && value <= std::numeric_limits<int>::max())
    return value;
  throw InputError(fmt::format("{}: '{}' given, an integer from 1 accepted", flag, text));
}

StepShape shape_of(const std::string& flag, const std::string& text) {
  const std::vector<std::string> sizes = words_of(text, 'x');
  if (sizes.size() != 2)
    throw InputError(fmt::format("{}: '{}' given, SEQLENxBATCH accepted", flag, text));
  return {count_of(flag, sizes[0]), count_of(flag, sizes[1])};
}

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw InputError(path.string() + ": cannot be read; accepted: a file of text");
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

TrainingBenchOptions options_of(int argc, char** argv) {
  TrainingBenchOptions options;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag == "--equality") {
      options.equality = true;
      continue;
    }
    if (i + 1 == argc) throw InputError(flag + ": no value given");
    const std::string value = argv[++i];
    if (flag == "--shapes") {
      options.shapes.clear();
      for (const std::string& word : words_of(value, ','))
        options.shapes.push_back(shape_of(flag, word));
    } else if (flag == "--world-sizes") {
      options.world_sizes.clear();
      for (const std::string& word : words_of(value, ','))
        options.world_sizes.push_back(static_cast<int>(count_of(flag, word)));
    } else if (flag == "--partitions") {
      options.partitions.clear();
      for (const std::string& word : words_of(value, ','))
        options.partitions.push_back(parse_partition(word));
    } else if (flag == "--repeats") {
      options.repeats = static_cast<int>(count_of(flag, value));
    } else if (flag == "--steps") {
      options.equality_steps = count_of(flag, value);
      options.steps = static_cast<int>(options.equality_steps);
    } else if (flag == "--text") {
      options.text = value;
    } else {
      throw InputError(flag +
                       ": not known; accepted: --shapes, --world-sizes, --partitions, --repeats, "
                       "--steps, --text, --equality");
    }
  }
  return options;
}

std::string text_of(const TrainingBenchOptions& options) {
  if (!options.text.empty()) return read(options.text);
  std::vector<fs::path> paths;
  for (const char* folder : {"app", "bench", "core", "cuda", "lessons", "tests", "viz"})
    for (const auto& entry :
         fs::recursive_directory_iterator(fs::path(RINGSCOPE_SOURCE_DIR) / folder))
      if (const std::string end = entry.path().extension(); end == ".h" || end == ".cpp")
        paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  std::string text;
  for (const fs::path& path : paths) text += read(path);
  return text;
}

}  // namespace ringscope
