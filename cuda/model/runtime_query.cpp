// What the model's device reports about itself and its errors, and the settings of runtime.h.
#include <cuda_runtime.h>
#include <fmt/format.h>

#include "cuda/model/runtime.h"
#include "cuda/model/runtime_device.h"

namespace ringscope::cuda::model {
namespace {

cudaError_t check_index(Device& device, int index) {
  if (index >= 0 && index < device.device_count) return cudaSuccess;
  return device.refuse(cudaErrorInvalidDevice, fmt::format("there is no device {}", index));
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

void set_device_count(int count) {
  with_device([=](Device& device, Device::Lock&) { device.device_count = count; });
}

void fail_call(const std::string& name, int nth, cudaError_t status) {
  with_device([&](Device& device, Device::Lock&) { device.failures.add(name, nth, status); });
}

}  // namespace ringscope::cuda::model

namespace model = ringscope::cuda::model;
using model::call;
using model::Device;

namespace {

struct ErrorText {
  cudaError_t error;
  const char* name;
  const char* text;
};

constexpr ErrorText error_texts[] = {
#define RINGSCOPE_ERROR_TEXT(name, number, text) {name, #name, text},
    RINGSCOPE_CUDA_ERRORS(RINGSCOPE_ERROR_TEXT)
#undef RINGSCOPE_ERROR_TEXT
};

const ErrorText& text_of(cudaError_t error) {
  static constexpr ErrorText unknown{cudaErrorUnknown, "unrecognized error code",
                                     "unrecognized error code"};
  for (const ErrorText& text : error_texts)
    if (text.error == error) return text;
  return unknown;
}

constinit thread_local cudaError_t last_error = cudaSuccess;

}  // namespace

namespace ringscope::cuda::model {

cudaError_t note_error(cudaError_t status) {
  if (status != cudaSuccess && status != cudaErrorNotReady) last_error = status;
  return status;
}

}  // namespace ringscope::cuda::model

const char* cudaGetErrorName(cudaError_t error) { return text_of(error).name; }
const char* cudaGetErrorString(cudaError_t error) { return text_of(error).text; }

// Return the last error. A sticky error belongs to every thread.
cudaError_t cudaGetLastError() {
  Device& device = Device::instance();
  const std::lock_guard lock(device.mutex);
  const cudaError_t error = device.broken != cudaSuccess ? device.broken : last_error;
  last_error = cudaSuccess;
  return error;
}

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

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr which, int index) {
  return call("cudaDeviceGetAttribute", false, [&](Device& device, Device::Lock&) {
    const cudaError_t status = model::check_index(device, index);
    if (status == cudaSuccess)
      *value = which == cudaDevAttrMultiProcessorCount ? 132 : model::max_shared_bytes;
    return status;
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
