#include "core/trace/tile.h"

#include <cmath>

#include "core/attention/online_softmax.h"

namespace ringscope {

double scaled_product(const RecordedTile& tile, std::size_t i, std::size_t j) {
  const std::size_t head_dim = tile.q.size() / tile.queries.size();
  double product = 0;
  for (std::size_t x = 0; x < head_dim; ++x)
    product += double{tile.q[i * head_dim + x]} * tile.k[j * head_dim + x];
  return tile.softmax_scale * product;
}

TileSteps steps_of(const RecordedTile& tile) {
  const std::size_t rows = tile.queries.size(), keys = tile.keys.size();
  const std::size_t columns = tile.v.size() / keys;
  TileSteps steps;
  for (std::size_t i = 0; i < rows; ++i) {
    double row_max = tile.row_max_before[i];
    for (std::size_t j = 0; j < keys; ++j) {
      steps.products.push_back(scaled_product(tile, i, j));
      row_max = std::fmax(row_max, tile.scores[i * keys + j]);
    }
    const double factor = rescale_factor<double>(tile.row_max_before[i], row_max);
    double row_sum = factor * tile.row_sum_before[i];
    for (std::size_t j = 0; j < keys; ++j) {
      const double score = tile.scores[i * keys + j];
      steps.weights.push_back(score == kMinusInfinity<double> ? 0 : std::exp(score - row_max));
      row_sum += steps.weights.back();
    }
    for (std::size_t x = 0; x < columns; ++x) {
      steps.rescaled.push_back(factor * tile.out_before[i * columns + x]);
      double out = steps.rescaled.back();
      for (std::size_t j = 0; j < keys; ++j)
        out += steps.weights[i * keys + j] * tile.v[j * columns + x];
      steps.out_accum.push_back(out);
    }
    steps.row_max.push_back(row_max);
    steps.factors.push_back(factor);
    steps.row_sum.push_back(row_sum);
  }
  return steps;
}

}  // namespace ringscope
