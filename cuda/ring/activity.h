// Reads when kernels really ran from activity records of the driver's profiling interface (CUPTI).
// Events around a kernel also include the time in which the host was still launching it, which
// matters when steps are short. A program that listens to CUPTI keeps profilers out, so it listens
// only on request.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/trace/event.h"

namespace ringscope::cuda {

// Times on the host's monotonic clock.
struct Activity {
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;
};

// Thread-safe.
class ActivityLog {
 public:
  virtual ~ActivityLog() = default;
  // Return the kernels of a stream since the log was opened. The stream's work must be over.
  virtual std::vector<Activity> kernels_of(cudaStream_t stream) = 0;
};

// Start listening. Returns null when CUPTI is missing or is not the version that this program was
// built with; `why_not` then says which, in one line.
std::unique_ptr<ActivityLog> open_activity_log(std::string& why_not);

// Shorten a slice to the kernels whose middle lies in it; origin_ns is the monotonic time of its 0.
// A slice without kernels stays as it is. A slice never grows, so the order of slices stays.
void narrow(TraceEvent& slice, std::int64_t origin_ns, std::span<const Activity> kernels);

}  // namespace ringscope::cuda
