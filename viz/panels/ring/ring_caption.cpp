#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "core/base/text.h"
#include "viz/model/session/format.h"
#include "viz/panels/ring/ring_picture.h"

namespace ringscope::viz {
namespace {

struct Line {
  const ImFont* font;
  Color color;
  std::string text;
};

// Return the caption: the step, the time, and the block that a rank holds at that step.
std::vector<Line> caption(const RingPicture& picture) {
  const Session& session = picture.context.session;
  const Palette& palette = picture.context.palette;
  const Fonts& fonts = picture.context.fonts;
  const Axis& axis = picture.document.axis;
  const int n = picture.layout.ranks;
  const auto& ranks = picture.moment.ranks;
  int first = ranks[0].step, last = first;
  for (const RankMoment& rank : ranks) {
    first = std::min(first, rank.step);
    last = std::max(last, rank.step);
  }
  const int forward = axis.forward_steps();
  // On the time axis some ranks may already be in the backward pass; then the step count continues.
  const bool both = first < forward && last >= forward;
  const bool backward = first >= forward && forward > 0;
  const int base = backward ? forward : 0;
  const int count = both ? axis.steps() : backward ? axis.steps() - forward : forward;
  std::vector<Line> lines;
  lines.push_back({fonts.title, palette.text,
                   first == last ? fmt::format("step {}", first - base)
                                 : fmt::format("steps {} to {}", first - base, last - base)});
  lines.push_back({fonts.small, palette.text_dim,
                   fmt::format("{}: steps 0 to {}",
                               both       ? "forward, then backward"
                               : backward ? "backward"
                                          : "forward",
                               std::max(count - 1, 0))});
  if (session.axis_mode == AxisMode::time)
    lines.push_back({fonts.small, palette.text_dim, time_text(session.playback.position())});

  // Schemes other than the ring and the all-gather attend the blocks in another order.
  bool in_ring_order = true;
  for (int rank = 0; rank < n; ++rank) {
    const RankMoment& now = ranks[static_cast<std::size_t>(rank)];
    const int t = now.step - (now.step >= forward ? forward : 0);
    in_ring_order = in_ring_order && step_with(rank, now.kv_owner, n) == t;
  }
  const int r = session.selected_rank;
  if (r >= 0 && r < n) {
    const RankMoment& now = ranks[static_cast<std::size_t>(r)];
    const int t = now.step - (now.step >= forward ? forward : 0);
    if (first == last && t > 0 && step_with(r, t, n) == now.kv_owner)
      lines.push_back(
          {fonts.small, palette.text,
           fmt::format("rank {} holds\nKV ({} - {}) mod {} = {}", r, r, t, n, now.kv_owner)});
    else
      lines.push_back(
          {fonts.small, palette.text, fmt::format("rank {} holds KV {}", r, now.kv_owner)});
  } else if (!in_ring_order) {
    lines.push_back({fonts.small, palette.text, session.document().trace.run->scheme});
  } else if (first == last) {
    lines.push_back({fonts.small, palette.text,
                     first == base
                         ? std::string("rank r holds\nKV r")
                         : fmt::format("rank r holds\nKV (r - {}) mod {}", first - base, n)});
  } else {
    lines.push_back(
        {fonts.small, palette.text, fmt::format("at step t, rank r holds\nKV (r - t) mod {}", n)});
  }
  if (n > 1 && label_place(picture) == LabelPlace::none) {
    double bytes = 0, rate = 0;
    int fast = 0;
    for (const Link& link : picture.moment.links) {
      bytes += static_cast<double>(link.bytes_so_far);
      if (link.bytes_per_second > 0) {
        rate += link.bytes_per_second;
        ++fast;
      }
    }
    lines.push_back({fonts.small, palette.text_dim,
                     fast == 0 ? fmt::format("{} sent", bytes_text(bytes))
                               : fmt::format("{} sent · {} a link", bytes_text(bytes),
                                             bandwidth_text(rate / fast))});
  }
  return lines;
}

constexpr float kHighWithFormula = 200;  // pixels; panels of at most this height omit the formula

float line_height(const ImFont* font) { return std::round(font_height(font) * 1.45f); }

ImVec2 size_of(const std::vector<Line>& lines) {
  ImVec2 size(0, 0);
  for (const Line& line : lines) {
    size.x = std::max(size.x, text_width(line.font, line.text));
    size.y += line_height(line.font);
  }
  return size;
}

// Break the lines at '\n', as the caption in the middle does.
std::vector<Line> broken(const std::vector<Line>& lines) {
  std::vector<Line> result;
  for (const Line& line : lines)
    for_each_line(line.text, [&](std::string_view part) {
      result.push_back({line.font, line.color, std::string(part)});
    });
  return result;
}

// Return whether a box of these half sizes in the middle keeps clear of the discs and of the labels
// beside them.
bool middle_is_free(const RingLayout& ring, float half_width, float half_height) {
  constexpr float kGap = 6;
  for (int rank = 0; rank < ring.ranks; ++rank) {
    const ImVec2 disc = ring.at(rank, ring.radius);
    const float dx = std::max(std::fabs(disc.x - ring.center.x) - half_width, 0.0f);
    const float dy = std::max(std::fabs(disc.y - ring.center.y) - half_height, 0.0f);
    if (std::hypot(dx, dy) < ring.disc + kGap) return false;
    if (!wait_labels(ring)) continue;
    const ImVec2 label = wait_label_at(ring, rank);
    if (std::fabs(label.x - ring.center.x) < half_width + kWaitWidth / 2 &&
        std::fabs(label.y - ring.center.y) < half_height + kWaitHeight / 2)
      return false;
  }
  return ring.ranks <= 16 || std::hypot(half_width, half_height) < ring.radius - ring.disc - 24;
}

}  // namespace

LabelPlace label_place(const RingPicture& picture) {
  const RingLayout& ring = picture.layout;
  if (ring.ranks < 2 || ring.ranks > 8) return LabelPlace::none;
  const float width = text_width(picture.context.fonts.small, "88.8 GiB/s");
  const ImVec2 a = ring.at(0, ring.radius), b = ring.at(1, ring.radius);
  if (std::hypot(a.x - b.x, a.y - b.y) - 2 * ring.disc > width + 10) return LabelPlace::inside;
  const float beside = (picture.box.width() - 2 * ring.orbit) / 2;
  const float highest =
      (ring.orbit + kLinkLabelOutside) * -static_cast<float>(std::sin(ring.angle(0.5)));
  const bool fits = beside > width + 20 && highest + kLinkLabelHeight <= picture.box.height() / 2;
  return ring.disc > 14 && fits ? LabelPlace::outside : LabelPlace::none;
}

// Return whether the labels have room between the discs.
bool wait_labels(const RingLayout& ring) {
  if (ring.ranks > 16 || ring.disc < 14) return false;
  for (int rank = 0; rank < ring.ranks; ++rank)
    for (int other = 0; other < ring.ranks; ++other) {
      const ImVec2 label = wait_label_at(ring, rank), disc = ring.at(other, ring.radius);
      const float dx = std::max(std::fabs(disc.x - label.x) - kWaitWidth / 2, 0.0f);
      const float dy = std::max(std::fabs(disc.y - label.y) - kWaitHeight / 2, 0.0f);
      if (other != rank && std::hypot(dx, dy) < ring.disc) return false;
    }
  return true;
}

ImVec2 wait_label_at(const RingLayout& ring, int rank) {
  ImVec2 at = ring.at(rank, ring.radius);
  const bool low = std::sin(ring.angle(rank)) > 0.5;
  at.y += (low ? -1.0f : 1.0f) * (ring.disc + 6 + kWaitHeight / 2);
  return at;
}

CaptionBands caption_bands(const RingPicture& picture, const Box& box) {
  const std::vector<Line> lines = caption(picture), centred = broken(lines);
  const RingLayout& ring = picture.layout;
  const ImVec2 size = size_of(centred);
  if (middle_is_free(ring, size.x / 2, size.y / 2)) return {};
  const float right =
      box.x0 + 2 +
      std::max(text_width(lines[0].font, lines[0].text), text_width(lines[1].font, lines[1].text));
  const float bottom = box.y0 + 2 + line_height(lines[0].font) + line_height(lines[1].font);
  const float reach = ring.orbit + std::max(ring.tile_w, ring.tile_h) / 2 + 4;
  const float dx = std::max(ring.center.x - right, 0.0f), dy = ring.center.y - bottom;
  if (right < box.x1 && dy > 0 && std::hypot(dx, dy) > reach) return {};
  return {20, box.height() > kHighWithFormula ? 16.0f : 0.0f};
}

void draw_ring_caption(const RingPicture& picture, const Box& box, bool side) {
  const std::vector<Line> lines = caption(picture), centred = broken(lines);
  const ImVec2 size = size_of(centred);
  const RingLayout& ring = picture.layout;
  if (middle_is_free(ring, size.x / 2, size.y / 2)) {
    float y = ring.center.y - size.y / 2;
    for (const Line& line : centred) {
      draw_text(line.font, {ring.center.x, y}, {0.5f, 0}, line.color, line.text);
      y += line_height(line.font);
    }
    return;
  }
  const auto in_one_line = [](std::string text) {
    std::replace(text.begin(), text.end(), '\n', ' ');
    return text;
  };
  const float room = side ? kRingSideColumn - 10 : box.width() - 4;
  float y = box.y0 + 2;
  const bool banded = !side && picture.box.y0 > box.y0;
  const std::size_t above = side ? lines.size() : banded ? 0 : 2;
  if (banded) {
    const ImFont* font = picture.context.fonts.text;
    const float used = draw_text(font, {box.x0 + 2, y}, {0, 0}, lines[0].color, lines[0].text) + 10;
    const float rest = box.x1 - box.x0 - 4 - used;
    if (text_width(lines[1].font, lines[1].text) <= rest)
      draw_text(lines[1].font, {box.x0 + 2 + used, y + 2}, {0, 0}, lines[1].color, lines[1].text);
  }
  for (std::size_t i = 0; i < above; ++i)
    y += draw_wrapped(lines[i].font, {box.x0 + 2, y}, room, lines[i].color,
                      in_one_line(lines[i].text)) +
         4;
  if (side || box.height() <= kHighWithFormula) return;
  const Line& formula = lines[picture.context.session.axis_mode == AxisMode::time ? 3 : 2];
  draw_text(formula.font, {box.x0 + 2, box.y1 - 2}, {0, 1}, formula.color,
            in_one_line(formula.text), room);
}

}  // namespace ringscope::viz
