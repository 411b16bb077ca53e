#include "cuda/kernels/stamps.h"

#include <algorithm>

#include "cuda/base/check.h"

namespace ringscope::cuda {

#ifdef RINGSCOPE_MODEL
static constexpr bool kCountsSteps = true;
#else
static constexpr bool kCountsSteps = false;
#endif

StampLog::StampLog(int launches, int multiprocessors)
    : multiprocessors_(multiprocessors),
      lanes_of_launch_(multiprocessors * kKernelRoles),
      lanes_(&meter_, Index{launches} * lanes_of_launch_) {
  RINGSCOPE_CUDA(cudaMemset(lanes_.data(), 0, static_cast<std::size_t>(lanes_.bytes())));
}

std::vector<KernelSpan> StampLog::spans(int launch, std::int64_t begin_ns, std::int64_t end_ns,
                                        std::int64_t& dropped) {
  std::vector<StampLane> lanes(static_cast<std::size_t>(lanes_of_launch_));
  meter_.space().copy_out(lanes.data(), of(launch).lanes,
                          static_cast<Index>(lanes.size() * sizeof(StampLane)));
  std::uint64_t first = UINT64_MAX, last = 0;
  for (const StampLane& lane : lanes) {
    const auto kept = std::min<unsigned long long>(lane.asked, kStampsOfLane);
    dropped += static_cast<std::int64_t>(lane.asked - kept);
    if (kept == 0) continue;
    first = std::min(first, lane.stamps[0].time);
    last = std::max(last, lane.stamps[kept - 1].time);
  }
  // Place times so that order and nesting in the slice stay: whole nanoseconds, monotone.
  const auto taken = static_cast<double>(last - first),
             room = static_cast<double>(end_ns - begin_ns);
  const double scale = taken > 0 && (kCountsSteps || taken > room) ? room / taken : 1;
  const double margin = (room - scale * taken) / 2;
  const auto at = [&](std::uint64_t time) {
    return begin_ns + static_cast<std::int64_t>(margin + scale * static_cast<double>(time - first));
  };

  std::vector<KernelSpan> spans;
  for (int lane = 0; lane < lanes_of_launch_; ++lane) {
    const StampLane& of_lane = lanes[static_cast<std::size_t>(lane)];
    KernelSpan span{.multiprocessor = lane / kKernelRoles, .role = lane % kKernelRoles};
    const auto kept = std::min<unsigned long long>(of_lane.asked, kStampsOfLane);
    for (unsigned i = 0; i < kept; ++i) {
      const Stamp& stamp = of_lane.stamps[i];
      if (stamp.second < 0) {
        span.matrix = stamp.first;
        span.row_tile = -1 - stamp.second;
        continue;
      }
      const std::uint64_t before = of_lane.stamps[i - 1].time;  // an item's begin at the latest
      span.part = static_cast<KernelPart>(stamp.second);
      span.key_tile = stamp.first;
      span.begin_ns = at(before);
      span.end_ns = at(stamp.time);
      span.ticks = static_cast<std::int64_t>(stamp.time - before);
      spans.push_back(span);
    }
  }
  return spans;
}

}  // namespace ringscope::cuda
