// What a prediction says, in words and in figures beside the recording's.
#pragma once

#include <string>
#include <vector>

#include "viz/model/analysis/what_if.h"

namespace ringscope::viz {

// What is changed, in the order of the settings: "8 ranks", "zigzag", "bandwidth × 2". Empty for
// settings that are alike.
std::vector<std::string> changes_of(const WhatIfSettings& from, const WhatIfSettings& to);

// How the prediction shown stands to the unmoved one: "8 ranks, zigzag: 11.5 ms instead of 35.1 ms,
// 3.05 times sooner." Nothing changed: how that one stands to the recording. "" before there is any.
std::string headline_of(const WhatIf& what_if);

// The same of the unmoved one, always: by how much the model is off.
std::string trust_of(const WhatIf& what_if);

// One line of the table. Texts are "" where there is nothing to say yet.
struct WhatIfFigure {
  std::string name{}, recorded{}, unmoved{}, shown{};
  std::string change{};  // from `unmoved` to `shown`
  int better = 0;        // 1: shown is better than unmoved; -1: worse; 0: as good, or neither
};
std::vector<WhatIfFigure> figures_of(const WhatIf& what_if);

}  // namespace ringscope::viz
