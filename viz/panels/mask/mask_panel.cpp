// The (query x key) matrix at the playhead: the pairs allowed, the pairs attended, and by whom.
#include "viz/panels/layouts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>
#include <utility>
#include <vector>

#include "viz/data/session/format.h"
#include "viz/panels/drawing.h"
#include "viz/panels/panels.h"

namespace ringscope::viz {
namespace {

struct Done {
  double pairs = 0, all = 0;
};

// Return how many pairs of the forward pass a rank attends before each step: [rank][0 to steps].
std::vector<double> pairs_before(const Document& document) {
  const Trace& trace = document.trace;
  const auto steps = static_cast<std::size_t>(document.axis.forward_steps());
  std::vector<double> sums(trace.ranks.size() * (steps + 1), 0);
  for (std::size_t rank = 0; rank < trace.ranks.size(); ++rank) {
    double* const of_rank = &sums[rank * (steps + 1)];
    for (const TraceEvent& slice : trace.slices_of(rank, Lane::compute))
      if (slice.pass == Pass::forward && slice.step >= 0) of_rank[slice.step + 1] += slice.pairs;
    std::partial_sum(of_rank, of_rank + steps + 1, of_rank);
  }
  return sums;
}

// Count the pairs attended so far in a pass, and all its pairs. The counts agree with
// AttendedOrder, but need no table, which does not exist for very many ranks.
Done pairs_done(const Document& document, const RingMoment& moment) {
  Done done;
  const auto steps = static_cast<std::size_t>(document.axis.forward_steps());
  if (moment.ranks.size() != document.trace.ranks.size() || steps == 0) return done;
  const std::vector<double>& before =
      kept(document.number, [&document] { return pairs_before(document); });
  for (std::size_t rank = 0; rank < moment.ranks.size(); ++rank) {
    const RankMoment& at = moment.ranks[rank];
    const double* const of_rank = &before[rank * (steps + 1)];
    const int now = std::clamp(document.axis.ring_step(at.step), 0, static_cast<int>(steps) - 1);
    done.all += of_rank[steps];
    done.pairs += of_rank[now] + (of_rank[now + 1] - of_rank[now]) * at.progress;
  }
  // What a run that failed did not come to is not attended either.
  if (document.trace.info.failure && document.mask)
    done.all = kept(document.number, [&document] {
      double all = 0;
      for (const std::vector<Index>& of_rank : predicted_pairs(*document.mask))
        all = std::accumulate(of_rank.begin(), of_rank.end(), all);
      return all;
    });
  return done;
}

std::optional<SliceId> slice_for(const Trace& trace, int rank, int owner) {
  return find_slice(trace, rank, Lane::compute,
                    [owner](const TraceEvent& slice) { return slice.kv_owner == owner; });
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
  const double all = static_cast<double>(region.queries.size()) * region.keys.size();
  rows.emplace_back("pairs of this region",
                    fmt::format("{} of {}, {}", count_text(pairs), count_text(all),
                                percent_text(all > 0 ? pairs / all : 0)));
  if (const auto id = slice_for(document.trace, point.rank, point.owner)) {
    const TraceEvent& slice = document.trace.slice(*id);
    rows.emplace_back("attended at step", std::to_string(slice.step));
    rows.emplace_back(
        "tiles full, partial, skipped",
        fmt::format("{}, {}, {}", count_text(slice.tiles_full), count_text(slice.tiles_partial),
                    count_text(slice.tiles_skipped)));
    rows.emplace_back("time", time_text(slice.duration_ns()));
  }
  const auto& tile = document.trace.tile;
  if (tile && tile->rank == point.rank && tile->kv_owner == point.owner)
    rows.emplace_back("small square", "panel Tile shows the numbers of this tile");
  if (const int selected = context.session.selected_rank; selected >= 0 && selected != point.rank)
    rows.emplace_back("dim", fmt::format("because rank {} is selected", selected));
  draw_tooltip(context, point.allowed ? "allowed" : "masked out", rows, "tile");
}

// Return where each rank's rows begin in local order, as shares of all rows; the last is the end.
std::vector<double> local_edges(const Partition& partition) {
  std::vector<double> edges = {0};
  Index rows = 0;
  for (int rank = 0; rank < partition.world_size; ++rank) {
    rows += partition.rows_of(rank).size();
    edges.push_back(static_cast<double>(rows) / std::max<Index>(partition.seqlen, 1));
  }
  return edges;
}

// Return where documents end within an axis of `rows` from a position on, as distances from that; none
// where lines there would hide the picture.
std::vector<Index> document_ends(const MaskModel& model, Index first, Index rows, float pixels) {
  constexpr float kLeastDocument = 6;  // pixels, on the average
  const Mask mask = model.mask();
  std::vector<Index> ends;
  if (kLeastDocument * static_cast<float>(mask.num_documents) > pixels) return ends;
  for (Index document = 0; document < mask.num_documents; ++document)
    if (const Index end = mask.document(document).last - first; end > 0 && end < rows)
      ends.push_back(end);
  return ends;
}

// Draw thin lines between documents. Their rims set them apart from every colour.
void draw_document_lines(const PanelContext& context, const MaskModel& model, const Box& box) {
  const Partitions& both = model.partition;
  std::vector<Box> lines;
  const auto add = [&](Index first, Index rows, float pixels, auto&& line_at) {
    for (const Index end : document_ends(model, first, rows, pixels))
      lines.push_back(
          line_at(std::round(pixels * static_cast<float>(end) / static_cast<float>(rows))));
  };
  add(0, both.seqlen, box.width(), [&](float at) {
    return Box{box.x0 + at, box.y0, box.x0 + at + 1, box.y1};
  });
  add(both.first_query, both.queries.seqlen, box.height(), [&](float at) {
    return Box{box.x0, box.y0 + at, box.x1, box.y0 + at + 1};
  });
  for (const Box& line : lines)
    fill({line.x0 - 1, line.y0 - 1, line.x1 + 1, line.y1 + 1}, context.palette.background);
  for (const Box& line : lines) fill(line, context.palette.text);
}

// A text beside an axis: a position, whose mark is at a share of the axis, or a document's name.
struct Tick {
  double share = 0;
  float lean = 0;  // the part of the text that lies before it
  std::string text{};
  bool is_name = false;
};

// Return the ends and names of documents or, without documents, some evenly spaced positions of `rows`
// from `first` on. A text takes `room` pixels of the axis.
std::vector<Tick> ticks_of(const MaskModel& model, Index first, Index rows, float pixels,
                           float room) {
  std::vector<Index> ends = document_ends(model, first, rows, pixels);
  const bool has_documents = !ends.empty();
  const Index parts = std::min<Index>(rows, pixels > 220  ? 4
                                            : pixels > 60 ? 2
                                            : pixels > 30 ? 1
                                                          : 0);
  for (Index i = 1; i < parts && !has_documents; ++i) ends.push_back(rows * i / parts);
  if (parts > 0) ends.push_back(rows);
  const auto share = [rows](Index row) {
    return static_cast<double>(row) / static_cast<double>(rows);
  };
  const auto text = [&](Index row) {
    const Index at = first + row;
    return at > 0 && model.partition.seqlen >= 100000 ? count_text(static_cast<double>(at))
                                                      : std::to_string(at);
  };
  std::vector<Tick> ticks = {{.text = text(0)}};
  double before = 0, free_from = room;
  for (const Index end : ends) {
    const double at = share(end);
    if (has_documents && (at - before) * pixels >= 3 * room)
      ticks.push_back({(before + at) / 2, 0.5f,
                       fmt::format("doc {}", model.mask().document_of(first + end - 1)), true});
    const bool is_last = end == rows;
    const bool fits = is_last || (at * pixels >= free_from && (1 - at) * pixels >= room);
    ticks.push_back({at, is_last ? 1 : 0.5f, fits ? text(end) : ""});
    if (fits) free_from = at * pixels + room;
    before = at;
  }
  return ticks;
}

// Draw numbers along the keys above the picture, and along the queries down its left side.
void draw_axes(const PanelContext& context, const MaskModel& model, const MaskLayout& layout) {
  if (!layout.axes) return;
  ImFont* font = context.fonts.small;
  const Palette& palette = context.palette;
  const Box& box = layout.picture;
  const int n = model.partition.world_size;
  if (context.session.look.mask_order == MaskOrder::global) {
    const Index seqlen = model.partition.seqlen, queries = model.partition.queries.seqlen,
                first = model.partition.first_query;
    const bool names_queries = box.height() >= 160;
    const float high = font_height(font), wide = text_width(font, std::to_string(seqlen)) + 8;
    for (const Tick& tick : ticks_of(model, 0, seqlen, box.width(), wide)) {
      const float x = box.at(tick.share, 0).x;
      if (!tick.is_name) draw_list().AddLine({x, box.y0 - 5}, {x, box.y0 - 1}, palette.grid);
      draw_label(context, {x, box.y0 - 6}, {tick.lean, 1}, tick.text);
    }
    for (const Tick& tick : ticks_of(model, first, queries, box.height(), high + 3)) {
      const float y = box.at(0, tick.share).y;
      if (tick.is_name && names_queries && y < box.y0 + 16 + 1.5f * high) continue;
      if (!tick.is_name) draw_list().AddLine({box.x0 - 5, y}, {box.x0 - 1, y}, palette.grid);
      draw_label(context, {box.x0 - 8, y}, {1, tick.lean}, tick.text);
    }
    draw_label(context, {box.x0 - 8, box.y0 - 6}, {1, 1}, "keys");
    if (names_queries) draw_label(context, {box.x0 - 8, box.y0 + 15}, {1, 0}, "queries");
    return;
  }
  const std::vector<double> edges = local_edges(model.partition),
                            lines = local_edges(model.partition.queries);
  float last_x = -1e9f, last_y = -1e9f;
  for (int rank = 0; rank < n; ++rank) {
    const double begin = edges[rank], end = edges[rank + 1];
    const auto [x, y] = box.at((begin + end) / 2, (lines[rank] + lines[rank + 1]) / 2);
    fill({box.at(begin, 0).x + 1, box.y0 - 5, box.at(end, 0).x - 1, box.y0 - 2},
         owner_color(context.session.look.theme, rank, n));
    const std::string key =
        box.width() / n > 40 ? fmt::format("KV {}", rank) : std::to_string(rank);
    if (x - last_x > text_width(font, key) + 6) {
      draw_label(context, {x, box.y0 - 8}, {0.5f, 1}, key);
      last_x = x;
    }
    if (y - last_y > 15) {
      draw_text(font, {box.x0 - 8, y}, {1, 0.5f},
                context.session.selected_rank == rank ? palette.text : palette.text_dim,
                fmt::format("rank {}", rank));
      last_y = y;
    }
  }
}

// Draw numbers and legend in a column beside the picture, or along its bottom.
void draw_notes(const PanelContext& context, const Document& document, const MaskLayout& layout,
                const Done& done) {
  const Palette& palette = context.palette;
  ImFont* small = context.fonts.small;
  const double share = done.all > 0 ? done.pairs / done.all : 0;
  // Colours are those of owners or kinds; what a pair's state changes is their strength.
  const auto strong = [&](double strength) {
    return mix(palette.empty_tile, palette.text_dim, strength);
  };
  std::vector<Swatch> legend = {{strong(1), "attended"},
                                {strong(0.3), "allowed, not yet attended"},
                                {palette.empty_tile, "masked out", true}};
  if (context.session.panels.print)
    for (const Swatch& owner : owner_swatches(context.session)) legend.push_back(owner);
  const bool column = layout.notes.width() > 0;
  const float x = column ? layout.notes.x0 : layout.footer.x0;
  float y = column ? layout.notes.y0 : layout.footer.y0 + 3;
  if (column) {
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
    const Partitions& both = document.mask->partition;
    const double all = static_cast<double>(both.seqlen) * static_cast<double>(both.queries.seqlen);
    y += draw_wrapped(small, {x, y}, width, palette.text_dim,
                      fmt::format("{} of the matrix is allowed",
                                  percent_text(all > 0 ? done.all / all : 0))) +
         14;
  }
  if (!column && layout.footer.width() <= 0) return;
  draw_legend(context.fonts, palette, {x, y}, column ? layout.notes.width() : layout.footer.width(),
              legend);
}

// Draw thin lines between the ranks' blocks where these are large enough.
void draw_block_lines(const PanelContext& context, const MaskModel& model, const Box& box) {
  constexpr float kLeastBlock = 8;  // pixels
  const int n = model.partition.world_size;
  if (std::min(box.width(), box.height()) < kLeastBlock * n) return;
  const Color color = with_alpha(context.palette.text, 0.18);
  const std::vector<double> edges = local_edges(model.partition),
                            lines = local_edges(model.partition.queries);
  for (int rank = 1; rank < n; ++rank) {
    const auto [x, y] = box.at(edges[rank], lines[rank]);
    draw_list().AddLine({x, box.y0}, {x, box.y1}, color);
    draw_list().AddLine({box.x0, y}, {box.x1, y}, color);
  }
}

// Outline what one rank attends now, and name it: of all that are attended at once, the one that the
// other panels speak of.
void draw_now(const PanelContext& context, const Document& document, MaskOrder order,
              const RingMoment& moment, const Box& box) {
  const Palette& palette = context.palette;
  const int rank = context.session.rank_now();
  if (rank >= static_cast<int>(moment.ranks.size()) || document.attended.queries_travel()) return;
  const RankMoment& now = moment.ranks[rank];
  if (now.doing == RankMoment::finished || now.kv_owner < 0 || now.has_nothing_left()) return;
  const std::vector<Box> parts = region_boxes(*document.mask, order, box, rank, now.kv_owner);
  for (const Box& part : parts) {
    outline(part, with_alpha(palette.background, 0.7), 0, 3);
    outline(part, palette.playhead, 0, 1.5f);
  }
  constexpr float kLeastNamed = 150, kHigh = 16;  // pixels
  if (parts.empty() || box.width() < kLeastNamed) return;
  const std::string name =
      fmt::format("rank {} · step {}", rank, document.axis.ring_step(now.step));
  const float wide = text_width(context.fonts.small, name) + 10;
  const float x = std::min(std::max(parts[0].x0, box.x0), box.x1 - wide);
  const float above = parts[0].y0 - kHigh - 2;
  const float y = above >= box.y0 ? above : std::min(parts[0].y1 + 2, box.y1 - kHigh);
  fill({x, y, x + wide, y + kHigh}, palette.playhead, 3);
  draw_text(context.fonts.small, {x + 5, y + kHigh / 2}, {0, 0.5f}, ink_on(palette.playhead), name);
}

// Mark where the tile lies whose numbers were recorded.
void draw_recorded_tile(const PanelContext& context, const Document& document, const Box& box) {
  if (!document.trace.tile || context.session.look.mask_order != MaskOrder::global) return;
  const RecordedTile& tile = *document.trace.tile;
  const Partitions& both = document.mask->partition;
  const auto share = [](std::int64_t at, Index all) {
    return (static_cast<double>(at) + 0.5) / static_cast<double>(std::max<Index>(all, 1));
  };
  const ImVec2 at = box.at(share(tile.keys[0], both.seqlen),
                           share(tile.queries[0] - both.first_query, both.queries.seqlen));
  outline({at.x - 4, at.y - 4, at.x + 5, at.y + 5}, context.palette.background, 1, 3);
  outline({at.x - 4, at.y - 4, at.x + 5, at.y + 5}, context.palette.selection, 1, 1.5f);
}

}  // namespace

void draw_mask(const PanelContext& context) {
  const Box box = content_box();
  if (box.width() < 60 || box.height() < 60) return;
  Session& session = context.session;
  const Document& document = session.document();
  if (!document.mask) {
    draw_empty(context, box, "No mask in this trace",
               document.trace.is_ring
                   ? "This recording's ranks attend by a mask or a partition that has no picture."
                   : "Recordings made with --trace show here which keys every query attends.");
    return;
  }
  const Partitions& both = document.mask->partition;
  const MaskLayout layout =
      mask_layout(box, static_cast<double>(both.queries.seqlen) / static_cast<double>(both.seqlen));
  choose_mask_order(context, layout.tabs, kMaskOrders);

  const RingMoment moment = session.moment(session.active);
  const Done done = pairs_done(document, moment);
  if (layout.notes.width() <= 0) {
    const std::string text =
        fmt::format("{} of {} pairs", count_text(done.pairs), count_text(done.all));
    const std::string percent = percent_text(done.all > 0 ? done.pairs / done.all : 0);
    const float tabs_end = session.panels.print
                               ? layout.tabs.x
                               : tab_boxes(context.fonts, layout.tabs, kMaskOrders).back().x1;
    const float room = box.x1 - 8 - tabs_end - 12;
    draw_label(context, {box.x1 - 8, layout.tabs.y + 11}, {1, 0.5f},
               text_width(context.fonts.small, text) <= room
                   ? text
                   : fitted(context.fonts.small, percent, room));
  }
  draw_mask_picture(context,
                    {"mask", session.active, session.look.mask_order, session.selected_rank},
                    layout.picture);
  draw_axes(context, *document.mask, layout);
  draw_recorded_tile(context, document, layout.picture);
  draw_notes(context, document, layout, done);

  const Touch touched = touch("mask", layout.picture);
  const ImVec2 mouse = ImGui::GetIO().MousePos;
  if (!layout.picture.contains(mouse)) return;
  const auto point = mask_point(*document.mask, session.look.mask_order,
                                (mouse.x - layout.picture.x0) / layout.picture.width(),
                                (mouse.y - layout.picture.y0) / layout.picture.height());
  if (!point) return;
  if (touched.clicked) {
    session.go_to_in_rank(slice_for(document.trace, point->rank, point->owner), point->rank);
    const auto& tile = document.trace.tile;
    if (tile && tile->rank == point->rank && tile->kv_owner == point->owner)
      session.panels.front = Figure::tile;
  }
  if (touched.hovered) tooltip(context, document, *point);
}

// ---
// The picture by itself, which a comparison shows too.

MaskLayout mask_layout(const Box& box, double lines_per_column) {
  constexpr float kPad = 8, kTabRow = 26, kNotes = 170, kNotesGap = 20;
  MaskLayout layout;
  layout.tabs = {box.x0 + kPad, box.y0 + kPad - 2};
  layout.axes = box.width() >= 200 && box.height() >= 170;
  const float gutter = layout.axes ? 50.0f : 0.0f, head = layout.axes ? 24.0f : 4.0f;
  const float x = box.x0 + kPad + gutter, y = box.y0 + kPad + kTabRow + head;
  const float high = box.y1 - kPad - y, wide = box.x1 - kPad - x;
  const bool column = wide - high >= kNotes + kNotesGap;
  const bool footer = !column && box.height() >= 280;
  const float side = std::max(std::floor(std::min(wide, high - (footer ? 24.0f : 0.0f))), 16.0f);
  // A row of very few pixels could not be pointed at.
  const float height =
      std::max(std::floor(side * static_cast<float>(lines_per_column)), std::min(side, 24.0f));
  layout.picture = {x, y, x + side, y + height};
  if (column) {
    layout.notes = {x + side + kNotesGap, y, x + side + kNotesGap + kNotes, y + side};
  } else {
    // Split the remaining width evenly between both sides.
    const float shift = std::floor(std::max(wide - side, 0.0f) / 2);
    layout.picture.x0 += shift;
    layout.picture.x1 += shift;
    if (footer)
      layout.footer = {box.x0 + kPad, layout.picture.y1 + 6, box.x1 - kPad, layout.picture.y1 + 24};
  }
  return layout;
}

void choose_mask_order(const PanelContext& context, ImVec2 top_left,
                       const std::vector<std::string>& names) {
  if (context.session.panels.bare) return;
  MaskOrder& order = context.session.look.mask_order;
  order =
      static_cast<MaskOrder>(draw_tabs(context, "order", top_left, names, static_cast<int>(order)));
}

// More outlines than that would hide what they outline.
constexpr Index kMostRuns = 64;

std::vector<Box> region_boxes(const MaskModel& model, MaskOrder order, const Box& picture, int rank,
                              int owner) {
  // Return the parts of an axis that `who` has, as shares of its length.
  const auto parts = [&](const Partition& partition, int who) {
    std::vector<std::pair<double, double>> found;
    if (order == MaskOrder::local) {
      const std::vector<double> edges = local_edges(partition);
      found.emplace_back(edges[who], edges[who + 1]);
      return found;
    }
    const auto all = static_cast<double>(std::max<Index>(partition.seqlen, 1));
    const LocalRows rows = partition.rows_of(who);
    if (rows.stride() != 1 || rows.num_runs(0, rows.size()) > kMostRuns) return found;
    rows.for_runs(0, rows.size(), [&](const Run& run) {
      if (run.count == 0) return;
      const auto begin = static_cast<double>(run.first), end = begin + run.count;
      if (!found.empty() && found.back().second == begin / all)
        found.back().second = end / all;
      else
        found.emplace_back(begin / all, end / all);
    });
    return found;
  };
  std::vector<Box> boxes;
  for (const auto& [top, bottom] : parts(model.partition.queries, rank))
    for (const auto& [left, right] : parts(model.partition, owner))
      boxes.push_back(Box::between(picture.at(left, top), picture.at(right, bottom)));
  return boxes;
}

void draw_mask_picture(const PanelContext& context, const MaskPicture& picture, const Box& box) {
  const Session& session = context.session;
  const Document& document = session.documents[picture.document];
  if (!document.mask || box.width() < 1 || box.height() < 1) return;

  RingMoment moment = session.moment(picture.document);
  // A block of very many is smaller than what is done of it could be seen in.
  constexpr std::size_t kMostPartly = 64;
  if (moment.ranks.size() > kMostPartly)
    for (RankMoment& rank : moment.ranks) rank.progress = std::round(rank.progress);
  std::tuple key(document.number, picture.only_rank, picture.order, session.look.theme,
                 session.look.color_by, moment.ranks);
  draw_painted(context, picture.slot, std::move(key), box, [&](Image& image) {
    const MaskProgress progress = document.attended.progress_at(moment);
    paint_mask(
        *document.mask,
        {picture.order, session.look.theme, session.look.color_by, &progress, picture.only_rank},
        image);
  });
  if (picture.order == MaskOrder::local)
    draw_block_lines(context, *document.mask, box);
  else
    draw_document_lines(context, *document.mask, box);
  outline({box.x0 - 1, box.y0 - 1, box.x1 + 1, box.y1 + 1}, context.palette.panel_border);
  draw_now(context, document, picture.order, moment, box);
}

}  // namespace ringscope::viz
