// Writes small profiles as PyTorch's profiler does, for tests.
#pragma once

#include <fmt/format.h>

#include <optional>
#include <string>
#include <vector>

#include "core/tools/explain/explain.h"
#include "core/tools/foreign/kineto.h"

namespace ringscope::profiles {

inline constexpr const char* kAttention = "void flash::flash_fwd_kernel<>(Flash_fwd_params)";
inline constexpr const char* kBackward = "void flash::flash_bwd_kernel<>(Flash_bwd_params)";
inline constexpr const char* kSendRecv = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)";
inline constexpr const char* kCpuAttention = "aten::_scaled_dot_product_flash_attention_for_cpu";

// The file of one rank. Times are microseconds.
class ProfileText {
 public:
  void add(const std::string& category, const std::string& name, double ts, double dur, int tid,
           const std::string& args = "", int pid = 0) {
    events_ += fmt::format(
        R"({}{{"ph":"X","cat":"{}","name":"{}","pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f},"args":{{{}}}}})",
        events_.empty() ? "" : ",", category, name, pid, tid, ts, dur, args);
  }
  // Add a kernel, which is launched after all that were added before.
  void kernel(const std::string& name, double ts, double dur, int stream,
              const std::string& args = "", int pid = 0) {
    add("kernel", name, ts, dur, stream,
        fmt::format(R"({}"correlation":{})", args.empty() ? "" : args + ",", ++launched_), pid);
  }
  int launched() const { return launched_; }

  std::string text(int rank, int world_size) const {
    return whole(fmt::format(
        R"("distributedInfo": {{"backend": "nccl", "rank": {}, "world_size": {}}},
           "baseTimeNanoseconds": 1790857026000000000,)",
        rank, world_size));
  }
  std::string whole(const std::string& head) const {
    return fmt::format(R"({{"schemaVersion": 1, {} "traceEvents": [{}]}})", head, events_);
  }

 private:
  std::string events_;
  int launched_ = 0;
};

inline InferredRing ring_of(const std::vector<ProfileText>& ranks,
                            std::optional<std::size_t> layer = std::nullopt) {
  std::vector<RankProfile> profiles;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank)
    profiles.push_back(
        parse_profile(ranks[rank].text(static_cast<int>(rank), static_cast<int>(ranks.size())),
                      fmt::format("rank{}.pt.trace.json", rank))
            .value());
  return infer_ring(profiles, layer);
}

inline std::string notes_of(const InferredRing& ring) {
  std::string all;
  for (const std::string& note : ring.notes) all += note + "\n";
  return all;
}

// Return the finding of a cause, or one that saves nothing.
inline Diagnosis finding_of(const Explanation& why, Cause cause) {
  for (const Diagnosis& finding : why.findings)
    if (finding.cause == cause) return finding;
  return {.cause = cause};
}

}  // namespace ringscope::profiles
