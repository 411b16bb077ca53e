// Device memory and pinned memory: allocations, copies, fills.
#include <cuda_runtime.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include "cuda/model/runtime_device.h"

namespace ringscope::cuda::model {
namespace {

constexpr std::size_t alignment = 256;  // as cudaMalloc promises
constexpr unsigned char fresh_byte = 0xff;
constexpr unsigned char guard_byte = 0xa5;
#if defined(__SANITIZE_ADDRESS__)
constexpr std::size_t guard_size = 0;  // AddressSanitizer has its own guards, and sees reads too
#else
constexpr std::size_t guard_size = 256;
#endif

Range range_of(const void* begin, std::size_t bytes) {
  return {reinterpret_cast<std::uintptr_t>(begin), bytes};
}

// The kind of memory that an address range lies in.
enum class Place { device, pinned, pageable, nowhere };

Place place_of(const Device& device, const void* begin, std::size_t bytes) {
  const Allocation* first = device.allocation_at(begin);
  const Allocation* last =
      device.allocation_at(static_cast<const unsigned char*>(begin) + (bytes - 1));
  if (first != last) return Place::nowhere;
  if (first == nullptr) return Place::pageable;
  return first->kind() == MemoryKind::device ? Place::device : Place::pinned;
}

cudaError_t allocate(Device& device, MemoryKind kind, void** pointer, std::size_t bytes) {
  if (pointer == nullptr) return device.refuse(cudaErrorInvalidValue, "no place for the pointer");
  *pointer = nullptr;
  if (bytes == 0) return cudaSuccess;
  const bool on_device = kind == MemoryKind::device;
  const std::size_t left = device.memory_limit - std::min(device.memory_limit, device.bytes_used);
  if (on_device && bytes > left)
    return device.refuse(cudaErrorMemoryAllocation, fmt::format("{} bytes wanted, {} of {} left",
                                                                bytes, left, device.memory_limit));
  try {
    auto allocation = std::make_unique<Allocation>(kind, Device::current(), bytes);
    *pointer = allocation->data();
    device.allocations[reinterpret_cast<std::uintptr_t>(*pointer)] = std::move(allocation);
  } catch (const std::bad_alloc&) {
    return device.refuse(cudaErrorMemoryAllocation, "the host has no memory for the model");
  }
  if (on_device) device.bytes_used += bytes;
  return cudaSuccess;
}

cudaError_t release(Device& device, MemoryKind kind, const char* name, void* pointer) {
  if (pointer == nullptr) return cudaSuccess;
  const auto found = device.allocations.find(reinterpret_cast<std::uintptr_t>(pointer));
  if (found == device.allocations.end() || found->second->kind() != kind)
    return device.refuse(
        cudaErrorInvalidValue,
        fmt::format("{}: {} is no allocation of that kind, or is freed", name, pointer));
  if (const char* user = device.user_of(*found->second))
    return device.refuse(cudaErrorInvalidValue,
                         fmt::format("{}: a queued {} still names this memory", name, user));
  if (kind == MemoryKind::device) device.bytes_used -= found->second->bytes();
  device.allocations.erase(found);
  return cudaSuccess;
}

bool matches(cudaMemcpyKind kind, Place to, Place from) {
  return (to == Place::device) == (kind != cudaMemcpyDeviceToHost) &&
         (from == Place::device) == (kind != cudaMemcpyHostToDevice);
}

// Copy, and return when CUDA would: from pageable memory when it has been read, to pageable memory
// when the copy is over, otherwise for blocking copies at their end, except within the device.
cudaError_t copy(Device& device, Device::Lock& lock, const char* name, void* to, const void* from,
                 std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream, bool blocking) {
  if (device.stream(stream) == nullptr)
    return device.refuse(cudaErrorInvalidResourceHandle, fmt::format("{}: no such stream", name));
  if (bytes == 0) return cudaSuccess;
  const Place target = place_of(device, to, bytes), source = place_of(device, from, bytes);
  if (to == nullptr || from == nullptr || target == Place::nowhere || source == Place::nowhere)
    return device.refuse(cudaErrorInvalidValue,
                         fmt::format("{}: {} bytes from {} to {} are not within one allocation",
                                     name, bytes, from, to));
  if (!matches(kind, target, source))
    return device.refuse(cudaErrorInvalidValue,
                         fmt::format("{}: the direction is not that of the addresses", name));
  const Range written = range_of(to, bytes), read = range_of(from, bytes);
  if (written.begin < read.begin + bytes && read.begin < written.begin + bytes)
    return device.refuse(cudaErrorInvalidValue, fmt::format("{}: source and target overlap", name));
  Operation operation;
  operation.name = name;
  operation.names = {written, read};
  const bool staged = source == Place::pageable && target == Place::device;
  if (staged) {
    if (blocking) device.wait_for(lock, device.stream(stream)->last);
    const auto* bytes_now = static_cast<const unsigned char*>(from);
    operation.run = [to, copied = std::vector<unsigned char>(bytes_now, bytes_now + bytes)] {
      std::memcpy(to, copied.data(), copied.size());
    };
  } else {
    operation.run = [to, from, bytes] { std::memcpy(to, from, bytes); };
  }
  if (device.broken != cudaSuccess) return device.broken;
  const MarkerPtr done = device.enqueue(stream, std::move(operation));
  const bool within_device = source == Place::device && target == Place::device;
  if (target == Place::pageable || (blocking && !staged && !within_device))
    device.wait_for(lock, done);
  return cudaSuccess;
}

cudaError_t fill(Device& device, const char* name, void* to, int value, std::size_t bytes,
                 cudaStream_t stream) {
  if (device.stream(stream) == nullptr)
    return device.refuse(cudaErrorInvalidResourceHandle, fmt::format("{}: no such stream", name));
  if (bytes == 0) return cudaSuccess;
  if (place_of(device, to, bytes) != Place::device)
    return device.refuse(
        cudaErrorInvalidValue,
        fmt::format("{}: {} bytes at {} are not within one allocation", name, bytes, to));
  Operation operation;
  operation.name = name;
  operation.names = {range_of(to, bytes)};
  operation.run = [to, value, bytes] { std::memset(to, value, bytes); };
  device.enqueue(stream, std::move(operation));
  return cudaSuccess;
}

}  // namespace

Allocation::Allocation(MemoryKind kind, int device, std::size_t bytes)
    : kind_(kind), device_(device), bytes_(bytes) {
  void* memory = nullptr;
  if (bytes > SIZE_MAX - guard_size || posix_memalign(&memory, alignment, bytes + guard_size) != 0)
    throw std::bad_alloc();
  data_ = static_cast<unsigned char*>(memory);
  std::memset(data_, fresh_byte, bytes);
  restore_guard();
}

Allocation::~Allocation() { std::free(data_); }

bool Allocation::guard_intact() const {
  return std::all_of(data_ + bytes_, data_ + bytes_ + guard_size,
                     [](unsigned char byte) { return byte == guard_byte; });
}

void Allocation::restore_guard() { std::memset(data_ + bytes_, guard_byte, guard_size); }

}  // namespace ringscope::cuda::model

using ringscope::cuda::model::allocate;
using ringscope::cuda::model::call;
using ringscope::cuda::model::copy;
using ringscope::cuda::model::Device;
using ringscope::cuda::model::fill;
using ringscope::cuda::model::MemoryKind;
using ringscope::cuda::model::release;

cudaError_t cudaMalloc(void** pointer, std::size_t bytes) {
  return call("cudaMalloc", false, [&](Device& device, Device::Lock&) {
    return allocate(device, MemoryKind::device, pointer, bytes);
  });
}

cudaError_t cudaFree(void* pointer) {
  return call("cudaFree", true, [&](Device& device, Device::Lock&) {
    return release(device, MemoryKind::device, "cudaFree", pointer);
  });
}

cudaError_t cudaMallocHost(void** pointer, std::size_t bytes) {
  return call("cudaMallocHost", false, [&](Device& device, Device::Lock&) {
    return allocate(device, MemoryKind::pinned, pointer, bytes);
  });
}

cudaError_t cudaFreeHost(void* pointer) {
  return call("cudaFreeHost", true, [&](Device& device, Device::Lock&) {
    return release(device, MemoryKind::pinned, "cudaFreeHost", pointer);
  });
}

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  return call("cudaMemGetInfo", false, [&](Device& device, Device::Lock&) {
    *total = device.memory_limit;
    *free = device.memory_limit - std::min(device.memory_limit, device.bytes_used);
    return cudaSuccess;
  });
}

cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  return call("cudaMemcpy", false, [&](Device& device, Device::Lock& lock) {
    return copy(device, lock, "cudaMemcpy", to, from, bytes, kind, nullptr, true);
  });
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return call("cudaMemcpyAsync", false, [&](Device& device, Device::Lock& lock) {
    return copy(device, lock, "cudaMemcpyAsync", to, from, bytes, kind, stream, false);
  });
}

cudaError_t cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device,
                                std::size_t bytes, cudaStream_t stream) {
  return call("cudaMemcpyPeerAsync", false, [&](Device& device, Device::Lock& lock) {
    for (const auto& [address, index] :
         {std::pair{static_cast<const void*>(to), to_device}, std::pair{from, from_device}}) {
      const auto* allocation = device.allocation_at(address);
      if (allocation == nullptr || allocation->device() != index)
        return device.refuse(
            cudaErrorInvalidValue,
            fmt::format("cudaMemcpyPeerAsync: {} is no memory of device {}", address, index));
    }
    return copy(device, lock, "cudaMemcpyPeerAsync", to, from, bytes, cudaMemcpyDeviceToDevice,
                stream, false);
  });
}

cudaError_t cudaMemset(void* to, int value, std::size_t bytes) {
  return call("cudaMemset", false, [&](Device& device, Device::Lock&) {
    return fill(device, "cudaMemset", to, value, bytes, nullptr);
  });
}

cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream) {
  return call("cudaMemsetAsync", false, [&](Device& device, Device::Lock&) {
    return fill(device, "cudaMemsetAsync", to, value, bytes, stream);
  });
}
