// The model's tensor map: the facts that the real one encodes in 128 opaque bytes
// (cuda/base/tensor_map.h), as plain fields.
#pragma once

#include <cstdint>

namespace ringscope::cuda::model {

struct TensorMap {
  const unsigned char* address = nullptr;
  int rank = 0;
  std::int64_t extent[4] = {};        // elements
  std::int64_t stride_bytes[4] = {};  // [0] is the element's size
  int box[4] = {};                    // elements
  int swizzle_bytes = 0;
};

}  // namespace ringscope::cuda::model
