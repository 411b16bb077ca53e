// How far the losses of training come apart with the number of ranks and the partition, and how far
// training comes.
#pragma once

#include <string>

#include "core/base/math.h"

namespace ringscope {

// At the default settings, `steps` steps on 1, 2 and 4 ranks in all partitions. Prints the relative
// difference of the losses to those of one rank, step by step, the loss beside the unigram entropy
// of `text`, and the time taken.
void print_equality(const std::string& text, Index steps);

}  // namespace ringscope
