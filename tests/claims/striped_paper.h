// Speed-ups of whole training steps by striping (arXiv:2311.09431, tables 1, 3 and 4), and what the
// simulator says of the same models and machines.
//
// The paper's own account of its set-up: half of the devices split the model, so a ring has 4 of 8
// A100 and 8 of 16 TPUv4; attention skips whole tiles of 2,048 queries x 4,096 keys on GPUs, 2,048 x
// 2,048 on TPUs; on GPUs attention runs in TF32, at half the rate of everything else.
#pragma once

#include <string>
#include <vector>

#include "core/base/math.h"

namespace ringscope::claims {

struct StripedSpeedup {
  std::string machine;
  int ring = 0;
  Index seqlen = 0;
  double published = 0;
  double published_limit = 0;  // the paper's "theoretical maximum"
  double limit = 0;            // attention by pairs, the rest of the step by FLOPs, all at the peak
  double in_tiles = 0;         // attention simulated, in the paper's tiles, over the machine's link
  // What both steps would have to take besides, over the striped one's time, to come down from
  // in_tiles to what was published; 0 where that is not slower.
  double missing = 0;
};

// The 3B model, by machine and seqlen.
std::vector<StripedSpeedup> striped_speedups();

}  // namespace ringscope::claims
