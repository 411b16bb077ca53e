// What GPU is there, or why none can be used. Asking creates no context on the device, so it takes
// no device memory.
#pragma once

#include <cuda_runtime.h>

#include <optional>
#include <string>

namespace ringscope::cuda {

// Every kernel of the ladder is compiled for this compute capability x 10 and later ones.
inline constexpr int kOldestArchitecture = 80;

struct DeviceInfo {
  int index = 0;
  std::string name;
  int architecture = 0;  // compute capability x 10
  int multiprocessors = 0;
  std::size_t memory_bytes = 0;
  std::size_t l2_bytes = 0;
  std::size_t shared_bytes = 0;  // that a block may ask for
  std::string driver;            // "580.65.06", or "for CUDA 13.0" where the driver does not say
  std::string runtime;           // "13.0"

  bool operator==(const DeviceInfo&) const = default;
};

// What the driver and the runtime answered.
struct DriverAnswers {
  int driver_version = 0;   // 1000 x major + 10 x minor of the newest CUDA that it serves; 0: none
  int runtime_version = 0;  // the same of the CUDA that this program was built with
  cudaError_t status = cudaSuccess;  // of counting devices
  std::string error;                 // what CUDA calls a status that is no success
  int devices = 0;
};

struct DeviceQuery {
  std::optional<DeviceInfo> device;
  std::string
      why_not;  // one line when there is no device: what is there, what is needed, what else
};

// Device `index`, when it is there and of `min_architecture` or later. Never throws.
DeviceQuery query_device(int index = 0, int min_architecture = kOldestArchitecture);

// Why no device can be used; empty when there is one to be asked.
std::string why_no_device(const DriverAnswers& answers, int index, int min_architecture);

// Why this device is too old; empty when it is not.
std::string why_too_old(const DeviceInfo& device, int min_architecture);

// "NVIDIA H200, compute capability 9.0, 132 multiprocessors, 139.8 GiB, driver 580.65, CUDA 13.0"
std::string to_string(const DeviceInfo& device);

}  // namespace ringscope::cuda
