// A text as training data: step s trains on pieces of it whose places are drawn from the seed and s
// alone. So every rank knows every batch without being told, and a run that is taken up again goes
// on with the pieces that would have followed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/math.h"

namespace ringscope {

class TextBatches {
 public:
  // Pieces are seqlen + 1 bytes: each byte but the first is predicted from those before it. Throws
  // InputError when the text is shorter, and as require_known_bytes.
  TextBatches(std::string text, Index batch, Index seqlen, std::uint64_t seed, Index vocab = 256);

  // [batch, seqlen + 1] bytes.
  std::vector<std::uint8_t> windows(Index step) const;

 private:
  std::string text_;
  Index batch_, seqlen_;
  std::uint64_t seed_;
};

// Throws InputError that names the first byte of `text` which a model of `vocab` tokens does not
// know: only bytes below that have a place in its embedding.
void require_known_bytes(const std::string& text, Index vocab);

// What a model that knows how often each byte occurs, and nothing else, loses a byte, in nats: what
// training has to beat. 0 for an empty text.
double unigram_entropy(const std::string& text);

}  // namespace ringscope
