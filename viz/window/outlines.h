// Reads ImGui's draw lists as shapes, texts and pictures rather than triangles. SVG and PDF are made of
// these, for pictures that a paper takes and a reader enlarges.
#pragma once

#include <imgui.h>

#include <string>
#include <vector>

#include "viz/data/timeline/palette.h"
#include "viz/panels/drawing.h"

namespace ringscope::viz {

// Text of one font and colour on one line. Lengths are ImGui's points, and `size` is that of the em.
struct TextRun {
  bool strong = false;
  Color color = 0;
  float size = 0, baseline = 0, begin = 0, end = 0;
  int glyphs = 0;
  std::string text{};
};

// Closed lines, without repeated points. What they go round is filled.
using Loops = std::vector<std::vector<ImVec2>>;

// Receives what is drawn, from back to front.
class Outlines {
 public:
  virtual ~Outlines() = default;
  virtual void clip(const Box& to) = 0;  // all that follows, until the next call
  virtual void shape(Color color, const Loops& loops) = 0;
  virtual void text(const TextRun& run) = 0;
  virtual void picture(const Box& box, const Image& image) = 0;
};

// Pass all of `data` on. The frame's ImGui context must be current.
void trace_outlines(const ImDrawData& data, Outlines& to);

// Write a number with at most two decimals.
std::string short_number(double x);

}  // namespace ringscope::viz
