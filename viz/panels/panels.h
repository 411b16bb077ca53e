// The parts of the window. Each draws itself into the ImGui window that its caller has begun, from
// the session, and turns mouse and keys into changes of the session; none of them keeps state that
// another panel would want.
#pragma once

#include <imgui.h>

#include <string>

#include "viz/model/session/session.h"
#include "viz/model/timeline/palette.h"

namespace ringscope::viz {

// Where pictures go on their way to the screen: a slot is made once by its name and then updated.
// In a window it is an OpenGL texture; without one, memory that the software rasteriser reads.
class TextureStore {
 public:
  virtual ~TextureStore() = default;
  // Copies `image` into the slot. The id stays valid until the next update of the slot.
  virtual ImTextureID update(const std::string& slot, const Image& image) = 0;
};

struct Fonts {
  ImFont* text = nullptr;    // 15 pixels
  ImFont* small = nullptr;   // 12 pixels: labels inside pictures
  ImFont* title = nullptr;   // 20 pixels
  ImFont* mono = nullptr;    // 14 pixels: figures in columns
  ImFont* strong = nullptr;  // 15 pixels, heavier
};

struct PanelContext {
  Session& session;
  TextureStore& textures;
  const Fonts& fonts;
  const Palette& palette;
};

// One trace on its axis: ruler, rank labels, slices, flows, playhead, measure, marks, critical path;
// wheel, drag and hover.
void draw_timeline(const PanelContext& context);

// Ranks on a circle with their Q; KV blocks travelling; bytes and bandwidth on links.
void draw_ring(const PanelContext& context);

// The (query x key) matrix and what of it is attended.
void draw_mask(const PanelContext& context);

// Work by rank and step, losses by rank, findings in sentences.
void draw_balance(const PanelContext& context);

// row_max, row_sum, lse and error of the recorded query rows, step by step.
void draw_softmax(const PanelContext& context);

// Two or more traces side by side, and the table of their figures.
void draw_compare(const PanelContext& context);

// The recording beside what a simulation foretells for other settings, and the settings. Only while
// Session::what_if is there.
void draw_what_if(const PanelContext& context);

// What is told beside the recording, paragraph by paragraph. Only for one with a story.
void draw_story(const PanelContext& context);

// How a run that did not end well ended. Only for one of those.
void draw_failure(const PanelContext& context);

// The selected slice, or the hovered one, in words and numbers.
void draw_details(const PanelContext& context);

// Play, pause, step, scrub, speed.
void draw_playback(const PanelContext& context);

// Title, trace chooser, switches, search.
void draw_toolbar(const PanelContext& context);

// Every key.
void draw_help(const PanelContext& context);

}  // namespace ringscope::viz
