#include "core/layer/cross_entropy.h"

#include <cmath>

#include "core/attention/vector.h"

namespace ringscope {
namespace {

// Lanes beyond `count` hold a value that no exponential sees.
Vector load_logits(const float* from, Index count) {
  Vector v = broadcast(-1e30f);
  std::memcpy(&v, from, sizeof(float) * static_cast<std::size_t>(count));
  return v;
}

}  // namespace

double cross_entropy(Index rows, Index columns, const std::uint8_t* targets, double scale,
                     float* logits) {
  double loss = 0;
  for (Index row = 0; row < rows; ++row, logits += columns) {
    float largest = logits[0];
    for (Index i = 1; i < columns; ++i) largest = logits[i] > largest ? logits[i] : largest;
    const float target_logit = logits[targets[row]];
    double sum = 0;
    for (Index i = 0; i < columns; i += kVectorWidth) {
      const Index lanes = min_of(kVectorWidth, columns - i);
      const Vector e = exp_of(load_logits(logits + i, lanes) - largest);
      sum += sum_of_lanes(e);
      if (scale != 0) store_first(logits + i, e, lanes);
    }
    loss += std::log(sum) + (static_cast<double>(largest) - target_logit);
    if (scale == 0) continue;
    const auto factor = static_cast<float>(scale / sum);
    for (Index i = 0; i < columns; ++i) logits[i] *= factor;
    logits[targets[row]] -= static_cast<float>(scale);
  }
  return loss;
}

}  // namespace ringscope
