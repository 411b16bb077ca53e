#include "cuda/kernels/launch_checks.h"

#include <fmt/format.h>

#include "core/base/error.h"
#include "cuda/base/check.h"
#include "cuda/base/device_info.h"

namespace ringscope::cuda {

namespace {

template <class Kernel>
[[noreturn]] void refuse(const Kernel& kernel, const std::string& why) {
  throw InputError(fmt::format("kernel {:02} {}: {}", kernel.number, kernel.name, why));
}

template <class Kernel>
void check_launch(const Kernel& kernel, const StepShape& shape, DType dtype, int tile) {
  // The architecture is the driver's to check.
  const std::string refused = refusal({.f32 = kernel.limits.f32,
                                       .half = kernel.limits.half,
                                       .max_head_dim = kernel.limits.max_head_dim,
                                       .only_64_and_128 = kernel.limits.only_64_and_128},
                                      kOldestArchitecture, dtype, shape.head_dim);
  if (!refused.empty()) refuse(kernel, refused);
  if (tile < 0 || tile >= static_cast<int>(kernel.tiles.size()))
    refuse(kernel, fmt::format("has tiles 0 to {}, not {}", kernel.tiles.size() - 1, tile));
  if (shape.batch < 0 || shape.rows_q < 0 || shape.rows_k < 0 || shape.heads < 1 ||
      shape.heads_kv < 1 || shape.heads % shape.heads_kv != 0)
    refuse(kernel,
           fmt::format("batch {}, heads {}, heads_kv {}, rows_q {}, rows_k {} given", shape.batch,
                       shape.heads, shape.heads_kv, shape.rows_q, shape.rows_k));
  if (shape.batch > 65535 || shape.heads > 65535)
    refuse(kernel,
           fmt::format("takes a batch and heads up to 65535 (a grid's limit), not {} and {}",
                       shape.batch, shape.heads));
}

}  // namespace

void check_forward_launch(const ForwardKernel& kernel, const ForwardStep& step, DType dtype,
                          int tile) {
  check_launch(kernel, step.shape, dtype, tile);
  if (!kernel.carries_state && !(step.first && step.last))
    refuse(kernel, "carries no state, so it takes no step that is not both the first and the last");
}

void check_backward_launch(const BackwardKernel& kernel, const BackwardStep& step, DType dtype,
                           int tile) {
  check_launch(kernel, step.shape, dtype, tile);
}

void check_shared_memory(const ForwardKernel& kernel, int tile, std::size_t bytes) {
  int device = 0, has = 0;
  RINGSCOPE_CUDA(cudaGetDevice(&device));
  RINGSCOPE_CUDA(cudaDeviceGetAttribute(&has, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
  if (bytes <= static_cast<std::size_t>(has)) return;
  const TileShape shape = kernel.tiles[static_cast<std::size_t>(tile)];
  throw InputError(fmt::format(
      "kernel {:02} {}: tiles of {} x {} need {} bytes of shared memory, the device has "
      "{}; smaller tiles are accepted",
      kernel.number, kernel.name, shape.rows, shape.keys, bytes, has));
}

}  // namespace ringscope::cuda
