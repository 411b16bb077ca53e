// Inputs of N(0, 1) for benchmarks.
#pragma once

#include <vector>

#include "core/base/random.h"
#include "core/run/run.h"

namespace ringscope {

// Return Q, K and V of `shape`.
inline AttentionInputs random_inputs(const AttentionShape& shape) {
  const auto tensor = [&](RandomTensor which, Index heads) {
    std::vector<float> values(
        static_cast<std::size_t>(checked_values(shape.batch, heads, shape.seqlen, shape.head_dim)));
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<float>(normal(0, which, static_cast<Index>(i)));
    return values;
  };
  return {tensor(RandomTensor::q, shape.num_heads),
          tensor(RandomTensor::k, shape.num_heads_kv),
          tensor(RandomTensor::v, shape.num_heads_kv),
          {}};
}

}  // namespace ringscope
