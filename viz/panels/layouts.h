// Where the parts of the larger panels lie, and what their rows show. Panels draw by it, and tests know
// by it where to click.
#pragma once

#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "viz/data/session/format.h"
#include "viz/panels/drawing.h"

namespace ringscope::viz {

// ---
// Ranks lie on a circle with rank 0 on top, and sending goes clockwise. KV blocks lie and travel on an
// orbit outside it.

struct RingLayout {
  ImVec2 center{0, 0};
  float radius = 0;  // radius of the circle of ranks
  float orbit = 0;   // radius of the circle of blocks
  float disc = 0;    // radius of a rank's disc
  float tile_w = 0, tile_h = 0;
  int ranks = 0;

  // Return the angle of a rank. A fractional rank lies between two ranks.
  double angle(double rank) const;
  ImVec2 at(double rank, float distance) const;
  Box tile(double rank, float scale = 1) const;
  // Return the rank whose disc or tile is under the mouse, or -1.
  int rank_at(ImVec2 mouse) const;
};
RingLayout ring_layout(const Box& box, int ranks);

// ---
// Places the parts of the mask panel: the tabs on top, the square picture with its axes, and the
// notes in a column beside it if there is room, else in a line below.

struct MaskLayout {
  ImVec2 tabs{0, 0};
  Box picture;
  Box notes, footer;  // empty if there is no room
  bool axes = true;
};
// `lines_per_column` is how much lower than wide the picture is: queries for keys.
MaskLayout mask_layout(const Box& box, double lines_per_column = 1);

// The names of the tabs, in the order of MaskOrder.
inline const std::vector<std::string> kMaskOrders = {"global order", "local order"};
// Draw tabs of these names that choose the session's order.
void choose_mask_order(const PanelContext& context, ImVec2 top_left,
                       const std::vector<std::string>& names);

// ---
// The mask is drawn as a texture in a rectangle of the window, repainted only when it changes.

struct MaskPicture {
  std::string slot;  // texture slot
  std::size_t document = 0;
  MaskOrder order = MaskOrder::global;
  int only_rank = -1;
};

// Draw the mask of a document into `box`. The document must have a mask.
void draw_mask_picture(const PanelContext& context, const MaskPicture& picture, const Box& box);

// Return the rectangles of a mask's picture that `rank` covers with the block of `owner`, or none
// if the rows of either are strided.
std::vector<Box> region_boxes(const MaskModel& model, MaskOrder order, const Box& picture, int rank,
                              int owner);

// ---
// The links of a run, those inside nodes apart from those between them.

struct LinkMetric {
  const char* name;
  NumberFormat text;
  double (*of)(const LinkHistory::Carried& link);
};
inline constexpr LinkMetric kLinkMetrics[] = {
    {"bytes", bytes_text, [](const auto& link) { return static_cast<double>(link.bytes.back()); }},
    {"time", time_text, [](const auto& link) { return static_cast<double>(link.under_way_ns); }},
    {"bandwidth", bandwidth_text, [](const auto& link) { return link.bytes_per_second(); }}};

struct LinkKind {
  bool between_nodes = false;
  std::string name{};                                // as people read it: "NVLink4, in a node"
  std::vector<const LinkHistory::Carried*> links{};  // the slowest first
  std::set<const LinkHistory::Carried*> slow{};      // by what core/tools/explain finds
  double largest[std::size(kLinkMetrics)] = {};

  const LinkHistory::Carried& median() const { return *links[links.size() / 2]; }
  bool is_slow(const LinkHistory::Carried& link) const { return slow.contains(&link); }
  double share(std::size_t metric, const LinkHistory::Carried& link) const {
    return kLinkMetrics[metric].of(link) / largest[metric];
  }
};
// Return the kinds that carried anything. They point into the document.
std::vector<LinkKind> link_kinds(const Document& document);

// ---
// A recording's softmax samples, grouped by query row.

struct SoftmaxRow {
  std::int64_t query = 0;  // global position
  int rank = 0;
  std::vector<SoftmaxSample> samples;  // in order of steps
};
std::vector<SoftmaxRow> softmax_rows(const Trace& trace);  // in order of queries

// Return the row whose state changes at the most steps; among several, return the last one.
int default_softmax_row(const std::vector<SoftmaxRow>& rows);

// What a block does to a row: the factor exp(old row_max - row_max) that multiplies what there was, and
// the block's part of the row's final sum.
struct SoftmaxStep {
  double factor = 0, part = 0;
};
std::vector<SoftmaxStep> softmax_steps(const SoftmaxRow& row);

// Format four decimals, or "-inf" for a row that has seen no key.
std::string softmax_text(double value);

}  // namespace ringscope::viz
