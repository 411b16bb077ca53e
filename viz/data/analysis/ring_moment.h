// Shows the ring at one moment: which block each rank holds and works on, and how far the blocks on
// their way have come.
#pragma once

#include <cstdint>
#include <vector>

#include "viz/data/timeline/axis.h"
#include "viz/data/trace/trace.h"

namespace ringscope::viz {

// Return when the block of a recv slice got under way: when both ends had begun.
std::int64_t under_way_ns(const Trace& trace, const TraceEvent& recv);

// Return the ring step at which `rank` attends the block of `owner`.
inline int step_with(int rank, int owner, int world_size) {
  return (rank - owner % world_size + world_size) % world_size;
}

inline constexpr const char* kNothingLeft = "nothing left to attend";

// What a rank does at a moment, for all that speak of it.
struct RankMoment {
  int step = 0;       // on the step axis
  int kv_owner = -1;  // of the block that it attends at this step; -1: it attends none
  Pass pass = Pass::forward;
  enum Doing : std::uint8_t { idle, computing, waiting, finished } doing = idle;
  double progress = 0;    // of the compute slice, in [0, 1]: 0 before it, 1 after
  int waiting_for = -1;   // while waiting
  bool is_last = false;   // it attends nothing more in this pass
  int held = -1;          // where queries travel, whose have come; else kv_owner
  bool has_come = false;  // while waiting: what it holds is there, and it waits for something else
  // Return whether the block of its step has not come yet.
  bool awaits() const { return kv_owner >= 0 && doing == waiting && progress <= 0 && !has_come; }
  // Return whether it has attended all that it attends in this pass.
  bool has_nothing_left() const { return is_last && doing != computing; }
  bool operator==(const RankMoment&) const = default;
};

struct BlockInFlight {
  int src = 0, dst = 0, kv_owner = 0;
  Payload payload = Payload::kv;
  double progress = 0;  // in [0, 1], of the time that both ends take part
  std::int64_t bytes = 0;
  bool operator==(const BlockInFlight&) const = default;
};

struct Link {
  int src = 0, dst = 0;
  std::int64_t bytes_so_far = 0;  // whole messages only
  std::int64_t bytes_total = 0;
  double bytes_per_second = 0;  // mean over the time of transfers with both ends present
  bool between_nodes = false;
  bool operator==(const Link&) const = default;
};

struct RingMoment {
  std::vector<RankMoment> ranks;
  std::vector<BlockInFlight> in_flight;
  std::vector<Link> links;  // by src; only links that carried anything
};

// A LinkHistory sums up what each link carries over the whole recording. It is made once.
class LinkHistory {
 public:
  LinkHistory() = default;
  explicit LinkHistory(const Trace& trace);

  struct Carried {
    int src = 0, dst = 0;
    std::vector<std::int64_t> ends;   // of transfers, ascending
    std::vector<std::int64_t> bytes;  // of all transfers up to each
    std::int64_t under_way_ns = 0;    // of all of them
    bool between_nodes = false;

    double bytes_per_second() const {
      return under_way_ns > 0 ? static_cast<double>(bytes.back()) / (1e-9 * under_way_ns) : 0;
    }
  };
  std::vector<Carried> links;  // by src, then dst; only links that carry anything
};

// Return the ring at `position` on the axis. In steps mode every rank is taken at its own time. The
// result is empty unless `trace` is a recording of ours.
RingMoment ring_at(const Trace& trace, const Axis& axis, const LinkHistory& history, AxisMode mode,
                   double position);

}  // namespace ringscope::viz
