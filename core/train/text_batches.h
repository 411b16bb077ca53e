// A text as training data. Step s trains on pieces whose places are drawn from the seed and s
// alone, so every rank knows every batch without communication, and a run that is taken up again
// goes on with the pieces that would have followed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/math.h"

namespace ringscope {

class TextBatches {
 public:
  // Pieces are seqlen + 1 bytes, because each byte but the first is predicted from those before it.
  // Throw InputError when the text is shorter, and as require_known_bytes() does.
  TextBatches(std::string text, Index batch, Index seqlen, std::uint64_t seed, Index vocab = 256);

  // Return the pieces of a step,
  // [batch, seqlen + 1] bytes.
  std::vector<std::uint8_t> windows(Index step) const;

 private:
  std::string text_;
  Index batch_, seqlen_;
  std::uint64_t seed_;
};

// Throw InputError that names the first byte of `text` that a model of `vocab` tokens doesn't know.
// Only bytes below `vocab` have a place in its embedding.
void require_known_bytes(const std::string& text, Index vocab);

// Return the loss per byte, in nats, of a model that knows only how often each byte occurs, which
// training has to beat; 0 for an empty text.
double unigram_entropy(const std::string& text);

}  // namespace ringscope
