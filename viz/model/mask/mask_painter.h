// The (query x key) matrix as a picture of any size, for any seqlen: every pixel's share of allowed
// pairs comes from the closed forms (core/problem/region.h), never from a matrix.
#pragma once

#include <optional>
#include <vector>

#include "core/problem/mask.h"
#include "core/problem/partition.h"
#include "core/problem/region.h"
#include "viz/model/analysis/ring_moment.h"
#include "viz/model/timeline/palette.h"
#include "viz/model/trace/trace.h"

namespace ringscope::viz {

// What a recording's strings mean. None when they mean nothing (a trace that is not ours, or of a
// version with other masks or partitions).
struct MaskModel {
  MaskSpec spec;
  Partition partition;

  Mask mask() const { return spec.for_seqlen(partition.seqlen); }
  Region region(const Mask& m, int rank, int owner) const {
    return {m, partition.rows_of(rank), partition.rows_of(owner)};
  }
};
std::optional<MaskModel> mask_model(const Trace& trace);

// global: positions in the sequence's order. local: ranks one after the other, each with its own
// rows in local order; so block (rank, owner) of the picture is what that rank does at one step.
enum class MaskOrder : std::uint8_t { global, local };

// Which part of the picture is at work or done; by (rank, owner).
struct MaskProgress {
  std::vector<double> done;  // [rank][owner] in [0, 1]: 0 not yet, 1 attended
  std::vector<bool> active;  // [rank][owner]: being attended now
};
// What of the matrix has been attended at `moment`.
MaskProgress mask_progress(const RingMoment& moment, const Trace& trace);

struct MaskPaint {
  MaskOrder order = MaskOrder::global;
  Theme theme = Theme::dark;
  ColorBy color_by = ColorBy::owner;       // colour of allowed pairs: that of the KV owner, or one
  const MaskProgress* progress = nullptr;  // none: everything as if done
  int only_rank = -1;                      // dims the queries of all others
};

// Fills `image`: queries downwards, keys to the right. A pixel's strength is its share of allowed
// pairs; pairs not yet attended are faint.
void paint_mask(const MaskModel& model, const MaskPaint& paint, Image& image);

// Pairs and tiles (of tile x tile local rows) of (rank, owner).
struct RegionCounts {
  Index pairs = 0;
  Index all = 0;  // rows x rows
  Index tiles_full = 0, tiles_partial = 0, tiles_empty = 0;
};
RegionCounts count_region(const MaskModel& model, int rank, int owner, Index tile);

// What lies under a point of the picture.
struct MaskPoint {
  int rank = 0, owner = 0;
  Index global_query = 0, global_key = 0, local_query = 0, local_key = 0;
  bool allowed = false;
};
// x, y in [0, 1). None where a rank has no rows.
std::optional<MaskPoint> mask_point(const MaskModel& model, MaskOrder order, double x, double y);

}  // namespace ringscope::viz
