#include "viz/data/timeline/timeline_painter.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include "viz/data/timeline/palette.h"

namespace ringscope::viz {
namespace {

// ---
// Turns one row of the timeline into columns of pixels: how much of each column every class takes.

constexpr int kClasses = TimelineIndex::kClasses;
constexpr std::size_t kBlock = TimelineIndex::kBlock;

// Positions nearer than this are equal, because rounding errors must not reach the next column.
constexpr double kSlack = 1e-6;
// A slice at least this many columns wide is drawn by itself.
constexpr double kWide = 3;
// A class that takes no time gets this share, so that it shows all the same.
constexpr float kTrace = 1e-12f;

// A Segment is a stretch of time with its place in the picture.
struct Segment {
  std::int64_t from_ns = 0, to_ns = 0;
  double x = 0;  // position of from_ns
  double pixels_a_ns = 0;

  // Return the last nanosecond that lies left of `at`, within the segment.
  std::int64_t ns_at(double at) const {
    const double ns = std::clamp((at - x) / pixels_a_ns, 0.0, 4e18);
    return std::min(to_ns, from_ns + static_cast<std::int64_t>(ns));
  }
  // Return the place of a time; times outside are at the segment's sides.
  double x_of(std::int64_t ns) const {
    return x + (std::clamp(ns, from_ns, to_ns) - from_ns) * pixels_a_ns;
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
  // Empty all columns. `classes` has a bit for every class that will be added.
  void clear(int width, std::uint32_t classes) {
    width_ = width;
    shares_.resize(static_cast<std::size_t>(width) * kClasses);
    classes_.clear();
    for (std::uint32_t rest = classes; rest != 0; rest &= rest - 1) {
      classes_.push_back(std::countr_zero(rest));
      std::fill_n(shares_of(classes_.back()), width_, 0.0f);
    }
  }

  void add_to(int column, int cls, double share) {
    shares_of(cls)[column] += std::max(static_cast<float>(share), kTrace);
  }

  // Add [x0, x1) of one class, cut off at the picture's sides.
  void add(int cls, double x0, double x1) {
    x0 = std::max(x0, 0.0);
    x1 = std::min(x1, static_cast<double>(width_));
    const int first = std::min(static_cast<int>(x0 + kSlack), width_ - 1);
    add_to(first, cls, std::min(x1, first + 1.0) - x0);
    const int last = static_cast<int>(x1 + kSlack);  // the first column that is not full
    float* const full = shares_of(cls);
    for (int c = first + 1; c < last; ++c) full[c] += 1;
    if (last > first && x1 - last > kSlack) add_to(last, cls, x1 - last);
  }

  // Draw each column as a stack from below: classes in order, each as high as its share. A class
  // that is present gets at least a pixel; if there are more classes than pixels, only those of
  // `first_served` do. The rest stays `background`.
  void paint(Image& image, const Bar& bar, const Color (&colors)[kClasses],
             std::uint32_t first_served, Color background) {
    tops_.resize(classes_.size() * static_cast<std::size_t>(width_));
    for (int column = 0; column < width_; ++column) stack(column, bar.height(), first_served);
    for (int y = std::max(bar.top, 0); y < std::min(bar.bottom, image.height); ++y) {
      const int up = bar.bottom - 1 - y;
      Color* const line = &image.at(0, y);
      std::fill_n(line, width_, background);
      // Each class paints everything below its top, from the highest class down.
      for (std::size_t k = classes_.size(); k-- > 0;) {
        const Color color = colors[classes_[k]];
        const std::int32_t* const tops = tops_.data() + k * static_cast<std::size_t>(width_);
        for (int c = 0; c < width_; ++c) line[c] = up < tops[c] ? color : line[c];
      }
    }
  }

 private:
  float* shares_of(int cls) { return shares_.data() + static_cast<std::ptrdiff_t>(cls) * width_; }

  // Resolve a column's shares into pixels. Every class present gets a pixel to begin with (a seat),
  // and what is left of the height is split by the time that each class takes beyond its seat. Tops
  // round the running sum, so that errors don't add up.
  void stack(int column, int height, std::uint32_t first_served) {
    const auto scale = static_cast<float>(height);
    float shares[kClasses], seats[kClasses];
    float total = 0, present = 0, seated = 0, beyond = 0;
    const std::size_t count = classes_.size();
    for (std::size_t k = 0; k < count; ++k) {
      shares[k] = scale * shares_of(classes_[k])[column];
      total += shares[k];
      present += shares[k] > 0 ? 1.0f : 0.0f;
    }
    for (std::size_t k = 0; k < count; ++k) {
      const bool room = present <= scale || (first_served >> classes_[k] & 1) != 0;
      seats[k] = room && shares[k] > 0 ? 1.0f : 0.0f;
      shares[k] = std::max(0.0f, shares[k] - seats[k]);  // what exceeds the seat
      seated += seats[k];
      beyond += shares[k];
    }
    const float used = std::min(std::max(total, seated), scale);
    const float factor = (used - seated) / std::max(beyond, 1e-9f);
    float top = 0.5001f;  // halves round up in spite of earlier rounding errors
    for (std::size_t k = 0; k < count; ++k) {
      top += seats[k] + shares[k] * factor;
      tops_[k * static_cast<std::size_t>(width_) + static_cast<std::size_t>(column)] =
          static_cast<std::int32_t>(top);
    }
  }

  int width_ = 0;
  std::vector<int> classes_;
  std::vector<float> shares_;       // [class][column]
  std::vector<std::int32_t> tops_;  // [place in classes_][column]: the pixel that it reaches
};

// ---
// Paints row by row.

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
  // Return the last segment that begins before `before`, or the first.
  const Segment& segment_at(std::int64_t before) const {
    const std::vector<Segment>& segments = brush_.segments;
    const auto after = std::lower_bound(
        segments.begin(), segments.end(), before,
        [](const Segment& segment, std::int64_t at) { return segment.from_ns < at; });
    return after == segments.begin() ? segments.front() : *(after - 1);
  }
  const Segment& begin_segment(std::size_t i) const { return segment_at(row_.begins[i] + 1); }
  double begin_of(std::size_t i) const { return begin_segment(i).x_of(row_.begins[i]); }
  // A slice that ends with its segment ends there, not where the next segment begins.
  double end_of(std::size_t i) const {
    return row_.begins[i] == row_.ends[i] ? begin_of(i)
                                          : segment_at(row_.ends[i]).x_of(row_.ends[i]);
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

  // Add slices [i, end) segment by segment.
  void add_slices(std::size_t i, std::size_t end) {
    const auto begins = row_.begins.begin();
    for (const Segment& segment : brush_.segments) {
      const auto next = static_cast<std::size_t>(
          std::lower_bound(begins + static_cast<std::ptrdiff_t>(i),
                           begins + static_cast<std::ptrdiff_t>(end), segment.to_ns) -
          begins);
      while (i < next && row_.begins[i] < segment.from_ns) add_slice(i++);
      while (i < next) i = add_column(segment, i, next);
    }
    for (; i < end; ++i) add_slice(i);
  }

  // Add the parts of a slice that lie in segments. Between them no time passes.
  void add_slice(std::size_t i) {
    const std::int64_t begin = row_.begins[i], end = row_.ends[i];
    const Segment* const segments_end = brush_.segments.data() + brush_.segments.size();
    for (const Segment* segment = &begin_segment(i);
         segment != segments_end && segment->from_ns <= end; ++segment) {
      const bool touches = begin == end ? begin >= segment->from_ns && begin <= segment->to_ns
                                        : begin < segment->to_ns && end > segment->from_ns;
      if (!touches) continue;
      const double x0 = segment->x_of(begin), x1 = segment->x_of(end);
      brush_.columns.add(classes_[i], x0, x1);
      if (x1 - x0 >= kWide) brush_.wide.push_back({i, x0, x1});
    }
  }

  // Add the slices from i on that end in the column in which it begins, and the next one, which
  // reaches out of it. Blocks of them are added as sums. Return the first slice that is left.
  std::size_t add_column(const Segment& segment, std::size_t i, std::size_t end) {
    const int column = static_cast<int>(std::floor(segment.x_of(row_.begins[i]) + kSlack));
    const std::int64_t edge = segment.ns_at(column + 1);
    std::int64_t sums[kClasses] = {};
    std::uint32_t present = 0;
    while (i < end && row_.ends[i] <= edge) {
      if (i % kBlock == 0 && i + kBlock <= end && row_.ends[i + kBlock - 1] <= edge) {
        present |= row_.add_blocks(i / kBlock, i / kBlock + 1, sums);
        i += kBlock;
        continue;
      }
      sums[classes_[i]] += row_.ends[i] - row_.begins[i];
      present |= 1u << classes_[i++];
    }
    const int inside = std::clamp(column, 0, brush_.image.width - 1);
    for (int cls = 0; present != 0; ++cls, present >>= 1)
      if ((present & 1) != 0) brush_.columns.add_to(inside, cls, sums[cls] * segment.pixels_a_ns);
    if (i < end) add_slice(i++);
    return i;
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
      // A slice may have several parts.
      const bool after_wide = w > 0 && wide[w - 1].index + 1 >= i;
      const bool before_wide = w + 1 < wide.size() && wide[w + 1].index <= i + 1;
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
      sharpen_tail(wide[w], edges[classes_[i]], next, before_wide ? &wide[w + 1] : nullptr);
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
  void sharpen_tail(const WideSlice& slice, Color edge, double next, const WideSlice* wide_next) {
    const int tail = static_cast<int>(std::floor(slice.x1 + kSlack));
    const double in_tail = slice.x1 - tail;
    const bool alone_there = next >= tail + 1 - kSlack;
    const bool meets_wide = wide_next != nullptr && next - slice.x1 < kSlack;
    if (in_tail <= kSlack || (!alone_there && !meets_wide)) return solid(tail - 1, edge);
    if (in_tail >= 0.5) return solid(tail, edge);
    solid(tail - 1, edge);
    solid(tail, alone_there ? colors_.background : colors_.colors[classes_[wide_next->index]]);
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
    result.waits |= static_cast<std::uint32_t>(row.samples[cls].lane == Lane::wait) << cls;
  }
  return result;
}

}  // namespace

void paint_timeline(const Trace& trace, const Axis& axis, const TimelineIndex& index,
                    const TimelineLayout& layout, const TimelineView& view,
                    const TimelinePaint& paint, Image& image) {
  const Palette& palette = palette_of(paint.theme);
  const int width = image.width;
  const bool drawable = view.width() > 0 && width > 0;
  const int world_size = trace.info.world_size;
  Brush brush{image, {}, {}, {}};
  int segments_of_rank = -1;
  int painted = 0;  // lines
  for (const RowPlace& place : layout.rows) {
    const int top =
        static_cast<int>(std::floor(static_cast<double>(place.y) - view.scroll_y + 0.5));
    const int bottom = top + static_cast<int>(place.height);
    if (bottom <= 0) continue;
    if (top >= image.height) break;
    const std::uint32_t lane = trace.rows[place.row].lane;
    const int rank = trace.rank_of_row(place.row);
    const bool odd = (lane - trace.ranks[rank].first_lane) % 2 == 1;
    const Color background = odd ? palette.row_odd : palette.row_even;
    image.fill(0, painted, width, top, palette.background);
    painted = std::min(bottom, image.height);
    const TimelineIndex::RowIndex& row = index.row(place.row);
    if (drawable && segments_of_rank != rank) {
      segments_of_rank = rank;
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
  image.fill(0, painted, width, image.height, palette.background);
}

// ---
// Stores a row's slices side by side, and the time of each class up to every block of them. A long
// stretch then costs one subtraction and the slices at its two ends.

namespace {

// Return a small number that decides a slice's colour when colours go by owner. Its class in the
// row is the order in which such numbers first turn up.
constexpr std::uint32_t kKeysOfKind = 32;
static_assert(kModelParts + std::size(kAllKernelParts) <= kKeysOfKind);
std::uint32_t owner_key(const TraceEvent& slice, int world_size) {
  const auto kind = static_cast<std::uint32_t>(slice.lane) * kKeysOfKind;
  if (slice.part >= 0) return kind + static_cast<std::uint32_t>(slice.part);
  if (slice.lane == Lane::other) return kind + slice.name % 8;
  if (slice.lane == Lane::wait || slice.kv_owner < 0) return kind;
  return kind + static_cast<std::uint32_t>(owner_class(slice.kv_owner, world_size));
}

class OwnerClasses {
 public:
  explicit OwnerClasses(int world_size) : world_size_(world_size) {}
  std::uint8_t class_of(const TraceEvent& slice, std::vector<TraceEvent>& samples) {
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
  std::vector<std::uint8_t> classes_ = std::vector<std::uint8_t>(kLaneKinds * kKeysOfKind, kNew);
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
    const std::span<const TraceEvent> slices = trace.slices(r);
    RowIndex& row = rows_[r];
    row.begins.reserve(slices.size());
    row.ends.reserve(slices.size());
    row.classes.reserve(slices.size());
    OwnerClasses owners(trace.info.world_size);
    for (const TraceEvent& slice : slices) {
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
      sums[classes[i]] += ns_within(row.begins[i], row.ends[i], begin, end);
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
