// Streams and events.
#include <cuda_runtime.h>
#include <fmt/format.h>

#include "cuda/model/runtime_device.h"

namespace {

using ringscope::cuda::model::call;
using ringscope::cuda::model::Device;
using ringscope::cuda::model::Event;
using ringscope::cuda::model::MarkerPtr;
using ringscope::cuda::model::Operation;
using ringscope::cuda::model::Stream;

cudaError_t no_handle(Device& device, const char* name, const char* kind) {
  return device.refuse(cudaErrorInvalidResourceHandle,
                       fmt::format("{}: no such {}, or it is destroyed", name, kind));
}

}  // namespace

// Priorities have no effect, because no program may rely on them.
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int) {
  return call("cudaStreamCreateWithPriority", false, [&](Device& device, Device::Lock&) {
    const std::uintptr_t handle = device.new_handle();
    device.streams[handle].device = Device::current();
    device.streams[handle].blocking = (flags & cudaStreamNonBlocking) == 0;
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
