// What Dear ImGui names or does otherwise in its releases from 1.86 to 1.92. The rest of the viewer
// calls only what all of them have.
#pragma once

#include <imgui.h>

#include <cstdint>

#include "viz/data/timeline/palette.h"

namespace ringscope::viz {

// ---
// Textures. Our ids are addresses of pictures; ImGui's were pointers before they became integers.

inline ImTextureID texture_id_of(const Image& image) {
  return (ImTextureID)(reinterpret_cast<std::uintptr_t>(&image));
}
// Return null for no texture.
inline const Image* image_of(ImTextureID id) {
  return reinterpret_cast<const Image*>((std::uintptr_t)(id));
}

inline ImTextureID texture_id_of(const ImFontAtlas& atlas) {
#if IMGUI_VERSION_NUM >= 19200
  return atlas.TexRef.GetTexID();
#else
  return atlas.TexID;
#endif
}

inline void set_texture(ImDrawCmd& command, ImTextureID id) {
#if IMGUI_VERSION_NUM >= 19200
  command.TexRef = id;
#else
  command.TextureId = id;
#endif
}

// Make `list`, which `data` then refers to, all that is drawn.
inline void set_list(ImDrawData& data, ImDrawList*& list) {
#if IMGUI_VERSION_NUM >= 18980
  data.CmdLists.clear();
  data.CmdLists.push_back(list);
#else
  data.CmdLists = &list;
#endif
  data.CmdListsCount = 1;
}

// ---
// Windows. What a child window is like became a type of its own in 1.90.

// Begin a child window with the style's padding, whether it has a border or not.
inline bool begin_padded_child(const char* id, ImVec2 size, bool border,
                               ImGuiWindowFlags flags = 0) {
#if IMGUI_VERSION_NUM >= 19000
  const ImGuiChildFlags bordered = border ? 1 : 0;  // ImGuiChildFlags_Border, later ..._Borders
  return ImGui::BeginChild(id, size, bordered | ImGuiChildFlags_AlwaysUseWindowPadding, flags);
#else
  return ImGui::BeginChild(id, size, border, flags | ImGuiWindowFlags_AlwaysUseWindowPadding);
#endif
}

// ---
// Fonts. A font was one set of glyphs; since 1.92 it has sets for sizes, of which ours need one.

// Ask for glyphs of `size` points, each of `scale` pixels. All fonts of `io` have the same scale.
inline void set_size(ImFontConfig& config, ImGuiIO& io, float size, float scale) {
#if IMGUI_VERSION_NUM >= 19200
  static_cast<void>(io);
  config.SizePixels = size;
  config.RasterizerDensity = scale;
#else
  config.SizePixels = size * scale;
  io.FontGlobalScale = 1 / scale;
#endif
}

// Return the size that its glyphs are measured in; times io.FontGlobalScale, it is in points.
inline float size_of_glyphs(const ImFont* font) {
#if IMGUI_VERSION_NUM >= 19200
  return font->LegacySize;
#else
  return font->FontSize;
#endif
}

// Return what has the font's Glyphs and Ascent.
inline auto* glyphs_of(ImFont* font) {
#if IMGUI_VERSION_NUM >= 19200
  return font->GetFontBaked(font->LegacySize);
#else
  return font;
#endif
}

// ---
// Keys. Since 1.87 they and the modifiers come as events. A frame sees the last state of each.

inline void set_key(ImGuiIO& io, ImGuiKey key, bool down) {
#if IMGUI_VERSION_NUM >= 18700
  io.AddKeyEvent(key, down);
#else
  io.KeyMap[key] = key;
  io.KeysDown[key] = down;
#endif
}

inline void set_modifiers(ImGuiIO& io, bool shift, bool ctrl) {
#if IMGUI_VERSION_NUM >= 18900
  io.AddKeyEvent(ImGuiMod_Shift, shift);
  io.AddKeyEvent(ImGuiMod_Ctrl, ctrl);
#elif IMGUI_VERSION_NUM >= 18700
  io.AddKeyEvent(ImGuiKey_ModShift, shift);
  io.AddKeyEvent(ImGuiKey_ModCtrl, ctrl);
#else
  io.KeyShift = shift;
  io.KeyCtrl = ctrl;
#endif
}

// Let a frame see all that was set before it, rather than spread it over several.
inline void take_events_at_once(ImGuiIO& io) {
#if IMGUI_VERSION_NUM >= 18700
  io.ConfigInputTrickleEventQueue = false;
#else
  static_cast<void>(io);
#endif
}

}  // namespace ringscope::viz
