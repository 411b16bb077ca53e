// One row of the timeline as columns of pixels: how much of each column every class takes, gathered
// slice by slice, and then turned into colours for many columns at once. Both loops are free of
// branches that depend on the slices: at a few slices a column no processor guesses those.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "viz/model/timeline/palette.h"
#include "viz/model/timeline/timeline_painter.h"

namespace ringscope::viz {

// Where a stretch of time lies in the picture.
struct Segment {
  std::int64_t from_ns = 0, to_ns = 0;
  double x = 0;  // of from_ns
  double pixels_a_ns = 0;

  double x_of(std::int64_t ns) const { return x + static_cast<double>(ns - from_ns) * pixels_a_ns; }
  // Rounded; far outside the picture times stay within what can be told.
  std::int64_t ns_at(double at) const {
    return from_ns + static_cast<std::int64_t>(std::clamp((at - x) / pixels_a_ns, -4e18, 4e18));
  }
};

// A slice that is wide enough to be drawn by itself, and where.
struct WideSlice {
  std::size_t index = 0;
  double x0 = 0, x1 = 0;
};

// The lines of the picture that a row's slices are drawn on; parts may lie outside.
struct Bar {
  int top = 0, bottom = 0;
  int height() const { return bottom - top; }
};

class TimelineColumns {
 public:
  static constexpr int kClasses = TimelineIndex::kClasses;
  // Positions nearer than this are one: sums of roundings must not reach into the next column.
  static constexpr double kSlack = 1e-6;

  // Starts over: nothing in any column. `classes`: bit by class, those that will be added.
  void clear(int width, std::uint32_t classes);

  // A slice at least this many columns wide is drawn by itself.
  static constexpr double kWide = 3;

  // Adds slices [first, last), which begin and end within `segment`. The wide ones are appended to
  // `wide`.
  void add(const Segment& segment, const std::int64_t* begins, const std::int64_t* ends,
           const std::uint8_t* classes, std::size_t first, std::size_t last,
           std::vector<WideSlice>& wide);
  // Adds [x0, x1) of one class; cut off at the picture's sides.
  void add(int cls, double x0, double x1);
  // Adds to one column.
  void add_to(int column, int cls, double share);

  // Draws each column as a stack from below: classes in order, each as high as its share. A class
  // that is there at all gets a pixel at least; where there are more classes than pixels, only
  // those of `first_served` do. What is over stays `background`.
  void paint(Image& image, const Bar& bar, const Color (&colors)[kClasses],
             std::uint32_t first_served, Color background) const;

 private:
  static constexpr int kChunk = 64;  // columns that are painted together

  // A chunk as it is drawn: the classes that are in it, and up to which pixel each of them reaches.
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
  // [class, or copy][1 + column]. A slice narrower than a column lies in one or two: what is in the
  // first, and, in the first one's place, what is in the next.
  std::vector<float> here_, next_;
};

}  // namespace ringscope::viz
