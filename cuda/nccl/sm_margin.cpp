#include "cuda/nccl/sm_margin.h"

#include <algorithm>
#include <atomic>

#include "cuda/base/check.h"
#include "cuda/kernels/hopper_overlap.h"

namespace ringscope::cuda {
namespace {

constexpr int kPersistent = 7;

std::atomic<int> margin = 0;

void launch_with_margin(const ForwardStep& step, DType dtype, int tile, cudaStream_t stream) {
  int device = 0, multiprocessors = 0;
  RINGSCOPE_CUDA(cudaGetDevice(&device));
  RINGSCOPE_CUDA(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device));
  launch_hopper_overlap(step, dtype, tile, std::max(1, multiprocessors - margin), stream);
}

}  // namespace

const ForwardKernel& with_sm_margin(const ForwardKernel& kernel, int multiprocessors) {
  if (kernel.number != kPersistent || multiprocessors <= 0) return kernel;
  margin = multiprocessors;
  static const ForwardKernel narrower = [&] {
    ForwardKernel same = kernel;
    same.launch = &launch_with_margin;
    return same;
  }();
  return narrower;
}

}  // namespace ringscope::cuda
