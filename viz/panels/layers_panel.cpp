// The band above the timeline: all layers of a profile, pass by pass in the order of time, of which the
// panels below show one.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "viz/data/session/format.h"
#include "viz/panels/drawing.h"
#include "viz/panels/panels.h"

namespace ringscope::viz {
namespace {

// Return the share of all ranks' time in which a layer's communication is exposed.
double exposed_share(const ProfiledLayer& layer) {
  RankOverlap sum;
  for (const RankOverlap& rank : layer.overlaps) sum += rank;
  return static_cast<double>(sum.exposed) / std::max(static_cast<double>(sum.span), 1.0);
}

// A pass of a layer, by index.
struct PassTime {
  std::int64_t begin = 0, end = 0;
  std::size_t layer = 0;
  Pass pass = Pass::forward;
};

// Return the passes in the order of time.
std::vector<PassTime> passes_of(const std::vector<ProfiledLayer>& layers) {
  std::vector<PassTime> passes;
  for (std::size_t i = 0; i < layers.size(); ++i)
    for (const Pass pass : kAllPasses) {
      const auto& [begin, end] = layers[i].passes[static_cast<int>(pass)];
      if (begin < end) passes.push_back({begin, end, i, pass});
    }
  std::stable_sort(passes.begin(), passes.end(),
                   [](const PassTime& a, const PassTime& b) { return a.begin < b.begin; });
  return passes;
}

void draw_layer_tooltip(const PanelContext& context, std::size_t which, Pass pass) {
  const std::vector<ProfiledLayer>& layers = context.session.document().trace.layers;
  const ProfiledLayer& layer = layers[which];
  const auto& [begin, end] = layer.passes[static_cast<int>(pass)];
  draw_tooltip(context, capitalized(words_of(layers, which)) + ", " + std::string(name_of(pass)),
               {{"this pass", time_text(end - begin)},
                {"the layer", time_text(1e9 * layer.seconds)},
                {"exposed communication", percent_text(exposed_share(layer))},
                {"slowest", fmt::format("rank {}, {:.2f} times the median", layer.slowest_rank,
                                        layer.slowness)}},
               "exposed communication");
}

}  // namespace

void draw_layers(const PanelContext& context) {
  const Palette& palette = context.palette;
  const Trace& trace = context.session.document().trace;
  Box box = content_box();
  box.x0 += draw_label(context, {box.x0, box.center().y}, {0, 0.5f}, "layers") + 10;
  const std::vector<PassTime> passes = passes_of(trace.layers);
  if (passes.empty()) return;
  const std::int64_t first = passes.front().begin;
  std::int64_t last = first + 1;
  for (const PassTime& pass : passes) last = std::max(last, pass.end);
  const auto x_of = [&](std::int64_t ns) {
    return box.at(static_cast<double>(ns - first) / static_cast<double>(last - first), 0).x;
  };
  const Touch touched = touch("layers", box);
  for (std::size_t i = 0; i < passes.size(); ++i) {
    const auto [begin, end, which, pass] = passes[i];
    const ProfiledLayer& layer = trace.layers[which];
    // Where ranks drift apart, passes overlap. Each is drawn up to the next.
    const float x0 = x_of(begin), x1 = x_of(i + 1 < passes.size() ? passes[i + 1].begin : last);
    const float right = std::min(std::max(x_of(end), x0 + 2), x1) - 1;
    const Box segment{x0, box.y0 + 2, std::max(right, x0), box.y1 - 2};
    const Color ground =
        mix(palette.panel, pass == Pass::forward ? palette.accent : palette.of(Lane::send), 0.28);
    fill(segment, ground);
    fill({x0, segment.at(0, 1 - exposed_share(layer)).y, segment.x1, segment.y1},
         mix(ground, palette.warning, 0.3));
    if (i > 0 && layer.iteration != trace.layers[passes[i - 1].layer].iteration)
      fill({x0 - 2, box.y0 - 2, x0 - 1, box.y1 + 2}, palette.text_dim);
    if (which == trace.layer) outline(segment, palette.selection, 0, 2);
    for (const std::string& label :
         {words_of(trace.layers, which) + ", " + std::string(name_of(pass)),
          fmt::format("layer {}", layer.layer), std::to_string(layer.layer)})
      if (text_width(context.fonts.small, label) + 8 <= segment.width()) {
        draw_text(context.fonts.small, segment.center(), {0.5f, 0.5f}, palette.text, label);
        break;
      }
    if (!touched.hovered || !segment.contains(ImGui::GetIO().MousePos)) continue;
    draw_layer_tooltip(context, which, pass);
    if (touched.clicked) return context.session.show_layer(which, pass);
  }
}

}  // namespace ringscope::viz
