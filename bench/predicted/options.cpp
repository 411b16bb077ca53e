#include "bench/predicted/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "core/base/error.h"

namespace ringscope {
namespace {

std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words;
  std::istringstream stream(text);
  for (std::string word; std::getline(stream, word, ',');) words.push_back(word);
  return words;
}

double number_of(const std::string& flag, const std::string& text) {
  std::size_t read = 0;
  double value = 0;
  try {
    value = std::stod(text, &read);
  } catch (const std::exception&) {
  }
  if (read != text.size() || !(value > 0))
    throw InputError(fmt::format("{}: '{}' given, a number above 0 accepted", flag, text));
  return value;
}

template <class T>
std::vector<T> numbers_of(const std::string& flag, const std::string& text) {
  std::vector<T> numbers;
  for (const std::string& word : words_of(text))
    numbers.push_back(static_cast<T>(number_of(flag, word)));
  return numbers;
}

}  // namespace

PredictedOptions options_of(int argc, char** argv) {
  PredictedOptions options;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag == "--backward") {
      options.backward = true;
      continue;
    }
    if (i + 1 == argc) throw InputError(flag + ": no value given");
    const std::string value = argv[++i];
    if (flag == "--backends") {
      options.backends = words_of(value);
    } else if (flag == "--world-sizes") {
      options.world_sizes = numbers_of<int>(flag, value);
    } else if (flag == "--seqlens") {
      options.seqlens = numbers_of<Index>(flag, value);
    } else if (flag == "--partitions") {
      options.partitions.clear();
      for (const std::string& word : words_of(value))
        options.partitions.push_back(parse_partition(word));
    } else if (flag == "--mask") {
      options.mask = value;
    } else if (flag == "--head-dim") {
      options.head_dim = static_cast<Index>(number_of(flag, value));
    } else if (flag == "--heads") {
      options.heads = static_cast<Index>(number_of(flag, value));
    } else if (flag == "--repeats") {
      options.repeats = static_cast<int>(number_of(flag, value));
    } else if (flag == "--measure-s") {
      options.measure_s = number_of(flag, value);
    } else if (flag == "--csv") {
      options.csv = value;
    } else {
      throw InputError(flag +
                       ": not known; accepted: --backends, --world-sizes, --seqlens, --partitions, "
                       "--mask, --head-dim, --heads, --backward, --repeats, --measure-s, --csv");
    }
  }
  if (options.repeats < 1) throw InputError("--repeats: less than 1 given");
  return options;
}

Index heads_of(const PredictedOptions& options, Index seqlen) {
  return options.heads > 0 ? options.heads : std::clamp<Index>(32768 / seqlen, 1, 8);
}

}  // namespace ringscope
