// Computes each pixel's share of allowed query-key pairs for a picture of the whole matrix, for any
// seqlen. It is exact. Along a line of pixels the share is 0, changes, is 1, changes, and is 0 again, because a
// query's allowed keys are one interval; only pixels where it changes need counting. Under a mask
// in pieces every pixel is counted.
#pragma once

#include <vector>

#include "viz/model/mask/mask_painter.h"

namespace ringscope::viz {

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
  std::size_t first_part(int pixel) const { return first_[static_cast<std::size_t>(pixel)]; }
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
  std::vector<LocalRows> rows_;  // [rank] in local order; else one entry for the whole sequence
};

}  // namespace ringscope::viz
