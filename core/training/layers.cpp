#include "core/training/layers.h"

#include <cmath>
#include <type_traits>
#include <vector>

#include "core/attention/tile_product.h"

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
  std::vector<double> gain_sums(width);
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

Rotary::Rotary(const LocalRows& rows, Index head_dim, double base, MemoryMeter* meter)
    : rows_(rows.size()),
      pairs_(head_dim / 2),
      cosine_(meter, rows_ * pairs_),
      sine_(meter, rows_ * pairs_) {
  // [angle
  for (Index row = 0; row < rows_; ++row)
    for (Index i = 0; i < pairs_; ++i) {
      const double frequency =
          std::pow(base, -2 * static_cast<double>(i) / static_cast<double>(head_dim));
      const double angle = static_cast<double>(rows.global_position(row)) * frequency;
      cosine_[row * pairs_ + i] = static_cast<float>(std::cos(angle));
      sine_[row * pairs_ + i] = static_cast<float>(std::sin(angle));
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

namespace {

Vector sigmoid(Vector x) {
  const Vector most = broadcast(87.0f);  // the limit of exp_of, where the sigmoid is 1e-38
  const Vector minus = -x;
  return 1.0f / (1.0f + exp_of(minus < most ? minus : most));
}

// Call f(index, lanes) for one vector of values at a time; a whole vector's lanes are a constant.
template <class F>
void for_vectors(Index values, F&& f) {
  Index i = 0;
  for (; i + kVectorWidth <= values; i += kVectorWidth)
    f(i, std::integral_constant<Index, kVectorWidth>());
  if (i < values) f(i, values - i);
}

// Load `count` logits. The lanes beyond hold a value whose exponential is 0.
Vector load_logits(const float* from, Index count) {
  Vector v = broadcast(-1e30f);
  std::memcpy(&v, from, sizeof(float) * static_cast<std::size_t>(count));
  return v;
}

}  // namespace

void swiglu_forward(Index values, const float* gate, const float* up, float* y) {
  for_vectors(values, [&](Index i, auto lanes) {
    const Vector g = load_first(gate + i, lanes);
    store_first(y + i, g * sigmoid(g) * load_first(up + i, lanes), lanes);
  });
}

void swiglu_backward(Index values, const float* gate, const float* up, const float* dy,
                     float* dgate, float* dup) {
  for_vectors(values, [&](Index i, auto lanes) {
    const Vector g = load_first(gate + i, lanes), u = load_first(up + i, lanes);
    const Vector d = load_first(dy + i, lanes), s = sigmoid(g);
    store_first(dup + i, d * g * s, lanes);
    store_first(dgate + i, d * u * s * (1.0f + g * (1.0f - s)), lanes);
  });
}

double cross_entropy(Index rows, Index columns, const std::uint8_t* targets, double scale,
                     float* logits, double loss) {
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
