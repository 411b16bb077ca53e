// RINGSCOPE_CUDA wraps every call of the CUDA runtime. It turns a status into an exception that
// says what failed, where, and what CUDA calls it. Callers add rank and step (core/ring/ring.h).
#pragma once

#include <cuda_runtime.h>

#include "core/base/error.h"

namespace ringscope::cuda {

// A RunError whose text is "EXPRESSION: MESSAGE (NAME), FILE:LINE".
class CudaError : public RunError {
 public:
  CudaError(cudaError_t status, const char* expression, const char* file, int line);
  cudaError_t status() const { return status_; }

 private:
  cudaError_t status_;
};

// Throw CudaError unless `status` is cudaSuccess.
inline void check(cudaError_t status, const char* expression, const char* file, int line) {
  if (status != cudaSuccess) throw CudaError(status, expression, file, line);
}

}  // namespace ringscope::cuda

#define RINGSCOPE_CUDA(expression) \
  ::ringscope::cuda::check((expression), #expression, __FILE__, __LINE__)
