// Describes the GPU of this machine, or says why none can be used. A query creates no context on
// the device, so it takes no device memory.
#pragma once

#include <cuda_runtime.h>

#include <optional>
#include <string>

namespace ringscope::cuda {

// Kernels of the ladder are compiled for this compute capability (x 10) or later.
inline constexpr int kOldestArchitecture = 80;

struct DeviceInfo {
  int index = 0;
  std::string name;
  int architecture = 0;  // compute capability x 10
  int multiprocessors = 0;
  std::size_t memory_bytes = 0;
  std::size_t l2_bytes = 0;
  std::size_t shared_bytes = 0;  // most that a block may request
  std::string driver;            // "580.65.06", or "for CUDA 13.0" if the driver hides its version
  std::string runtime;           // "13.0"

  bool operator==(const DeviceInfo&) const = default;
};

// The answers of the driver and the runtime.
struct DriverAnswers {
  int driver_version = 0;   // 1000 x major + 10 x minor of the newest CUDA it supports; 0: none
  int runtime_version = 0;  // likewise, for the CUDA that this program was built with
  cudaError_t status = cudaSuccess;  // result of counting devices
  std::string error;                 // CUDA's text for a status other than success
  int devices = 0;
};

struct DeviceQuery {
  std::optional<DeviceInfo> device;
  std::string
      why_not;  // one line when there is no device: what exists, what is needed, and an alternative
};

// Return device `index` if it exists and has kOldestArchitecture or later. Never throws.
DeviceQuery query_device(int index = 0);

// Return why no device can be used, or an empty text when there is one to query.
std::string why_no_device(const DriverAnswers& answers, int index);

// Return why this device is too old, or an empty text when it is not.
std::string why_too_old(const DeviceInfo& device);

// "NVIDIA H200, compute capability 9.0, 132 multiprocessors, 139.8 GiB, driver 580.65, CUDA 13.0"
std::string to_string(const DeviceInfo& device);

}  // namespace ringscope::cuda
