#include "cuda/nccl/nccl_setup.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <fstream>
#include <map>

#include "cuda/base/check.h"
#include "cuda/kernels/kernels.h"
#include "cuda/ring/run_on_gpu.h"

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

namespace {

// Containers may share a host name, and machines a boot id, so use both.
std::string machine_name() {
  std::array<char, 256> host{};
  static_cast<void>(gethostname(host.data(), host.size() - 1));
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  return std::string(host.data()) + " " + boot;
}

// Return a name that is the same for one GPU (or part of one) in all processes.
std::string gpu_name(int device) {
#ifdef RINGSCOPE_MODEL
  return fmt::format("model {}", device);
#else
  cudaDeviceProp properties{};
  RINGSCOPE_CUDA(cudaGetDeviceProperties(&properties, device));
  std::string name;
  for (const char byte : properties.uuid.bytes)
    name += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return name;
#endif
}

}  // namespace

RankGpus visible_gpus(std::string& why_not) {
  RankGpus seen{machine_name(), {}};
  const DeviceQuery first = query_device();
  why_not = first.why_not;
  int devices = 0;
  if (!first.device || cudaGetDeviceCount(&devices) != cudaSuccess) return seen;
  for (int device = 0; device < devices; ++device) seen.gpus.push_back(gpu_name(device));
  return seen;
}

NcclSetup::NcclSetup(const Problem& config, const std::vector<NcclSeat>& seats,
                     const NcclOptions& options) {
  check_gpu_sizes(config);
  std::map<int, std::vector<int>> ranks_of;  // by device
  for (const NcclSeat& seat : seats) ranks_of[seat.device].push_back(seat.rank);
  for (const auto& [device, ranks] : ranks_of) {
    const DeviceQuery query = query_device(device);
    if (!query.device) throw RunError("backend nccl: " + query.why_not, ranks.front());
    const CurrentDevice current(device);
    if (kernels_.forward == nullptr) {  // one choice for all, because the GPUs of a ring are alike
      kernels_ = choose_kernels(options.kernels, query.device->architecture, config.dtype,
                                config.shape.head_dim, config.backward);
      tuner_ = std::make_unique<Autotuner>(tuner_options(*query.device));
    }
    check_gpu_memory(config, ranks, *query.device);
  }
  if (config.world_size > 1)
    kernels_.forward = &with_sm_margin(*kernels_.forward, options.max_ctas);
  if (options.activity_records) {
    std::string why_not;
    activities_ = open_activity_log(why_not);
    if (activities_ == nullptr) throw RunError("activity records: " + why_not);
  }
}

}  // namespace ringscope::cuda
