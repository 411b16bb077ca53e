#include "viz/window/fonts.h"

#include <algorithm>
#include <cstdio>

#include <fmt/format.h>

#include "core/base/text.h"
#include "viz/panels/imgui_versions.h"

// The compiler's assembler copies in the files that CMake found.
#ifdef RINGSCOPE_FONT
#ifdef __wasm__
#define RINGSCOPE_SECTION(symbol) ".section .rodata." symbol ",\"\",@\n.p2align 3\n"
#define RINGSCOPE_SYMBOL(symbol) ".type " symbol ",@object\n" symbol ":\n"
#define RINGSCOPE_SIZE(symbol) ".size " symbol ", . - " symbol "\n"
#define RINGSCOPE_SECTION_END ".text\n"
#else
#define RINGSCOPE_SECTION(symbol) ".pushsection .rodata\n.balign 8\n"
// Global, because on Arm the linker takes a local symbol's section for the symbol itself.
#define RINGSCOPE_SYMBOL(symbol) ".globl " symbol "\n.hidden " symbol "\n" symbol ":\n"
#define RINGSCOPE_SIZE(symbol) ""
#define RINGSCOPE_SECTION_END ".popsection\n"
#endif
#define RINGSCOPE_INCLUDE_FILE(symbol, path)                                              \
  asm(RINGSCOPE_SECTION(#symbol)                                                          \
          RINGSCOPE_SYMBOL(#symbol) ".incbin \"" path "\"\n" RINGSCOPE_SIZE(#symbol)      \
              RINGSCOPE_SYMBOL(#symbol "_end") ".byte 0\n" RINGSCOPE_SIZE(#symbol "_end") \
                  RINGSCOPE_SECTION_END);                                                 \
  extern "C" const unsigned char symbol[], symbol##_end[]
RINGSCOPE_INCLUDE_FILE(ringscope_font_text, RINGSCOPE_FONT);
RINGSCOPE_INCLUDE_FILE(ringscope_font_title, RINGSCOPE_FONT_TITLE);
#endif

namespace ringscope::viz {

#ifdef RINGSCOPE_FONT

namespace {

// The ranges cover Latin and Greek, dashes, quotes, bullet and ellipsis, mathematics, and small
// raised and lowered digits and letters.
constexpr ImWchar kGlyphs[] = {0x0020, 0x007e, 0x00a0, 0x00ff, 0x0393, 0x03c9, 0x2012,
                               0x2027, 0x2030, 0x2030, 0x2206, 0x2212, 0x221a, 0x221e,
                               0x2248, 0x2265, 0x1d40, 0x1d40, 0x2070, 0x209c, 0};

ImFont* add(ImGuiIO& io, const char* name, const unsigned char* begin, const unsigned char* end,
            float size, float scale) {
  ImFontConfig config;
  std::snprintf(config.Name, sizeof config.Name, "%s", name);
  set_size(config, io, size, scale);
  config.FontDataOwnedByAtlas = false;
  config.OversampleH = 2;
  config.OversampleV = 1;
  config.GlyphRanges = kGlyphs;
  return io.Fonts->AddFontFromMemoryTTF(const_cast<unsigned char*>(begin),
                                        static_cast<int>(end - begin), config.SizePixels, &config);
}

}  // namespace

Fonts add_fonts(ImGuiIO& io, float scale) {
  const auto text = [&](float size) {
    return add(io, "text", ringscope_font_text, ringscope_font_text_end, size, scale);
  };
  const auto strong = [&](float size) {
    return add(io, kStrongFont, ringscope_font_title, ringscope_font_title_end, size, scale);
  };
  Fonts fonts;
  fonts.text = text(15);
  fonts.small = text(12);
  fonts.title = strong(20);
  fonts.mono = text(14);  // all its digits have the same width
  fonts.strong = strong(15);
  return fonts;
}

std::string_view font_name() { return RINGSCOPE_FONT_NAME; }

std::string_view font_file(bool strong) {
  const unsigned char* const begin = strong ? ringscope_font_title : ringscope_font_text;
  const unsigned char* const end = strong ? ringscope_font_title_end : ringscope_font_text_end;
  return {reinterpret_cast<const char*>(begin), static_cast<std::size_t>(end - begin)};
}

#else

Fonts add_fonts(ImGuiIO& io, float scale) {
  const auto add = [&](float size) {
    ImFontConfig config;
    set_size(config, io, size, scale);
    return io.Fonts->AddFontDefault(&config);
  };
  return {add(13), add(12), add(18), add(13), add(13)};
}

std::string_view font_name() { return "ImGui's own"; }

std::string_view font_file(bool) { return {}; }

#endif

std::string font_faces() {
  std::string css;
  for (const bool strong : {false, true})
    if (const std::string_view file = font_file(strong); !file.empty())
      css += fmt::format(
          "@font-face{{font-family:Roboto;font-weight:{};src:url(data:font/ttf;base64,{})}}\n",
          strong ? 500 : 400, base64(file));
  return css;
}

ImGuiSession::ImGuiSession(TextureStore& textures, float scale) : context_(ImGui::CreateContext()) {
  ImGuiIO& io = ImGui::GetIO();
  io.IniFilename = nullptr;  // settings are saved only by preferences.h
  io.LogFilename = nullptr;
  io.BackendFlags |= ImGuiBackendFlags_RendererHasVtxOffset;
  take_events_at_once(io);
  io.Fonts->Flags |= ImFontAtlasFlags_NoBakedLines;
  fonts_ = add_fonts(io, scale);
  io.DisplayFramebufferScale = {scale, scale};
  unsigned char* pixels = nullptr;
  int width = 0, height = 0;
  io.Fonts->GetTexDataAsRGBA32(&pixels, &width, &height);
  io.Fonts->SetTexID(textures.picture("fonts", width, height, scale, [&](Image& image) {
    std::copy_n(reinterpret_cast<const Color*>(pixels), image.pixels.size(), image.pixels.begin());
  }));
}

void begin_root_window() {
  ImGui::SetNextWindowPos({0, 0});
  ImGui::SetNextWindowSize(ImGui::GetIO().DisplaySize);
  ImGui::PushStyleVar(ImGuiStyleVar_WindowRounding, 0);
  ImGui::PushStyleVar(ImGuiStyleVar_WindowBorderSize, 0);
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, ImVec2(0, 0));
  ImGui::Begin("root", nullptr,
               ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_NoMove |
                   ImGuiWindowFlags_NoSavedSettings | ImGuiWindowFlags_NoBringToFrontOnFocus |
                   ImGuiWindowFlags_NoScrollWithMouse | ImGuiWindowFlags_NoNav);
  ImGui::PopStyleVar(3);
}

void apply_style(ImGuiStyle& style, const Palette& palette, Theme theme) {
  style = ImGuiStyle();
  style.WindowPadding = {10, 8};
  style.FramePadding = {9, 5};
  style.ItemSpacing = {8, 6};
  style.ItemInnerSpacing = {6, 4};
  style.CellPadding = {6, 3};
  style.ScrollbarSize = 11;
  style.GrabMinSize = 11;
  style.WindowRounding = 8;
  style.ChildRounding = 7;
  style.FrameRounding = 6;
  style.PopupRounding = 7;
  style.ScrollbarRounding = 6;
  style.GrabRounding = 6;
  style.TabRounding = 6;
  style.WindowBorderSize = 1;
  style.ChildBorderSize = 1;
  style.PopupBorderSize = 1;
  style.FrameBorderSize = 0;
  style.AntiAliasedLinesUseTex = false;

  if (theme == Theme::light) {
    ImGui::StyleColorsLight(&style);
  } else {
    ImGui::StyleColorsDark(&style);
  }
  const auto set = [&style](ImGuiCol which, Color color) {
    style.Colors[which] = ImGui::ColorConvertU32ToFloat4(color);
  };
  // Those of an item at rest, under the mouse and while it is pressed follow each other.
  const auto set_three = [&set](ImGuiCol first, Color rest, Color hovered, Color active) {
    set(first, rest);
    set(first + 1, hovered);
    set(first + 2, active);
  };
  const auto tinted = [&palette](double share) {
    return mix(palette.panel, palette.accent, share);
  };
  const auto shaded = [&palette](double share) { return mix(palette.panel, palette.text, share); };
  set(ImGuiCol_Text, palette.text);
  set(ImGuiCol_TextDisabled, palette.text_dim);
  set(ImGuiCol_WindowBg, palette.background);
  set(ImGuiCol_ChildBg, palette.panel);
  set(ImGuiCol_PopupBg, mix(palette.panel, palette.background, 0.15));
  set(ImGuiCol_Border, palette.panel_border);
  set(ImGuiCol_BorderShadow, with_alpha(palette.panel, 0));
  set_three(ImGuiCol_FrameBg, shaded(0.06), shaded(0.11), shaded(0.16));
  set_three(ImGuiCol_Button, shaded(0.07), shaded(0.14), tinted(0.45));
  set_three(ImGuiCol_Header, tinted(0.25), tinted(0.35), tinted(0.45));
  set(ImGuiCol_CheckMark, palette.accent);
  set(ImGuiCol_SliderGrab, with_alpha(palette.accent, 0.35));  // a slider's text lies over it
  set(ImGuiCol_SliderGrabActive, with_alpha(palette.accent, 0.5));
  set_three(ImGuiCol_Separator, palette.panel_border, tinted(0.5), palette.accent);
  set(ImGuiCol_ScrollbarBg, with_alpha(palette.panel, 0));
  set_three(ImGuiCol_ScrollbarGrab, shaded(0.18), shaded(0.28), shaded(0.38));
  // Those of tabs change places in ImGui 1.90.9.
  set(ImGuiCol_Tab, palette.panel);
  set(ImGuiCol_TabHovered, tinted(0.35));
  set(ImGuiCol_TabActive, tinted(0.22));
  set(ImGuiCol_TextSelectedBg, with_alpha(palette.accent, 0.35));
  set(ImGuiCol_PlotHistogram, palette.accent);
  set(ImGuiCol_TableHeaderBg, shaded(0.07));
  set(ImGuiCol_TableRowBgAlt, shaded(0.03));
  set(ImGuiCol_TableBorderLight, palette.grid);
  set(ImGuiCol_TableBorderStrong, palette.panel_border);
}

}  // namespace ringscope::viz
