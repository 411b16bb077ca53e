// The parts of the viewer's window. Each panel draws the session into the ImGui window that its
// caller has begun, and turns mouse and keys into changes of the session. No panel keeps state that
// another panel needs.
#pragma once

#include <imgui.h>

#include <any>
#include <map>
#include <string>
#include <utility>

#include "viz/data/session/session.h"
#include "viz/data/timeline/palette.h"
#include "viz/panels/imgui_versions.h"

namespace ringscope::viz {

// Holds the pictures that are drawn, by name. A texture's id is the address of its picture.
class TextureStore {
 public:
  struct Texture {
    Image image;
    std::any key;
    int painted = 0;  // how often
  };

  // Return the slot's picture of this size. paint(image) fills it only if `key`, which holds all that
  // it depends on, or the size is another than the last time.
  template <class Key, class Paint>
  ImTextureID picture(const std::string& slot, int width, int height, Key key, Paint&& paint) {
    Texture& texture = textures_[slot];
    Image& image = texture.image;
    const Key* const before = std::any_cast<Key>(&texture.key);
    const bool fits = image.width == width && image.height == height;
    if (before != nullptr && fits && *before == key) return texture_id_of(image);
    if (!fits) image = Image(width, height);
    paint(image);
    texture.key = std::move(key);
    ++texture.painted;
    return texture_id_of(image);
  }
  // Return the slot's texture, or null.
  const Texture* find(const std::string& slot) const {
    const auto found = textures_.find(slot);
    return found == textures_.end() ? nullptr : &found->second;
  }

 private:
  std::map<std::string, Texture> textures_;
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

// Draw the active document's timeline: ruler, rank labels, slices, flows, playhead, measure and
// critical path. The panel reacts to wheel, drag and hover.
void draw_timeline(const PanelContext& context);

// Draw all layers of the active document's profile in the order of time, and mark the one that is shown. Call
// this only if there are several.
void draw_layers(const PanelContext& context);

// Draw all ranks x steps of the active document as a heat map. Call this only while
// Session::rank_map is shown.
void draw_rank_map(const PanelContext& context);

// Draw the ranks on a circle with their Q, and the travelling KV blocks.
void draw_ring(const PanelContext& context);

// Draw the (query x key) matrix and which parts of it are attended.
void draw_mask(const PanelContext& context);

// Draw the work by rank and step, the idle times by rank, and the findings in sentences.
void draw_balance(const PanelContext& context);

// Draw row_max, row_sum, lse and error of the recorded query rows, step by step.
void draw_softmax(const PanelContext& context);

// Draw the links that carried anything, ranks by ranks, and the slowest ones.
void draw_links(const PanelContext& context);

// Draw the recorded tile from Q to out, step by step, or say how to record one.
void draw_tile(const PanelContext& context);

// Draw two or more traces side by side, and a table of their figures.
void draw_compare(const PanelContext& context);

// Draw the recording beside the simulation that predicts it for other settings, and those settings.
// Call this only while Session::what_if is set.
void draw_what_if(const PanelContext& context);

// Draw the story that accompanies the recording, by paragraphs. Call this only if there is one.
void draw_story(const PanelContext& context);

// Draw how a failed run ended. Call this only for a run that failed.
void draw_failure(const PanelContext& context);

// Describe the selected or hovered slice in words and numbers.
void draw_details(const PanelContext& context);

// Draw the table of the selected slices, and their sums.
void draw_selection_table(const PanelContext& context);

void draw_playback(const PanelContext& context);

void draw_toolbar(const PanelContext& context);

// Draw the note that is being written, and the list of all, over everything else. Call this only while
// Session::writing is set.
void draw_notes(const PanelContext& context);
// Put the text cursor into its text when it is next drawn.
void focus_note();

// Draw the table of every key.
void draw_help(const PanelContext& context);

// ---
// The part of the toolbar that its keyboard shortcuts need.

// Put the text cursor into the search field when the toolbar is next drawn with its search open.
void focus_search();

}  // namespace ringscope::viz
