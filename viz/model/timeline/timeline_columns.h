// Turns one row of the timeline into columns of pixels: it sums slice by slice how much of each
// column every class takes, and then colours many columns at once. Both loops are free of branches
// that depend on the slices, because no processor predicts those at a few slices per column.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "viz/model/timeline/palette.h"
#include "viz/model/timeline/timeline_painter.h"

namespace ringscope::viz {

// A Segment is a stretch of time with its place in the picture.
struct Segment {
  std::int64_t from_ns = 0, to_ns = 0;
  double x = 0;  // position of from_ns
  double pixels_a_ns = 0;

  double x_of(std::int64_t ns) const { return x + static_cast<double>(ns - from_ns) * pixels_a_ns; }
  // Return the rounded time; far outside the picture it is clamped to +-4e18 ns from from_ns.
  std::int64_t ns_at(double at) const {
    return from_ns + static_cast<std::int64_t>(std::clamp((at - x) / pixels_a_ns, -4e18, 4e18));
  }
};

// A WideSlice is wide enough to be drawn by itself, in columns [x0, x1).
struct WideSlice {
  std::size_t index = 0;
  double x0 = 0, x1 = 0;
};

// A Bar is the lines of the picture that a row's slices are drawn on. Parts may lie outside.
struct Bar {
  int top = 0, bottom = 0;
  int height() const { return bottom - top; }
};

class TimelineColumns {
 public:
  static constexpr int kClasses = TimelineIndex::kClasses;
  // Positions nearer than this are equal, because rounding errors must not reach the next column.
  static constexpr double kSlack = 1e-6;

  // Empty all columns. `classes` has a bit for every class that will be added.
  void clear(int width, std::uint32_t classes);

  // A slice at least this many columns wide is drawn by itself.
  static constexpr double kWide = 3;

  // Add slices [first, last), which begin and end within `segment`. Append wide ones to `wide`.
  void add(const Segment& segment, const std::int64_t* begins, const std::int64_t* ends,
           const std::uint8_t* classes, std::size_t first, std::size_t last,
           std::vector<WideSlice>& wide);
  // Add [x0, x1) of one class, cut off at the picture's sides.
  void add(int cls, double x0, double x1);
  // Add to one column.
  void add_to(int column, int cls, double share);

  // Draw each column as a stack from below: classes in order, each as high as its share. A class
  // that is present gets at least a pixel; if there are more classes than pixels, only those of
  // `first_served` do. The rest stays `background`.
  void paint(Image& image, const Bar& bar, const Color (&colors)[kClasses],
             std::uint32_t first_served, Color background) const;

 private:
  static constexpr int kChunk = 64;  // columns that are painted together

  // Stacks holds a chunk to draw: the classes in it, and the pixel that each of them reaches.
  struct Stacks {
    int count = 0;
    int classes[kClasses];
    std::int32_t tops[kClasses][kChunk];
  };
  void resolve(int from, int height, std::uint32_t first_served, Stacks& stacks) const;
  std::size_t place(int cls, int column) const {
    return static_cast<std::size_t>(cls) * stride_ + static_cast<std::size_t>(column) + 1;
  }

  int width_ = 0;
  std::size_t stride_ = 0;
  std::vector<int> classes_;
  int copies_ = 1;  // of the only class, so that additions to one column don't wait for each other
  // [class, or copy][1 + column]. A slice narrower than a column touches one or two columns: here_
  // holds its share of the first, and next_, at the first one's index, its share of the second.
  std::vector<float> here_, next_;
};

}  // namespace ringscope::viz
