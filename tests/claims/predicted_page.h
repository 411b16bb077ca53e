// lessons/predicted.md: what the formulas and the simulator say, beside what others measured, and
// what searched partitions gain. Written from the same values that predicted_test.cpp asserts.
#pragma once

#include <string>
#include <vector>

#include "tests/claims/eight_gpus.h"
#include "tests/claims/searched_gains.h"
#include "tests/claims/striped_paper.h"

namespace ringscope::claims {

std::string predicted_page(const std::vector<EightGpus>& eight,
                           const std::vector<StripedSpeedup>& striped,
                           const std::vector<SearchedGain>& gains);

}  // namespace ringscope::claims
