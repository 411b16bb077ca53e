#include "core/train/text_batches.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/base/error.h"
#include "core/base/random.h"

namespace ringscope {

TextBatches::TextBatches(std::string text, Index batch, Index seqlen, std::uint64_t seed,
                         Index vocab)
    : text_(std::move(text)), batch_(batch), seqlen_(seqlen), seed_(seed) {
  if (static_cast<Index>(text_.size()) <= seqlen_)
    throw InputError(fmt::format("text: {} bytes given, at least seqlen + 1 = {} accepted",
                                 text_.size(), seqlen_ + 1));
  require_known_bytes(text_, vocab);
}

std::vector<std::uint8_t> TextBatches::windows(Index step) const {
  constexpr std::uint64_t kStream = 8;  // neither attention's inputs nor the weights use it
  const std::uint64_t places = text_.size() - static_cast<std::size_t>(seqlen_);
  std::vector<std::uint8_t> result;
  result.reserve(static_cast<std::size_t>(batch_ * (seqlen_ + 1)));
  for (Index b = 0; b < batch_; ++b) {
    const std::uint64_t drawn =
        random_bits(seed_, kStream, static_cast<std::uint64_t>(step * batch_ + b));
    const auto first = text_.begin() + static_cast<Index>(drawn % places);
    result.insert(result.end(), first, first + seqlen_ + 1);
  }
  return result;
}

void require_known_bytes(const std::string& text, Index vocab) {
  const auto unknown = std::find_if(text.begin(), text.end(), [vocab](char c) {
    return Index{static_cast<unsigned char>(c)} >= vocab;
  });
  if (unknown == text.end()) return;
  throw InputError(
      fmt::format("the text has a byte of {} at {}; bytes below {} accepted by this model",
                  static_cast<unsigned char>(*unknown), unknown - text.begin(), vocab));
}

double unigram_entropy(const std::string& text) {
  std::vector<double> counts(256);
  for (const char c : text) ++counts[static_cast<unsigned char>(c)];
  double entropy = 0;
  for (const double count : counts)
    if (count > 0) {
      const double share = count / static_cast<double>(text.size());
      entropy -= share * std::log(share);
    }
  return entropy;
}

}  // namespace ringscope
