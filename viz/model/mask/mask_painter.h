// Paints the (query x key) matrix as a picture of any size, for any seqlen. Every pixel's share of
// allowed pairs comes from the closed forms (core/problem/region.h), never from a matrix.
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

// A MaskModel is what a recording's mask and partition strings mean. mask_model returns none if
// they mean nothing here, as in a foreign trace or a version with other masks or partitions.
struct MaskModel {
  MaskSpec spec;
  Partition partition;  // points into the table of partition_spec, which all copies share
  PartitionSpec partition_spec = {};

  Mask mask() const { return spec.for_seqlen(partition.seqlen); }
  Region region(const Mask& m, int rank, int owner) const {
    return {m, partition.rows_of(rank), partition.rows_of(owner)};
  }
};
std::optional<MaskModel> mask_model(const Trace& trace);

// global: positions in the sequence's order. local: ranks one after the other, each with its rows
// in local order, so block (rank, owner) of the picture is what that rank does at one step.
enum class MaskOrder : std::uint8_t { global, local };

// MaskProgress says which parts of the picture are being attended or done.
struct MaskProgress {
  std::vector<double> done;  // [rank][owner] in [0, 1]; 1 when attended
  std::vector<bool> active;  // [rank][owner]: being attended now
};
// Return what part of the matrix has been attended at `moment`.
MaskProgress mask_progress(const RingMoment& moment, const Trace& trace);

struct MaskPaint {
  MaskOrder order = MaskOrder::global;
  Theme theme = Theme::dark;
  ColorBy color_by = ColorBy::owner;       // colours allowed pairs by KV owner or all alike
  const MaskProgress* progress = nullptr;  // null: everything looks done
  int only_rank = -1;                      // if >= 0, dims the queries of all other ranks
};

// Fill `image` with queries downwards and keys to the right. A pixel's strength is its share of
// allowed pairs; pairs not yet attended are faint.
void paint_mask(const MaskModel& model, const MaskPaint& paint, Image& image);

// A MaskPoint is the pair under a point of the picture.
struct MaskPoint {
  int rank = 0, owner = 0;
  Index global_query = 0, global_key = 0, local_query = 0, local_key = 0;
  bool allowed = false;
};
// Return the pair at x, y in [0, 1), or none if x or y is out of range.
std::optional<MaskPoint> mask_point(const MaskModel& model, MaskOrder order, double x, double y);

}  // namespace ringscope::viz
