// Says how and where a failed run ended. A click goes there.
#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "viz/panels/drawing.h"
#include "viz/panels/panels.h"

namespace ringscope::viz {

void draw_failure(const PanelContext& context) {
  Session& session = context.session;
  const Document& document = session.document();
  if (!document.trace.run || !document.trace.run->failure) return;
  const RunEnd& end = *document.trace.run->failure;
  const Palette& palette = context.palette;
  const Box box = content_box();
  ImDrawList& list = *ImGui::GetWindowDrawList();
  const Touch touched = touch("failure", box);
  if (touched.hovered) fill(list, box, with_alpha(palette.warning, 0.1), 4);
  if (touched.clicked) session.go_to_failure();
  const float y = box.center().y;
  // The exclamation mark stands on a drawn disc, so it needs no special glyph.
  list.AddCircleFilled({box.x0 + 8, y}, 8, palette.warning, 24);
  draw_text(list, context.fonts.small, {box.x0 + 8, y}, {0.5f, 0.5f}, ink_on(palette.warning), "!");
  float x = box.x0 + 24;
  std::string where = "This run failed";
  if (end.rank >= 0) where += fmt::format(" on rank {}", end.rank);
  if (end.step >= 0) where += fmt::format("{} step {}", end.rank >= 0 ? "," : " at", end.step);
  x += draw_text(list, context.fonts.strong, {x, y}, {0, 0.5f}, palette.warning,
                 fitted(context.fonts.strong, where, box.x1 - x)) +
       14;
  std::string message = end.message;
  std::replace_if(
      message.begin(), message.end(), [](unsigned char c) { return c < ' '; }, ' ');
  if (x < box.x1)
    draw_text(list, context.fonts.text, {x, y}, {0, 0.5f}, palette.text,
              fitted(context.fonts.text, message, box.x1 - x));
}

}  // namespace ringscope::viz
