// Paints the (query x key) matrix as a picture of any size, for any seqlen. Every pixel's share of
// allowed pairs comes from the closed forms (core/problem/region.h), never from a matrix.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "core/problem/mask.h"
#include "core/problem/partition.h"
#include "core/problem/region.h"
#include "viz/data/analysis/ring_moment.h"
#include "viz/data/timeline/palette.h"
#include "viz/data/trace/trace.h"

namespace ringscope::viz {

// A MaskModel is what a recording's mask and partition strings mean. mask_model returns none if
// they mean nothing here, as in a foreign trace or a version with other masks or partitions.
struct MaskModel {
  // The share of allowed pairs of each pixel, line by line, of the picture painted last.
  struct PaintedShares;

  MaskSpec spec;
  Partitions partition;  // points into the tables of the specs, which all copies share
  PartitionSpec partition_spec = {}, query_spec = {};
  std::shared_ptr<PaintedShares> painted = {};  // shared by copies, which are one recording's

  Mask mask() const { return spec.for_seqlen(partition.seqlen); }
  Region region(const Mask& m, int rank, int owner) const {
    return {m, partition.queries_of(rank), partition.rows_of(owner)};
  }
  // Return whether a picture in the sequence's order mixes the colours of all ranks in every pixel,
  // because their rows lie too scattered in it.
  bool mixes_ranks() const;
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

// Holds what each rank attends in each pass, in the order of the recording or, if it has none, of the
// ring, so that no frame has to go through all slices.
class AttendedOrder {
 public:
  AttendedOrder() = default;
  // It holds nothing for a trace that is no ring or has so many ranks that no table is made.
  explicit AttendedOrder(const Trace& trace);
  // Return what part of the matrix has been attended at `moment`. Where queries travel, a recording
  // does not say whose a rank attends: its row fills as a whole.
  MaskProgress progress_at(const RingMoment& moment) const;
  bool queries_travel() const { return queries_travel_; }

 private:
  // Says that a rank attends a block, or a part of one, at a step, and which shares of that block's
  // pairs and of the rank's it has attended when this ends.
  struct Attended {
    int step = 0, owner = 0;
    double of_block = 0, of_rank = 0;
  };
  // Turn the pairs in `of_block` into shares.
  static void add_up(std::vector<Attended>& order, int ranks);

  int forward_steps_ = 0;
  bool queries_travel_ = false;
  std::vector<std::vector<Attended>> of_ranks_[2];  // by pass
};

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

// ---
// Computes each pixel's share of allowed query-key pairs for a picture of the whole matrix, for any
// seqlen. It is exact. Along a line of pixels the share is 0, changes, is 1, changes, and is 0
// again, because a query's allowed keys are one interval; only pixels where it changes need
// counting. Under a mask in pieces every pixel is counted.

// A PictureSide is one side of the picture, cut into pixels. If there are more pixels than rows, a
// pixel shows the row that its first edge lies in.
class PictureSide {
 public:
  PictureSide(const Partition& partition, MaskOrder order, int pixels);

  // A Part is a stretch of a pixel: local rows [begin, end) of `rank` in local order, global
  // positions in global order (rank 0).
  struct Part {
    int pixel = 0, rank = 0;
    Index begin = 0, end = 0;
  };
  const std::vector<Part>& parts() const { return parts_; }  // by pixel, then rank
  // The parts of pixel p are parts()[first_part(p)] up to parts()[first_part(p + 1)].
  std::size_t first_part(int pixel) const { return first_[pixel]; }
  Index rows_in(int pixel) const;

  // A RankShare is a rank's share of a pixel's rows. A pixel's shares sum up to 1.
  struct RankShare {
    int rank = 0;
    float share = 0;
    bool operator<(const RankShare& o) const {
      return rank != o.rank ? rank < o.rank : share < o.share;
    }
  };
  std::vector<RankShare> ranks_in(int pixel) const;

 private:
  Partition partition_;
  MaskOrder order_;
  std::vector<Part> parts_;
  std::vector<std::size_t> first_;
};

// MaskShares computes the shares line by line.
class MaskShares {
 public:
  // All arguments must outlive this.
  MaskShares(const MaskModel& model, const Mask& mask, MaskOrder order, const PictureSide& queries,
             const PictureSide& keys);

  // Set shares[key pixel] to the share of each pixel of line y, in [0, 1].
  void line(int y, std::vector<double>& shares) const;

 private:
  void add_pairs(const PictureSide::Part& queries, const Region& region, std::size_t first,
                 std::size_t last, std::vector<double>& pairs) const;

  const Mask& mask_;
  const PictureSide& queries_;
  const PictureSide& keys_;
  // [rank] in local order; else one entry for the whole sequence.
  std::vector<LocalRows> query_rows_, rows_;
};

}  // namespace ringscope::viz
