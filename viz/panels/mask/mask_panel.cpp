// The (query x key) matrix at the playhead: the pairs allowed, the pairs attended, and by whom.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include "viz/model/session/format.h"
#include "viz/panels/drawing.h"
#include "viz/panels/mask/mask_picture.h"
#include "viz/panels/panels.h"

namespace ringscope::viz {
namespace {

struct Done {
  double pairs = 0, all = 0;
};

// Return how many pairs of the forward pass a rank attends before each step: [rank][0 to steps]. It
// is kept while the document is the same, because it takes long for many ranks.
const std::vector<double>& pairs_before(const Document& document) {
  static std::pair<std::uint64_t, std::vector<double>> kept;
  if (kept.first == document.number) return kept.second;
  const Trace& trace = document.trace;
  const auto steps = static_cast<std::size_t>(document.axis.forward_steps());
  std::vector<double> sums(trace.ranks.size() * (steps + 1), 0);
  for (std::size_t rank = 0; rank < trace.ranks.size(); ++rank) {
    double* const of_rank = &sums[rank * (steps + 1)];
    for (const Slice& slice : trace.slices_of(static_cast<int>(rank), RingLane::compute))
      if (slice.pass == Pass::forward && slice.step >= 0)
        of_rank[slice.step + 1] += static_cast<double>(slice.pairs);
    std::partial_sum(of_rank, of_rank + steps + 1, of_rank);
  }
  kept = {document.number, std::move(sums)};
  return kept.second;
}

// Count the pairs attended so far in a pass, and all its pairs. The counts agree with
// mask_progress(), but need no table, which does not exist for very many ranks.
Done pairs_done(const Document& document, const RingMoment& moment) {
  Done done;
  const auto steps = static_cast<std::size_t>(document.axis.forward_steps());
  if (moment.ranks.size() != document.trace.ranks.size() || steps == 0) return done;
  const std::vector<double>& before = pairs_before(document);
  for (std::size_t rank = 0; rank < moment.ranks.size(); ++rank) {
    const RankMoment& at = moment.ranks[rank];
    const double* const of_rank = &before[rank * (steps + 1)];
    const int now = std::clamp(document.axis.ring_step(at.step), 0, static_cast<int>(steps) - 1);
    done.all += of_rank[steps];
    done.pairs += of_rank[now] + (of_rank[now + 1] - of_rank[now]) * at.progress;
  }
  return done;
}

std::optional<SliceId> slice_for(const Trace& trace, int rank, int owner) {
  return find_slice(trace, rank, RingLane::compute,
                    [owner](const Slice& slice) { return slice.kv_owner == owner; });
}

void tooltip(const PanelContext& context, const Document& document, const MaskPoint& point) {
  const MaskModel& model = *document.mask;
  Pairs rows = {{"query", fmt::format("{}  (row {} of rank {})", point.global_query,
                                      point.local_query, point.rank)},
                {"key", fmt::format("{}  (row {} of KV {})", point.global_key, point.local_key,
                                    point.owner)}};
  const Mask mask = model.mask();
  const Region region = model.region(mask, point.rank, point.owner);
  const auto pairs = static_cast<double>(region.pairs());
  const double all =
      static_cast<double>(region.queries.size()) * static_cast<double>(region.keys.size());
  rows.emplace_back("pairs of this region",
                    fmt::format("{} of {}, {}", count_text(pairs), count_text(all),
                                percent_text(all > 0 ? pairs / all : 0)));
  if (const auto id = slice_for(document.trace, point.rank, point.owner)) {
    const Slice& slice = document.trace.slice(*id);
    rows.emplace_back("attended at step", std::to_string(slice.step));
    rows.emplace_back(
        "tiles full, partial, skipped",
        fmt::format("{}, {}, {}", count_text(slice.tiles_full), count_text(slice.tiles_partial),
                    count_text(slice.tiles_skipped)));
    rows.emplace_back("time", time_text(slice.duration_ns()));
  }
  draw_tooltip(context, point.allowed ? "allowed" : "masked out", rows);
}

// Draw "keys" above the picture, "queries" down its left side, and numbers along both.
void draw_axes(const PanelContext& context, const MaskModel& model, const MaskLayout& layout) {
  if (!layout.axes) return;
  const ImFont* font = context.fonts.small;
  const Palette& palette = context.palette;
  const Box& box = layout.picture;
  const int n = model.partition.world_size;
  if (context.session.mask_order == MaskOrder::global) {
    const Index seqlen = model.partition.seqlen;
    const int parts = box.width() > 220 ? 4 : 2;
    for (int i = 0; i <= parts; ++i) {
      const float share = static_cast<float>(i) / static_cast<float>(parts);
      const std::string text = i == 0             ? "0"
                               : seqlen >= 100000 ? count_text(static_cast<double>(seqlen) * share)
                                                  : std::to_string(seqlen * i / parts);
      const float x = box.x0 + box.width() * share, y = box.y0 + box.height() * share;
      draw_list().AddLine({x, box.y0 - 5}, {x, box.y0 - 1}, palette.grid);
      draw_list().AddLine({box.x0 - 5, y}, {box.x0 - 1, y}, palette.grid);
      const float lean = i == 0 ? 0.0f : i == parts ? 1.0f : 0.5f;
      draw_text(font, {x, box.y0 - 6}, {lean, 1}, palette.text_dim, text);
      draw_text(font, {box.x0 - 8, y}, {1, lean}, palette.text_dim, text);
    }
    return;
  }
  double begin = 0;
  float last_x = -1e9f, last_y = -1e9f;
  for (int rank = 0; rank < n; ++rank) {
    const double end = begin + static_cast<double>(model.partition.rows_of(rank).size()) /
                                   static_cast<double>(std::max<Index>(model.partition.seqlen, 1));
    const float middle = static_cast<float>((begin + end) / 2);
    const float x = box.x0 + box.width() * middle, y = box.y0 + box.height() * middle;
    const Color color = owner_color(context.session.theme, rank, n);
    fill({box.x0 + box.width() * static_cast<float>(begin) + 1, box.y0 - 5,
          box.x0 + box.width() * static_cast<float>(end) - 1, box.y0 - 2},
         color);
    const std::string key = box.width() / static_cast<float>(n) > 40 ? fmt::format("KV {}", rank)
                                                                     : std::to_string(rank);
    if (x - last_x > text_width(font, key) + 6) {
      draw_text(font, {x, box.y0 - 8}, {0.5f, 1}, palette.text_dim, key);
      last_x = x;
    }
    if (y - last_y > 15) {
      draw_text(font, {box.x0 - 8, y}, {1, 0.5f},
                context.session.selected_rank == rank ? palette.text : palette.text_dim,
                fmt::format("rank {}", rank));
      last_y = y;
    }
    begin = end;
  }
}

// Draw numbers and legend in a column beside the picture, or along its bottom.
void draw_notes(const PanelContext& context, const Document& document, const MaskLayout& layout,
                const Done& done) {
  const Palette& palette = context.palette;
  const ImFont* small = context.fonts.small;
  const double share = done.all > 0 ? done.pairs / done.all : 0;
  const int n = document.mask->partition.world_size;
  // Of many ranks a swatch has three owners' colours, so that it is not taken for one of them. `strength` is how
  // strong they are.
  const std::pair<double, std::string_view> legend[] = {
      {1, "attended"}, {0.25, "allowed, not yet attended"}, {0, "masked out"}};
  const auto swatch = [&](float x, float y, double strength) {
    const bool owners = context.session.color_by == ColorBy::owner;
    for (int third = 0; third < 3; ++third) {
      const Color color = owners ? owner_color(context.session.theme, n > 8 ? third * n / 3 : 0, n)
                                 : palette.of(Kind::compute);
      const float left = x + 3.4f * static_cast<float>(third);
      fill({left, y + 2, left + 3.4f, y + 12}, mix(palette.empty_tile, color, strength));
    }
    outline({x, y + 2, x + 10, y + 12}, palette.panel_border, 2);
  };
  if (layout.notes.width() > 0) {
    float x = layout.notes.x0, y = layout.notes.y0;
    const float width = layout.notes.width();
    draw_text(context.fonts.title, {x, y}, {0, 0}, palette.text, percent_text(share));
    y += 26;
    y += draw_wrapped(
        small, {x, y}, width, palette.text_dim,
        fmt::format("{} of {} pairs attended", count_text(done.pairs), count_text(done.all)));
    y += 4;
    fill({x, y, x + width, y + 4}, palette.grid, 2);
    fill({x, y, x + width * static_cast<float>(share), y + 4}, palette.accent, 2);
    y += 18;
    const auto all = static_cast<double>(document.mask->partition.seqlen);
    y += draw_wrapped(small, {x, y}, width, palette.text_dim,
                      fmt::format("{} of the matrix is allowed",
                                  percent_text(all > 0 ? done.all / (all * all) : 0))) +
         14;
    for (const auto& [strength, text] : legend) {
      if (y + 16 > layout.notes.y1) return;
      swatch(x, y, strength);
      draw_text(small, {x + 18, y}, {0, 0}, palette.text_dim, text, width - 18);
      y += 20;
    }
    return;
  }
  if (layout.footer.height() > 0) {
    float x = layout.footer.x0;
    for (const auto& [strength, text] : legend) {
      const float wide = 16 + text_width(small, text) + 14;
      if (x + wide > layout.footer.x1 + 14) break;
      swatch(x, layout.footer.y0 + 4, strength);
      draw_text(small, {x + 15, layout.footer.y0 + 2}, {0, 0}, palette.text_dim, text);
      x += wide;
    }
  }
}

}  // namespace

void draw_mask(const PanelContext& context) {
  const Box box = content_box();
  if (box.width() < 60 || box.height() < 60) return;
  Session& session = context.session;
  const Document& document = session.document();
  if (!document.mask) {
    draw_empty(context, box, "No mask in this trace",
               document.trace.is_ring()
                   ? "This recording's ranks attend by a mask or a partition that has no picture."
                   : "Recordings made with --trace show here which keys every query attends.");
    return;
  }
  const MaskLayout layout = mask_layout(box);
  choose_mask_order(context, layout.tabs, kMaskOrders);

  const RingMoment moment = session.moment(session.active);
  const Done done = pairs_done(document, moment);
  if (layout.notes.width() <= 0) {
    const std::string text =
        fmt::format("{} of {} pairs", count_text(done.pairs), count_text(done.all));
    const std::string percent = percent_text(done.all > 0 ? done.pairs / done.all : 0);
    const float tabs_end = tab_boxes(context.fonts, layout.tabs, kMaskOrders).back().x1;
    const float room = box.x1 - 8 - tabs_end - 12;
    draw_label(context, {box.x1 - 8, layout.tabs.y + 11}, {1, 0.5f},
               text_width(context.fonts.small, text) <= room
                   ? text
                   : fitted(context.fonts.small, percent, room));
  }
  draw_mask_picture(context, {"mask", session.active, session.mask_order, session.selected_rank},
                    layout.picture);
  draw_axes(context, *document.mask, layout);
  draw_notes(context, document, layout, done);

  const Touch touched = touch("mask", layout.picture);
  const ImVec2 mouse = ImGui::GetIO().MousePos;
  if (!layout.picture.contains(mouse)) return;
  const auto point = mask_point(*document.mask, session.mask_order,
                                (mouse.x - layout.picture.x0) / layout.picture.width(),
                                (mouse.y - layout.picture.y0) / layout.picture.height());
  if (!point) return;
  if (touched.clicked)
    session.select_in_rank(slice_for(document.trace, point->rank, point->owner), point->rank);
  if (touched.hovered) tooltip(context, document, *point);
}

}  // namespace ringscope::viz
