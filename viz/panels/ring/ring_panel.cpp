// The ring at the playhead: each rank's block and progress, and the blocks in transit.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "viz/model/session/format.h"
#include "viz/panels/drawing.h"
#include "viz/panels/panels.h"
#include "viz/panels/ring/ring_picture.h"

namespace ringscope::viz {
namespace {

void draw_link_label(const RingPicture& picture, const Link& link, LabelPlace place) {
  const RingLayout& ring = picture.layout;
  const double turn = ring.angle(link.src + 0.5);
  ImVec2 at = ring.at(link.src + 0.5, ring.radius + 4);
  float lean = 0.5f;
  if (place == LabelPlace::outside) {
    at = ring.at(link.src + 0.5, ring.orbit + kLinkLabelOutside);
    at.y += kLinkLabelHeight / 2 * static_cast<float>(std::sin(turn));
    lean -= 0.5f * static_cast<float>(std::cos(turn));
  }
  const ImFont* font = picture.context.fonts.small;
  const Color color = picture.context.palette.text_dim;
  draw_text(font, at, {lean, 1}, color, bytes_text(link.bytes_so_far));
  if (link.bytes_per_second > 0)
    draw_text(font, at, {lean, 0}, with_alpha(color, 0.8), bandwidth_text(link.bytes_per_second));
}

// Draw the track of the blocks. A link that has sent is brighter and carries its bytes.
void draw_links(const RingPicture& picture) {
  const RingLayout& ring = picture.layout;
  const Palette& palette = picture.context.palette;
  if (ring.ranks < 2) return;
  draw_list().AddCircle(ring.center, ring.orbit, with_alpha(palette.grid, 0.9),
                        ring.orbit > 150 ? 160 : 96, 1);
  std::int64_t largest = 1;
  for (const Link& link : picture.moment.links) largest = std::max(largest, link.bytes_so_far);
  const LabelPlace place = label_place(picture);
  for (const Link& link : picture.moment.links) {
    if (link.bytes_so_far <= 0) continue;
    const double share = static_cast<double>(link.bytes_so_far) / static_cast<double>(largest);
    const float thick = 1 + 1.5f * static_cast<float>(share);
    const Color color = with_alpha(palette.flow, 0.35 + 0.3 * share);
    if ((link.src + 1) % ring.ranks != link.dst) {
      draw_list().AddLine(ring.at(link.src, ring.radius), ring.at(link.dst, ring.radius),
                          with_alpha(color, 0.3), thick);
      continue;
    }
    // Draw the link from tile to tile, with a gap at each.
    const double gap = (ring.tile_w / 2 + 6) / ring.orbit;
    const double begin = ring.angle(link.src) + gap, end = ring.angle(link.src + 1) - gap;
    if (end - begin > 0.02) {
      draw_list().PathArcTo(ring.center, ring.orbit, static_cast<float>(begin),
                            static_cast<float>(end), 24);
      draw_list().PathStroke(color, 0, thick);
      const double turn = end;
      arrowhead({ring.center.x + ring.orbit * static_cast<float>(std::cos(turn)),
                 ring.center.y + ring.orbit * static_cast<float>(std::sin(turn))},
                static_cast<float>(-std::sin(turn)), static_cast<float>(std::cos(turn)),
                std::clamp(ring.disc * 0.4f, 3.0f, 9.0f), with_alpha(palette.flow, 0.9));
    }
    if (place != LabelPlace::none) draw_link_label(picture, link, place);
  }
}

void draw_rank(const RingPicture& picture, int rank) {
  const RingLayout& ring = picture.layout;
  const Palette& palette = picture.context.palette;
  const Fonts& fonts = picture.context.fonts;
  const RankMoment& now = picture.moment.ranks[static_cast<std::size_t>(rank)];
  const ImVec2 at = ring.at(rank, ring.radius);
  const bool waits = now.doing == RankMoment::waiting;
  const bool selected = picture.context.session.selected_rank == rank;
  if (picture.dots()) {
    draw_list().AddCircleFilled(at, ring.disc, picture.owner(now.kv_owner), 8);
    if (waits) draw_list().AddCircle(at, ring.disc + 1.5f, palette.warning, 10, 1);
    if (selected) draw_list().AddCircle(at, ring.disc + 3, palette.selection, 12, 1.5f);
    return;
  }
  const Color own = picture.owner(rank);
  draw_list().AddCircleFilled(at, ring.disc, mix(palette.panel, own, 0.16), 40);
  draw_list().AddCircle(at, ring.disc, with_alpha(own, 0.75), 40, 1.5f);
  if (waits) {
    draw_list().AddCircle(at, ring.disc + 4, with_alpha(palette.warning, 0.25), 40, 5);
    draw_list().AddCircle(at, ring.disc + 4, palette.warning, 40, 1.5f);
  }
  if (selected) draw_list().AddCircle(at, ring.disc + 8, palette.selection, 40, 2);

  const std::string full = fmt::format("rank {}", rank);
  if (ring.disc >= 17 && text_width(fonts.small, full) < ring.disc * 2 - 4) {
    const ImFont* font = ring.disc >= 36 ? fonts.text : fonts.small;
    draw_text(font, {at.x, at.y - 8}, {0.5f, 0.5f}, palette.text, full);
    const std::string query = fmt::format("Q {}", rank);
    draw_text(fonts.small, {at.x, at.y + 8}, {0.5f, 0.5f}, mix(palette.text, own, 0.6), query);
  } else if (ring.disc >= 8) {
    draw_text(fonts.small, at, {0.5f, 0.5f}, palette.text, fmt::format("{}", rank));
  } else {
    // Rank numbers that don't fit into discs stand inside the circle, for some of the ranks.
    draw_list().AddCircleFilled(at, ring.disc * 0.45f, own, 12);
    const int every = ring.ranks > 128 ? 16 : ring.ranks > 64 ? 8 : 4;
    if (rank % every == 0 && ring.radius - ring.disc > 24)
      draw_text(fonts.small, ring.at(rank, ring.radius - ring.disc - 12), {0.5f, 0.5f},
                palette.text_dim, fmt::format("{}", rank));
  }
  if (waits && now.waiting_for >= 0 && wait_labels(ring))
    draw_text(fonts.small, wait_label_at(ring, rank), {0.5f, 0.5f}, palette.warning,
              fmt::format("waits for {}", now.waiting_for));
}

// Draw the block that a rank holds, filled from the left by the fraction attended so far.
void draw_held(const RingPicture& picture, int rank) {
  const RingLayout& ring = picture.layout;
  const Palette& palette = picture.context.palette;
  const RankMoment& now = picture.moment.ranks[static_cast<std::size_t>(rank)];
  if (picture.dots() || now.kv_owner < 0) return;
  const Color color = picture.owner(now.kv_owner);
  const Box box = ring.tile(rank);
  const float rounding = std::min(4.0f, ring.tile_h * 0.2f);
  const bool over = now.doing == RankMoment::finished;
  if (now.pass == Pass::backward && ring.disc >= 8)
    outline({box.x0 + 3, box.y0 + 3, box.x1 + 3, box.y1 + 3}, with_alpha(color, 0.7), rounding, 1);
  // A block that has not arrived is drawn as an empty place.
  const bool awaited = now.doing == RankMoment::waiting && now.progress <= 0;
  fill(box, mix(palette.panel, color, awaited ? 0.06 : 0.3), rounding);
  const float split = box.x0 + box.width() * static_cast<float>(std::clamp(now.progress, 0.0, 1.0));
  if (split > box.x0 + 0.5f) {
    draw_list().PushClipRect(box.min(), {split, box.y1}, true);
    fill(box, over ? mix(palette.panel, color, 0.75) : color, rounding);
    draw_list().PopClipRect();
  }
  outline(box, with_alpha(color, awaited ? 0.5 : 1), rounding, 1);
  const std::string label = fmt::format("KV {}", now.kv_owner);
  const ImFont* font = picture.context.fonts.small;
  const float width = text_width(font, label);
  if (width > box.width() - 2 || ring.tile_h < 13) return;
  // Choose the letters' colour separately for the filled part and for the rest.
  const ImVec2 middle = box.center();
  draw_list().PushClipRect(box.min(), {split, box.y1}, true);
  draw_text(font, middle, {0.5f, 0.5f}, ink_on(color), label);
  draw_list().PopClipRect();
  draw_list().PushClipRect({split, box.y0}, box.max(), true);
  draw_text(font, middle, {0.5f, 0.5f}, awaited ? palette.text_dim : palette.text, label);
  draw_list().PopClipRect();
}

void draw_travelling(const RingPicture& picture) {
  const RingLayout& ring = picture.layout;
  const Palette& palette = picture.context.palette;
  for (const BlockInFlight& block : picture.moment.in_flight) {
    if (ring.ranks < 2 || block.src < 0 || block.dst < 0) continue;
    int hops = ((block.dst - block.src) % ring.ranks + ring.ranks) % ring.ranks;
    if (hops > ring.ranks / 2) hops -= ring.ranks;  // against the ring's direction
    const double rank = block.src + hops * std::clamp(block.progress, 0.0, 1.0);
    const Color color = picture.owner(block.kv_owner);
    if (picture.dots()) {
      draw_list().AddCircleFilled(ring.at(rank, ring.orbit), ring.disc, color, 8);
      continue;
    }
    const bool gradient = block.payload == Payload::dkv;
    // Draw a gradient at the outer edge of the track, so that both are visible when they overlap.
    Box box = ring.tile(rank, 0.78f);
    if (gradient) {
      const ImVec2 out = ring.at(rank, 1);
      const float dx = (out.x - ring.center.x) * 6, dy = (out.y - ring.center.y) * 6;
      box = {box.x0 + dx, box.y0 + dy, box.x1 + dx, box.y1 + dy};
    }
    const float rounding = std::min(4.0f, ring.tile_h * 0.2f);
    fill({box.x0 - 2, box.y0 - 2, box.x1 + 2, box.y1 + 2}, palette.panel, rounding + 1);
    fill(box, gradient ? mix(palette.panel, color, 0.15) : color, rounding);
    if (gradient) outline(box, color, rounding, 1.5f);
    const std::string label = fmt::format("{} {}", gradient ? "dKV" : "KV", block.kv_owner);
    if (text_width(picture.context.fonts.small, label) < box.width() + 2 && box.height() > 12)
      draw_text(picture.context.fonts.small, box.center(), {0.5f, 0.5f},
                gradient ? palette.text : ink_on(color), label);
  }
}

void draw_rank_tooltip(const RingPicture& picture, int rank) {
  const RankMoment& now = picture.moment.ranks[static_cast<std::size_t>(rank)];
  constexpr const char* kDoing[] = {"idle", "attending", "waiting", "finished"};
  Pairs rows = {{"holds", fmt::format("KV {}", now.kv_owner)},
                {"step", fmt::format("{}", now.step)},
                {"now", now.doing == RankMoment::computing
                            ? fmt::format("attending, {} done", percent_text(now.progress))
                            : kDoing[now.doing]}};
  if (now.doing == RankMoment::waiting && now.waiting_for >= 0)
    rows.push_back({"waits for", fmt::format("rank {}", now.waiting_for)});
  for (const Link& link : picture.moment.links)
    if (link.src == rank)
      rows.push_back(
          {fmt::format("sent to {}", link.dst),
           fmt::format("{} of {}", bytes_text(link.bytes_so_far), bytes_text(link.bytes_total))});
  draw_tooltip(picture.context, fmt::format("rank {}", rank), rows);
}

}  // namespace

void draw_ring(const PanelContext& context) {
  const Box box = content_box();
  if (box.width() < 40 || box.height() < 40) return;
  Session& session = context.session;
  const Document& document = session.document();
  const RingMoment moment =
      document.trace.is_ring() ? session.moment(session.active) : RingMoment();
  if (moment.ranks.empty()) {
    draw_empty(context, box, "No ring in this trace",
               "Recordings made with --trace show here which KV block every rank holds.");
    return;
  }
  const bool side = box.width() - box.height() >= kRingSideColumn && box.height() < 420;
  const auto picture_in = [&](const Box& round) {
    const int ranks = static_cast<int>(moment.ranks.size());
    return RingPicture{context, document, moment, round, ring_layout(round, ranks)};
  };
  Box round = side ? Box{box.x0 + kRingSideColumn, box.y0, box.x1, box.y1} : box;
  const CaptionBands bands = side ? CaptionBands() : caption_bands(picture_in(round), box);
  round.y0 += bands.above;
  round.y1 -= bands.below;
  const RingPicture picture = picture_in(round);
  draw_links(picture);
  for (int rank = 0; rank < picture.layout.ranks; ++rank) draw_rank(picture, rank);
  for (int rank = 0; rank < picture.layout.ranks; ++rank) draw_held(picture, rank);
  draw_travelling(picture);
  draw_ring_caption(picture, box, side);

  const Touch touched = touch("ring", box);
  const int rank = picture.layout.rank_at(ImGui::GetIO().MousePos);
  if (touched.clicked) session.select_rank(rank);
  if (touched.hovered && rank >= 0) draw_rank_tooltip(picture, rank);
}

}  // namespace ringscope::viz
