#include "viz/panels/ring/ring_picture.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace ringscope::viz {

double RingLayout::angle(double rank) const {
  return (2 * rank / std::max(ranks, 1) - 0.5) * std::numbers::pi;
}

ImVec2 RingLayout::at(double rank, float distance) const {
  const double a = angle(rank);
  return {center.x + distance * static_cast<float>(std::cos(a)),
          center.y + distance * static_cast<float>(std::sin(a))};
}

Box RingLayout::tile(double rank, float scale) const {
  const ImVec2 middle = at(rank, orbit);
  const float w = tile_w / 2 * scale, h = tile_h / 2 * scale;
  return {middle.x - w, middle.y - h, middle.x + w, middle.y + h};
}

int RingLayout::rank_at(ImVec2 mouse) const {
  if (ranks == 0) return -1;
  const double a = std::atan2(mouse.y - center.y, mouse.x - center.x);
  const double turn = (a / std::numbers::pi + 0.5) / 2 * ranks;
  const int rank = ((static_cast<int>(std::lround(turn)) % ranks) + ranks) % ranks;
  const ImVec2 middle = at(rank, radius);
  const float reach = std::max(disc, 4.0f);
  const bool on_disc = std::hypot(mouse.x - middle.x, mouse.y - middle.y) <= reach;
  return on_disc || tile(rank).contains(mouse) ? rank : -1;
}

RingLayout ring_layout(const Box& box, int ranks) {
  RingLayout layout;
  layout.center = box.center();
  layout.ranks = ranks;
  const float half = std::max(std::min(box.width(), box.height()) / 2 - 6, 8.0f);
  float disc = std::min(half * 0.17f, 44.0f);
  if (ranks > 1) {
    // Discs take at most two thirds of the distance between neighbours. The circle shrinks as the
    // discs and the tiles outside them grow.
    const float sine = std::sin(static_cast<float>(std::numbers::pi) / static_cast<float>(ranks));
    disc = std::min(disc, 0.66f * half * sine / (1 + 1.65f * sine));
  }
  layout.disc = std::max(disc, 1.5f);
  layout.tile_w = layout.disc * 1.5f;
  layout.tile_h = layout.disc * 1.0f;
  if (layout.disc >= 13) {  // room for "KV 12"
    layout.tile_w = std::max(layout.tile_w, 40.0f);
    layout.tile_h = std::max(layout.tile_h, 22.0f);
  }
  layout.orbit = half - layout.tile_w / 2;
  layout.radius = std::max(layout.orbit - layout.tile_w / 2 - layout.disc - 5, layout.disc);
  if (ranks > 1) {  // wide tiles may have shrunk the circle further
    const float sine = std::sin(static_cast<float>(std::numbers::pi) / static_cast<float>(ranks));
    layout.disc = std::clamp(0.75f * layout.radius * sine, 1.5f, layout.disc);
  }
  if (ranks == 1) {  // a single rank stands in the middle
    layout.radius = half * 0.12f;
    layout.orbit = layout.radius + layout.disc + layout.tile_h / 2 + 6;
  }
  return layout;
}

}  // namespace ringscope::viz
