#include "viz/model/timeline/timeline_painter.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <thread>
#include <vector>

#include "viz/model/timeline/palette.h"

namespace ringscope::viz {
namespace {

// ---
// Turns one row of the timeline into columns of pixels: it sums slice by slice how much of each
// column every class takes, and then colours many columns at once. Both loops are free of branches
// that depend on the slices, because no processor predicts those at a few slices per column.

constexpr int kClasses = TimelineIndex::kClasses;

// A Segment is a stretch of time with its place in the picture.
struct Segment {
  std::int64_t from_ns = 0, to_ns = 0;
  double x = 0;  // position of from_ns
  double pixels_a_ns = 0;

  double x_of(std::int64_t ns) const { return x + (ns - from_ns) * pixels_a_ns; }
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

constexpr std::size_t kBatch = 128;  // slices that are placed together
constexpr int kCopies = 4;
// A class that takes no time gets this share, so that it shows all the same.
constexpr float kTrace = 1e-12f;

void TimelineColumns::clear(int width, std::uint32_t classes) {
  width_ = width;
  // The stride has one column before the first, and whole chunks.
  stride_ = static_cast<std::size_t>((width + kChunk - 1) / kChunk * kChunk) + 1;
  here_.resize(stride_ * std::max(kClasses, kCopies));
  next_.resize(here_.size());
  classes_.clear();
  for (std::uint32_t rest = classes; rest != 0; rest &= rest - 1)
    classes_.push_back(std::countr_zero(rest));
  copies_ = classes_.size() == 1 ? kCopies : 1;
  const auto zero = [&](int plane) {
    std::fill_n(here_.data() + place(plane, -1), stride_, 0.0f);
    std::fill_n(next_.data() + place(plane, -1), stride_, 0.0f);
  };
  if (copies_ > 1)
    for (int copy = 0; copy < copies_; ++copy) zero(copy);
  else
    for (const int cls : classes_) zero(cls);
}

void TimelineColumns::add_to(int column, int cls, double share) {
  here_[place(copies_ > 1 ? 0 : cls, column)] += std::max(static_cast<float>(share), kTrace);
}

void TimelineColumns::add(int cls, double x0, double x1) {
  x0 = std::max(x0, 0.0);
  x1 = std::min(x1, static_cast<double>(width_));
  const int first = std::min(static_cast<int>(x0 + kSlack), width_ - 1);
  add_to(first, cls, std::min(x1, first + 1.0) - x0);
  const int last = static_cast<int>(x1 + kSlack);  // the first column that is not full
  float* const full = here_.data() + place(copies_ > 1 ? 0 : cls, 0);
  for (int c = first + 1; c < last; ++c) full[c] += 1;
  if (last > first && x1 - last > kSlack) add_to(last, cls, x1 - last);
}

void TimelineColumns::add(const Segment& segment, const std::int64_t* begins,
                          const std::int64_t* ends, const std::uint8_t* classes, std::size_t first,
                          std::size_t last, std::vector<WideSlice>& wide) {
  const double x = segment.x, scale = segment.pixels_a_ns;
  const std::int64_t origin = segment.from_ns;
  // Clamp to the picture's sides, but not beyond the segment.
  const std::int64_t left = std::max(origin, segment.ns_at(0));
  const std::int64_t right = std::min(segment.to_ns, segment.ns_at(width_));
  const int last_column = width_ - 1;
  // The plane of slice k is its class, or one copy after the other.
  const int by_class = copies_ > 1 ? 0 : 1, by_turn = copies_ - 1;
  const int stride = stride_;
  float *const all_here = here_.data(), *const all_next = next_.data();
  std::int32_t places[kBatch];
  float here[kBatch], next[kBatch];
  for (std::size_t i = first; i < last; i += kBatch) {
    const int n = std::min(kBatch, last - i);
    // Avoid min and max of doubles, because compilers that heed floating-point traps would branch.
    for (int k = 0; k < n; ++k) {
      const std::int64_t begin = std::max(begins[i + k], left), end = std::min(ends[i + k], right);
      const double x0 = x + (begin - origin) * scale;
      const double x1 = x + (end - origin) * scale;
      const int column = std::min(static_cast<int>(x0 + kSlack), last_column);
      const auto rest = static_cast<float>(x1 - (column + 1) - kSlack);
      places[k] = column + 1;
      next[k] = 0.5f * (rest + std::abs(rest));
      here[k] = static_cast<float>(x1 - x0) - next[k];
    }
    int beyond = 0;  // whether any slice reaches beyond the next column
    for (int k = 0; k < n; ++k) {
      here[k] = std::max(here[k], kTrace);
      beyond |= static_cast<int>(next[k] > 1.0f);
      places[k] += (classes[i + k] * by_class + (k & by_turn)) * stride;
    }
    const auto put = [&](int k) {
      all_here[places[k]] += here[k];
      all_next[places[k]] += next[k];
    };
    if (beyond == 0) {
      for (int k = 0; k < n; ++k) put(k);
      continue;
    }
    for (int k = 0; k < n; ++k) {
      if (next[k] <= 1.0f) {
        put(k);
        continue;
      }
      const double x0 = segment.x_of(begins[i + k]), x1 = segment.x_of(ends[i + k]);
      add(classes[i + k], x0, x1);
      if (x1 - x0 >= kWide) wide.push_back({i + static_cast<std::size_t>(k), x0, x1});
    }
  }
}

// Resolve a chunk's shares into pixels. Every class present gets a pixel to begin with (a seat),
// and what is left of the height is split by the time that each class takes beyond its seat. Tops
// round the running sum, so that errors don't add up.
void TimelineColumns::resolve(int from, int height, std::uint32_t first_served,
                              Stacks& stacks) const {
  float shares[kClasses][kChunk];
  float total[kChunk] = {}, present[kChunk] = {}, seats[kChunk] = {}, beyond[kChunk] = {};
  const auto scale = static_cast<float>(height);
  stacks.count = 0;
  for (const int cls : classes_) {
    float* const share = shares[stacks.count];
    std::fill_n(share, kChunk, 0.0f);
    for (int copy = 0; copy < copies_; ++copy) {
      const std::size_t at = place(copies_ > 1 ? copy : cls, from);
      const float *const here = here_.data() + at, *const next = next_.data() + at - 1;
      for (int c = 0; c < kChunk; ++c) share[c] += here[c] + next[c];
    }
    int any = 0;
    for (int c = 0; c < kChunk; ++c) any |= static_cast<int>(share[c] > 0.0f);
    if (any == 0) continue;
    for (int c = 0; c < kChunk; ++c) {
      share[c] *= scale;
      total[c] += share[c];
      present[c] += share[c] > 0 ? 1.0f : 0.0f;
    }
    stacks.classes[stacks.count++] = cls;
  }
  // From here on `shares` holds what exceeds the seat.
  float served[kClasses][kChunk];
  for (int k = 0; k < stacks.count; ++k) {
    const bool served_first = (first_served >> stacks.classes[k] & 1) != 0;
    for (int c = 0; c < kChunk; ++c) {
      const bool room = served_first || present[c] <= scale;
      const float seat = room && shares[k][c] > 0 ? 1.0f : 0.0f;
      served[k][c] = seat;
      shares[k][c] = std::max(0.0f, shares[k][c] - seat);
      seats[c] += seat;
      beyond[c] += shares[k][c];
    }
  }
  float factor[kChunk], top[kChunk];
  for (int c = 0; c < kChunk; ++c) {
    const float used = std::min(std::max(total[c], seats[c]), scale);
    factor[c] = (used - seats[c]) / std::max(beyond[c], 1e-9f);
    top[c] = 0.5001f;  // halves round up in spite of earlier rounding errors
  }
  for (int k = 0; k < stacks.count; ++k)
    for (int c = 0; c < kChunk; ++c) {
      top[c] += served[k][c] + shares[k][c] * factor[c];
      stacks.tops[k][c] = static_cast<std::int32_t>(top[c]);
    }
}

void TimelineColumns::paint(Image& image, const Bar& bar, const Color (&colors)[kClasses],
                            std::uint32_t first_served, Color background) const {
  const int top = std::max(bar.top, 0), bottom = std::min(bar.bottom, image.height);
  Stacks stacks;
  Color line[kChunk];
  for (int from = 0; from < width_; from += kChunk) {
    resolve(from, bar.height(), first_served, stacks);
    for (int y = top; y < bottom; ++y) {
      const int up = bar.bottom - 1 - y;
      std::fill_n(line, kChunk, background);
      // Each class paints everything below its top, from the highest class down.
      for (int k = stacks.count; k-- > 0;) {
        const Color color = colors[stacks.classes[k]];
        for (int c = 0; c < kChunk; ++c) line[c] = up < stacks.tops[k][c] ? color : line[c];
      }
      std::copy_n(line, std::min(kChunk, width_ - from), &image.at(from, y));
    }
  }
}

// ---
// Paints row by row.

constexpr std::size_t kBlock = TimelineIndex::kBlock;
constexpr double kSlack = TimelineColumns::kSlack;

// Return the visible stretches of a rank's time, each with one scale: all of it, or the ring steps.
std::vector<Segment> segments_of(const Axis& axis, AxisMode mode, int rank,
                                 const TimelineView& view, int width) {
  const double pixels = width / view.width();
  if (mode == AxisMode::time) {
    const std::int64_t begin = axis.time_at(mode, rank, 0);
    return {{begin, INT64_MAX, -view.begin * pixels, pixels}};
  }
  std::vector<Segment> segments;
  const int last = static_cast<int>(std::clamp<double>(std::ceil(view.end), 0, axis.steps()));
  for (int step = static_cast<int>(std::max(0.0, view.begin)); step < last; ++step) {
    const std::int64_t from = axis.step_begin_ns(rank, step);
    // In a training step, the time between the passes belongs to no ring step.
    const std::int64_t to =
        std::min(axis.step_begin_ns(rank, step + 1), from + axis.step_length_ns(step));
    if (from < to)
      segments.push_back(
          {from, to, (step - view.begin) * pixels, pixels / axis.step_length_ns(step)});
  }
  return segments;
}

// A Brush holds what all rows of a picture share, and memory that they reuse.
struct Brush {
  Image& image;
  std::vector<Segment> segments;
  TimelineColumns columns;
  std::vector<WideSlice> wide;
};

struct RowColors {
  Color colors[kClasses] = {};
  std::uint32_t waits = 0;  // one bit per class that is waiting
  Color background = 0;
};

class RowPainter {
 public:
  RowPainter(Brush& brush, const TimelineIndex::RowIndex& row, const RowColors& colors,
             const Bar& bar)
      : brush_(brush), row_(row), classes_(row.classes), colors_(colors), bar_(bar) {}

  void paint() {
    const auto [first, last] = visible();
    brush_.columns.clear(brush_.image.width, classes_in(first, last));
    brush_.wide.clear();
    add_slices(first, last);
    brush_.columns.paint(brush_.image, bar_, colors_.colors, colors_.waits, colors_.background);
    sharpen();
  }

 private:
  // Map by the last segment that begins before `before`; times between segments map to their sides.
  double x_of(std::int64_t ns, std::int64_t before) const {
    const std::vector<Segment>& segments = brush_.segments;
    const auto after = std::lower_bound(
        segments.begin(), segments.end(), before,
        [](const Segment& segment, std::int64_t at) { return segment.from_ns < at; });
    const Segment& segment = after == segments.begin() ? segments.front() : *(after - 1);
    return segment.x_of(std::clamp(ns, segment.from_ns, segment.to_ns));
  }
  double begin_of(std::size_t i) const { return x_of(row_.begins[i], row_.begins[i] + 1); }
  // A slice that ends with its segment ends there, not where the next segment begins.
  double end_of(std::size_t i) const {
    return row_.begins[i] == row_.ends[i] ? begin_of(i) : x_of(row_.ends[i], row_.ends[i]);
  }

  // Return the slices that show in the picture, including those that take no time there.
  std::pair<std::size_t, std::size_t> visible() const {
    const auto outside = [&](std::size_t i) {
      const double x0 = begin_of(i), x1 = end_of(i);
      const bool gone = x1 < kSlack || x0 > brush_.image.width - kSlack;
      return gone &&
             (row_.begins[i] < row_.ends[i] || x1 < -kSlack || x0 > brush_.image.width + kSlack);
    };
    const std::size_t n = row_.ends.size();
    // Begins and ends never decrease, and slices left of the picture come before those in it.
    std::size_t first = 0, last = n;
    const auto search = [&](std::size_t low, const auto& is_before) {
      std::size_t high = n;
      while (low < high) {
        const std::size_t middle = low + (high - low) / 2;
        if (is_before(middle))
          low = middle + 1;
        else
          high = middle;
      }
      return low;
    };
    first = search(0, [&](std::size_t i) { return end_of(i) < -kSlack; });
    last = search(first, [&](std::size_t i) { return begin_of(i) <= brush_.image.width + kSlack; });
    while (first < last && outside(first)) ++first;
    while (last > first && outside(last - 1)) --last;
    return {first, last};
  }

  // Return one bit per class. If slices are few, absent classes are left out and cost nothing.
  std::uint32_t classes_in(std::size_t first, std::size_t last) const {
    if (last - first > 1000) return (1u << row_.samples.size()) - 1;
    std::uint32_t present = 0;
    for (std::size_t i = first; i < last; ++i) present |= 1u << classes_[i];
    return present;
  }

  // Add slices segment by segment. Only a segment's last slice may reach out of it.
  void add_slices(std::size_t i, std::size_t end) {
    constexpr std::size_t kStride = 32;
    for (const Segment& segment : brush_.segments) {
      std::size_t next = i;  // the first slice that begins behind the segment; it is near
      if (segment.to_ns == INT64_MAX) next = end;
      while (next + kStride < end && row_.begins[next + kStride] < segment.to_ns) next += kStride;
      while (next < end && row_.begins[next] < segment.to_ns) ++next;
      if (i < next && row_.begins[i] < segment.from_ns) add_across(i++);
      if (i >= next) continue;
      const bool reaches_out = row_.ends[next - 1] > segment.to_ns;
      add_within(segment, i, next - (reaches_out ? 1 : 0));
      if (reaches_out) add_across(next - 1);
      i = next;
    }
    for (; i < end; ++i) add_across(i);
  }

  void add_across(std::size_t i) {
    const double x0 = begin_of(i), x1 = end_of(i);
    brush_.columns.add(classes_[i], x0, x1);
    if (x1 - x0 >= TimelineColumns::kWide) brush_.wide.push_back({i, x0, x1});
  }

  // Add slices of one segment. If columns hold many slices, add blocks within a column as sums.
  void add_within(const Segment& segment, std::size_t i, std::size_t end) {
    if (i >= end) return;
    const auto add = [&](std::size_t from, std::size_t to) {
      brush_.columns.add(segment, row_.begins.data(), row_.ends.data(), classes_.data(), from, to,
                         brush_.wide);
    };
    const double span = segment.x_of(row_.ends[end - 1]) - segment.x_of(row_.begins[i]);
    if ((end - i) < 2.0 * kBlock * span) return add(i, end);
    for (std::size_t block = i / kBlock + 1; (block + 1) * kBlock <= end; ++block) {
      const std::size_t first = block * kBlock, last = first + kBlock - 1;
      const double x0 = segment.x_of(row_.begins[first]), x1 = segment.x_of(row_.ends[last]);
      const int column = static_cast<int>(x0);
      if (x0 < 0 || x1 > column + 1 || column >= brush_.image.width) continue;
      add(i, first);
      add_block(block, column, segment.pixels_a_ns);
      i = last + 1;
    }
    add(i, end);
  }

  void add_block(std::size_t block, int column, double pixels_a_ns) {
    std::int64_t sums[kClasses] = {};
    std::uint32_t present = row_.add_blocks(block, block + 1, sums);
    for (int cls = 0; present != 0; ++cls, present >>= 1)
      if ((present & 1) != 0) brush_.columns.add_to(column, cls, sums[cls] * pixels_a_ns);
  }

  void solid(int column, Color color) {
    Image& image = brush_.image;
    if (column < 0 || column >= image.width) return;
    const int bottom = std::min(bar_.bottom, image.height);
    for (int y = std::max(bar_.top, 0); y < bottom; ++y) image.at(column, y) = color;
  }

  // Sharpen the sides of wide slices.
  void sharpen() {
    const std::vector<WideSlice>& wide = brush_.wide;
    Color edges[kClasses];
    for (int cls = 0; cls < kClasses; ++cls)
      edges[cls] = mix(colors_.colors[cls], colors_.background, 0.5);
    for (std::size_t w = 0; w < wide.size(); ++w) {
      const std::size_t i = wide[w].index;
      const bool after_wide = w > 0 && wide[w - 1].index + 1 == i;
      const bool before_wide = w + 1 < wide.size() && wide[w + 1].index == i + 1;
      double before = -1e18, next = 1e18;
      if (after_wide)
        before = wide[w - 1].x1;
      else if (i > 0)
        before = end_of(i - 1);
      if (before_wide)
        next = wide[w + 1].x0;
      else if (i + 1 < row_.begins.size())
        next = begin_of(i + 1);
      sharpen_head(wide[w], before);
      sharpen_tail(wide[w], edges[classes_[i]], next, before_wide);
    }
  }

  // Make the side sharp unless a narrow slice touches it: the pixel goes to whoever has half of it.
  void sharpen_head(const WideSlice& slice, double before) {
    const int head = static_cast<int>(std::floor(slice.x0 + kSlack));
    const double in_head = head + 1 - slice.x0;
    if (in_head > 1 - kSlack || before > head + kSlack) return;
    solid(head, in_head >= 0.5 ? colors_.colors[classes_[slice.index]] : colors_.background);
  }

  // Draw the last column darker, to tell the slice from its neighbour.
  void sharpen_tail(const WideSlice& slice, Color edge, double next, bool before_wide) {
    const int tail = static_cast<int>(std::floor(slice.x1 + kSlack));
    const double in_tail = slice.x1 - tail;
    const bool alone_there = next >= tail + 1 - kSlack;
    const bool meets_wide = before_wide && next - slice.x1 < kSlack;
    if (in_tail <= kSlack || (!alone_there && !meets_wide)) return solid(tail - 1, edge);
    if (in_tail >= 0.5) return solid(tail, edge);
    solid(tail - 1, edge);
    solid(tail, alone_there ? colors_.background : colors_.colors[classes_[slice.index + 1]]);
  }

  Brush& brush_;
  const TimelineIndex::RowIndex& row_;
  const std::vector<std::uint8_t>& classes_;
  const RowColors& colors_;
  Bar bar_;
};

RowColors row_colors(const TimelineIndex::RowIndex& row, const TimelinePaint& paint,
                     Color background, int world_size) {
  RowColors result;
  result.background = background;
  for (std::size_t cls = 0; cls < row.samples.size(); ++cls) {
    const Color color = slice_color(paint.theme, paint.color_by, row.samples[cls], world_size);
    result.colors[cls] = paint.dim_all ? mix(background, color, 0.35) : color;
    result.waits |= static_cast<std::uint32_t>(row.samples[cls].kind == Kind::wait) << cls;
  }
  return result;
}

int top_of(const RowPlace& place, const TimelineView& view) {
  return static_cast<int>(std::floor(static_cast<double>(place.y) - view.scroll_y + 0.5));
}

// Paint rows [first, last) of the layout, and the gaps between them from line `painted` on. Return
// the first line that is left.
int paint_rows(const Trace& trace, const Axis& axis, const TimelineIndex& index,
               const TimelineLayout& layout, const TimelineView& view, const TimelinePaint& paint,
               std::size_t first, std::size_t last, int painted, Image& image) {
  const Palette& palette = palette_of(paint.theme);
  const int width = image.width;
  const bool drawable = view.width() > 0 && width > 0;
  const int world_size = trace.run ? trace.run->world_size : 1;
  Brush brush{image, {}, {}, {}};
  int segments_of_rank = -1;
  for (std::size_t r = first; r < last; ++r) {
    const RowPlace& place = layout.rows[r];
    const int top = top_of(place, view);
    const int bottom = top + static_cast<int>(place.height);
    if (bottom <= 0) continue;
    if (top >= image.height) break;
    const std::uint32_t lane = trace.rows[place.row].lane;
    const std::uint32_t rank = trace.lanes[lane].rank;
    const bool odd = (lane - trace.ranks[rank].first_lane) % 2 == 1;
    const Color background = odd ? palette.row_odd : palette.row_even;
    image.fill(0, painted, width, top, palette.background);
    painted = std::min(bottom, image.height);
    const TimelineIndex::RowIndex& row = index.row(place.row);
    if (drawable && segments_of_rank != static_cast<int>(rank)) {
      segments_of_rank = static_cast<int>(rank);
      brush.segments = segments_of(axis, paint.mode, segments_of_rank, view, width);
    }
    if (!drawable || row.ends.empty() || brush.segments.empty()) {
      image.fill(0, top, width, bottom, background);
      continue;
    }
    // Leave air between rows if there is room for it.
    const int height = bottom - top;
    const Bar bar{top + (height >= 10 ? 1 : 0), bottom - (height >= 5 ? 1 : 0)};
    image.fill(0, top, width, bar.top, background);
    image.fill(0, bar.bottom, width, bottom, background);
    RowPainter(brush, row, row_colors(row, paint, background, world_size), bar).paint();
  }
  return painted;
}

}  // namespace

void paint_timeline(const Trace& trace, const Axis& axis, const TimelineIndex& index,
                    const TimelineLayout& layout, const TimelineView& view,
                    const TimelinePaint& paint, Image& image) {
  // Rows have lines of their own, so parts of the picture are painted in parallel where it pays.
  constexpr std::size_t kWorthAThread = 1'000'000;  // slices
  constexpr std::size_t kThreads = 4;
  const std::size_t rows = layout.rows.size();
  const std::size_t threads =
      std::min({std::size_t{std::max(1u, std::thread::hardware_concurrency())}, kThreads,
                trace.slice_count / kWorthAThread + 1, std::max<std::size_t>(1, rows)});
  std::vector<int> ends(threads);
  const auto paint_part = [&](std::size_t part) {
    const std::size_t first = rows * part / threads, last = rows * (part + 1) / threads;
    const int top = part == 0 || first >= rows ? 0 : top_of(layout.rows[first], view);
    ends[part] = paint_rows(trace, axis, index, layout, view, paint, first, last,
                            std::clamp(top, 0, image.height), image);
  };
  {
    std::vector<std::jthread> helpers;
    for (std::size_t part = 1; part < threads; ++part) helpers.emplace_back(paint_part, part);
    paint_part(0);
  }
  const Color background = palette_of(paint.theme).background;
  for (std::size_t part = 0; part < threads; ++part) {
    const std::size_t next = rows * (part + 1) / threads;
    const int end =
        next < rows ? std::min(top_of(layout.rows[next], view), image.height) : image.height;
    image.fill(0, ends[part], image.width, end, background);
  }
}

// ---
// Stores a row's slices side by side, and the time of each class up to every block of them. A long
// stretch then costs one subtraction and the slices at its two ends.

namespace {

// Return a small number that decides a slice's colour when colours go by owner. Its class in the
// row is the order in which such numbers first turn up.
constexpr std::uint32_t kKeysOfKind = 32;
static_assert(kModelParts + std::size(kAllKernelParts) <= kKeysOfKind);
std::uint32_t owner_key(const Slice& slice, int world_size) {
  const auto kind = static_cast<std::uint32_t>(slice.kind) * kKeysOfKind;
  if (slice.part >= 0) return kind + static_cast<std::uint32_t>(slice.part);
  if (slice.kind == Kind::other) return kind + slice.name % 8;
  if (slice.kind == Kind::wait || slice.kv_owner < 0) return kind;
  return kind + static_cast<std::uint32_t>(owner_class(slice.kv_owner, world_size));
}

class OwnerClasses {
 public:
  explicit OwnerClasses(int world_size) : world_size_(world_size) {}
  std::uint8_t class_of(const Slice& slice, std::vector<Slice>& samples) {
    const std::uint32_t key = owner_key(slice, world_size_);
    std::uint8_t& known = classes_[key];
    if (known != kNew) return known;
    if (samples.size() == TimelineIndex::kClasses) return kLast;  // the last class takes the rest
    samples.push_back(slice);
    return known = static_cast<std::uint8_t>(samples.size() - 1);
  }

 private:
  static constexpr std::uint8_t kNew = 255, kLast = TimelineIndex::kClasses - 1;
  int world_size_;
  std::vector<std::uint8_t> classes_ = std::vector<std::uint8_t>(kKindCount * kKeysOfKind, kNew);
};

// Fill the sums. The block after the last holds those of all whole blocks.
void add_sums(TimelineIndex::RowIndex& row) {
  constexpr auto count = static_cast<std::size_t>(kClasses);
  const std::size_t blocks = row.classes.size() / kBlock;
  row.sums.assign((blocks + 1) * count, 0);
  row.present.assign(blocks, 0);
  for (std::size_t block = 0; block < blocks; ++block) {
    const std::int64_t* before = row.sums.data() + block * count;
    std::int64_t* after = row.sums.data() + (block + 1) * count;
    std::copy_n(before, count, after);
    for (std::size_t i = block * kBlock; i < (block + 1) * kBlock; ++i) {
      after[row.classes[i]] += row.ends[i] - row.begins[i];
      row.present[block] |= static_cast<std::uint16_t>(1u << row.classes[i]);
    }
  }
}

}  // namespace

TimelineIndex::TimelineIndex(const Trace& trace) {
  rows_.resize(trace.rows.size());
  for (std::size_t r = 0; r < trace.rows.size(); ++r) {
    const std::vector<Slice>& slices = trace.rows[r].slices;
    RowIndex& row = rows_[r];
    row.begins.reserve(slices.size());
    row.ends.reserve(slices.size());
    row.classes.reserve(slices.size());
    OwnerClasses owners(trace.run ? trace.run->world_size : 1);
    for (const Slice& slice : slices) {
      row.begins.push_back(slice.begin_ns);
      row.ends.push_back(slice.end_ns);
      row.classes.push_back(owners.class_of(slice, row.samples));
    }
    add_sums(row);
  }
}

std::uint32_t TimelineIndex::RowIndex::add_blocks(std::size_t first, std::size_t last,
                                                  std::int64_t* into) const {
  for (std::size_t c = 0; c < kClasses; ++c)
    into[c] += sums[last * kClasses + c] - sums[first * kClasses + c];
  std::uint32_t classes_there = 0;
  for (std::size_t b = first; b < last; ++b) classes_there |= present[b];
  return classes_there;
}

void TimelineIndex::time_by_class(std::uint32_t r, std::int64_t begin, std::int64_t end,
                                  std::int64_t (&sums)[kClasses]) const {
  std::fill(std::begin(sums), std::end(sums), 0);
  if (begin >= end) return;
  const RowIndex& row = rows_[r];
  const std::vector<std::uint8_t>& classes = row.classes;
  const auto first = static_cast<std::size_t>(
      std::upper_bound(row.ends.begin(), row.ends.end(), begin) - row.ends.begin());
  const auto last = static_cast<std::size_t>(
      std::lower_bound(row.begins.begin(), row.begins.end(), end) - row.begins.begin());
  const auto add = [&](std::size_t from, std::size_t to) {
    for (std::size_t i = from; i < to; ++i)
      sums[classes[i]] +=
          std::max<std::int64_t>(0, std::min(row.ends[i], end) - std::max(row.begins[i], begin));
  };
  // Take only blocks strictly inside, so that the bounds cut no slice of them.
  const std::size_t first_block = (first + 1 + kBlock - 1) / kBlock;
  const std::size_t last_block = last > 0 ? (last - 1) / kBlock : 0;
  if (first_block >= last_block) return add(first, last);
  add(first, first_block * kBlock);
  row.add_blocks(first_block, last_block, sums);
  add(last_block * kBlock, last);
}

}  // namespace ringscope::viz
