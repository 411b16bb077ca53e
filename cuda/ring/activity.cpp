#include "cuda/ring/activity.h"

#include <algorithm>
#include <limits>

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
