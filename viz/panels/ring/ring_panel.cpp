// The ring at the playhead: each rank's block and progress, and the blocks in transit.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>
#include <vector>

#include "core/base/text.h"
#include "core/ring/scheme.h"
#include "viz/data/session/format.h"
#include "viz/panels/drawing.h"
#include "viz/panels/layouts.h"
#include "viz/panels/panels.h"
#include "viz/panels/timeline/timeline_frame.h"

namespace ringscope::viz {
namespace {

// The parts of the picture share the moment, the layout, and the places of words, which must
// not overlap.

constexpr float kWaitWidth = 66, kWaitHeight = 14;

struct RingPicture {
  const PanelContext& context;
  const Document& document;
  const RingMoment& moment;
  Box box;  // the part of the panel that belongs to the ring
  RingLayout layout;

  Travel travel = travel_of(document.trace.info);

  // Name the block that has come to a rank, or the one that stays there.
  std::string come(int o) const {
    if (travel.shares_heads(layout.ranks)) return "heads";
    return fmt::format("{} {}", travel.what == Travels::queries ? "Q" : "KV", o);
  }
  std::string own(int rank) const {
    return fmt::format("{} {}", travel.what == Travels::queries ? "KV" : "Q", rank);
  }
  // Return whether `rank` is in a wait that the run's failure broke off.
  bool waits_in_vain(int rank) const {
    return moment.ranks[rank].doing == RankMoment::waiting &&
           std::any_of(document.unfinished.begin(), document.unfinished.end(), [&](SliceId id) {
             return document.trace.rank_of_row(id.row) == rank &&
                    document.trace.slice(id).step ==
                        document.axis.ring_step(moment.ranks[rank].step);
           });
  }
  // Return the colour of a block's owner, or of no block.
  Color owner(int o) const {
    if (o < 0) return context.palette.grid;
    return owner_color(context.session.look.theme, o, moment.ranks.size());
  }
  bool dots() const { return layout.disc < 4; }  // discs too small for anything but colour
};

// "waits for 3" stands above or below its disc, towards the centre and clear of its tile.
ImVec2 wait_label_at(const RingLayout& ring, int rank) {
  ImVec2 at = ring.at(rank, ring.radius);
  const bool low = std::sin(ring.angle(rank)) > 0.5;
  at.y += (low ? -1.0f : 1.0f) * (ring.disc + 6 + kWaitHeight / 2);
  return at;
}

// Return whether the labels have room between the discs and beside each other.
bool wait_labels(const RingLayout& ring) {
  if (ring.ranks > 16 || ring.disc < 14) return false;
  for (int rank = 0; rank < ring.ranks; ++rank)
    for (int other = 0; other < ring.ranks; ++other) {
      const ImVec2 label = wait_label_at(ring, rank), disc = ring.at(other, ring.radius);
      const float dx = std::max(std::fabs(disc.x - label.x) - kWaitWidth / 2, 0.0f);
      const float dy = std::max(std::fabs(disc.y - label.y) - kWaitHeight / 2, 0.0f);
      if (other != rank && std::hypot(dx, dy) < ring.disc) return false;
      const ImVec2 next = wait_label_at(ring, other);
      if (other != rank && std::fabs(next.x - label.x) < kWaitWidth &&
          std::fabs(next.y - label.y) < kWaitHeight)
        return false;
    }
  return true;
}

// ---
// The words of the picture.

struct Line {
  ImFont* font;
  Color color;
  std::string text;
};

// Return the caption: the step, the time, and the block that a rank holds at that step. Where ranks are
// at different steps, the step is that of the rank that the viewer calls now (Session::rank_now).
std::vector<Line> caption(const RingPicture& picture) {
  const Session& session = picture.context.session;
  const Palette& palette = picture.context.palette;
  const Fonts& fonts = picture.context.fonts;
  const Axis& axis = picture.document.axis;
  const int n = picture.layout.ranks;
  const auto& ranks = picture.moment.ranks;
  const int r = std::min(session.rank_now(), n - 1);
  const RankMoment& now = ranks[r];
  const bool together = std::all_of(ranks.begin(), ranks.end(),
                                    [&](const RankMoment& rank) { return rank.step == now.step; });
  const int t = axis.ring_step(now.step);
  const bool backward = axis.is_backward(now.step);
  const int count = backward ? axis.steps() - axis.forward_steps() : axis.forward_steps();
  std::vector<Line> lines;
  lines.push_back({fonts.title, palette.text,
                   together ? fmt::format("step {}", t) : fmt::format("rank {} · step {}", r, t)});
  lines.push_back({fonts.small, palette.text_dim,
                   fmt::format("{}: steps 0 to {}", backward ? "backward" : "forward",
                               std::max(count - 1, 0))});
  if (session.axis_mode == AxisMode::time)
    lines.push_back({fonts.small, palette.text_dim, time_text(session.playback.position())});

  // In other schemes ranks attend the blocks in another order, or a share of the heads of all.
  bool in_ring_order = picture.travel.what != Travels::heads;
  for (int rank = 0; rank < n; ++rank)
    in_ring_order =
        in_ring_order && (ranks[rank].held < 0 ||
                          step_with(rank, ranks[rank].held, n) == axis.ring_step(ranks[rank].step));
  const auto with_work = std::count_if(ranks.begin(), ranks.end(), [](const RankMoment& rank) {
    return rank.held >= 0 && !rank.has_nothing_left();
  });
  const char* const what = picture.travel.what == Travels::queries ? "Q" : "KV";
  const char* const verb = picture.travel.is_gathered ? "attends" : "holds";
  std::string holds;
  if (session.selected_rank >= 0 && (now.has_nothing_left() || now.held < 0)) {
    holds = fmt::format("rank {} has\n{}", r, kNothingLeft);
  } else if (picture.travel.shares_heads(n)) {
    holds = "each rank attends\nits heads of all rows";
  } else if (session.selected_rank >= 0) {
    holds = fmt::format("rank {} {}", r, now.awaits() ? "awaits" : verb);
    holds += t > 0 && step_with(r, t, n) == now.held
                 ? fmt::format("\n{} ({} - {}) mod {} = {}", what, r, t, n, now.held)
                 : fmt::format(" {} {}", what, now.held);
  } else if (!in_ring_order) {
    holds = picture.document.trace.info.scheme;
  } else if (with_work == 0 && !together) {
    holds = fmt::format("all ranks have\n{}", kNothingLeft);
  } else {
    // Blocks that nobody attends any more do not travel.
    const char* const who = with_work == n || with_work == 0 ? "rank r" : "rank r with work left";
    const std::string from = !together ? "r - t" : t == 0 ? "r" : fmt::format("r - {}", t);
    holds = fmt::format("{}{} {}\n{} ", together ? "" : "at its step t, ", who, verb, what) +
            (from == "r" ? from : fmt::format("({}) mod {}", from, n));
  }
  lines.push_back({fonts.small, palette.text, holds});
  if (n > 1) {
    // Links between nodes are not averaged with those inside.
    const int nodes = static_cast<int>(nodes_of(picture.document.trace.info).size());
    double bytes = 0, rates[2] = {};
    int links[2] = {};
    for (const Link& link : picture.moment.links) {
      bytes += link.bytes_so_far;
      rates[link.between_nodes] += link.bytes_per_second;
      links[link.between_nodes] += link.bytes_per_second > 0 ? 1 : 0;
    }
    std::string text = bytes_text(bytes) + " sent";
    for (const bool between : {false, true})
      if (links[between] > 0)
        text += fmt::format("{}{} a link{}", nodes > 1 ? "\n" : " · ",
                            bandwidth_text(rates[between] / links[between]),
                            nodes == 1 ? ""
                            : between  ? " between nodes"
                                       : " in a node");
    lines.push_back({fonts.small, palette.text_dim, text});
  }
  return lines;
}

constexpr float kHighWithFormula = 200;  // pixels; panels of at most this height omit the formula

float line_height(ImFont* font) { return std::round(font_height(font) * 1.45f); }

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

// Draw the step, the time, and the block that a rank holds: in the middle if they fit there, else the
// step above the ring and the block below it.
void draw_ring_caption(const RingPicture& picture, const Box& box) {
  const std::vector<Line> lines = caption(picture), centred = broken(lines);
  const ImVec2 size = size_of(centred);
  const RingLayout& ring = picture.layout;
  if (middle_is_free(ring, size.x / 2, size.y / 2)) {
    float y = ring.center.y - size.y / 2;
    // Links that cross the ring pass behind the words.
    fill({ring.center.x - size.x / 2 - 4, y - 2, ring.center.x + size.x / 2 + 4, y + size.y + 2},
         picture.context.palette.panel, 4);
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
  const float y = box.y0 + 2;
  const float room = box.width() - 4;
  ImFont* font = picture.context.fonts.text;
  const float used =
      10 + draw_text(font, {box.x0 + 2, y}, {0, 0}, lines[0].color, lines[0].text, room);
  draw_text(lines[1].font, {box.x0 + 2 + used, y + 2}, {0, 0}, lines[1].color, lines[1].text,
            room - used);
  if (box.height() <= kHighWithFormula) return;
  const Line& formula = lines[picture.context.session.axis_mode == AxisMode::time ? 3 : 2];
  draw_text(formula.font, {box.x0 + 2, box.y1 - 2}, {0, 1}, formula.color,
            in_one_line(formula.text), room);
}

// ---
// The picture.

// Draw the track of the blocks. A link that has sent is brighter. Where all is gathered at once, links show
// only meanwhile, because no step that follows has a hop.
void draw_track(const RingPicture& picture) {
  const RingLayout& ring = picture.layout;
  const Palette& palette = picture.context.palette;
  if (ring.ranks < 2) return;
  draw_list().AddCircle(ring.center, ring.orbit, with_alpha(palette.grid, 0.9),
                        ring.orbit > 150 ? 160 : 96, 1);
  if (picture.travel.is_gathered && picture.moment.in_flight.empty()) return;
  std::int64_t largest = 1;
  for (const Link& link : picture.moment.links) largest = std::max(largest, link.bytes_so_far);
  for (const Link& link : picture.moment.links) {
    if (link.bytes_so_far <= 0) continue;
    const double share = static_cast<double>(link.bytes_so_far) / largest;
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
      draw_list().PathArcTo(ring.center, ring.orbit, begin, end, 24);
      draw_list().PathStroke(color, 0, thick);
      const double turn = end;
      arrowhead({ring.center.x + ring.orbit * static_cast<float>(std::cos(turn)),
                 ring.center.y + ring.orbit * static_cast<float>(std::sin(turn))},
                -std::sin(turn), std::cos(turn), std::clamp(ring.disc * 0.4f, 3.0f, 9.0f),
                with_alpha(palette.flow, 0.9));
    }
  }
}

// Very many dots are a few pixels each, where a circle looks no rounder than a square and costs ten
// times as much, and marks around them would only cover their colours.
constexpr int kMostRound = 128;

void dot(const RingPicture& picture, ImVec2 at, Color color) {
  const float r = picture.layout.disc;
  if (picture.layout.ranks <= kMostRound)
    draw_list().AddCircleFilled(at, r, color, 8);
  else
    fill({at.x - r, at.y - r, at.x + r, at.y + r}, color);
}

void draw_rank(const RingPicture& picture, int rank) {
  const RingLayout& ring = picture.layout;
  const Palette& palette = picture.context.palette;
  const Fonts& fonts = picture.context.fonts;
  const RankMoment& now = picture.moment.ranks[rank];
  const ImVec2 at = ring.at(rank, ring.radius);
  const bool waits = now.doing == RankMoment::waiting;
  const Color wait_color = picture.waits_in_vain(rank) ? palette.warning : palette.of(Lane::wait);
  const bool selected = picture.context.session.selected_rank == rank;
  if (picture.dots()) {
    dot(picture, at, picture.owner(now.held));
    if (waits && ring.ranks <= kMostRound)
      draw_list().AddCircle(at, ring.disc + 1.5f, wait_color, 10, 1);
    if (selected) draw_list().AddCircle(at, ring.disc + 3, palette.selection, 12, 1.5f);
    return;
  }
  const Color own = picture.owner(rank);
  draw_list().AddCircleFilled(at, ring.disc, mix(palette.panel, own, 0.16), 40);
  draw_list().AddCircle(at, ring.disc, with_alpha(own, 0.75), 40, 1.5f);
  if (waits) {
    draw_list().AddCircle(at, ring.disc + 4, with_alpha(wait_color, 0.25), 40, 5);
    draw_list().AddCircle(at, ring.disc + 4, wait_color, 40, 1.5f);
  }
  if (selected) draw_list().AddCircle(at, ring.disc + 8, palette.selection, 40, 2);

  const std::string full = fmt::format("rank {}", rank);
  if (ring.disc >= 17 && text_width(fonts.small, full) < ring.disc * 2 - 4) {
    ImFont* font = ring.disc >= 36 ? fonts.text : fonts.small;
    draw_text(font, {at.x, at.y - 8}, {0.5f, 0.5f}, palette.text, full);
    draw_text(fonts.small, {at.x, at.y + 8}, {0.5f, 0.5f}, mix(palette.text, own, 0.6),
              picture.own(rank));
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
    draw_text(
        fonts.small, wait_label_at(ring, rank), {0.5f, 0.5f}, wait_color,
        now.waiting_for == rank ? "its own hop" : fmt::format("waits for {}", now.waiting_for));
}

// Draw the block that a rank holds. A bar at its lower edge is as long as the share attended so far, so
// that its name has one ground.
void draw_held(const RingPicture& picture, int rank) {
  const RingLayout& ring = picture.layout;
  const Palette& palette = picture.context.palette;
  const RankMoment& now = picture.moment.ranks[rank];
  if (picture.dots() || now.held < 0) return;
  const Color color = picture.owner(now.held);
  const Box box = ring.tile(rank);
  const float rounding = std::min(4.0f, ring.tile_h * 0.2f);
  if (now.pass == Pass::backward && ring.disc >= 8)
    outline({box.x0 + 3, box.y0 + 3, box.x1 + 3, box.y1 + 3}, with_alpha(color, 0.7), rounding, 1);
  // A block that has not arrived is drawn as an empty place without a name, because another rank
  // still holds the block.
  const bool awaited = now.awaits();
  fill(box, mix(palette.panel, color, awaited ? 0.06 : 0.3), rounding);
  const std::string label = picture.come(now.held);
  const bool named = !awaited && ring.tile_h >= 13 &&
                     text_width(picture.context.fonts.small, label) <= box.width() - 2;
  const float bar = named ? box.y1 - std::max(3.0f, 0.25f * box.height()) : box.y0;
  if (const ImVec2 end = box.at(std::clamp(now.progress, 0.0, 1.0), 1); end.x > box.x0 + 0.5f) {
    draw_list().PushClipRect({box.x0, bar}, end, true);
    fill(box, color, rounding);
    draw_list().PopClipRect();
  }
  outline(box, with_alpha(color, awaited ? 0.5 : 1), rounding, 1);
  if (named)
    draw_text(picture.context.fonts.small, {box.center().x, (box.y0 + bar) / 2 + 1}, {0.5f, 0.5f},
              palette.text, label);
}

// Draw an arrow from each rank that waits in vain to the rank that it waits for.
void draw_vain_waits(const RingPicture& picture) {
  const RingLayout& ring = picture.layout;
  const Color color = picture.context.palette.warning;
  for (int rank = 0; rank < ring.ranks; ++rank) {
    const int whom = picture.moment.ranks[rank].waiting_for;
    if (whom < 0 || whom >= ring.ranks || whom == rank || !picture.waits_in_vain(rank)) continue;
    const ImVec2 a = ring.at(rank, ring.radius), b = ring.at(whom, ring.radius);
    const float length = std::hypot(b.x - a.x, b.y - a.y), clear = ring.disc + 7;
    if (length < 2 * clear + 6) continue;
    // Two ranks that wait for each other get an arrow each, side by side.
    const float dx = (b.x - a.x) / length, dy = (b.y - a.y) / length, side = 5;
    const ImVec2 from(a.x + dx * clear - dy * side, a.y + dy * clear + dx * side);
    const ImVec2 to(b.x - dx * clear - dy * side, b.y - dy * clear + dx * side);
    draw_list().AddLine(from, {to.x - dx * 8, to.y - dy * 8}, color, 2);
    arrowhead(to, dx, dy, 10, color);
  }
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
      dot(picture, ring.at(rank, ring.orbit), color);
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
    std::string label(picture.travel.name_of(picture.moment.ranks[block.dst].pass, block.payload,
                                             block.src, block.dst));
    if (label != "heads") label += fmt::format(" {}", block.kv_owner);  // a rank sends those of all
    if (text_width(picture.context.fonts.small, label) < box.width() + 2 && box.height() > 12)
      draw_text(picture.context.fonts.small, box.center(), {0.5f, 0.5f},
                gradient ? palette.text : ink_on(color), label);
  }
}

void draw_rank_tooltip(const RingPicture& picture, int rank) {
  const RankMoment& now = picture.moment.ranks[rank];
  constexpr const char* kDoing[] = {"idle", "attending", "waiting", "finished"};
  Pairs rows = {{"step", step_name(picture.document.axis, now.step)},
                {"now", now.doing == RankMoment::computing
                            ? fmt::format("attending, {} done", percent_text(now.progress))
                            : kDoing[now.doing]}};
  if (now.held >= 0)
    rows.insert(rows.begin(), {now.awaits()                 ? "awaits"
                               : picture.travel.is_gathered ? "attends"
                                                            : "holds",
                               picture.come(now.held)});
  if (now.has_nothing_left()) rows.emplace_back("has", kNothingLeft);
  if (now.doing == RankMoment::waiting && now.waiting_for >= 0)
    rows.push_back({picture.waits_in_vain(rank) ? "waits in vain for" : "waits for",
                    now.waiting_for == rank ? "its own part of the hop"
                                            : fmt::format("rank {}", now.waiting_for)});
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
  const RingMoment moment = document.trace.is_ring ? session.moment(session.active) : RingMoment();
  if (moment.ranks.empty()) {
    draw_empty(context, box, "No ring in this trace",
               "Recordings made with --trace show here which KV block every rank holds.");
    return;
  }
  const auto picture_in = [&](const Box& round) {
    const int ranks = moment.ranks.size();
    return RingPicture{context, document, moment, round, ring_layout(round, ranks)};
  };
  Box round = box;
  const ImVec2 words = size_of(broken(caption(picture_in(round))));
  if (!middle_is_free(picture_in(round).layout, words.x / 2, words.y / 2)) {
    round.y0 += 20;
    round.y1 -= box.height() > kHighWithFormula ? 16.0f : 0.0f;
  }
  const RingPicture picture = picture_in(round);
  draw_track(picture);
  for (int rank = 0; rank < picture.layout.ranks; ++rank) draw_rank(picture, rank);
  for (int rank = 0; rank < picture.layout.ranks; ++rank) draw_held(picture, rank);
  draw_vain_waits(picture);
  draw_travelling(picture);
  draw_ring_caption(picture, box);

  const Touch touched = touch("ring", box);
  const int rank = picture.layout.rank_at(ImGui::GetIO().MousePos);
  if (touched.clicked) session.select_rank(rank);
  if (touched.hovered && rank >= 0) draw_rank_tooltip(picture, rank);
}

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
    const float sine = std::sin(static_cast<float>(std::numbers::pi) / ranks);
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
    const float sine = std::sin(static_cast<float>(std::numbers::pi) / ranks);
    layout.disc = std::clamp(0.75f * layout.radius * sine, 1.5f, layout.disc);
  }
  if (ranks == 1) {  // a single rank stands in the middle
    layout.radius = half * 0.12f;
    layout.orbit = layout.radius + layout.disc + layout.tile_h / 2 + 6;
  }
  return layout;
}

}  // namespace ringscope::viz
