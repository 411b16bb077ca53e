// The model as its formulas say, in f64, whole and on one rank: written a second time, without the
// ring, without blocks and without a backward pass, for the tests to compare with.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "core/problem/mask.h"
#include "core/training/weights.h"

namespace ringscope {

using Vector64 = std::vector<double>;

class NaiveModel {
 public:
  // `windows`: [batch, seqlen + 1].
  NaiveModel(const ModelWeights& weights, const Mask& mask, Index batch,
             std::vector<std::uint8_t> windows)
      : w_(weights), mask_(mask), batch_(batch), windows_(std::move(windows)) {}

  // The mean loss, for all weights in the order of the layout.
  double loss(const Vector64& values) const {
    double sum = 0;
    for (Index b = 0; b < batch_; ++b) sum += loss_of_window(values, b);
    return sum / static_cast<double>(batch_ * mask_.seqlen);
  }

  // d loss / d value i, by central differences. With a step of 1e-4 times 1 the third derivative
  // leaves about 1e-9 and the rounding of the loss 1e-12.
  Vector64 gradients(Vector64 values) const {
    constexpr double kStep = 1e-4;
    Vector64 result;
    for (double& value : values) {
      const double kept = value;
      value = kept + kStep;
      const double above = loss(values);
      value = kept - kStep;
      result.push_back((above - loss(values)) / (2 * kStep));
      value = kept;
    }
    return result;
  }

 private:
  using Rows = std::vector<Vector64>;

  Vector64 times(const Vector64& row, const Vector64& values, const Parameter& p) const {
    Vector64 result(static_cast<std::size_t>(p.columns));
    for (Index i = 0; i < p.rows; ++i)
      for (Index j = 0; j < p.columns; ++j)
        result[j] += row[i] * values[p.offset + i * p.columns + j];
    return result;
  }

  Vector64 norm(const Vector64& row, const Vector64& values, const Parameter& gain) const {
    double squares = 0;
    for (const double x : row) squares += x * x;
    const double rms = std::sqrt(squares / static_cast<double>(row.size()) + w_.shape.norm_epsilon);
    Vector64 result(row.size());
    for (std::size_t i = 0; i < row.size(); ++i) result[i] = values[gain.offset + i] * row[i] / rms;
    return result;
  }

  void turn(Vector64& row, Index position) const {
    const Index d = w_.shape.head_dim;
    for (std::size_t i = 0; i + 1 < row.size(); i += 2) {
      const auto pair = static_cast<double>(static_cast<Index>(i) % d);
      const double angle = static_cast<double>(position) *
                           std::pow(w_.shape.rotary_base, -pair / static_cast<double>(d));
      const double x = row[i], y = row[i + 1];
      row[i] = x * std::cos(angle) - y * std::sin(angle);
      row[i + 1] = x * std::sin(angle) + y * std::cos(angle);
    }
  }

  Rows attention(const Rows& q, const Rows& k, const Rows& v) const {
    const Index d = w_.shape.head_dim, group = w_.shape.num_heads / w_.shape.num_heads_kv;
    Rows out(q.size(), Vector64(q[0].size()));
    for (Index i = 0; i < mask_.seqlen; ++i)
      for (Index h = 0; h < w_.shape.num_heads; ++h) {
        const Interval keys = mask_.allowed_keys(i);
        double sum = 0;
        for (Index j = keys.first; j < keys.last; ++j) {
          double score = 0;
          for (Index x = 0; x < d; ++x) score += q[i][h * d + x] * k[j][(h / group) * d + x];
          const double e = std::exp(score / std::sqrt(static_cast<double>(d)));
          sum += e;
          for (Index x = 0; x < d; ++x) out[i][h * d + x] += e * v[j][(h / group) * d + x];
        }
        for (Index x = 0; x < d; ++x) out[i][h * d + x] /= sum;
      }
    return out;
  }

  double loss_of_window(const Vector64& values, Index b) const {
    const std::uint8_t* const bytes = windows_.data() + b * (mask_.seqlen + 1);
    const Index width = w_.shape.width;
    Rows x;
    for (Index i = 0; i < mask_.seqlen; ++i) {
      const double* const row = values.data() + w_.embedding.offset + bytes[i] * width;
      x.emplace_back(row, row + width);
    }
    const auto add = [](Vector64& to, const Vector64& what) {
      for (std::size_t i = 0; i < to.size(); ++i) to[i] += what[i];
    };
    for (const LayerWeights& layer : w_.layers) {
      Rows q, k, v;
      for (Index i = 0; i < mask_.seqlen; ++i) {
        const Vector64 normed = norm(x[i], values, layer.attention_gain);
        q.push_back(times(normed, values, layer.query));
        k.push_back(times(normed, values, layer.key));
        v.push_back(times(normed, values, layer.value));
        turn(q.back(), i);
        turn(k.back(), i);
      }
      const Rows out = attention(q, k, v);
      for (Index i = 0; i < mask_.seqlen; ++i) {
        add(x[i], times(out[i], values, layer.output));
        const Vector64 normed = norm(x[i], values, layer.mlp_gain);
        Vector64 hidden = times(normed, values, layer.gate);
        const Vector64 up = times(normed, values, layer.up);
        for (std::size_t n = 0; n < up.size(); ++n) hidden[n] *= up[n] / (1 + std::exp(-hidden[n]));
        add(x[i], times(hidden, values, layer.down));
      }
    }
    double sum = 0;
    for (Index i = 0; i < mask_.seqlen; ++i) {
      const Vector64 normed = norm(x[i], values, w_.final_gain);
      double exponentials = 0, target = 0;
      for (Index byte = 0; byte < w_.shape.vocab; ++byte) {
        double logit = 0;
        for (Index n = 0; n < width; ++n)
          logit += normed[n] * values[w_.head.offset + byte * width + n];
        exponentials += std::exp(logit);
        if (byte == bytes[i + 1]) target = logit;
      }
      sum += std::log(exponentials) - target;
    }
    return sum;
  }

  const ModelWeights& w_;
  Mask mask_;
  Index batch_;
  std::vector<std::uint8_t> windows_;
};

}  // namespace ringscope
