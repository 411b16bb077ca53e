#include "cuda/ring/choose_kernels.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/error.h"

namespace ringscope::cuda {
namespace {

bool has_passed(int number) {
  const auto runs = verified_runs();
  return std::any_of(runs.begin(), runs.end(),
                     [&](const VerifiedRun& run) { return run.number == number; });
}

// Return why a kernel cannot serve a ring, or an empty text when it can.
std::string why_no_ring(const ForwardKernel& kernel) {
  return kernel.carries_state ? "" : "does not carry the state of a ring on";
}
std::string why_no_ring(const BackwardKernel&) { return ""; }

template <class Kernel>
const Kernel& choose(std::span<const Kernel> kernels, KernelPass pass, int number, int architecture,
                     DType dtype, Index head_dim) {
  const int d = static_cast<int>(std::min<Index>(head_dim, 1 << 20));  // more than any kernel takes
  const char* const pass_name = pass == KernelPass::forward ? "forward" : "backward";
  const auto why_not = [&](const Kernel& kernel) {
    const std::string no_ring = why_no_ring(kernel);
    return no_ring.empty() ? refusal(kernel.limits, architecture, dtype, d) : no_ring;
  };
  const auto instead = [&] {
    return fmt::format("kernels that take dtype {}, head_dim {} {} on compute capability {}.{}: {}",
                       ringscope::name_of(dtype), head_dim, pass_name, architecture / 10,
                       architecture % 10, kernels_that_take(pass, architecture, dtype, d));
  };

  const Kernel* best = nullptr;
  for (const Kernel& kernel : kernels) {
    if (number != 0 && kernel.number != number) continue;
    const std::string reason = why_not(kernel);
    if (!reason.empty()) {
      if (number == 0) continue;
      throw InputError(
          fmt::format("kernel {:02} {} {}; {}", kernel.number, kernel.name, reason, instead()));
    }
    if (best == nullptr || has_passed(kernel.number) || !has_passed(best->number)) best = &kernel;
  }
  if (best != nullptr) return *best;
  if (number != 0)
    throw InputError(
        fmt::format("kernel: there is no {} kernel {:02}; {}", pass_name, number, instead()));
  throw InputError(fmt::format(
      "no {} kernel takes dtype {}, head_dim {} on a device of compute capability {}.{}; f32 takes "
      "head_dim 1 to 256, bf16 and f16 take 64 and 128; use --backend cpu for others",
      pass_name, ringscope::name_of(dtype), head_dim, architecture / 10, architecture % 10));
}

}  // namespace

ChosenKernels choose_kernels(const KernelWish& wish, int architecture, DType dtype, Index head_dim,
                             bool backward) {
  ChosenKernels chosen;
  chosen.forward =
      &choose(forward_kernels(), KernelPass::forward, wish.forward, architecture, dtype, head_dim);
  if (backward)
    chosen.backward = &choose(backward_kernels(), KernelPass::backward, wish.backward, architecture,
                              dtype, head_dim);
  return chosen;
}

}  // namespace ringscope::cuda
