// What the model's device reports about itself, and the settings of runtime.h.
#include <cuda_runtime.h>
#include <fmt/format.h>

#include <cstdio>

#include "cuda/model/runtime.h"
#include "cuda/model/runtime_device.h"

namespace ringscope::cuda::model {
namespace {

constexpr int multiprocessors = 132;
constexpr int l2_bytes = 50 * 1024 * 1024;
constexpr int registers = 65536;
constexpr int cuda_version = 13000;

cudaError_t check_index(Device& device, int index) {
  if (index >= 0 && index < device.device_count) return cudaSuccess;
  return device.refuse(cudaErrorInvalidDevice, fmt::format("there is no device {}", index));
}

cudaError_t attribute(Device& device, int* value, cudaDeviceAttr which) {
  switch (which) {
    case cudaDevAttrMaxThreadsPerBlock:
      *value = 1024;
      return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlock:
      *value = default_shared_bytes;
      return cudaSuccess;
    case cudaDevAttrWarpSize:
      *value = 32;
      return cudaSuccess;
    case cudaDevAttrMultiProcessorCount:
      *value = multiprocessors;
      return cudaSuccess;
    case cudaDevAttrL2CacheSize:
      *value = l2_bytes;
      return cudaSuccess;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      *value = 2048;
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMajor:
      *value = device.major;
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor:
      *value = device.minor;
      return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      *value = max_shared_bytes + 1024;
      return cudaSuccess;
    case cudaDevAttrMaxRegistersPerMultiprocessor:
      *value = registers;
      return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = max_shared_bytes;
      return cudaSuccess;
  }
  return device.refuse(cudaErrorInvalidValue, "no such attribute of a device");
}

template <class F>
auto with_device(F body) {
  Device& device = Device::instance();
  Device::Lock lock(device.mutex);
  return body(device, lock);
}

}  // namespace

void reset_device() {
  with_device([](Device& device, Device::Lock& lock) { device.reset(lock); });
}

std::size_t live_allocations() {
  return with_device([](Device& device, Device::Lock&) { return device.allocations.size(); });
}

std::size_t device_bytes() {
  return with_device([](Device& device, Device::Lock&) { return device.bytes_used; });
}

std::size_t live_handles() {
  return with_device([](Device& device, Device::Lock&) {
    std::size_t handles = device.events.size();
    for (const auto& [key, stream] : device.streams)
      handles += key >= Device::max_devices && !stream.destroyed;
    return handles;
  });
}

std::size_t pending_operations() {
  return with_device([](Device& device, Device::Lock&) {
    std::size_t operations = 0;
    for (const auto& [key, stream] : device.streams) operations += stream.queue.size();
    return operations;
  });
}

std::string last_fault() {
  return with_device([](Device& device, Device::Lock&) { return device.fault; });
}

void set_stream_seed(std::uint64_t seed) {
  with_device([=](Device& device, Device::Lock&) { device.set_seed(seed); });
}

void set_memory_limit(std::size_t bytes) {
  with_device([=](Device& device, Device::Lock&) { device.memory_limit = bytes; });
}

void set_compute_capability(int major, int minor) {
  with_device([=](Device& device, Device::Lock&) {
    device.major = major;
    device.minor = minor;
  });
}

void set_device_count(int count) {
  with_device([=](Device& device, Device::Lock&) { device.device_count = count; });
}

void fail_call(const std::string& name, int nth, cudaError_t status) {
  with_device([&](Device& device, Device::Lock&) { device.inject(name, nth, status); });
}

}  // namespace ringscope::cuda::model

namespace model = ringscope::cuda::model;
using model::call;
using model::Device;

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 0;
  return call("cudaGetDeviceCount", false, [&](Device& device, Device::Lock&) {
    *count = device.device_count;
    return cudaSuccess;
  });
}

cudaError_t cudaSetDevice(int index) {
  return call("cudaSetDevice", false, [&](Device& device, Device::Lock&) {
    const cudaError_t status = model::check_index(device, index);
    if (status == cudaSuccess) Device::current() = index;
    return status;
  });
}

cudaError_t cudaGetDevice(int* index) {
  return call("cudaGetDevice", false, [&](Device&, Device::Lock&) {
    *index = Device::current();
    return cudaSuccess;
  });
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int index) {
  return call("cudaGetDeviceProperties", false, [&](Device& device, Device::Lock&) {
    if (const cudaError_t status = model::check_index(device, index); status != cudaSuccess)
      return status;
    *properties = {};
    std::snprintf(properties->name, sizeof(properties->name), "host model");
    properties->totalGlobalMem = device.memory_limit;
    properties->sharedMemPerBlock = model::default_shared_bytes;
    properties->sharedMemPerBlockOptin = model::max_shared_bytes;
    properties->sharedMemPerMultiprocessor = model::max_shared_bytes + 1024;
    properties->regsPerBlock = model::registers;
    properties->regsPerMultiprocessor = model::registers;
    properties->warpSize = 32;
    properties->maxThreadsPerBlock = 1024;
    properties->maxThreadsPerMultiProcessor = 2048;
    properties->major = device.major;
    properties->minor = device.minor;
    properties->multiProcessorCount = model::multiprocessors;
    properties->l2CacheSize = model::l2_bytes;
    properties->memoryBusWidth = 5120;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr which, int index) {
  return call("cudaDeviceGetAttribute", false, [&](Device& device, Device::Lock&) {
    if (const cudaError_t status = model::check_index(device, index); status != cudaSuccess)
      return status;
    return model::attribute(device, value, which);
  });
}

// Any two devices can access each other, and need not.
cudaError_t cudaDeviceCanAccessPeer(int* can, int index, int peer) {
  return call("cudaDeviceCanAccessPeer", false, [&](Device& device, Device::Lock&) {
    for (const int each : {index, peer})
      if (const cudaError_t status = model::check_index(device, each); status != cudaSuccess)
        return status;
    *can = index != peer;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned) {
  return call("cudaDeviceEnablePeerAccess", false, [&](Device& device, Device::Lock&) {
    const cudaError_t status = model::check_index(device, peer);
    if (status != cudaSuccess) return status;
    if (peer == Device::current())
      return device.refuse(cudaErrorInvalidDevice, "a device is no peer of itself");
    return device.peers.emplace(Device::current(), peer).second ? cudaSuccess
                                                                : cudaErrorPeerAccessAlreadyEnabled;
  });
}

cudaError_t cudaDeviceReset() {
  model::reset_device();
  return cudaSuccess;
}

// The version is known without a device.
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = model::cuda_version;
  return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = model::cuda_version;
  return cudaSuccess;
}
