// From the projections' order, rows before heads, to attention's, heads before rows, and back.
#pragma once

#include <algorithm>

#include "core/attention/views.h"

namespace ringscope {

// [batch, first, second, head_dim] -> [batch, second, first, head_dim].
inline void exchange_rows_and_heads(const AttentionParams& params, Index first, Index second,
                                    const float* from, float* to) {
  const Index d = params.head_dim;
  for (Index b = 0; b < params.batch; ++b)
    for (Index i = 0; i < first; ++i)
      for (Index j = 0; j < second; ++j, from += d)
        std::copy_n(from, d, to + ((b * second + j) * first + i) * d);
}

}  // namespace ringscope
