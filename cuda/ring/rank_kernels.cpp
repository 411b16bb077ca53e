#include "cuda/ring/rank_kernels.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/error.h"
#include "cuda/base/stream.h"
#include "cuda/kernels/row_kernels.h"
#include "cuda/kernels/step_problem.h"

namespace ringscope::cuda {
namespace {

bool has_passed(int number) {
  const auto runs = verified_runs();
  return std::any_of(runs.begin(), runs.end(),
                     [&](const VerifiedRun& run) { return run.number == number; });
}

const Kernel& choose(KernelPass pass, int number, char rung, bool stamped, const DeviceInfo& device,
                     DType dtype, HeadDims dims) {
  const int architecture = device.architecture;
  const char* const pass_name = pass == KernelPass::forward ? "forward" : "backward";
  const auto why_not = [&](const Kernel& kernel) -> std::string {
    if (stamped && kernel.launch_stamped == nullptr)
      return "cannot stamp what it does, as --kernel-trace asks; 06 and 07 can";
    return kernel.carries_state ? refusal(kernel, device, dtype, dims)
                                : "does not carry the state of a ring on";
  };
  const auto instead = [&] {
    return fmt::format("kernels that take dtype {}, head_dim {} {} on compute capability {}.{}: {}",
                       ringscope::name_of(dtype), to_string(dims), pass_name, architecture / 10,
                       architecture % 10, kernels_that_take(pass, device, dtype, dims));
  };

  const Kernel* best = nullptr;
  for (const Kernel& kernel : rung == 0 ? kernels_of(pass) : rungs()) {
    if (kernel.pass() != pass || kernel.rung != rung) continue;
    if (number != 0 && kernel.number != number) continue;
    const std::string reason = why_not(kernel);
    if (!reason.empty()) {
      if (number == 0) continue;
      throw InputError(fmt::format("kernel {} {} {}; {}", number_text(number, rung), kernel.name,
                                   reason, instead()));
    }
    if (best == nullptr || has_passed(kernel.number) || !has_passed(best->number)) best = &kernel;
  }
  if (best != nullptr) return *best;
  if (number != 0)
    throw InputError(fmt::format("kernel: there is no {} kernel {}; {}", pass_name,
                                 number_text(number, rung), instead()));
  if (stamped)
    throw InputError(
        fmt::format("--kernel-trace: kernels 06 and 07 can stamp what they do; {}", instead()));
  throw InputError(fmt::format(
      "no {} kernel takes dtype {}, head_dim {} on a device of compute capability {}.{}; f32 takes "
      "head_dim 1 to 256, bf16 and f16 take 64, 128 and 192 (V 128); use --backend cpu for others",
      pass_name, ringscope::name_of(dtype), to_string(dims), architecture / 10, architecture % 10));
}

}  // namespace

StepShape shape_of(const AttentionParams& params, Index rows_q, Index rows_k) {
  return {static_cast<int>(params.batch),
          static_cast<int>(params.num_heads),
          static_cast<int>(params.num_heads_kv),
          static_cast<int>(rows_q),
          static_cast<int>(rows_k),
          static_cast<int>(params.head_dim),
          static_cast<int>(params.value_dim())};
}

ChosenKernels choose_kernels(const KernelWish& wish, const DeviceInfo& device, DType dtype,
                             HeadDims dims, bool backward) {
  const auto tile_of = [&](const Kernel& kernel) {
    return kernel.tile_for(dims, device.shared_bytes);
  };
  ChosenKernels chosen{.stamped = wish.stamped};
  chosen.forward = &choose(KernelPass::forward, wish.forward, wish.forward_rung, wish.stamped > 0,
                           device, dtype, dims);
  chosen.forward_tile = tile_of(*chosen.forward);
  if (!backward) return chosen;
  chosen.backward =
      &choose(KernelPass::backward, wish.backward, wish.backward_rung, false, device, dtype, dims);
  chosen.backward_tile = tile_of(*chosen.backward);
  return chosen;
}

void warm_up(const ChosenKernels& kernels, const AttentionParams& params) {
  const int d = static_cast<int>(params.head_dim), d_v = static_cast<int>(params.value_dim());
  MemoryMeter meter(device_memory());
  Buffer<RowSample> sample(&meter, 1);
  Buffer<float> delta(&meter, 1);
  const auto launch = [&](const Kernel& kernel, int tile, const auto& more) {
    StepProblem problem({1, 1, 1, 1, 1, d, d_v}, params.dtype, kernel.pass(), {{0, 1}});
    Stream stream;  // declared after what its work uses, so that it ends first
    problem.launch(kernel, tile, true, true, stream.get());
    more(problem, stream.get());
    stream.synchronize();
  };
  launch(*kernels.forward, kernels.forward_tile, [&](auto& problem, cudaStream_t stream) {
    const ForwardStep step = problem.forward(true, true);
    launch_sample_rows({{0, 0, 0}, 1}, step.row_max, step.row_sum, sample.data(), stream);
    launch_finish(step, stream);
    const SoftmaxState state{step.row_max, step.row_sum, step.out, step.lse};
    launch_merge(state, state, 1, d_v, stream);
  });
  if (kernels.backward == nullptr) return;
  launch(*kernels.backward, kernels.backward_tile, [&](auto& problem, cudaStream_t stream) {
    const BackwardStep step = problem.backward(true);
    launch_delta(step.dout, params.dtype, step.dv, delta.data(), 1, d_v, stream);
    launch_add(step.dk, step.dq, d, stream);
  });
}

}  // namespace ringscope::cuda
