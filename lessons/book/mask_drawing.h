// Masks as text: x where a query (line) may attend a key (column).
#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "core/mask/mask_spec.h"

namespace ringscope::lessons {

// The masks side by side, each under its spelling, for sequences of seqlen positions.
inline std::string drawn_masks(const std::vector<std::string>& spellings, Index seqlen) {
  const int width = static_cast<int>(2 * seqlen + 6);
  std::string text;
  for (const std::string& spelling : spellings) text += fmt::format("{:{}}", spelling, width);
  for (Index i = 0; i < seqlen; ++i) {
    text += '\n';
    for (const std::string& spelling : spellings) {
      const MaskSpec spec = MaskSpec::parse(spelling);
      std::string line;
      for (Index j = 0; j < seqlen; ++j) line += spec.for_seqlen(seqlen).allows(i, j) ? "x " : "· ";
      text += line + std::string(static_cast<std::size_t>(width - 2 * seqlen), ' ');
    }
    text.erase(text.find_last_not_of(' ') + 1);
  }
  return text;
}

}  // namespace ringscope::lessons
