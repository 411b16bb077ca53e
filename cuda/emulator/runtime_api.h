// The part of CUDA's runtime API that Ringscope uses, with CUDA's names and numbers, carried out on
// the host. runtime.h describes how the model behaves. Part of the model's <cuda_runtime.h>.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "cuda/emulator/builtin.h"

// FORM(name, number, text): errors that the model returns, in CUDA's wording.
#define RINGSCOPE_CUDA_ERRORS(FORM)                                                      \
  FORM(cudaSuccess, 0, "no error")                                                       \
  FORM(cudaErrorInvalidValue, 1, "invalid argument")                                     \
  FORM(cudaErrorMemoryAllocation, 2, "out of memory")                                    \
  FORM(cudaErrorInvalidConfiguration, 9, "invalid configuration argument")               \
  FORM(cudaErrorInsufficientDriver, 35,                                                  \
       "CUDA driver version is insufficient for CUDA runtime version")                   \
  FORM(cudaErrorNoDevice, 100, "no CUDA-capable device is detected")                     \
  FORM(cudaErrorInvalidDevice, 101, "invalid device ordinal")                            \
  FORM(cudaErrorInvalidResourceHandle, 400, "invalid resource handle")                   \
  FORM(cudaErrorNotReady, 600, "device not ready")                                       \
  FORM(cudaErrorIllegalAddress, 700, "an illegal memory access was encountered")         \
  FORM(cudaErrorLaunchOutOfResources, 701, "too many resources requested for launch")    \
  FORM(cudaErrorPeerAccessAlreadyEnabled, 704, "peer access is already enabled")         \
  FORM(cudaErrorTooManyPeers, 711, "peer access to no more devices")                     \
  FORM(cudaErrorLaunchFailure, 719, "unspecified launch failure")                        \
  FORM(cudaErrorCooperativeLaunchTooLarge, 720, "too many blocks in cooperative launch") \
  FORM(cudaErrorUnknown, 999, "unknown error")

enum cudaError {
#define RINGSCOPE_ENUMERATOR(name, number, text) name = number,
  RINGSCOPE_CUDA_ERRORS(RINGSCOPE_ENUMERATOR)
#undef RINGSCOPE_ENUMERATOR
};
using cudaError_t = cudaError;

using cudaStream_t = struct CUstream_st*;
using cudaEvent_t = struct CUevent_st*;

enum cudaMemcpyKind {
  cudaMemcpyHostToDevice = 1,
  cudaMemcpyDeviceToHost = 2,
  cudaMemcpyDeviceToDevice = 3,
};

inline constexpr unsigned cudaStreamNonBlocking = 1;
inline constexpr unsigned cudaEventDefault = 0;
inline constexpr unsigned cudaEventDisableTiming = 2;

enum cudaDeviceAttr {
  cudaDevAttrMultiProcessorCount = 16,
  cudaDevAttrL2CacheSize = 38,
  cudaDevAttrMaxSharedMemoryPerBlockOptin = 97,
};

enum cudaFuncAttribute {
  cudaFuncAttributeMaxDynamicSharedMemorySize = 8,
};

enum cudaLaunchAttributeID { cudaLaunchAttributeCooperative = 2 };
union cudaLaunchAttributeValue {
  int cooperative;
};
struct cudaLaunchAttribute {
  cudaLaunchAttributeID id;
  cudaLaunchAttributeValue val;
};

struct cudaLaunchConfig_t {
  dim3 gridDim;
  dim3 blockDim;
  std::size_t dynamicSmemBytes = 0;
  cudaStream_t stream = nullptr;
  cudaLaunchAttribute* attrs = nullptr;
  unsigned numAttrs = 0;
};

const char* cudaGetErrorName(cudaError_t error);
const char* cudaGetErrorString(cudaError_t error);
cudaError_t cudaGetLastError();

cudaError_t cudaGetDeviceCount(int* count);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDevice(int* device);
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device);
cudaError_t cudaDeviceSynchronize();
cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer);
cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags);

cudaError_t cudaMalloc(void** pointer, std::size_t bytes);
cudaError_t cudaFree(void* pointer);
cudaError_t cudaMallocHost(void** pointer, std::size_t bytes);
cudaError_t cudaFreeHost(void* pointer);
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total);
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind);
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream = nullptr);
cudaError_t cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device,
                                std::size_t bytes, cudaStream_t stream = nullptr);
cudaError_t cudaMemset(void* to, int value, std::size_t bytes);
cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream = nullptr);

template <class T>
cudaError_t cudaMalloc(T** pointer, std::size_t bytes) {
  return cudaMalloc(reinterpret_cast<void**>(pointer), bytes);
}
template <class T>
cudaError_t cudaMallocHost(T** pointer, std::size_t bytes) {
  return cudaMallocHost(reinterpret_cast<void**>(pointer), bytes);
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority);
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags = 0);

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream = nullptr);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventQuery(cudaEvent_t event);
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end);

cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute attribute, int value);

template <class... Parameters>
cudaError_t cudaFuncSetAttribute(void (*kernel)(Parameters...), cudaFuncAttribute attribute,
                                 int value) {
  return cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), attribute, value);
}
namespace ringscope::cuda::model {

// Enqueue body() for every thread of the grid. `function` is the key of cudaFuncSetAttribute.
// `words` are the arguments' words; those that are addresses tell which memory the kernel uses.
cudaError_t enqueue_kernel(const cudaLaunchConfig_t& config, const void* function,
                           std::vector<std::uintptr_t> words, std::function<void()> body);

template <class T>
void append_words(const T& value, std::vector<std::uintptr_t>& words) {
  static_assert(std::is_trivially_copyable_v<T>, "kernels take their arguments by copying bytes");
  constexpr std::size_t word = sizeof(std::uintptr_t);
  T copy = value;
#if __has_builtin(__builtin_clear_padding)
  __builtin_clear_padding(&copy);  // what happens to lie there may look like an address
#endif
  for (std::size_t i = 0; i + word <= sizeof(T); i += word) {
    words.emplace_back();
    std::memcpy(&words.back(), reinterpret_cast<const unsigned char*>(&copy) + i, word);
  }
}

}  // namespace ringscope::cuda::model

template <class... Parameters, class... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                               Arguments&&... arguments) {
  // Give every thread a copy of the arguments as they are now.
  const std::tuple<std::remove_cv_t<Parameters>...> values(std::forward<Arguments>(arguments)...);
  std::vector<std::uintptr_t> words;
  std::apply(
      [&](const auto&... value) { (ringscope::cuda::model::append_words(value, words), ...); },
      values);
  return ringscope::cuda::model::enqueue_kernel(*config, reinterpret_cast<const void*>(kernel),
                                                std::move(words),
                                                [kernel, values] { std::apply(kernel, values); });
}
