// Where a role of a block is in a ring of shared-memory stages, which producer and consumers walk at
// their own pace.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace ringscope::cuda {

// `parity` is that of the barrier phase which the role waits for at this stage (ptx/barrier.h).
template <int kStages>
struct StagePlace {
  int stage = 0;
  std::uint32_t parity = 0;

  __host__ __device__ constexpr void advance() {
    if (++stage == kStages) {
      stage = 0;
      parity ^= 1;
    }
  }
  __host__ __device__ constexpr StagePlace next() const {
    StagePlace place = *this;
    place.advance();
    return place;
  }
};

}  // namespace ringscope::cuda
