// Places ranks and blocks in the ring's picture: ranks lie on a circle with rank 0 on top, and
// sending goes clockwise. KV blocks lie and travel on an orbit outside it.
#pragma once

#include "viz/panels/drawing.h"

namespace ringscope::viz {

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
// The parts of the ring's picture share the moment, the layout, and the places of words, which must
// not overlap.

inline constexpr float kRingSideColumn = 190;  // for words, in a panel much wider than high
inline constexpr float kLinkLabelOutside = 10, kLinkLabelHeight = 28;
inline constexpr float kWaitWidth = 66, kWaitHeight = 14;

struct RingPicture {
  const PanelContext& context;
  const Document& document;
  const RingMoment& moment;
  Box box;  // the part of the panel that belongs to the ring
  RingLayout layout;

  Color owner(int o) const {
    return owner_color(context.session.theme, o, static_cast<int>(moment.ranks.size()));
  }
  bool dots() const { return layout.disc < 4; }  // discs too small for anything but colour
};

// The bytes and bandwidth of a link stand between its ranks or outside the track. If neither place
// has room, the caption gives the sum.
enum class LabelPlace : std::uint8_t { none, inside, outside };

LabelPlace label_place(const RingPicture& picture);

// "waits for 3" stands above or below its disc, towards the centre and clear of its tile.
bool wait_labels(const RingLayout& ring);
ImVec2 wait_label_at(const RingLayout& ring, int rank);

// The heights that the ring leaves above and below it for words that would otherwise overlap it.
// They are 0 if the words fit into its middle or into the corners of `box`.
struct CaptionBands {
  float above = 0, below = 0;
};
CaptionBands caption_bands(const RingPicture& picture, const Box& box);

// Draw the step, the time, and the block that a rank holds. They stand in the middle if they fit
// there, else in the left column (`side`) of `box`, else partly in its corners.
void draw_ring_caption(const RingPicture& picture, const Box& box, bool side);

}  // namespace ringscope::viz
