// Masks as people write them: `full`, `causal`, `prefix:P`, `window:W`, `documents:L1,L2,…`, joined
// by `+` (a pair must be allowed by every part).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/mask/mask.h"

namespace ringscope {

class MaskSpec {
 public:
  // The mask `full`.
  MaskSpec() = default;

  // Reads `text`. Throws InputError that names the value and what would be accepted: an unknown
  // kind, a kind given twice, a window below 1, a prefix below 0, a document shorter than 1.
  static MaskSpec parse(std::string_view text);

  // The mask for sequences of `seqlen` positions. Throws InputError when document lengths don't sum
  // up to seqlen. The result points into this object.
  Mask for_seqlen(Index seqlen) const;

  // The canonical spelling, which parse() reads back to an equal mask: parts in the order causal,
  // prefix, window, documents; `full` when there is none of them.
  std::string name() const;

 private:
  bool causal_ = false;
  Index prefix_ = -1;
  Index window_ = 0;
  std::vector<Index> document_ends_;
};

}  // namespace ringscope
