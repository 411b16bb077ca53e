#include "cuda/kernels/kernel_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <limits>
#include <vector>

#include "core/base/error.h"
#include "cuda/base/check.h"
#include "cuda/base/device_info.h"

namespace ringscope::cuda {
namespace {

std::atomic<int> left = 0;  // multiprocessors for other kernels

// Return, for example, "8.0".
std::string capability(int architecture) {
  return fmt::format("{}.{}", architecture / 10, architecture % 10);
}

const char* dtypes_text(const KernelLimits& limits) {
  return limits.rung ? "bf16" : limits.half ? "bf16 and f16" : "f32";
}

const char* head_dims_text(const KernelLimits& limits) {
  return limits.rung ? "128" : limits.half ? "64, 128 and 192 (V 128)" : "1 to 256";
}

std::string architectures_text(const KernelLimits& limits) {
  return limits.hopper ? "9.0 alone" : capability(kOldestArchitecture) + " or later";
}

std::string numbered_name(const Kernel& kernel) {
  return fmt::format("{} {}", number_text(kernel.number, kernel.rung), kernel.name);
}

const char* name_of(KernelPass pass) {
  return pass == KernelPass::forward ? "forward" : "backward";
}

[[noreturn]] void refuse(const Kernel& kernel, const std::string& why) {
  throw InputError(fmt::format("kernel {}: {}", numbered_name(kernel), why));
}

// What needs no device comes first, so that a machine without one gives the same reasons.
void check_launch(const Kernel& kernel, const StepShape& shape, DType dtype, int tile) {
  const std::string refused = refusal({.half = kernel.limits.half, .rung = kernel.limits.rung},
                                      kOldestArchitecture, dtype, shape);
  if (!refused.empty()) refuse(kernel, refused);
  if (tile < 0 || tile >= static_cast<int>(kernel.tiles.size()))
    refuse(kernel, fmt::format("has tiles 0 to {}, not {}", kernel.tiles.size() - 1, tile));
  if (!kernel.has_tile(shape, tile))
    refuse(kernel, fmt::format("tile {} takes head_dim {} to {}, not {}", tile,
                               kernel.tiles[tile].least_head_dim, kernel.tiles[tile].most_head_dim,
                               shape.head_dim));
  if (shape.batch < 0 || shape.rows_q < 0 || shape.rows_k < 0 || shape.heads < 1 ||
      shape.heads_kv < 1 || shape.heads % shape.heads_kv != 0)
    refuse(kernel,
           fmt::format("batch {}, heads {}, heads_kv {}, rows_q {}, rows_k {} given", shape.batch,
                       shape.heads, shape.heads_kv, shape.rows_q, shape.rows_k));
  const std::int64_t smallest_tiles =
      (std::int64_t{std::max(shape.rows_q, shape.rows_k)} + 31) / 32;
  if (shape.batch > 65535 || shape.heads > 65535)
    refuse(kernel,
           fmt::format("takes a batch and heads up to 65535 (a grid's limit), not {} and {}",
                       shape.batch, shape.heads));
  // Items of 07 are numbered over the batch as well, and a last round goes a grid beyond them.
  if (smallest_tiles * shape.heads * shape.batch > std::numeric_limits<std::int32_t>::max() / 2)
    refuse(kernel,
           fmt::format("takes batch x heads x rows up to 2^35 (a grid's limit), not {} x {} x {}",
                       shape.batch, shape.heads, std::max(shape.rows_q, shape.rows_k)));
  if (kernel.shared_bytes != nullptr) {
    const std::size_t needs = kernel.shared_bytes(shape, tile);
    const int has = device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin);
    if (needs > static_cast<std::size_t>(has))
      refuse(kernel,
             fmt::format("tile {} takes {} bytes of shared memory a block, the device has {}", tile,
                         needs, has));
  }
}

}  // namespace

void Kernel::launch(const ForwardStep& step, DType dtype, int tile, cudaStream_t stream,
                    const StampBuffer* stamps) const {
  check_launch(*this, step.shape, dtype, tile);
  if (!carries_state && !(step.first && step.last))
    refuse(*this, "carries no state, so it takes no step that is not both the first and the last");
  if (step.out_16 != nullptr && !(limits.hopper && step.first && step.last))
    refuse(*this,
           "stores out in 16 bits only if it is for Hopper, and a step the first and the last");
  if (stamps != nullptr) return launch_stamped(step, dtype, *stamps, stream);
  launch_forward(step, dtype, tile, stream);
}

void Kernel::launch(const BackwardStep& step, DType dtype, int tile, cudaStream_t stream,
                    const StampBuffer* stamps) const {
  check_launch(*this, step.shape, dtype, tile);
  if (stamps != nullptr) return launch_stamped_backward(step, dtype, *stamps, stream);
  launch_backward(step, dtype, tile, stream);
}

int Kernel::tile_for(HeadDims dims, std::size_t device_bytes) const {
  for (int tile = 0; tile < static_cast<int>(tiles.size()); ++tile)
    if (has_tile(dims, tile) &&
        (shared_bytes == nullptr || shared_bytes(dims, tile) <= device_bytes))
      return tile;
  return -1;
}

std::string to_string(HeadDims dims) {
  return dims == dims.keys ? fmt::format("{}", dims.keys)
                           : fmt::format("{} (V {})", dims.keys, dims.values);
}

int device_attribute(cudaDeviceAttr which) {
  int device = 0, value = 0;
  RINGSCOPE_CUDA(cudaGetDevice(&device));
  RINGSCOPE_CUDA(cudaDeviceGetAttribute(&value, which, device));
  return value;
}

void leave_multiprocessors(int count) { left = count; }

int multiprocessors() {
  return std::max(1, device_attribute(cudaDevAttrMultiProcessorCount) - left);
}

std::string number_text(int number, char rung) {
  return fmt::format("{:02}{}", number, std::string(rung == 0 ? 0 : 1, rung));
}

std::span<const Kernel> rungs() {
  static const std::array kernels = {hopper_without_roles, hopper_overlap_alone, hopper_ping_pong,
                                     hopper_persistent,    backward_any_order,   hopper_wide_tiles,
                                     backward_by_head,     backward_warps_arrive};
  return kernels;
}

std::span<const Kernel> all_kernels() {
  static const std::array kernels = {naive_kernel,
                                     online_softmax_kernel,
                                     shared_tiles_kernel,
                                     register_tiles_kernel,
                                     tensor_cores_kernel,
                                     hopper_kernel,
                                     hopper_overlap_kernel,
                                     backward_tiled_kernel,
                                     backward_tensor_cores_kernel,
                                     backward_one_pass_kernel};
  return kernels;
}

std::span<const Kernel> kernels_of(KernelPass pass) {
  constexpr std::size_t kForward = 7;  // forward kernels come first
  return pass == KernelPass::forward ? all_kernels().first(kForward)
                                     : all_kernels().subspan(kForward);
}

std::string refusal(const KernelLimits& limits, int architecture, DType dtype, HeadDims dims) {
  const auto is_taken = [&](std::int64_t width) { return 1 <= width && width <= 256; };
  const bool takes_dims = limits.rung   ? dims == 128
                          : limits.half ? std::ranges::count(kHalfHeadDims, dims) > 0
                                        : is_taken(dims.keys) && is_taken(dims.values);
  std::vector<std::string> reasons;
  if (limits.rung ? dtype != DType::bf16 : (dtype != DType::f32) != limits.half)
    reasons.push_back(
        fmt::format("takes {}, not {}", dtypes_text(limits), ringscope::name_of(dtype)));
  if (!takes_dims)
    reasons.push_back(
        fmt::format("takes head_dim {}, not {}", head_dims_text(limits), to_string(dims)));
  if (limits.hopper ? architecture != 90 : architecture < kOldestArchitecture)
    reasons.push_back(fmt::format("needs compute capability {}, the device has {}",
                                  architectures_text(limits), capability(architecture)));
  return fmt::format("{}", fmt::join(reasons, "; "));
}

std::string refusal(const Kernel& kernel, const DeviceInfo& device, DType dtype, HeadDims dims) {
  const std::string refused = refusal(kernel.limits, device.architecture, dtype, dims);
  if (!refused.empty() || kernel.tile_for(dims, device.shared_bytes) >= 0) return refused;
  const int smallest = static_cast<int>(kernel.tiles.size()) - 1;
  return fmt::format("needs {} bytes of shared memory a block at head_dim {}, the device has {}",
                     kernel.shared_bytes(dims, smallest), to_string(dims), device.shared_bytes);
}

std::string kernels_that_take(KernelPass pass, const DeviceInfo& device, DType dtype,
                              HeadDims dims) {
  std::vector<std::string> names;
  for (const Kernel& kernel : kernels_of(pass))
    if (refusal(kernel, device, dtype, dims).empty()) names.push_back(numbered_name(kernel));
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
  for (const Kernel& kernel : all_kernels())
    text += fmt::format("  {:<26}{:<10}{:<14}head_dim {:<24}GPU {:<14}{}\n", numbered_name(kernel),
                        name_of(kernel.pass()), dtypes_text(kernel.limits),
                        head_dims_text(kernel.limits), architectures_text(kernel.limits),
                        verified(kernel.number));
  return text;
}

std::string kernel_table_markdown() {
  std::string text =
      "| kernel | pass | idea | dtypes | head_dim | compute capability | verified |\n"
      "|---|---|---|---|---|---|---|\n";
  for (const Kernel& kernel : all_kernels()) {
    text += fmt::format("| {} | {} | {} | {} | {} | {} | {} |\n", numbered_name(kernel),
                        name_of(kernel.pass()), kernel.idea, dtypes_text(kernel.limits),
                        head_dims_text(kernel.limits), architectures_text(kernel.limits),
                        verified(kernel.number));
  }
  return text;
}

}  // namespace ringscope::cuda
