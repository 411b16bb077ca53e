// The options of `ringscope check`.
#pragma once

#include <optional>
#include <string>

#include "app/run/run_options.h"

namespace ringscope {

struct CheckOptions {
  // Q, K, V, dO, their layout, mask, partition, scale and world_size; and the outputs to be
  // checked, of which the ones that are set are there.
  RunOptions run;
  std::optional<DType> dtype;  // not given: as the values of --out look
  std::optional<std::string> reference;
  std::optional<std::string> q_unrotated, k_unrotated;
  std::optional<double> rope_base;
  std::optional<std::string> picture;
  bool json = false;
};

}  // namespace ringscope
