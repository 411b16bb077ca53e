// How the loss fell, for the picture of a training run.
#pragma once

#include <string>
#include <vector>

#include "core/base/math.h"

namespace ringscope {

struct LossCurve {
  std::vector<double> losses;  // step by step, in nats a byte
  Index first_step = 1;        // of losses[0]
  // Of the text, in nats a byte: what a model reaches that knows only how often each byte occurs.
  double unigram_entropy = 0;
  std::string title;  // of which run
};

}  // namespace ringscope
