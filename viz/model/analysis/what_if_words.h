// Puts a prediction into words, and into figures beside the recording's.
#pragma once

#include <string>
#include <vector>

#include "viz/model/analysis/what_if.h"

namespace ringscope::viz {

// Return the changes, if any, in the order of the settings: "8 ranks", "zigzag", "bandwidth × 2".
std::vector<std::string> changes_of(const WhatIfSettings& from, const WhatIfSettings& to);

// Compare the prediction shown with the unmoved one: "8 ranks, zigzag: 11.5 ms instead of 35.1 ms,
// 3.05 times sooner." Without changes return trust_of(); "" before there is any prediction.
std::string headline_of(const WhatIf& what_if);

// Compare the unmoved prediction with the recording, which says by how much the model is off.
std::string trust_of(const WhatIf& what_if);

// A WhatIfFigure is one line of the table. Texts are "" where there is nothing to say yet.
struct WhatIfFigure {
  std::string name{}, recorded{}, unmoved{}, shown{};
  std::string change{};  // from `unmoved` to `shown`
  int better = 0;        // 1: shown is better than unmoved; -1: worse; 0: as good, or neither
};
std::vector<WhatIfFigure> figures_of(const WhatIf& what_if);

}  // namespace ringscope::viz
