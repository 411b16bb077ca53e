#include "cuda/emulator/runtime_device.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>

#include "cuda/emulator/runtime.h"

namespace ringscope::cuda::model {
namespace {

constinit thread_local int current_device = 0;

constexpr std::uintptr_t no_stream = ~std::uintptr_t{0};

bool is_default(std::uintptr_t key) { return key < Device::max_devices; }

std::uintptr_t key_of(cudaStream_t handle) {
  return handle == nullptr ? static_cast<std::uintptr_t>(current_device)
                           : reinterpret_cast<std::uintptr_t>(handle);
}

}  // namespace

Device& Device::instance() {
  // Never destroyed, because destructors of other static objects may still call it.
  static Device& device = *new Device;
  return device;
}

int& Device::current() { return current_device; }

Stream* Device::stream(cudaStream_t handle) {
  const std::uintptr_t key = key_of(handle);
  if (is_default(key)) {
    Stream& its = streams[key];
    its.device = static_cast<int>(key);
    return &its;
  }
  const auto found = streams.find(key);
  return found == streams.end() || found->second.destroyed ? nullptr : &found->second;
}

Event* Device::event(cudaEvent_t handle) {
  const auto found = events.find(reinterpret_cast<std::uintptr_t>(handle));
  return found == events.end() ? nullptr : &found->second;
}

MarkerPtr Device::enqueue(cudaStream_t handle, Operation operation) {
  Stream& stream = *this->stream(handle);
  operation.done = std::make_shared<Marker>();
  stream.last = operation.done;
  stream.queue.push_back(std::move(operation));
  if (closed_gates_ > 0) changed_.notify_all();  // a thread that waits at a gate may run this
  return stream.last;
}

MarkerPtr Device::make_gate() {
  ++closed_gates_;
  return std::make_shared<Marker>();
}

void Device::open(const MarkerPtr& gate) {
  if (gate->done) return;
  gate->done = true;
  gate->nanoseconds = now();
  if (closed_gates_ > 0) --closed_gates_;
  changed_.notify_all();
}

void Device::wait_for(Lock& lock, const MarkerPtr& marker) {
  while (marker && !marker->done) {
    if (run_one(lock)) continue;
    // Operations only wait for earlier ones. So if none can run, another thread is running one, or
    // they are behind a gate.
    if (!any_busy() && closed_gates_ == 0)
      throw ModelError("operations of streams wait for each other");
    changed_.wait(lock);
  }
}

bool Device::any_busy() const {
  return std::any_of(streams.begin(), streams.end(), [](const auto& s) { return s.second.busy; });
}

// Return the stream whose head runs next, or no_stream when no head is ready.
std::uintptr_t Device::choose() {
  std::vector<std::uintptr_t> ready;
  for (const auto& [key, stream] : streams) {
    if (stream.busy || stream.queue.empty()) continue;
    const auto& after = stream.queue.front().after;
    if (std::all_of(after.begin(), after.end(), [](const auto& marker) { return marker->done; }))
      ready.push_back(key);
  }
  if (ready.empty()) return no_stream;
  const bool again = std::find(ready.begin(), ready.end(), favourite_) != ready.end();
  if (again && favoured_for_ > 0) {
    --favoured_for_;
  } else {
    favourite_ = ready[random_.below(ready.size())];
    favoured_for_ = random_.below(std::size_t{1} << random_.below(5));
  }
  return favourite_;
}

bool Device::run_one(Lock& lock) {
  const std::uintptr_t key = choose();
  if (key == no_stream) return false;
  Stream& stream = streams[key];
  stream.busy = true;  // the operation stays at the head meanwhile
  Operation& operation = stream.queue.front();
  cudaError_t status = operation.is_kernel ? failures.take("kernel") : cudaSuccess;
  std::string why = status == cudaSuccess ? "" : "a failure that was asked for";
  if (status == cudaSuccess && operation.run) {
    lock.unlock();
    try {
      operation.run();
    } catch (const std::exception& error) {
      status = cudaErrorLaunchFailure;
      why = error.what();
    } catch (...) {
      status = cudaErrorLaunchFailure;
      why = "an exception";
    }
    lock.lock();
  }
  if (operation.is_kernel) check_guards();
  operation.done->nanoseconds = now();
  operation.done->done = true;
  stream.queue.pop_front();
  stream.busy = false;
  if (stream.destroyed && stream.queue.empty()) streams.erase(key);
  if (status != cudaSuccess) break_down(status, why);
  changed_.notify_all();
  return true;
}

// Return the time, at least a microsecond after the last, so that float milliseconds differ.
long long Device::now() {
  const auto since_start = std::chrono::steady_clock::now().time_since_epoch();
  const long long time = std::chrono::duration_cast<std::chrono::nanoseconds>(since_start).count();
  last_time_ = std::max(time, last_time_ + 1000);
  return last_time_;
}

void Device::check_guards() {
  for (const auto& [address, allocation] : allocations) {
    if (allocation->guard_intact()) continue;
    allocation->restore_guard();
    break_down(cudaErrorLaunchFailure, "a kernel wrote behind an allocation of " +
                                           std::to_string(allocation->bytes()) + " bytes");
    return;
  }
}

const Allocation* Device::allocation_at(const void* address) const {
  const auto value = reinterpret_cast<std::uintptr_t>(address);
  auto next = allocations.upper_bound(value);
  if (next == allocations.begin()) return nullptr;
  const Allocation& allocation = *std::prev(next)->second;
  return value - std::prev(next)->first < allocation.bytes() ? &allocation : nullptr;
}

const char* Device::user_of(const Allocation& allocation) const {
  const auto begin = reinterpret_cast<std::uintptr_t>(allocation.data());
  for (const auto& [key, stream] : streams)
    for (const Operation& operation : stream.queue)
      for (const Range& range : operation.names)
        if (range.begin < begin + allocation.bytes() && begin < range.begin + range.bytes)
          return operation.name;
  return nullptr;
}

cudaError_t Device::refuse(cudaError_t status, const std::string& why) {
  fault = why;
  return status;
}

void Device::break_down(cudaError_t status, const std::string& why) {
  if (broken != cudaSuccess) return;
  std::fprintf(stderr, "host model: %s: %s\n", cudaGetErrorName(status), why.c_str());
  broken = status;
  fault = why;
  for (auto stream = streams.begin(); stream != streams.end();) {
    auto& queue = stream->second.queue;
    // An operation that another thread is running ends in its own time.
    const std::size_t kept = stream->second.busy ? 1 : 0;
    while (queue.size() > kept) {
      queue.back().done->nanoseconds = now();
      queue.back().done->done = true;
      queue.pop_back();
    }
    const bool over = stream->second.destroyed && queue.empty();
    stream = over ? streams.erase(stream) : std::next(stream);
  }
  changed_.notify_all();
}

void Device::set_seed(std::uint64_t seed) {
  random_ = Random{seed};
  favourite_ = 0;
  favoured_for_ = 0;
}

void Device::reset(Lock& lock) {
  // Drop the queues. The lines below reset all else.
  if (broken == cudaSuccess) {
    broken = cudaErrorUnknown;
    for (auto& [key, stream] : streams)
      while (stream.queue.size() > (stream.busy ? 1u : 0u)) {
        stream.queue.back().done->done = true;
        stream.queue.pop_back();
      }
    changed_.notify_all();
  }
  changed_.wait(lock, [this] { return !any_busy(); });
  streams.clear();
  events.clear();
  allocations.clear();
  shared_limits.clear();
  failures = {};
  closed_gates_ = 0;
  bytes_used = 0;
  memory_limit = default_memory;
  block_shared_bytes = max_shared_bytes;
  device_count = 1;
  current_device = 0;
  peers.clear();
  set_seed(1);
  broken = cudaSuccess;
  fault.clear();
}

cudaError_t call(const char* name, bool always,
                 const std::function<cudaError_t(Device&, Device::Lock&)>& body) {
  if (in_kernel()) throw ModelError(std::string(name) + " called in a kernel");
  Device& device = Device::instance();
  Device::Lock lock(device.mutex);
  cudaError_t status = device.failures.take(name);
  if (status != cudaSuccess) return note_error(status);
  if (device.device_count == 0) return note_error(cudaErrorNoDevice);
  if (always || device.broken == cudaSuccess) status = body(device, lock);
  return note_error(device.broken != cudaSuccess ? device.broken : status);
}

}  // namespace ringscope::cuda::model
