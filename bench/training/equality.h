// Measures how far the losses of training differ between numbers of ranks and partitions, and what
// loss training reaches.
#pragma once

#include <string>

#include "core/base/math.h"

namespace ringscope {

// Train `steps` steps at the default settings on 1, 2 and 4 ranks in all partitions. Print the
// relative differences of the losses to those of one rank, step by step, the loss beside the
// unigram entropy of `text`, and the time taken.
void print_equality(const std::string& text, Index steps);

}  // namespace ringscope
