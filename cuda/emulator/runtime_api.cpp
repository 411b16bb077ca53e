// Carries the runtime's calls out: memory, streams and events, launches, what a device says of itself,
// and the settings of runtime.h.
#include <cuda_runtime.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>

#include "cuda/emulator/runtime.h"
#include "cuda/emulator/runtime_device.h"

namespace ringscope::cuda::model {
// ---
// Device memory and pinned memory: allocations, copies, fills.

namespace {

constexpr std::size_t alignment = 256;  // as cudaMalloc promises
constexpr unsigned char fresh_byte = 0xff;
constexpr unsigned char guard_byte = 0xa5;
constexpr std::size_t guard_size = 256;

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

cudaError_t no_handle(Device& device, const char* name, const char* kind) {
  return device.refuse(cudaErrorInvalidResourceHandle,
                       fmt::format("{}: no such {}, or it is destroyed", name, kind));
}

bool matches(cudaMemcpyKind kind, Place to, Place from) {
  return (to == Place::device) == (kind != cudaMemcpyDeviceToHost) &&
         (from == Place::device) == (kind != cudaMemcpyHostToDevice);
}

// Copy, and return when CUDA would: from pageable memory when it has been read, to pageable memory
// when the copy is over, otherwise for blocking copies at their end, except within the device.
cudaError_t copy(Device& device, Device::Lock& lock, const char* name, void* to, const void* from,
                 std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream, bool blocking) {
  if (device.stream(stream) == nullptr) return no_handle(device, name, "stream");
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
  if (device.stream(stream) == nullptr) return no_handle(device, name, "stream");
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

// ---
// Which kernels may be launched.

namespace {

// Whether an argument's word is the address of memory of this process. Two small numbers in one word
// hardly ever are: a program's memory lies where the upper would be above 20,000. It lies below 2^47 on
// x86, and on Arm, most of it above, below 2^48.
bool is_host_memory(std::uintptr_t word) {
  if (word >> 32 == 0 || word >> 48 != 0) return false;
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
    if (const std::string wrong = wrong_shape(grid, block); !wrong.empty())
      return device.refuse(cudaErrorInvalidConfiguration, "launch of " + wrong);
    const auto limit = device.shared_limits.find(function);
    const std::size_t allowed = std::max<std::size_t>(
        default_shared_bytes, limit == device.shared_limits.end() ? 0 : limit->second);
    if (shared > allowed)
      return device.refuse(cudaErrorInvalidValue,
                           fmt::format("launch with {} bytes of shared memory, {} are allowed (see "
                                       "cudaFuncSetAttribute)",
                                       shared, allowed));
    // One block with so much shared memory, or so many threads, at a time on each multiprocessor.
    const bool together = config.numAttrs > 0 && config.attrs->val.cooperative != 0;
    if (together && std::uint64_t{grid.x} * grid.y * grid.z > kMultiprocessors)
      return device.refuse(cudaErrorCooperativeLaunchTooLarge,
                           fmt::format("a cooperative launch of {} x {} x {} blocks on {} "
                                       "multiprocessors",
                                       grid.x, grid.y, grid.z, kMultiprocessors));
    Operation operation;
    operation.name = "kernel";
    operation.is_kernel = true;
    for (std::uintptr_t word : words) operation.names.push_back({word, 1});
    operation.run = [grid, block, shared, together, kernel = std::move(body)] {
      run_grid(grid, block, shared, kernel, together);
    };
    device.enqueue(config.stream, std::move(operation));
    return cudaSuccess;
  });
}

// ---
// What a device says of itself, and the settings of runtime.h.

namespace {

constinit thread_local cudaError_t last_error = cudaSuccess;

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

static std::atomic<int> reset_count = 0;
int resets() { return reset_count; }

cudaError_t encode_tensor_map() {
  return call("cuTensorMapEncodeTiled", false, [](Device&, Device::Lock&) { return cudaSuccess; });
}

void reset_device() {
  ++reset_count;
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
void set_shared_memory(int bytes) {
  with_device([=](Device& device, Device::Lock&) { device.block_shared_bytes = bytes; });
}

void set_device_count(int count) {
  with_device([=](Device& device, Device::Lock&) { device.device_count = count; });
}

void fail_call(const std::string& name, int nth, cudaError_t status) {
  with_device([&](Device& device, Device::Lock&) { device.failures.add(name, nth, status); });
}

cudaError_t note_error(cudaError_t status) {
  if (status != cudaSuccess && status != cudaErrorNotReady) last_error = status;
  return status;
}

}  // namespace ringscope::cuda::model

using namespace ringscope::cuda::model;

namespace {

// Run a call whose body is f(device, arguments...).
template <class F, class... Arguments>
cudaError_t call_of(const char* name, bool always, const F& f, const Arguments&... arguments) {
  return call(name, always, [&](Device& device, Device::Lock&) { return f(device, arguments...); });
}

}  // namespace

cudaError_t cudaMalloc(void** pointer, std::size_t bytes) {
  return call_of("cudaMalloc", false, allocate, MemoryKind::device, pointer, bytes);
}

cudaError_t cudaFree(void* pointer) {
  return call_of("cudaFree", true, release, MemoryKind::device, "cudaFree", pointer);
}

cudaError_t cudaMallocHost(void** pointer, std::size_t bytes) {
  return call_of("cudaMallocHost", false, allocate, MemoryKind::pinned, pointer, bytes);
}

cudaError_t cudaFreeHost(void* pointer) {
  return call_of("cudaFreeHost", true, release, MemoryKind::pinned, "cudaFreeHost", pointer);
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
  return call_of("cudaMemset", false, fill, "cudaMemset", to, value, bytes, nullptr);
}

cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream) {
  return call_of("cudaMemsetAsync", false, fill, "cudaMemsetAsync", to, value, bytes, stream);
}

// Priorities have no effect, because no program may rely on them.
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int) {
  return call("cudaStreamCreateWithPriority", false, [&](Device& device, Device::Lock&) {
    if (flags != cudaStreamNonBlocking)
      return device.refuse(cudaErrorInvalidValue, "streams are nonblocking, in this model");
    const std::uintptr_t handle = device.new_handle();
    device.streams[handle].device = Device::current();
    *stream = reinterpret_cast<cudaStream_t>(handle);
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return call("cudaDeviceGetStreamPriorityRange", false, [&](Device&, Device::Lock&) {
    *least = 0;
    *greatest = -5;
    return cudaSuccess;
  });
}

// Queued work still runs.
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return call("cudaStreamDestroy", true, [&](Device& device, Device::Lock&) {
    Stream* known = stream == nullptr ? nullptr : device.stream(stream);
    if (known == nullptr) return no_handle(device, "cudaStreamDestroy", "stream");
    known->destroyed = true;
    if (known->queue.empty()) device.streams.erase(reinterpret_cast<std::uintptr_t>(stream));
    return cudaSuccess;
  });
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return call("cudaStreamSynchronize", false, [&](Device& device, Device::Lock& lock) {
    const Stream* known = device.stream(stream);
    if (known == nullptr) return no_handle(device, "cudaStreamSynchronize", "stream");
    device.wait_for(lock, MarkerPtr(known->last));
    return cudaSuccess;
  });
}

// Wait for the record that is the latest now. An event without one causes no wait.
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  return call("cudaStreamWaitEvent", false, [&](Device& device, Device::Lock&) {
    const Event* known = device.event(event);
    if (known == nullptr) return no_handle(device, "cudaStreamWaitEvent", "event");
    if (device.stream(stream) == nullptr) return no_handle(device, "cudaStreamWaitEvent", "stream");
    if (!known->record || known->record->done) return cudaSuccess;
    Operation wait;
    wait.name = "cudaStreamWaitEvent";
    wait.after = {known->record};
    device.enqueue(stream, std::move(wait));
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceSynchronize() {
  return call("cudaDeviceSynchronize", false, [](Device& device, Device::Lock& lock) {
    std::vector<MarkerPtr> lasts;
    for (const auto& [key, stream] : device.streams)
      if (stream.device == Device::current()) lasts.push_back(stream.last);
    for (const MarkerPtr& last : lasts) device.wait_for(lock, last);
    return cudaSuccess;
  });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  return call("cudaEventCreateWithFlags", false, [&](Device& device, Device::Lock&) {
    const std::uintptr_t handle = device.new_handle();
    device.events[handle].device = Device::current();
    device.events[handle].timing = (flags & cudaEventDisableTiming) == 0;
    *event = reinterpret_cast<cudaEvent_t>(handle);
    return cudaSuccess;
  });
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return call("cudaEventDestroy", true, [&](Device& device, Device::Lock&) {
    if (device.event(event) == nullptr) return no_handle(device, "cudaEventDestroy", "event");
    device.events.erase(reinterpret_cast<std::uintptr_t>(event));
    return cudaSuccess;
  });
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return call("cudaEventRecord", false, [&](Device& device, Device::Lock&) {
    Event* known = device.event(event);
    if (known == nullptr) return no_handle(device, "cudaEventRecord", "event");
    const Stream* at = device.stream(stream);
    if (at == nullptr) return no_handle(device, "cudaEventRecord", "stream");
    if (at->device != known->device)
      return device.refuse(cudaErrorInvalidResourceHandle,
                           fmt::format("cudaEventRecord: an event of device {} on a stream of {}",
                                       known->device, at->device));
    Operation record;
    record.name = "cudaEventRecord";
    known->record = device.enqueue(stream, std::move(record));
    return cudaSuccess;
  });
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return call("cudaEventSynchronize", false, [&](Device& device, Device::Lock& lock) {
    const Event* known = device.event(event);
    if (known == nullptr) return no_handle(device, "cudaEventSynchronize", "event");
    device.wait_for(lock, MarkerPtr(known->record));
    return cudaSuccess;
  });
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  return call("cudaEventQuery", false, [&](Device& device, Device::Lock& lock) {
    const Event* known = device.event(event);
    if (known == nullptr) return no_handle(device, "cudaEventQuery", "event");
    // Run something, so that a thread that polls gets an answer in the end.
    const MarkerPtr record = known->record;
    if (record && !record->done) device.run_one(lock);
    return !record || record->done ? cudaSuccess : cudaErrorNotReady;
  });
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  return call("cudaEventElapsedTime", false, [&](Device& device, Device::Lock&) {
    const Event *first = device.event(start), *second = device.event(end);
    if (first == nullptr || second == nullptr)
      return no_handle(device, "cudaEventElapsedTime", "event");
    if (!first->timing || !second->timing || !first->record || !second->record)
      return device.refuse(cudaErrorInvalidResourceHandle,
                           "cudaEventElapsedTime: an event without timing, or never recorded");
    if (first->device != second->device)
      return device.refuse(cudaErrorInvalidResourceHandle,
                           "cudaEventElapsedTime: events of two devices");
    if (!first->record->done || !second->record->done) return cudaErrorNotReady;
    *milliseconds = static_cast<float>(
        static_cast<double>(second->record->nanoseconds - first->record->nanoseconds) * 1e-6);
    return cudaSuccess;
  });
}

cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute, int value) {
  return call("cudaFuncSetAttribute", false, [&](Device& device, Device::Lock&) {
    if (value < 0 || value > device.block_shared_bytes)
      return device.refuse(cudaErrorInvalidValue,
                           fmt::format("{} bytes of shared memory, a block has at most {}", value,
                                       device.block_shared_bytes));
    device.shared_limits[function] = value;
    return cudaSuccess;
  });
}

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

}  // namespace

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
    const cudaError_t status = check_index(device, index);
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
    const cudaError_t status = check_index(device, index);
    if (status == cudaSuccess)
      *value = which == cudaDevAttrMultiProcessorCount ? kMultiprocessors
               : which == cudaDevAttrL2CacheSize       ? 50 << 20
                                                       : device.block_shared_bytes;
    return status;
  });
}

// Any two devices can access each other, and need not.
cudaError_t cudaDeviceCanAccessPeer(int* can, int index, int peer) {
  return call("cudaDeviceCanAccessPeer", false, [&](Device& device, Device::Lock&) {
    for (const int each : {index, peer})
      if (const cudaError_t status = check_index(device, each); status != cudaSuccess)
        return status;
    *can = index != peer;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned) {
  return call("cudaDeviceEnablePeerAccess", false, [&](Device& device, Device::Lock&) {
    const cudaError_t status = check_index(device, peer);
    if (status != cudaSuccess) return status;
    if (peer == Device::current())
      return device.refuse(cudaErrorInvalidDevice, "a device is no peer of itself");
    const std::pair pair(Device::current(), peer);
    if (device.peers.contains(pair)) return cudaErrorPeerAccessAlreadyEnabled;
    constexpr int kMostPeers = 8;  // of GPUs without NVSwitch
    if (std::count_if(device.peers.begin(), device.peers.end(),
                      [&](const auto& each) { return each.first == pair.first; }) == kMostPeers)
      return cudaErrorTooManyPeers;
    device.peers.insert(pair);
    return cudaSuccess;
  });
}
