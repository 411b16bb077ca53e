#include "core/layer/rotary.h"

#include <cmath>

namespace ringscope {

Rotary::Rotary(const LocalRows& rows, Index head_dim, double base)
    : rows_(rows.size()), pairs_(head_dim / 2) {
  cosine_.reserve(static_cast<std::size_t>(rows_ * pairs_));
  sine_.reserve(cosine_.capacity());
  // [angle
  for (Index row = 0; row < rows_; ++row)
    for (Index i = 0; i < pairs_; ++i) {
      const double frequency =
          std::pow(base, -2 * static_cast<double>(i) / static_cast<double>(head_dim));
      const double angle = static_cast<double>(rows.global_position(row)) * frequency;
      cosine_.push_back(static_cast<float>(std::cos(angle)));
      sine_.push_back(static_cast<float>(std::sin(angle)));
    }
  // angle]
}

void Rotary::turn(Index batch, Index heads, float* x, float direction) const {
  for (Index b = 0; b < batch; ++b)
    for (Index row = 0; row < rows_; ++row)
      for (Index h = 0; h < heads; ++h, x += 2 * pairs_)
        for (Index i = 0; i < pairs_; ++i) {
          const float c = cosine_[row * pairs_ + i], s = direction * sine_[row * pairs_ + i];
          const float first = x[2 * i], second = x[2 * i + 1];
          x[2 * i] = c * first - s * second;
          x[2 * i + 1] = s * first + c * second;
        }
}

}  // namespace ringscope
