// Activity records: when kernels really ran, as the driver's profiling interface (CUPTI) saw it.
// Events around a kernel also hold the time in which the host was still launching it, which shows
// where steps are short. A program that listens to CUPTI keeps profilers out, so nobody does unless
// asked to.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/trace/event.h"

namespace ringscope::cuda {

// On the host's monotonic clock.
struct Activity {
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;
};

// Thread-safe.
class ActivityLog {
 public:
  virtual ~ActivityLog() = default;
  // The kernels of a stream since the log was opened; the work on it must be over.
  virtual std::vector<Activity> kernels_of(cudaStream_t stream) = 0;
};

// Starts listening. Null when CUPTI is not there, or is not the version that this was built with:
// `why_not` says which, in a line.
std::unique_ptr<ActivityLog> open_activity_log(std::string& why_not);

// Shortens a slice (origin_ns: the monotonic time of its 0) to the kernels whose middle lies in it.
// Without any it stays as it is; it never grows, so order among slices stays.
void narrow(TraceEvent& slice, std::int64_t origin_ns, std::span<const Activity> kernels);

}  // namespace ringscope::cuda
