// Decides which kernels may be launched.
#include <cuda_runtime.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "cuda/model/runtime_device.h"

namespace ringscope::cuda::model {
namespace {

// Whether an argument's word is the address of memory of this process. Two small numbers in one word
// hardly ever are: a program's memory lies where the upper would be above 20,000.
bool is_host_memory(std::uintptr_t word) {
  if (word >> 32 == 0 || word >> 47 != 0) return false;
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  unsigned char resident;
  return mincore(reinterpret_cast<void*>(word / page * page), 1, &resident) == 0;
}

}  // namespace

cudaError_t enqueue_kernel(const cudaLaunchConfig_t& config, const void* function,
                           std::vector<std::uintptr_t> words, std::function<void()> body) {
  return call("cudaLaunchKernelEx", false, [&](Device& device, Device::Lock&) {
    const dim3 grid = config.gridDim, block = config.blockDim;
    const std::size_t shared = config.dynamicSmemBytes;
    const Stream* stream = device.stream(config.stream);
    if (stream == nullptr)
      return device.refuse(cudaErrorInvalidResourceHandle, "launch: no such stream");
    if (stream->device != Device::current())
      return device.refuse(cudaErrorInvalidResourceHandle,
                           fmt::format("launch on a stream of device {}, while {} is the thread's",
                                       stream->device, Device::current()));
    for (const std::uintptr_t word : words) {
      const Allocation* named = device.allocation_at(reinterpret_cast<const void*>(word));
      if (named == nullptr && is_host_memory(word)) {
        device.break_down(cudaErrorIllegalAddress, "a kernel is given memory of the host");
        return cudaErrorIllegalAddress;
      }
      if (named == nullptr || named->kind() != MemoryKind::device ||
          named->device() == stream->device)
        continue;
      device.break_down(cudaErrorIllegalAddress,
                        fmt::format("a kernel on device {} is given memory of device {}",
                                    stream->device, named->device()));
      return cudaErrorIllegalAddress;
    }
    const bool grid_fits = grid.x >= 1 && grid.x <= 0x7fffffffu && grid.y >= 1 && grid.y <= 65535 &&
                           grid.z >= 1 && grid.z <= 65535;
    const std::uint64_t threads = std::uint64_t{block.x} * block.y * block.z;
    if (!grid_fits || threads == 0 || threads > 1024 || block.z > 64)
      return device.refuse(cudaErrorInvalidConfiguration,
                           fmt::format("launch of {} x {} x {} blocks of {} x {} x {} threads",
                                       grid.x, grid.y, grid.z, block.x, block.y, block.z));
    const auto limit = device.shared_limits.find(function);
    const std::size_t allowed = std::max<std::size_t>(
        default_shared_bytes, limit == device.shared_limits.end() ? 0 : limit->second);
    if (shared > allowed)
      return device.refuse(cudaErrorInvalidValue,
                           fmt::format("launch with {} bytes of shared memory, {} are allowed (see "
                                       "cudaFuncSetAttribute)",
                                       shared, allowed));
    Operation operation;
    operation.name = "kernel";
    operation.is_kernel = true;
    for (std::uintptr_t word : words) operation.names.push_back({word, 1});
    operation.run = [grid, block, shared, kernel = std::move(body)] {
      run_grid(grid, block, shared, kernel);
    };
    device.enqueue(config.stream, std::move(operation));
    return cudaSuccess;
  });
}

}  // namespace ringscope::cuda::model

using ringscope::cuda::model::call;
using ringscope::cuda::model::Device;
using ringscope::cuda::model::max_shared_bytes;

cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute, int value) {
  return call("cudaFuncSetAttribute", false, [&](Device& device, Device::Lock&) {
    if (value < 0 || value > max_shared_bytes)
      return device.refuse(cudaErrorInvalidValue,
                           fmt::format("{} bytes of shared memory, a block has at most {}", value,
                                       max_shared_bytes));
    device.shared_limits[function] = value;
    return cudaSuccess;
  });
}
