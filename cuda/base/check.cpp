#include "cuda/base/check.h"

#include <string>
#include <string_view>

#include "cuda/base/hang_record.h"

namespace ringscope::cuda {

namespace {

// Strip everything before "cuda/", so that the text is the same wherever the sources were compiled.
std::string_view from_root(std::string_view file) {
  const std::size_t at = file.rfind("/cuda/");
  return at == std::string_view::npos ? file : file.substr(at + 1);
}

// Whether the error comes from a kernel that ran some time before the call that reports it.
bool is_late(cudaError_t status) {
  const int number = static_cast<int>(status);
  return number == 700 || number == 702 || number == 710 || (number >= 714 && number <= 719);
}

std::string message(cudaError_t status, const char* expression, const char* file, int line) {
  return std::string(expression) + ": " + cudaGetErrorString(status) + " (" +
         cudaGetErrorName(status) + "), " + std::string(from_root(file)) + ":" +
         std::to_string(line) +
         (is_late(status)
              ? "; work enqueued before has failed: CUDA_LAUNCH_BLOCKING=1 shows which" +
                    hang_reports()
              : "");
}

}  // namespace

CudaError::CudaError(cudaError_t status, const char* expression, const char* file, int line)
    : RunError(message(status, expression, file, line)), status_(status) {
  // Clear the error, so that a later call does not report it again. (An error that has broken the
  // device stays.)
  static_cast<void>(cudaGetLastError());
}

}  // namespace ringscope::cuda
