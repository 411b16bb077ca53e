#include "core/attention/non_finite.h"

#include <cmath>

namespace ringscope {

NonFiniteTakenOut::NonFiniteTakenOut(float* tile, Index rows, Index head_dim, bool none)
    : tile_(tile), stride_(padded(head_dim)) {
  if (none) return;
  for (Index at = 0; at < rows * stride_; ++at)
    if (!std::isfinite(tile[at])) taken_.emplace_back(at, std::exchange(tile[at], 0.0f));
}

NonFiniteTakenOut::~NonFiniteTakenOut() {
  for (const auto& [at, value] : taken_) tile_[at] = value;
}

}  // namespace ringscope
