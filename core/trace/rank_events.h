// What one rank recorded: packed into bytes, to send it to another process of the same program, and
// added to what others recorded.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/trace/event.h"

namespace ringscope {

struct RankEvents {
  std::vector<TraceEvent> events;
  std::vector<SoftmaxSample> samples;
  std::int64_t dropped = 0;
  std::int64_t peak_bytes = 0;
  std::int64_t clock_error_ns = 0;
  std::vector<ModelSpan> model = {};    // of a training step
  std::vector<KernelSpan> kernel = {};  // of kernels that stamped what they did
  std::int64_t dropped_stamps = 0;
  std::optional<RecordedTile> tile = {};  // not packed, because only threads record one

  bool operator==(const RankEvents&) const = default;
};

std::string pack(const RankEvents& of_rank);

// Unpack what pack() made. Throw RunError for bytes that pack() cannot have made on a machine like
// this one: cut short, too long, counts beyond the end, values that no event has.
RankEvents unpack_rank_events(std::string_view bytes);

// Store `of_rank` as that of `rank` in `recording`, whose lists have world_size entries. `model`
// may be empty there when it is empty here.
void add_rank(Recording& recording, int rank, RankEvents of_rank);

// Return the rank that alone of several was recorded, or -1.
int only_rank_of(const Recording& recording);

// Return whether `other` is of one rank of the run that `recording` is of: `run --trace DIR/` writes a
// file per rank.
bool is_rank_of_run(const Recording& other, const Recording& recording);
// Add what that rank recorded, unless it is there.
void join_rank(Recording& recording, Recording other);

}  // namespace ringscope
