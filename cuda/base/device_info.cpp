#include "cuda/base/device_info.h"

#include <fmt/format.h>

#include <exception>
#include <fstream>
#include <sstream>

namespace ringscope::cuda {
namespace {

constexpr const char* kInstead = "use --backend cpu";

// Return "13.0" for 13000.
std::string version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

std::string needed() {
  return fmt::format("a GPU of compute capability {}.{} or later", kOldestArchitecture / 10,
                     kOldestArchitecture % 10);
}

#ifndef RINGSCOPE_MODEL

// The kernel module knows its own version; the CUDA driver only says which CUDA it supports.
std::string driver_text(int driver_version) {
  std::ifstream module("/sys/module/nvidia/version");
  if (std::string version; module >> version) return version;
  std::ifstream proc("/proc/driver/nvidia/version");
  std::string line;
  std::getline(proc, line);
  std::istringstream words(line);
  for (std::string word; words >> word;)
    if (word.find_first_not_of("0123456789.") == std::string::npos &&
        word.find('.') != std::string::npos)
      return word;
  return "for CUDA " + version_text(driver_version);
}

DriverAnswers ask_driver() {
  DriverAnswers answers;
  cudaDriverGetVersion(&answers.driver_version);
  cudaRuntimeGetVersion(&answers.runtime_version);
  answers.status = cudaGetDeviceCount(&answers.devices);
  if (answers.status != cudaSuccess) answers.error = cudaGetErrorString(answers.status);
  cudaGetLastError();  // an error answered here must not become a later call's error
  return answers;
}

std::size_t attribute(cudaDeviceAttr which, int index) {
  int value = 0;
  if (cudaDeviceGetAttribute(&value, which, index) != cudaSuccess) {
    cudaGetLastError();
    return 0;
  }
  return static_cast<std::size_t>(value);
}

DeviceQuery ask_device(const DriverAnswers& answers, int index) {
  cudaDeviceProp properties{};
  const cudaError_t status = cudaGetDeviceProperties(&properties, index);
  if (status != cudaSuccess) {
    cudaGetLastError();
    return {std::nullopt, fmt::format("device {} does not say what it is: {}; {}", index,
                                      cudaGetErrorString(status), kInstead)};
  }
  DeviceInfo device;
  device.index = index;
  device.name = properties.name;
  device.architecture = 10 * properties.major + properties.minor;
  device.multiprocessors = properties.multiProcessorCount;
  device.memory_bytes = properties.totalGlobalMem;
  device.l2_bytes = attribute(cudaDevAttrL2CacheSize, index);
  device.shared_bytes = attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, index);
  device.driver = driver_text(answers.driver_version);
  device.runtime = version_text(answers.runtime_version);
  return {device, ""};
}

#endif

}  // namespace

std::string why_no_device(const DriverAnswers& answers, int index) {
  if (answers.driver_version == 0)
    return fmt::format("no NVIDIA driver is there; {} and a driver for CUDA {} are needed; {}",
                       needed(), version_text(answers.runtime_version), kInstead);
  const std::string driver = "the driver serves CUDA " + version_text(answers.driver_version);
  if (answers.status == cudaErrorInsufficientDriver)
    return fmt::format("{}; one for CUDA {} is needed; update it, or {}", driver,
                       version_text(answers.runtime_version), kInstead);
  if (answers.status == cudaErrorNoDevice ||
      (answers.status == cudaSuccess && answers.devices == 0))
    return fmt::format("{} but shows no device (is CUDA_VISIBLE_DEVICES set?); {} is needed; {}",
                       driver, needed(), kInstead);
  if (answers.status != cudaSuccess)
    return fmt::format("{} but answers: {}; {} is needed; {}", driver, answers.error, needed(),
                       kInstead);
  if (index < 0 || index >= answers.devices)
    return fmt::format("there is no device {}; there are {}, counted from 0", index,
                       answers.devices);
  return "";
}

std::string why_too_old(const DeviceInfo& device) {
  if (device.architecture >= kOldestArchitecture) return "";
  return fmt::format("device {}, {}, has compute capability {}.{}; {} is needed; {}", device.index,
                     device.name, device.architecture / 10, device.architecture % 10, needed(),
                     kInstead);
}

DeviceQuery query_device(int index) try {
#ifdef RINGSCOPE_MODEL
  DeviceInfo model;
  model.index = index;
  model.name = "host model";
  model.architecture = 90;
  model.multiprocessors = 1;
  int shared_bytes = 0;
  cudaDeviceGetAttribute(&shared_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, index);
  model.shared_bytes = static_cast<std::size_t>(shared_bytes);
  model.driver = "none";
  model.runtime = "none";
  return {model, ""};
#else
  const DriverAnswers answers = ask_driver();
  if (std::string why = why_no_device(answers, index); !why.empty()) return {std::nullopt, why};
  DeviceQuery query = ask_device(answers, index);
  if (!query.device) return query;
  if (std::string why = why_too_old(*query.device); !why.empty()) return {std::nullopt, why};
  return query;
#endif
} catch (const std::exception& error) {
  return {std::nullopt, error.what()};
}

std::string to_string(const DeviceInfo& device) {
  return fmt::format(
      "{}, compute capability {}.{}, {} multiprocessors, {:.1f} GiB, driver {}, CUDA {}",
      device.name, device.architecture / 10, device.architecture % 10, device.multiprocessors,
      static_cast<double>(device.memory_bytes) / (1 << 30), device.driver, device.runtime);
}

}  // namespace ringscope::cuda
