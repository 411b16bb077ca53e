// The model's tensor map: the facts that the real one encodes in 128 opaque bytes
// (cuda/base/tensor_map.h), as plain fields.
#pragma once

#include <cstdint>

namespace ringscope::cuda::model {

// Without padding: what happens to lie there may look like an address to what checks arguments.
struct TensorMap {
  const unsigned char* address = nullptr;
  int rank = 0;
  int swizzle_bytes = 0;
  std::int64_t extent[4] = {};        // elements
  std::int64_t stride_bytes[4] = {};  // [0] is the element's size
  int box[4] = {};                    // elements
};
static_assert(sizeof(TensorMap) == sizeof(void*) + 6 * sizeof(int) + 8 * sizeof(std::int64_t));

}  // namespace ringscope::cuda::model
