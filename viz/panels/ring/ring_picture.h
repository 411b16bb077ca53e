// Where ranks and blocks stand in the ring's picture: ranks on a circle, rank 0 on top, the
// direction of sending clockwise; outside it the orbit on which KV blocks lie and travel.
#pragma once

#include "viz/panels/drawing.h"

namespace ringscope::viz {

struct RingLayout {
  ImVec2 center{0, 0};
  float radius = 0;  // of the circle of ranks
  float orbit = 0;   // of the circle of blocks
  float disc = 0;    // radius of a rank's disc
  float tile_w = 0, tile_h = 0;
  int ranks = 0;

  // Fractions of a rank lie between it and the next one.
  double angle(double rank) const;
  ImVec2 at(double rank, float distance) const;
  Box tile(double rank, float scale = 1) const;
  // The rank whose disc or tile is under the mouse; -1: none.
  int rank_at(ImVec2 mouse) const;
};
RingLayout ring_layout(const Box& box, int ranks);

// ---
// What the parts of the ring's picture share: the moment, the layout, and where words stand so that
// they don't meet.

inline constexpr float kRingSideColumn = 190;  // for words, where the panel is much wider than high
inline constexpr float kLinkLabelOutside = 10, kLinkLabelHeight = 28;
inline constexpr float kWaitWidth = 66, kWaitHeight = 14;

struct RingPicture {
  const PanelContext& context;
  const Document& document;
  const RingMoment& moment;
  Box box;  // that the ring has
  RingLayout layout;
  ImDrawList& list;

  Color owner(int o) const {
    return owner_color(context.session.theme, o, static_cast<int>(moment.ranks.size()));
  }
  bool dots() const { return layout.disc < 4; }  // too small for anything but colour
};

// Bytes and bandwidth of a link stand between its ranks, or outside the track; where neither has
// room, the caption tells the sum.
enum class LabelPlace : std::uint8_t { none, inside, outside };

LabelPlace label_place(const RingPicture& picture);

// "waits for 3" stands on that side of a disc that is nearer the middle's height, clear of its tile.
bool wait_labels(const RingLayout& ring);
ImVec2 wait_label_at(const RingLayout& ring, int rank);

// Room that the ring leaves above and below it for words that would otherwise lie over it: none
// where they fit into its middle or into the corners of `box`.
struct CaptionBands {
  float above = 0, below = 0;
};
CaptionBands caption_bands(const RingPicture& picture, const Box& box);

// In words: the step, the time, and which block a rank holds at it. In the middle when it fits there,
// else in the column at the left (`side`) of `box`, else what fits in its corners.
void draw_ring_caption(const RingPicture& picture, const Box& box, bool side);

}  // namespace ringscope::viz
