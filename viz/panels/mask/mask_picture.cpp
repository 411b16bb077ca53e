#include "viz/panels/mask/mask_picture.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace ringscope::viz {

MaskLayout mask_layout(const Box& box) {
  constexpr float kPad = 8, kTabs = 26, kNotes = 170, kNotesGap = 20;
  MaskLayout layout;
  layout.tabs = {box.x0 + kPad, box.y0 + kPad - 2};
  layout.axes = box.width() >= 200 && box.height() >= 170;
  const float gutter = layout.axes ? 50.0f : 0.0f, head = layout.axes ? 24.0f : 4.0f;
  const float x = box.x0 + kPad + gutter, y = box.y0 + kPad + kTabs + head;
  const float high = box.y1 - kPad - y, wide = box.x1 - kPad - x;
  const bool column = wide - high >= kNotes + kNotesGap;
  const bool footer = !column && box.height() >= 280;
  const float side = std::max(std::floor(std::min(wide, high - (footer ? 24.0f : 0.0f))), 16.0f);
  layout.picture = {x, y, x + side, y + side};
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
  MaskOrder& order = context.session.mask_order;
  order =
      static_cast<MaskOrder>(draw_tabs(context, "order", top_left, names, static_cast<int>(order)));
}

namespace {

// Everything that determines the pixels, besides their number.
struct PaintKey {
  std::uint64_t document = 0;  // its number
  int only_rank = -1;
  MaskOrder order = MaskOrder::global;
  Theme theme = Theme::dark;
  ColorBy color_by = ColorBy::owner;
  std::vector<RankMoment> ranks;  // what they do

  bool operator==(const PaintKey&) const = default;
};

// Return where a rank's rows begin in local order, as a share of all rows; `rank` may be world_size.
double local_begin(const MaskModel& model, int rank) {
  Index rows = 0;
  for (int r = 0; r < rank; ++r) rows += model.partition.rows_of(r).size();
  return static_cast<double>(rows) /
         static_cast<double>(std::max<Index>(model.partition.seqlen, 1));
}

}  // namespace

// More outlines than that would hide what they outline.
constexpr Index kMostRuns = 64;

std::vector<Box> region_boxes(const MaskModel& model, MaskOrder order, const Box& picture, int rank,
                              int owner) {
  // Return the parts of the axis that `who` has, as shares of its length.
  const auto parts = [&](int who) {
    std::vector<std::pair<double, double>> found;
    if (order == MaskOrder::local) {
      found.emplace_back(local_begin(model, who), local_begin(model, who + 1));
      return found;
    }
    const auto all = static_cast<double>(std::max<Index>(model.partition.seqlen, 1));
    const LocalRows rows = model.partition.rows_of(who);
    if (rows.stride() != 1 || rows.num_runs(0, rows.size()) > kMostRuns) return found;
    rows.for_runs(0, rows.size(), [&](const Run& run) {
      if (run.count == 0) return;
      const auto begin = static_cast<double>(run.first),
                 end = begin + static_cast<double>(run.count);
      if (!found.empty() && found.back().second == begin / all)
        found.back().second = end / all;
      else
        found.emplace_back(begin / all, end / all);
    });
    return found;
  };
  std::vector<Box> boxes;
  for (const auto& [top, bottom] : parts(rank))
    for (const auto& [left, right] : parts(owner))
      boxes.push_back({picture.x0 + picture.width() * static_cast<float>(left),
                       picture.y0 + picture.height() * static_cast<float>(top),
                       picture.x0 + picture.width() * static_cast<float>(right),
                       picture.y0 + picture.height() * static_cast<float>(bottom)});
  return boxes;
}

namespace {

// Draw thin lines between the ranks' blocks where these are large enough.
void draw_block_lines(const PanelContext& context, const MaskModel& model, const Box& box) {
  constexpr float kLeastBlock = 8;  // pixels
  const int n = model.partition.world_size;
  if (std::min(box.width(), box.height()) < kLeastBlock * static_cast<float>(n)) return;
  const Color color = with_alpha(context.palette.text, 0.18);
  const auto all = static_cast<double>(std::max<Index>(model.partition.seqlen, 1));
  Index rows = 0;
  for (int rank = 1; rank < n; ++rank) {
    rows += model.partition.rows_of(rank - 1).size();
    const auto share = static_cast<float>(static_cast<double>(rows) / all);
    const float x = box.x0 + box.width() * share, y = box.y0 + box.height() * share;
    draw_list().AddLine({x, box.y0}, {x, box.y1}, color);
    draw_list().AddLine({box.x0, y}, {box.x1, y}, color);
  }
}

// Beyond so many ranks the painter brightens the regions; outlines would cover everything.
constexpr std::size_t kMostOutlined = 64;

void draw_active(const PanelContext& context, const MaskModel& model, MaskOrder order,
                 const Box& box, const MaskProgress& progress) {
  const int n = model.partition.world_size;
  for (int rank = 0; rank < n; ++rank)
    for (int owner = 0; owner < n; ++owner) {
      if (!progress.active[static_cast<std::size_t>(rank) * static_cast<std::size_t>(n) +
                           static_cast<std::size_t>(owner)])
        continue;
      for (const Box& part : region_boxes(model, order, box, rank, owner)) {
        outline(part, with_alpha(context.palette.background, 0.7), 0, 3);
        outline(part, context.palette.playhead, 0, 1.5f);
      }
    }
}

}  // namespace

void draw_mask_picture(const PanelContext& context, const MaskPicture& picture, const Box& box) {
  const Session& session = context.session;
  const Document& document = session.documents[picture.document];
  if (!document.mask || box.width() < 1 || box.height() < 1) return;

  RingMoment moment = session.moment(picture.document);
  // A block of very many is smaller than what is done of it could be seen in.
  if (moment.ranks.size() > kMostOutlined)
    for (RankMoment& rank : moment.ranks) rank.progress = std::round(rank.progress);
  PaintKey key{document.number, picture.only_rank, picture.order,
               session.theme,   session.color_by,  moment.ranks};
  draw_painted(context, picture.slot, std::move(key), box, [&](Image& image) {
    const MaskProgress progress = mask_progress(moment, document.trace);
    paint_mask(*document.mask,
               {picture.order, session.theme, session.color_by, &progress, picture.only_rank},
               image);
  });
  outline({box.x0 - 1, box.y0 - 1, box.x1 + 1, box.y1 + 1}, context.palette.panel_border);
  if (picture.order == MaskOrder::local) draw_block_lines(context, *document.mask, box);
  if (moment.ranks.size() <= kMostOutlined)
    draw_active(context, *document.mask, picture.order, box, mask_progress(moment, document.trace));
}

}  // namespace ringscope::viz
