#include "core/layer/rms_norm.h"

#include <cmath>
#include <vector>

namespace ringscope {

void rms_norm_forward(Index rows, Index width, double epsilon, const float* x, const float* gain,
                      float* y, float* inverse_rms) {
  for (Index row = 0; row < rows; ++row, x += width, y += width) {
    double squares = 0;
    for (Index i = 0; i < width; ++i) squares += static_cast<double>(x[i]) * x[i];
    const auto r =
        static_cast<float>(1 / std::sqrt(squares / static_cast<double>(width) + epsilon));
    for (Index i = 0; i < width; ++i) y[i] = gain[i] * (x[i] * r);
    inverse_rms[row] = r;
  }
}

void rms_norm_backward(Index rows, Index width, const float* x, const float* gain,
                       const float* inverse_rms, const float* dy, float* dx, float* dgain) {
  std::vector<double> gain_sums(static_cast<std::size_t>(width));
  for (Index row = 0; row < rows; ++row, x += width, dy += width, dx += width) {
    const double r = inverse_rms[row];
    double along = 0;
    for (Index i = 0; i < width; ++i) along += static_cast<double>(gain[i]) * dy[i] * x[i];
    const double back = along * r * r * r / static_cast<double>(width);
    for (Index i = 0; i < width; ++i) {
      dx[i] += static_cast<float>(r * gain[i] * dy[i] - x[i] * back);
      gain_sums[i] += dy[i] * (x[i] * r);
    }
  }
  for (Index i = 0; i < width; ++i) dgain[i] += static_cast<float>(gain_sums[i]);
}

}  // namespace ringscope
