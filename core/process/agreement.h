// Before the first hop all ranks make sure that they are about to do the same thing. Each brings
// everything that must be equal as names and values; rank 0 compares. Ranks that disagree about a
// shape or an option would otherwise hang, or be wrong.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/process/lifeline.h"

namespace ringscope {

// ("--mask", "causal"), ("shape", "1,8,8,4096,64"), ("version", "0.1.0+1a2b3c"), ...: what people
// know them by, in a fixed order. Long values are compared whole and shown shortened.
using Terms = std::vector<std::pair<std::string, std::string>>;

// Called by every rank. `bad_input`: what a rank found wrong with its own input, empty for none. Throws, on
// every rank alike: InputError with the lowest-ranked bad input, as it stands; RunError naming the
// lowest rank that differs from rank 0, "rank 1 has --mask causal, rank 0 has --mask full", or that
// has a term that rank 0 lacks; RunError when a rank is lost meanwhile.
void agree(Lifeline& line, const Terms& mine, const std::string& bad_input = "");

}  // namespace ringscope
