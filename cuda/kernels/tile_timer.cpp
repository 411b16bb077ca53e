#include "cuda/kernels/tile_timer.h"

#include <algorithm>
#include <array>

#include "cuda/base/event.h"
#include "cuda/base/stream.h"
#include "cuda/kernels/step_problem.h"

namespace ringscope::cuda {
namespace {

constexpr int kWarmUps = 2;
constexpr int kRepeats = 5;

template <class Enqueue>
double median_seconds(Enqueue enqueue) {
  Stream stream;
  Event begin(EventKind::timed), end(EventKind::timed);
  for (int i = 0; i < kWarmUps; ++i) enqueue(stream.get());
  std::array<double, kRepeats> seconds{};
  for (double& s : seconds) {
    begin.record(stream.get());
    enqueue(stream.get());
    end.record(stream.get());
    end.wait();
    s = static_cast<double>(end.ms_since(begin)) * 1e-3;
  }
  std::nth_element(seconds.begin(), seconds.begin() + kRepeats / 2, seconds.end());
  return seconds[kRepeats / 2];
}

// A failed call leaves its status behind, where it would look like a later call's.
template <class Time>
double forgetting_errors(Time time) try {
  return time();
} catch (const CudaError&) {
  static_cast<void>(cudaGetLastError());
  throw;
}

}  // namespace

double time_tile(const ForwardKernel& kernel, const ShapeClass& shape_class, int tile) {
  return forgetting_errors([&] {
    StepProblem problem(representative(shape_class), shape_class.dtype, KernelPass::forward,
                        representative_keys(shape_class));
    const bool whole = !kernel.carries_state;
    const ForwardStep step = problem.forward(whole, whole);
    return median_seconds(
        [&](cudaStream_t stream) { kernel.launch(step, shape_class.dtype, tile, stream); });
  });
}

double time_tile(const BackwardKernel& kernel, const ShapeClass& shape_class, int tile) {
  return forgetting_errors([&] {
    StepProblem problem(representative(shape_class), shape_class.dtype, KernelPass::backward,
                        representative_keys(shape_class));
    const BackwardStep step = problem.backward();
    return median_seconds(
        [&](cudaStream_t stream) { kernel.launch(step, shape_class.dtype, tile, stream); });
  });
}

}  // namespace ringscope::cuda
