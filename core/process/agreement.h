// Agreement of all ranks, before the first hop, that they are about to do the same thing. Each
// brings everything that must be equal as names and values, and rank 0 compares. Ranks that
// disagree about a shape or an option would otherwise hang, or be wrong.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/process/lifeline.h"

namespace ringscope {

// Pairs such as ("--mask", "causal"), ("shape", "1,8,8,4096,64") and ("version", "0.1.0+1a2b3c"),
// named as users know them, in a fixed order. Long values are compared whole and shown shortened.
using Terms = std::vector<std::pair<std::string, std::string>>;

// Compare the terms of all ranks; every rank calls it. `bad_input` is what a rank found wrong with
// its own input, or empty. Throw on every rank alike: InputError with the lowest rank's bad input,
// as it stands; RunError naming the lowest rank whose terms differ from rank 0's or are more, "rank
// 1 has --mask causal, rank 0 has --mask full"; RunError when a rank is lost meanwhile.
void agree(Lifeline& line, const Terms& mine, const std::string& bad_input = "");

}  // namespace ringscope
