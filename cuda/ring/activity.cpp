// Loads CUPTI at run time instead of linking it, because most machines with a driver lack it.
#include "cuda/ring/activity.h"

#include <algorithm>
#include <limits>

#if !defined(RINGSCOPE_MODEL) && __has_include(<cupti.h>)
#include <cupti.h>
#endif

namespace ringscope::cuda {

void narrow(TraceEvent& slice, std::int64_t origin_ns, std::span<const Activity> kernels) {
  std::int64_t begin = std::numeric_limits<std::int64_t>::max(), end = 0;
  for (const Activity& kernel : kernels) {
    const std::int64_t middle = kernel.begin_ns + (kernel.end_ns - kernel.begin_ns) / 2 - origin_ns;
    if (middle < slice.begin_ns || middle > slice.end_ns) continue;
    begin = std::min(begin, kernel.begin_ns - origin_ns);
    end = std::max(end, kernel.end_ns - origin_ns);
  }
  if (begin > end) return;
  const std::int64_t earliest = slice.begin_ns, latest = slice.end_ns;
  slice.begin_ns = std::clamp(begin, earliest, latest);
  slice.end_ns = std::clamp(end, slice.begin_ns, latest);
}

}  // namespace ringscope::cuda

#if defined(CUPTI_API_VERSION) && CUPTI_API_VERSION >= 130000
#include <dlfcn.h>

#include <cstdlib>
#include <map>
#include <mutex>

#include "core/trace/recorder.h"

namespace ringscope::cuda {
namespace {

// CUPTI's callbacks take no argument of ours, so they write here.
struct Records {
  std::mutex mutex;
  std::map<std::uint32_t, std::vector<Activity>> kernels;  // by CUPTI's stream number
  decltype(&cuptiActivityGetNextRecord) next = nullptr;
};
Records& records() {
  // Never destroyed, because CUPTI may call back while the program ends.
  static Records& all = *new Records;
  return all;
}

constexpr std::size_t kBufferBytes = std::size_t{1} << 20;

void CUPTIAPI give_buffer(std::uint8_t** buffer, std::size_t* size, std::size_t* max_records) {
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(8, kBufferBytes));
  *size = *buffer == nullptr ? 0 : kBufferBytes;
  *max_records = 0;  // as many as fit
}

void CUPTIAPI take_buffer(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t,
                          std::size_t valid) {
  Records& all = records();
  const std::lock_guard lock(all.mutex);
  CUpti_Activity* record = nullptr;
  while (valid > 0 && all.next(buffer, valid, &record) == CUPTI_SUCCESS) {
    if (record->kind != CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) continue;
    const auto* kernel = reinterpret_cast<const CUpti_ActivityKernel10*>(record);
    if (kernel->start != 0 && kernel->end != 0)
      all.kernels[kernel->streamId].push_back(
          {static_cast<std::int64_t>(kernel->start), static_cast<std::int64_t>(kernel->end)});
  }
  std::free(buffer);
}

std::uint64_t CUPTIAPI host_clock() { return static_cast<std::uint64_t>(monotonic_ns()); }

class CuptiLog : public ActivityLog {
 public:
  // Return why CUPTI cannot record, or an empty text when it records.
  std::string open() {
    for (const char* name : {"libcupti.so.13", "libcupti.so"})
      if (library_ == nullptr) library_ = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library_ == nullptr) return "libcupti.so.13 is not found";
    if (!find(get_version_, "cuptiGetVersion") || !find(enable_, "cuptiActivityEnable") ||
        !find(disable_, "cuptiActivityDisable") || !find(flush_, "cuptiActivityFlushAll") ||
        !find(callbacks_, "cuptiActivityRegisterCallbacks") ||
        !find(clock_, "cuptiActivityRegisterTimestampCallback") ||
        !find(stream_id_, "cuptiGetStreamIdEx") ||
        !find(records().next, "cuptiActivityGetNextRecord"))
      return "libcupti lacks a function that is needed";
    std::uint32_t version = 0;
    if (get_version_(&version) != CUPTI_SUCCESS || version != CUPTI_API_VERSION)
      return "libcupti is version " + std::to_string(version) + ", " +
             std::to_string(CUPTI_API_VERSION) + " is needed";
    {
      const std::lock_guard lock(records().mutex);
      records().kernels.clear();
    }
    if (clock_(host_clock) != CUPTI_SUCCESS ||
        callbacks_(give_buffer, take_buffer) != CUPTI_SUCCESS ||
        enable_(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) != CUPTI_SUCCESS)
      return "CUPTI refuses to record; does a profiler run?";
    is_open_ = true;
    return "";
  }
  // Keep the library loaded, because it may still call back.
  ~CuptiLog() override {
    if (!is_open_) return;
    disable_(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
    flush_(0);
  }

  std::vector<Activity> kernels_of(cudaStream_t stream) override {
    std::uint32_t id = 0;
    if (stream_id_(nullptr, stream, 0, &id) != CUPTI_SUCCESS || flush_(0) != CUPTI_SUCCESS)
      return {};
    const std::lock_guard lock(records().mutex);
    return records().kernels[id];
  }

 private:
  template <class Function>
  bool find(Function& function, const char* name) {
    function = reinterpret_cast<Function>(dlsym(library_, name));
    return function != nullptr;
  }

  void* library_ = nullptr;
  bool is_open_ = false;
  decltype(&cuptiGetVersion) get_version_ = nullptr;
  decltype(&cuptiActivityEnable) enable_ = nullptr;
  decltype(&cuptiActivityDisable) disable_ = nullptr;
  decltype(&cuptiActivityFlushAll) flush_ = nullptr;
  decltype(&cuptiActivityRegisterCallbacks) callbacks_ = nullptr;
  decltype(&cuptiActivityRegisterTimestampCallback) clock_ = nullptr;
  decltype(&cuptiGetStreamIdEx) stream_id_ = nullptr;
};

}  // namespace

std::unique_ptr<ActivityLog> open_activity_log(std::string& why_not) {
  auto log = std::make_unique<CuptiLog>();
  why_not = log->open();
  if (!why_not.empty()) return nullptr;
  return log;
}

}  // namespace ringscope::cuda

#else

namespace ringscope::cuda {

std::unique_ptr<ActivityLog> open_activity_log(std::string& why_not) {
  why_not = "this build has no CUPTI";
  return nullptr;
}

}  // namespace ringscope::cuda

#endif
