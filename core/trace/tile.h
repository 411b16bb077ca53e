// What lies between the numbers of a recorded tile: online softmax as a textbook prints it, step by step.
#pragma once

#include <cstddef>
#include <vector>

#include "core/trace/event.h"

namespace ringscope {

// One step of online softmax with the keys of a tile alone. Matrices are row-major, [queries, keys] or
// [queries, columns].
struct TileSteps {
  std::vector<double> products;   // softmax_scale Q K^T, also where the mask forbids
  std::vector<double> row_max;    // [queries]: the larger of row_max_before and the row's scores
  std::vector<double> weights;    // exp(score - row_max)
  std::vector<double> factors;    // [queries]: exp(row_max_before - row_max), for what was there
  std::vector<double> row_sum;    // [queries]: factor * row_sum_before + the row's weights
  std::vector<double> rescaled;   // factor * out_before
  std::vector<double> out_accum;  // rescaled + weights V
};
TileSteps steps_of(const RecordedTile& tile);

// Return softmax_scale times the product of query row i and key row j of the tile.
double scaled_product(const RecordedTile& tile, std::size_t i, std::size_t j);

}  // namespace ringscope
