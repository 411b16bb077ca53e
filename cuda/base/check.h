// RINGSCOPE_CUDA wraps every call of the CUDA runtime. It turns a status into an exception that
// says what failed, where, and what CUDA calls it. Callers add rank and step (core/ring/ring.h).
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>

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

// A handle that destroy(handle) ends, whatever it returns.
template <auto destroy>
struct Destroyer {
  void operator()(auto* handle) const noexcept { static_cast<void>(destroy(handle)); }
};
template <class Handle, auto destroy>
using Owned = std::unique_ptr<std::remove_pointer_t<Handle>, Destroyer<destroy>>;

// ---
// Names the wait in which a kernel hung. A wait that takes ten seconds ends its kernel
// (cuda/ptx/watchdog.h) and leaves a record in memory of the host, which outlives the device's
// context; CudaError adds it to its text.

// What a wait that does not end leaves behind: which block and thread waited, and the barrier, as
// its address in shared memory, with the parity of the phase; or 0, with the turn that did not come.
struct HangRecord {
  std::uint32_t claimed, written;
  std::uint32_t block_x, block_y, thread, barrier, parity;
};

// Return the record of the kernels of this name, which must outlive the program. Throw CudaError.
HangRecord* hang_record_of(const char* kernel);

// Return "; 07_hopper_overlap hung: block (3, 0), thread 128 waits at shared address 1024 for parity
// 1" for each record that was written, or "".
std::string hang_reports();

}  // namespace ringscope::cuda

#define RINGSCOPE_CUDA(expression) \
  ::ringscope::cuda::check((expression), #expression, __FILE__, __LINE__)
