#include "cuda/kernels/kernel_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <vector>

#include "cuda/base/device_info.h"
#include "cuda/kernels/kernels.h"

namespace ringscope::cuda {
namespace {

// Return, for example, "8.0".
std::string capability(int architecture) {
  return fmt::format("{}.{}", architecture / 10, architecture % 10);
}

std::string dtypes_text(const KernelLimits& limits) {
  if (limits.f32 && limits.half) return "f32, bf16 and f16";
  return limits.f32 ? "f32" : "bf16 and f16";
}

std::string head_dims_text(const KernelLimits& limits) {
  return limits.only_64_and_128 ? "64 and 128" : fmt::format("1 to {}", limits.max_head_dim);
}

// Return the oldest architecture. Even kernels without a limit start at kOldestArchitecture.
int oldest(const KernelLimits& limits) {
  return std::max(limits.min_architecture, kOldestArchitecture);
}

std::string architectures_text(const KernelLimits& limits) {
  if (limits.exact_architecture > 0) return capability(limits.exact_architecture) + " alone";
  return capability(oldest(limits)) + " or later";
}

// A row of the table, for a kernel of either pass.
struct Row {
  int number;
  std::string_view name, idea;
  KernelPass pass;
  KernelLimits limits;
};

std::vector<Row> rows() {
  std::vector<Row> all;
  for (const ForwardKernel& kernel : forward_kernels())
    all.push_back({kernel.number, kernel.name, kernel.idea, KernelPass::forward, kernel.limits});
  for (const BackwardKernel& kernel : backward_kernels())
    all.push_back({kernel.number, kernel.name, kernel.idea, KernelPass::backward, kernel.limits});
  return all;
}

std::string numbered_name(const Row& row) { return fmt::format("{:02} {}", row.number, row.name); }

const char* name_of(KernelPass pass) {
  return pass == KernelPass::forward ? "forward" : "backward";
}

}  // namespace

std::span<const ForwardKernel> forward_kernels() {
  static const std::array kernels = {naive_kernel(),         online_softmax_kernel(),
                                     shared_tiles_kernel(),  register_tiles_kernel(),
                                     tensor_cores_kernel(),  hopper_kernel(),
                                     hopper_overlap_kernel()};
  return kernels;
}

std::span<const BackwardKernel> backward_kernels() {
  static const std::array kernels = {backward_tiled_kernel(), backward_tensor_cores_kernel(),
                                     backward_hopper_kernel()};
  return kernels;
}

std::string refusal(const KernelLimits& limits, int architecture, DType dtype, int head_dim) {
  std::vector<std::string> reasons;
  if (!(dtype == DType::f32 ? limits.f32 : limits.half))
    reasons.push_back(
        fmt::format("takes {}, not {}", dtypes_text(limits), ringscope::name_of(dtype)));
  const bool takes_head_dim = limits.only_64_and_128
                                  ? head_dim == 64 || head_dim == 128
                                  : head_dim >= 1 && head_dim <= limits.max_head_dim;
  if (!takes_head_dim)
    reasons.push_back(fmt::format("takes head_dim {}, not {}", head_dims_text(limits), head_dim));
  const bool takes_device = limits.exact_architecture > 0
                                ? architecture == limits.exact_architecture
                                : architecture >= oldest(limits);
  if (!takes_device)
    reasons.push_back(fmt::format("needs compute capability {}, the device has {}",
                                  architectures_text(limits), capability(architecture)));
  return fmt::format("{}", fmt::join(reasons, "; "));
}

std::string kernels_that_take(KernelPass pass, int architecture, DType dtype, int head_dim) {
  std::vector<std::string> names;
  for (const Row& row : rows())
    if (row.pass == pass && refusal(row.limits, architecture, dtype, head_dim).empty())
      names.push_back(numbered_name(row));
  return names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "));
}

std::string verified(int number) {
  const auto runs = verified_runs();
  const auto run = std::find_if(runs.begin(), runs.end(),
                                [&](const VerifiedRun& r) { return r.number == number; });
  if (run == runs.end()) return "not run on a GPU";
  return fmt::format("{}, driver {}, commit {}, {}", run->gpu, run->driver, run->commit, run->date);
}

std::string kernel_table_text() {
  std::string text;
  for (const Row& row : rows())
    text += fmt::format("  {:<26}{:<10}{:<14}head_dim {:<12}GPU {:<14}{}\n", numbered_name(row),
                        name_of(row.pass), dtypes_text(row.limits), head_dims_text(row.limits),
                        architectures_text(row.limits), verified(row.number));
  return text;
}

std::string kernel_table_markdown() {
  std::string text =
      "| kernel | pass | idea | dtypes | head_dim | compute capability | verified |\n"
      "|---|---|---|---|---|---|---|\n";
  for (const Row& row : rows()) {
    std::string idea;
    for (const char c : row.idea) idea += c == '|' ? std::string("\\|") : std::string(1, c);
    text +=
        fmt::format("| {} | {} | {} | {} | {} | {} | {} |\n", numbered_name(row), name_of(row.pass),
                    idea, dtypes_text(row.limits), head_dims_text(row.limits),
                    architectures_text(row.limits), verified(row.number));
  }
  return text;
}

}  // namespace ringscope::cuda
