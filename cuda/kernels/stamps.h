// Lets a kernel say what its warps do: one thread of each role stamps the time at which a part of
// its work ends, for a sample of multiprocessors (`run --kernel-trace`). A kernel that takes a
// StampBuffer as its last argument stamps; the instance without one has no instruction for it.
//
// A lane is one role on one multiprocessor. Only one block with these kernels' registers fits on a
// multiprocessor, so a lane has one writer at a time and needs no atomics. When it is full, further
// stamps are counted and not kept, so its memory is bounded and the numbers stay the run's.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <vector>

#include "core/base/buffer.h"
#include "core/trace/event.h"
#include "cuda/base/device_memory.h"
#include "cuda/ptx/registers.h"

namespace ringscope::cuda {

// A part ended: of tile `first` of the keys (-1: of the item), and `second` is the KernelPart. Or an
// item began: `first` is its matrix (batch * heads + head), and `second` is -1 - its row tile.
struct Stamp {
  std::uint64_t time;
  std::int32_t first, second;
};

inline constexpr unsigned kStampsOfLane = 1024;

struct StampLane {
  unsigned long long asked;  // for stamps, also for those that found no room
  Stamp stamps[kStampsOfLane];
};

// Where a launch stamps: lane kKernelRoles m + r is that of role r on multiprocessor m.
struct StampBuffer {
  StampLane* lanes;
  int multiprocessors;  // the first so many stamp
};

// What a role stamps with. Without a buffer it does nothing.
template <class... Buffer>
struct Stamps {
  __device__ __forceinline__ void begin(int, int) {}
  __device__ __forceinline__ void end(KernelPart, int = -1) {}
};

template <>
struct Stamps<StampBuffer> {
  __device__ __forceinline__ explicit Stamps(const StampBuffer& its_buffer) : buffer(its_buffer) {
    if (StampLane* const lane = own_lane()) asked = static_cast<unsigned>(lane->asked);
  }
  // An item begins: a tile of query rows of one (batch, head).
  __device__ __forceinline__ void begin(int matrix, int row_tile) { stamp(matrix, -1 - row_tile); }
  // A part ends, of a tile of keys or of the item, and the next begins.
  __device__ __forceinline__ void end(KernelPart part, int key_tile = -1) {
    stamp(key_tile, static_cast<int>(part));
  }

 private:
  // Return the lane of this thread's warpgroup (0 produces, r is consumer r - 1), or null in all but
  // its first thread. It is computed anew each time, to save registers.
  __device__ __forceinline__ StampLane* own_lane() const {
    const int multiprocessor = ptx::multiprocessor(), thread = ptx::thread_index();
    if (multiprocessor >= buffer.multiprocessors || thread % 128 != 0) return nullptr;
    return buffer.lanes + (multiprocessor * kKernelRoles + thread / 128);
  }
  __device__ __forceinline__ void stamp(int first, int second) {
    StampLane* const lane = own_lane();
    if (lane == nullptr) return;
    if (asked < kStampsOfLane) lane->stamps[asked] = {ptx::kernel_time(), first, second};
    lane->asked = ++asked;
  }

  const StampBuffer& buffer;
  unsigned asked = 0;
};

// ---
// The buffers of a pass, one for each launch, in device memory that no rank's meter counts, because
// it is not the ring's.

class StampLog {
 public:
  // Throws CudaError.
  StampLog(int launches, int multiprocessors);
  static Index bytes(int launches, int multiprocessors) {
    return Index{launches} * multiprocessors * kKernelRoles * static_cast<Index>(sizeof(StampLane));
  }

  StampBuffer of(int launch) {
    return {lanes_.data() + launch * lanes_of_launch_, multiprocessors_};
  }
  // Return what a launch, which is over, stamped between begin_ns and end_ns. A GPU's parts keep
  // their durations and lie in the middle of that time, because its clock is not the recording's;
  // the model's clock counts steps, which are stretched to fill it. Add the stamps that found no
  // room to `dropped`. Throws CudaError.
  std::vector<KernelSpan> spans(int launch, std::int64_t begin_ns, std::int64_t end_ns,
                                std::int64_t& dropped);

 private:
  int multiprocessors_, lanes_of_launch_;
  MemoryMeter meter_{device_memory()};
  Buffer<StampLane> lanes_;
};

}  // namespace ringscope::cuda
