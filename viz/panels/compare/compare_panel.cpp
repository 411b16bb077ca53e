// Draws recordings side by side, at equal heights and scales, so that differences stand out. A
// sentence above them gives the result, and a table below them their figures.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "viz/model/session/format.h"
#include "viz/panels/balance/balance_heatmap.h"
#include "viz/panels/compare/compare_card.h"
#include "viz/panels/drawing.h"
#include "viz/panels/mask/mask_picture.h"
#include "viz/panels/panels.h"

namespace ringscope::viz {
namespace {

CompareScale scale_of(const Session& session) {
  CompareScale scale;
  double longest = 0, lowest = 2, highest = -1;
  for (const Document& document : session.documents) {
    longest = std::max(longest, document.axis.length(session.axis_mode));
    if (document.balance.ranks == 0) continue;
    scale.largest_pairs = std::max(scale.largest_pairs, kHeatMetrics[0].largest(document.balance));
    lowest = std::min(lowest, document.balance.balance_ceiling);
    highest = std::max(highest, document.balance.balance_ceiling);
  }
  scale.best_ceiling = percent_text(highest);
  scale.worst_ceiling = percent_text(lowest);
  scale.view = fitted(longest);
  scale.equal = session.comparison.unequal.empty();
  return scale;
}

void draw_names(const PanelContext& context, const CompareLayout& layout) {
  const Palette& palette = context.palette;
  const CompareColumn& column = layout.columns.front();
  const float x = layout.names.x0 + 2, width = layout.names.width() - 12;
  const auto name = [&](float y, std::string_view title, std::string_view text) {
    const float high = draw_wrapped(context.fonts.text, {x, y}, width, palette.text, title);
    return y + high +
           draw_wrapped(context.fonts.small, {x, y + high}, width, palette.text_dim, text);
  };
  Session& session = context.session;
  const float below =
      name(column.mask.y0 - 3, "Mask",
           session.mask_order == MaskOrder::local
               ? "queries down, keys across, rank by rank; colour: owner of the key"
               : "queries down, keys across, by position; colour: owner of the key");
  choose_mask_order(context, {x - 2, below + 8}, {"global", "local"});
  name(column.heat.y0 - 2, "Pairs", "by rank and step; stronger is more");
  name(column.strip.y0, "Timeline",
       context.session.axis_mode == AxisMode::time ? "on one clock" : "by ring step");
}

// Draw the same figure of every recording in a line. The best one stands out.
void draw_table(const PanelContext& context, const CompareLayout& layout) {
  const Session& session = context.session;
  const Palette& palette = context.palette;
  float y = layout.table_y;
  const float right = layout.columns.back().card.x1;
  for (const ComparedFigure& figure : session.comparison.figures) {
    draw_list().AddLine({layout.names.x0, y}, {right, y}, with_alpha(palette.grid, 0.8));
    const float middle = y + layout.row_height / 2;
    draw_label(context, {layout.names.x0 + 2, middle}, {0, 0.5f}, figure.name,
               layout.names.width() - 10);
    std::size_t ring = 0;  // only our own recordings have figures
    for (std::size_t i = 0; i < session.documents.size(); ++i) {
      if (!session.documents[i].trace.is_ring() || ring >= figure.texts.size()) continue;
      const CompareColumn& column = layout.columns[i];
      const float x = column.mask.x0;
      const std::string& value = figure.texts[ring];
      // A figure that reads the same as the best is equally good.
      const bool best =
          figure.best >= 0 && value == figure.texts[static_cast<std::size_t>(figure.best)];
      if (best) draw_list().AddCircleFilled({x + 2, middle}, 2.5f, palette.accent, 12);
      draw_text(context.fonts.mono, {x + 12, middle}, {0, 0.5f},
                best ? palette.accent : palette.text, value);
      draw_text(context.fonts.small, {column.card.x1 - 12, middle}, {1, 0.5f},
                best ? palette.accent : palette.text_dim, figure.ratios[ring]);
      ++ring;
    }
    y += layout.row_height;
  }
}

}  // namespace

void draw_compare(const PanelContext& context) {
  Session& session = context.session;
  const Box whole = content_box();
  if (whole.width() < 60 || whole.height() < 60) return;
  float top = whole.y0;
  if (!session.comparison.headline.empty()) {
    const float width = whole.width() - 4;
    const ImFont* font = text_width(context.fonts.title, session.comparison.headline) <= width
                             ? context.fonts.title
                             : context.fonts.text;
    top += draw_wrapped(font, {whole.x0 + 2, top}, width, context.palette.text,
                        session.comparison.headline) +
           8;
  }
  ImGui::SetCursorScreenPos({whole.x0, top});
  const ImVec2 room(whole.width(), whole.y1 - top);
  draw_child("columns", room, ImGuiWindowFlags_HorizontalScrollbar, [&] {
    const Box box = content_box();
    int ranks = 1;
    bool backward = false;
    for (const Document& document : session.documents) {
      ranks = std::max(ranks, static_cast<int>(document.trace.ranks.size()));
      backward |= document.axis.steps() > document.axis.forward_steps();
    }
    const CompareLayout layout =
        compare_layout(box.min(), room, static_cast<int>(session.documents.size()), ranks,
                       static_cast<int>(session.comparison.figures.size()), backward);
    const CompareScale scale = scale_of(session);
    draw_names(context, layout);
    for (std::size_t i = 0; i < session.documents.size(); ++i)
      draw_compare_card(context, i, layout.columns[i], layout.ruler_y, scale);
    draw_table(context, layout);
    ImGui::SetCursorScreenPos(box.min());
    ImGui::Dummy({layout.width, layout.height - 1});
  });
}

}  // namespace ringscope::viz
