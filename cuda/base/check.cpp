#include "cuda/base/check.h"

#include <map>
#include <mutex>
#include <string>
#include <string_view>

namespace ringscope::cuda {
namespace {

struct HangRecords {
  std::mutex mutex;
  std::map<std::string, volatile HangRecord*> by_kernel;
};

HangRecords& all_hang_records() {
  // Never deleted, because errors are reported at the program's end, too.
  static HangRecords* const all = new HangRecords;
  return *all;
}

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

HangRecord* hang_record_of(const char* kernel) {
  HangRecords& all = all_hang_records();
  const std::lock_guard lock(all.mutex);
  volatile HangRecord*& record = all.by_kernel[kernel];
  if (record == nullptr) {
    HangRecord* memory = nullptr;
    RINGSCOPE_CUDA(cudaMallocHost(reinterpret_cast<void**>(&memory), sizeof(*memory)));
    *memory = {};
    record = memory;
  }
  return const_cast<HangRecord*>(record);
}

std::string hang_reports() {
  HangRecords& all = all_hang_records();
  const std::lock_guard lock(all.mutex);
  std::string text;
  for (const auto& [kernel, record] : all.by_kernel)
    if (record != nullptr && record->written != 0)
      text += "; " + kernel + " hung: block (" + std::to_string(record->block_x) + ", " +
              std::to_string(record->block_y) + "), thread " + std::to_string(record->thread) +
              " waits at shared address " + std::to_string(record->barrier) + " for parity " +
              std::to_string(record->parity);
  return text;
}

CudaError::CudaError(cudaError_t status, const char* expression, const char* file, int line)
    : RunError(message(status, expression, file, line)), status_(status) {
  // Clear the error, so that a later call does not report it again. (An error that has broken the
  // device stays.)
  static_cast<void>(cudaGetLastError());
}

}  // namespace ringscope::cuda
