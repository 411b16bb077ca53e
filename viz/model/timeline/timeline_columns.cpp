#include "viz/model/timeline/timeline_columns.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace ringscope::viz {
namespace {

constexpr std::size_t kBatch = 128;  // slices that are placed together
constexpr int kCopies = 4;
// A class that takes no time gets this share, so that it shows all the same.
constexpr float kTrace = 1e-12f;

}  // namespace

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
  const int stride = static_cast<int>(stride_);
  float *const all_here = here_.data(), *const all_next = next_.data();
  std::int32_t places[kBatch];
  float here[kBatch], next[kBatch];
  for (std::size_t i = first; i < last; i += kBatch) {
    const int n = static_cast<int>(std::min(kBatch, last - i));
    // Avoid min and max of doubles, because compilers that heed floating-point traps would branch.
    for (int k = 0; k < n; ++k) {
      const std::int64_t begin = std::max(begins[i + k], left), end = std::min(ends[i + k], right);
      const double x0 = x + static_cast<double>(begin - origin) * scale;
      const double x1 = x + static_cast<double>(end - origin) * scale;
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

}  // namespace ringscope::viz
