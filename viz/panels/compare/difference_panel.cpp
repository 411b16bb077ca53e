// Shows two recordings as one: a waterfall of causes from the wall time of the first to that of the
// other, and by how much the slices of the same rank, pass and step have changed.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "viz/panels/balance/balance_heatmap.h"
#include "viz/panels/compare/compare_panel.h"
#include "viz/panels/timeline/timeline_frame.h"

namespace ringscope::viz {
namespace {

constexpr float kPartLine = 30, kPartBar = 18;

// Draw the waterfall from `top_left`. Return its height.
float draw_waterfall(const PanelContext& context, ImVec2 top_left, float width,
                     const Difference& difference, const std::string& from, const std::string& to) {
  const Palette& palette = context.palette;
  const ImFont* font = context.fonts.text;
  float names = std::max(text_width(font, from), text_width(font, to));
  for (const Difference::Part& part : difference.parts)
    names = std::max(names, text_width(font, part.name));
  names = std::min(names, width * 0.35f);
  const float values = text_width(context.fonts.mono, "+888.88 ms") + 8;
  const float x0 = top_left.x + names + 12, room = width - names - 12 - values;
  double highest = std::max(difference.from_s, difference.to_s), now = difference.from_s;
  for (const Difference::Part& part : difference.parts)
    highest = std::max(highest, now += part.seconds);
  const auto x_at = [&](double seconds) {
    return x0 + room * static_cast<float>(std::max(seconds, 0.0) / std::max(highest, 1e-12));
  };
  float y = top_left.y;
  const auto bar = [&](const std::string& name, double begin, double end, Color color,
                       const std::string& value) {
    draw_text(font, {top_left.x, y + kPartBar / 2}, {0, 0.5f}, palette.text, name, names);
    const float left = x_at(std::min(begin, end));
    const float right = std::max(x_at(std::max(begin, end)), left + 2);
    fill({left, y, right, y + kPartBar}, color, 3);
    draw_text(context.fonts.mono, {right + 8, y + kPartBar / 2}, {0, 0.5f}, palette.text, value);
    y += kPartLine;
    if (y < top_left.y + kPartLine * static_cast<float>(difference.parts.size() + 2))
      draw_list().AddLine({x_at(end), y - kPartLine + kPartBar}, {x_at(end), y},
                          with_alpha(palette.text_dim, 0.6));
  };
  const Color whole = mix(palette.panel, palette.text_dim, 0.55);
  bar(from, 0, difference.from_s, whole, time_text(1e9 * difference.from_s));
  now = difference.from_s;
  for (const Difference::Part& part : difference.parts) {
    bar(part.name, now, now + part.seconds, part.seconds < 0 ? palette.accent : palette.warning,
        (part.seconds < 0 ? "-" : "+") + time_text(1e9 * std::abs(part.seconds)));
    now += part.seconds;
  }
  bar(to, 0, difference.to_s, whole, time_text(1e9 * difference.to_s));
  return y - top_left.y;
}

// Draw the change of the slices in `box`. A click shows the slice in the other recording. Return
// the height.
float draw_change(const PanelContext& context, const Box& box, const Difference& difference,
                  std::size_t other) {
  Session& session = context.session;
  const Document& document = session.documents[other];
  const WorkTable& change = difference.change;
  const std::vector<double> zero(static_cast<std::size_t>(change.steps), 0);
  HeatLayout layout{{box.x0 + 62, box.y0 + 64, box.x1, box.y1 - 40}, change.ranks, change.steps};
  layout.box.y1 = std::min(layout.box.y1, layout.box.y0 + 28 * static_cast<float>(change.ranks));
  HeatPaint paint{.slot = "difference", .metric = kHeatMetrics[choose_metric(context, box.min())]};
  for (const WorkCell& cell : change.cells)
    paint.largest = std::max(paint.largest, std::abs(paint.metric.of(cell)));
  paint.usual = &zero;
  paint.first = session.documents.front().number;
  const auto hit = draw_heatmap(context, document, layout, change, paint);
  std::string legend = "orange: more than in the first recording; blue: less";
  if (difference.unpaired > 0)
    legend += fmt::format("; without a partner in the other run: {} (another block, or no slice)",
                          counted(difference.unpaired, "slice"));
  draw_wrapped(context.fonts.small, {layout.box.x0, layout.box.y1 + 8}, layout.box.width(),
               context.palette.text_dim, legend);
  if (hit && hit->hovered) draw_slot_tooltip(context, other, hit->rank, hit->step);
  if (hit && hit->clicked) {
    session.comparing = false;
    session.activate(other);
    session.open_slice(hit->rank, hit->step);
  }
  return layout.box.y1 + 44 - box.y0;
}

}  // namespace

void draw_difference(const PanelContext& context, const Box& box) {
  Session& session = context.session;
  const Comparison& comparison = session.comparison;
  const std::vector<std::size_t> rings = session.rings();
  if (comparison.differences.size() != rings.size() || rings.size() < 2) return;
  const auto found = std::find(rings.begin() + 1, rings.end(), session.active);
  const std::size_t at = found == rings.end() ? 1 : static_cast<std::size_t>(found - rings.begin());
  float y = box.y0;
  if (rings.size() > 2) {
    const std::vector<std::string> names(comparison.names.begin() + 1, comparison.names.end());
    const int chosen = draw_tabs(context, "other", {box.x0, y}, names, static_cast<int>(at) - 1);
    session.activate(rings[static_cast<std::size_t>(chosen) + 1]);
    y += 34;
  }
  const Difference& difference = comparison.differences[at];
  if (!difference.refusal.empty()) {
    draw_empty(context, {box.x0, y, box.x1, box.y1}, "These runs can't be compared slice by slice",
               fmt::format("They differ in {}.", difference.refusal));
    return;
  }
  y += draw_wrapped(context.fonts.title, {box.x0 + 2, y}, box.width() - 4, context.palette.text,
                    difference.headline) +
       16;
  const float left = std::floor(box.width() * 0.42f);
  float below = draw_waterfall(context, {box.x0 + 2, y}, left - 20, difference, comparison.names[0],
                               comparison.names[at]);
  below = y + std::max(below, draw_change(context, {box.x0 + left + 20, y, box.x1, box.y1},
                                          difference, rings[at]));
  if (!session.comparing) return;
  // Both timelines on one axis take the room that is left.
  const float high = std::floor((box.y1 - below - 24) / 2) - 22;
  if (high < 40) return;
  const double longest = std::max(session.documents[rings[0]].axis.length(session.axis_mode),
                                  session.documents[rings[at]].axis.length(session.axis_mode));
  const TimelineView view = fitted(longest);
  for (const std::size_t shown : {rings[0], rings[at]}) {
    const Document& document = session.documents[shown];
    if (shown == rings[0])
      draw_timeline_strip_ruler(context, document, {box.x0, below, box.x1, below + 24}, view);
    const float top = below + 24 + (shown == rings[0] ? 0 : high + 22);
    draw_label(context, {box.x0 + kTimelineStripGutter, top + 4}, {0, 0},
               comparison.names[shown == rings[0] ? 0 : at]);
    draw_timeline_strip(context, document, shown == rings[0] ? "timeline.from" : "timeline.to", {},
                        {box.x0, top + 20, box.x1, top + 20 + high}, view);
  }
}

}  // namespace ringscope::viz
