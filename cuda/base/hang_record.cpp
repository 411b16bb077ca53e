#include "cuda/base/hang_record.h"

#include <map>
#include <mutex>

#include "cuda/base/check.h"

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

}  // namespace ringscope::cuda
