// A panel alone on a stage: it fills a window of a given size at the origin, so that a test knows
// where things are and can put the mouse on them.
#pragma once

#include <gtest/gtest.h>
#include <imgui.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "tests/viz_data/hand_made.h"
#include "viz/panels/drawing.h"
#include "viz/panels/panels.h"
#include "viz/window/fonts.h"
#include "viz/window/software_renderer.h"

namespace ringscope::viz {

// Where the picture of a texture slot was drawn in the last frame; empty when it was not.
inline Box box_of(const TextureStore& textures, const std::string& slot) {
  Box box{1e9f, 1e9f, -1e9f, -1e9f};
  const TextureStore::Texture* const texture = textures.find(slot);
  if (texture == nullptr) return {};
  const ImDrawData& data = *ImGui::GetDrawData();
  for (int i = 0; i < data.CmdListsCount; ++i) {
    const ImDrawList& list = *data.CmdLists[i];
    for (const ImDrawCmd& command : list.CmdBuffer) {
      if (image_of(command.GetTexID()) != &texture->image) continue;
      for (unsigned k = 0; k < command.ElemCount; ++k) {
        const ImDrawIdx index = list.IdxBuffer[static_cast<int>(command.IdxOffset + k)];
        const ImVec2 at = list.VtxBuffer[static_cast<int>(command.VtxOffset + index)].pos;
        box = {std::min(box.x0, at.x), std::min(box.y0, at.y), std::max(box.x1, at.x),
               std::max(box.y1, at.y)};
      }
    }
  }
  return box.x0 < box.x1 ? box : Box{};
}

// How often the slot was given a picture.
inline int painted(const TextureStore& textures, const std::string& slot) {
  const TextureStore::Texture* const texture = textures.find(slot);
  return texture == nullptr ? 0 : texture->painted;
}

// One at a time.
class Stage {
 public:
  using Panel = void (*)(const PanelContext&);

  Stage(Panel panel, std::vector<Document> documents, int width = 800, int height = 600)
      : session(std::move(documents)), panel_(panel), width_(width), height_(height) {
    ImGui::GetIO().DeltaTime = 1.0f / 60;
  }

  Box box() const { return {0, 0, static_cast<float>(width_), static_cast<float>(height_)}; }
  void resize(int width, int height) {
    width_ = width;
    height_ = height;
  }

  void frame(ImVec2 mouse = {-FLT_MAX, -FLT_MAX}, bool left = false) {
    ImGuiIO& io = ImGui::GetIO();
    const Palette& palette = palette_of(session.look.theme);
    io.DisplaySize = {static_cast<float>(width_), static_cast<float>(height_)};
    io.MousePos = mouse;
    io.MouseDown[0] = left;
    apply_style(ImGui::GetStyle(), palette, session.look.theme);
    ImGui::NewFrame();
    ImGui::PushFont(imgui_.fonts().text);
    ImGui::PushStyleColor(ImGuiCol_WindowBg, palette.panel);
    begin_root_window();
    ImGui::PopStyleColor();
    panel_({session, textures_, imgui_.fonts(), palette});
    ImGui::End();
    ImGui::PopFont();
    ImGui::Render();
  }

  void click(ImVec2 at) {
    frame(at);
    frame(at);
    frame(at, true);
    frame(at);
  }

  // Long enough for a tooltip to find out its size and be seen.
  void hover(ImVec2 at) {
    for (int i = 0; i < 4; ++i) frame(at);
  }

  Image picture() {
    frame();
    frame();
    Image image(width_, height_, 0xff000000u);
    render(*ImGui::GetDrawData(), image);
    return image;
  }

  // Whether a tooltip was drawn in the last frame.
  static bool tooltip_shown() {
    const ImDrawData& data = *ImGui::GetDrawData();
    for (int i = 0; i < data.CmdListsCount; ++i)
      if (std::string(data.CmdLists[i]->_OwnerName).starts_with("##Tooltip")) return true;
    return false;
  }

  Box box_of_picture(const std::string& slot) {
    frame();
    frame();
    return box_of(textures_, slot);
  }

  Session session;
  TextureStore& textures() { return textures_; }
  const Fonts& fonts() const { return imgui_.fonts(); }

 private:
  Panel panel_;
  int width_, height_;
  TextureStore textures_;
  ImGuiSession imgui_{textures_, 1};
};

// A causal ring of `ranks` ranks with every kind of slice, each step 100 ns long. Ring step t of
// rank r: compute [100 t, 100 t + 60), then its block goes to r + 1 in [100 t + 20, 100 t + 90)
// while r + 1 waits from 100 t + 60 on.
inline Trace ring_trace(int ranks, const std::string& partition = "contiguous",
                        const std::string& mask = "causal", bool backward = false) {
  HandMade made(ranks, partition, mask, "ring", 16 * ranks);
  MaskModel model{MaskSpec::parse(mask), {parse_partition(partition), 16 * ranks, ranks}};
  for (int pass = 0; pass < (backward ? 2 : 1); ++pass)
    for (int step = 0; step < ranks; ++step)
      for (int rank = 0; rank < ranks; ++rank) {
        const Pass which = pass == 0 ? Pass::forward : Pass::backward;
        const std::int64_t at = 100 * (step + pass * ranks);
        const int owner = (rank - step + ranks) % ranks;
        const Mask m = model.mask();
        made.compute(rank, step, at, at + 60, model.region(m, rank, owner).pairs(), which);
        if (step + 1 < ranks) {
          made.hop(rank, step, at + 20, at + 90, 4096, Payload::kv, which);
          made.wait((rank + 1) % ranks, step + 1, at + 60, at + 90, Payload::kv, which);
        }
      }
  for (int step = 0; step < ranks; ++step) {
    SoftmaxSample sample{.rank = ranks - 1,
                         .step = step,
                         .query = 16 * ranks - 1,
                         .at_ns = 100 * step + 60,
                         .row_max = 1.5f};
    sample.row_sum = static_cast<float>(1 + step);
    sample.lse = step == 0 ? -INFINITY : 1.5f + std::log(static_cast<float>(1 + step));
    sample.lse_error = step + 1 == ranks ? 0 : std::pow(0.1f, static_cast<float>(step + 1));
    made.recording().samples.push_back(sample);
  }
  return made.trace();
}

// A recording in which nothing happened.
inline Trace empty_trace() { return HandMade(1).trace(); }

// A trace of something else.
inline Trace foreign_trace() {
  Trace trace;
  trace.path = "profile.json";
  trace.ranks.push_back({1, "python", 0, 1});
  trace.lanes.push_back({0, 7, "stream 7", 0, 1});
  trace.names = {"matmul"};
  TraceEvent slice = plain_slice();
  slice.end_ns = 1000;
  trace.events.push_back({slice});
  trace.rows.push_back({0, 0, 0, 1});
  trace.end_ns = 1000;
  trace.slice_count = 1;
  return trace;
}

// The traces that every panel must draw, with names.
inline std::vector<std::pair<std::string, Trace>> stage_traces() {
  return {{"ring", ring_trace(4)},
          {"backward", ring_trace(4, "zigzag", "causal", true)},
          {"empty", empty_trace()},
          {"foreign", foreign_trace()},
          {"one rank", ring_trace(1)},
          {"64 ranks", ring_trace(64, "striped")},
          {"300 ranks", HandMade(300).compute(0, 0, 0, 5).compute(299, 299, 5, 9).trace()},
          {"unknown partition", [] {
             Trace trace = ring_trace(4);
             trace.info.partition = "diagonal";
             return trace;
           }()}};
}

}  // namespace ringscope::viz
