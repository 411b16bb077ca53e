// The names of errors, and the last error of every thread.
#include <cuda_runtime.h>

#include <array>

#include "cuda/model/runtime_device.h"

namespace {

struct ErrorText {
  cudaError_t error;
  const char* name;
  const char* text;
};

// CUDA's wording.
constexpr std::array error_texts = {
    ErrorText{cudaSuccess, "cudaSuccess", "no error"},
    ErrorText{cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    ErrorText{cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    ErrorText{cudaErrorInitializationError, "cudaErrorInitializationError", "initialization error"},
    ErrorText{cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration",
              "invalid configuration argument"},
    ErrorText{cudaErrorInvalidMemcpyDirection, "cudaErrorInvalidMemcpyDirection",
              "invalid copy direction for memcpy"},
    ErrorText{cudaErrorInsufficientDriver, "cudaErrorInsufficientDriver",
              "CUDA driver version is insufficient for CUDA runtime version"},
    ErrorText{cudaErrorInvalidDeviceFunction, "cudaErrorInvalidDeviceFunction",
              "invalid device function"},
    ErrorText{cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    ErrorText{cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    ErrorText{cudaErrorNoKernelImageForDevice, "cudaErrorNoKernelImageForDevice",
              "no kernel image is available for execution on the device"},
    ErrorText{cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle",
              "invalid resource handle"},
    ErrorText{cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
    ErrorText{cudaErrorIllegalAddress, "cudaErrorIllegalAddress",
              "an illegal memory access was encountered"},
    ErrorText{cudaErrorLaunchOutOfResources, "cudaErrorLaunchOutOfResources",
              "too many resources requested for launch"},
    ErrorText{cudaErrorPeerAccessAlreadyEnabled, "cudaErrorPeerAccessAlreadyEnabled",
              "peer access is already enabled"},
    ErrorText{cudaErrorLaunchTimeout, "cudaErrorLaunchTimeout",
              "the launch timed out and was terminated"},
    ErrorText{cudaErrorLaunchFailure, "cudaErrorLaunchFailure", "unspecified launch failure"},
    ErrorText{cudaErrorNotPermitted, "cudaErrorNotPermitted", "operation not permitted"},
    ErrorText{cudaErrorNotSupported, "cudaErrorNotSupported", "operation not supported"},
    ErrorText{cudaErrorSystemDriverMismatch, "cudaErrorSystemDriverMismatch",
              "system has unsupported display driver / cuda driver combination"},
    ErrorText{cudaErrorUnknown, "cudaErrorUnknown", "unknown error"},
};

const ErrorText* find(cudaError_t error) {
  for (const ErrorText& text : error_texts)
    if (text.error == error) return &text;
  return nullptr;
}

constinit thread_local cudaError_t last_error = cudaSuccess;

// Return the last error. A sticky error belongs to every thread.
cudaError_t peek() {
  auto& device = ringscope::cuda::model::Device::instance();
  const std::lock_guard lock(device.mutex);
  return device.broken != cudaSuccess ? device.broken : last_error;
}

}  // namespace

namespace ringscope::cuda::model {

cudaError_t note_error(cudaError_t status) {
  if (status != cudaSuccess && status != cudaErrorNotReady) last_error = status;
  return status;
}

}  // namespace ringscope::cuda::model

const char* cudaGetErrorName(cudaError_t error) {
  const ErrorText* text = find(error);
  return text != nullptr ? text->name : "unrecognized error code";
}

const char* cudaGetErrorString(cudaError_t error) {
  const ErrorText* text = find(error);
  return text != nullptr ? text->text : "unrecognized error code";
}

cudaError_t cudaPeekAtLastError() { return peek(); }

cudaError_t cudaGetLastError() {
  const cudaError_t error = peek();
  last_error = cudaSuccess;
  return error;
}
