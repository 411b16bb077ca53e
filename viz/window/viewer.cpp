#include "viz/window/viewer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <stdexcept>
#include <utility>

#include <imgui_internal.h>

#include "viz/data/session/format.h"
#include "viz/panels/drawing.h"
#include "viz/panels/imgui_versions.h"
#include "viz/panels/panels.h"
#include "viz/window/fonts.h"
#include "viz/window/software_renderer.h"

namespace ringscope::viz {

FrameInput InputQueue::take() {
  FrameInput frame = held_;
  const bool drags = frame.left || frame.right || frame.middle;
  bool moved = false, pressed = false;
  for (; !events_.empty(); events_.pop_front()) {
    const InputEvent& event = events_.front();
    const bool is_button = event.kind == InputEvent::button;
    if (pressed && (is_button || event.kind == InputEvent::move)) break;
    if (drags && moved && is_button) break;
    switch (event.kind) {
      case InputEvent::move:
        frame.mouse_x = event.x;
        frame.mouse_y = event.y;
        moved = true;
        break;
      case InputEvent::button:
        (event.button_number == 0   ? frame.left
         : event.button_number == 1 ? frame.right
                                    : frame.middle) = event.pressed;
        pressed = true;
        break;
      case InputEvent::scroll:
        frame.wheel_x += event.x;
        frame.wheel += event.y;
        break;
      case InputEvent::key:
        frame.keys.push_back(event.key_pressed);
        break;
    }
  }
  held_ = frame;
  held_.wheel = held_.wheel_x = 0;
  held_.keys.clear();
  return frame;
}

namespace {

constexpr ImGuiWindowFlags kOverlay = ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_NoMove |
                                      ImGuiWindowFlags_NoSavedSettings |
                                      ImGuiWindowFlags_AlwaysAutoResize | ImGuiWindowFlags_NoNav;

// ---
// What is drawn over the panels or instead of them: loading, an error, a short notice.

// Draw the progress of loading in the middle of the ImGui window that the caller has begun.
void draw_loading(const LoadProgress& progress, const Fonts& fonts, const Palette& palette) {
  const auto total = static_cast<double>(progress.bytes_total.load());
  const auto done = static_cast<double>(progress.bytes_done.load());
  const auto slices = static_cast<double>(progress.slices.load());
  const ImVec2 room = ImGui::GetContentRegionAvail();
  const float width = std::min(420.0f, room.x - 40);
  const auto centred = [&](ImFont* font, const std::string& text, Color color) {
    ImGui::SetCursorPosX((room.x - std::ceil(text_width(font, text))) / 2);
    write(font, color, text);
  };
  ImGui::SetCursorPosY(room.y / 2 - 50);
  centred(fonts.title, "Opening\u2026", palette.text);
  ImGui::SetCursorPosX((room.x - width) / 2);
  ImGui::ProgressBar(total > 0 ? static_cast<float>(std::min(1.0, done / total)) : 0, {width, 8},
                     "");
  centred(fonts.text,
          total > 0 && done >= total
              ? fmt::format("{} slices are read: working out the causes\u2026", count_text(slices))
              : fmt::format("{} of {} \u00b7 {} slices", bytes_text(done), bytes_text(total),
                            count_text(slices)),
          palette.text_dim);
}

// Draw a dialog. Return true if it was closed.
bool draw_error(const std::string& text, const Fonts& fonts, const Palette& palette) {
  const ImVec2 display = ImGui::GetIO().DisplaySize;
  const ImVec2 middle(display.x / 2, display.y / 2);
  ImGui::SetNextWindowPos({0, 0});
  ImGui::SetNextWindowSize(display);
  ImGui::PushStyleVar(ImGuiStyleVar_WindowBorderSize, 0);
  ImGui::PushStyleColor(ImGuiCol_WindowBg, with_alpha(palette.background, 0.6));
  ImGui::Begin("shade", nullptr, kOverlay & ~ImGuiWindowFlags_AlwaysAutoResize);
  ImGui::End();
  ImGui::PopStyleColor();
  ImGui::PopStyleVar();

  ImGui::SetNextWindowPos(middle, ImGuiCond_Always, {0.5f, 0.5f});
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, ImVec2(24, 20));
  ImGui::Begin("error", nullptr, kOverlay);
  ImGui::PopStyleVar();
  ImGui::SetWindowFocus();
  write(fonts.title, palette.warning, "This can't be opened");
  ImGui::Spacing();
  write(fonts.text, palette.text, text, std::min(620.0f, display.x - 80));
  ImGui::Spacing();
  const bool closed = ImGui::Button("Close", {100, 0});
  ImGui::End();
  return closed;
}

// Draw a notice at the bottom, with `opacity` in [0, 1].
void draw_notice(const std::string& text, float opacity, const Palette& palette) {
  const ImVec2 display = ImGui::GetIO().DisplaySize;
  ImGui::SetNextWindowPos({display.x / 2, display.y - 90}, ImGuiCond_Always, {0.5f, 1});
  ImGui::PushStyleVar(ImGuiStyleVar_Alpha, opacity);
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, ImVec2(16, 10));
  ImGui::PushStyleColor(ImGuiCol_WindowBg, mix(palette.panel, palette.accent, 0.2));
  ImGui::Begin("notice", nullptr,
               kOverlay | ImGuiWindowFlags_NoInputs | ImGuiWindowFlags_NoFocusOnAppearing);
  ImGui::TextUnformatted(text.c_str());
  ImGui::End();
  ImGui::PopStyleColor();
  ImGui::PopStyleVar(2);
}

// ---
// The viewer's frame.

constexpr float kNoticeSeconds = 4;
constexpr int kTextFrames = 4;  // from requesting a text field until ImGui reports it active

// The keys that ImGui's text fields know.
constexpr std::pair<SpecialKey, ImGuiKey> kTextKeys[] = {
    {SpecialKey::left, ImGuiKey_LeftArrow},      {SpecialKey::right, ImGuiKey_RightArrow},
    {SpecialKey::home, ImGuiKey_Home},           {SpecialKey::end, ImGuiKey_End},
    {SpecialKey::backspace, ImGuiKey_Backspace}, {SpecialKey::enter, ImGuiKey_Enter}};

// Return what a key does, or null. Capitals without a meaning of their own mean what their small
// letters do.
Command* command_of(Key key) {
  for (const KeyBinding& binding : key_bindings())
    if (binding.key == key) return binding.command;
  if (key.character < U'A' || key.character > U'Z') return nullptr;
  key.character += U'a' - U'A';
  return command_of(key);
}

}  // namespace

Viewer::Viewer(float scale) {
  if (ImGui::GetCurrentContext() != nullptr)
    throw std::logic_error("a viewer is there already; there can be one at a time");
  IMGUI_CHECKVERSION();
  set_scale(scale);
}

bool Viewer::set_scale(float scale) {
  if (std::exchange(scale_, scale) == scale) return false;
  imgui_.reset();
  imgui_.emplace(textures, scale);
  ImGuiIO& io = ImGui::GetIO();
  io.ConfigWindowsMoveFromTitleBarOnly = true;
  settling_ = 3;
  return true;
}

void Viewer::open(Session session) {
  session_.emplace(std::move(session));
  settling_ = 3;
}

void Viewer::show_notice(std::string text) {
  notice_ = std::move(text);
  notice_seconds_ = kNoticeSeconds;
}

bool Viewer::animating() const {
  const bool playing = session_ && session_->playback.playing();
  const bool predicting = session_ && session_->what_if && session_->what_if->pending();
  return playing || predicting || loading_ != nullptr || notice_seconds_ > 0 || !typed_.empty() ||
         text_key_down_ || text_frames_ > 0 || settling();
}

// Pass one key to the text field. Return false if the field can take no more in this frame.
bool Viewer::feed_text(const Key& key) {
  ImGuiIO& io = ImGui::GetIO();
  if (text_key_down_) return false;
  if (key.special == SpecialKey::none) {
    if (key.character >= U' ') io.AddInputCharacter(static_cast<unsigned>(key.character));
    text_written_ = true;
    return true;
  }
  // ImGui takes characters before keys, whatever their order was.
  if (text_written_) return false;
  for (const auto& [special, imgui_key] : kTextKeys)
    if (special == key.special) set_key(io, imgui_key, text_key_down_ = true);
  if (key.special == SpecialKey::enter) text_frames_ = kTextFrames;
  return true;
}

void Viewer::feed_keys(const FrameInput& input) {
  ImGuiIO& io = ImGui::GetIO();
  typed_.insert(typed_.end(), input.keys.begin(), input.keys.end());
  const bool was_down = std::exchange(text_key_down_, false);
  text_written_ = false;
  for (const auto& [special, imgui_key] : kTextKeys) set_key(io, imgui_key, false);
  if (text_frames_ > 0) --text_frames_;
  while (!typed_.empty()) {
    const Key key = typed_.front();
    if (showing_error()) {
      if (key.special == SpecialKey::escape || key.special == SpecialKey::enter) error_.clear();
    } else if (loading_ == nullptr) {
      if (text_frames_ > 0) return;
      const bool has_field = files_ || (session_ && (session_->sought.open || session_->writing));
      const bool writes = has_field && io.WantTextInput;
      Command* const command = command_of(key);
      if (writes && key.special != SpecialKey::escape) {
        // ImGui sees a press only after a frame in which the key was up.
        if ((key.special != SpecialKey::none && was_down) || !feed_text(key)) return;
      } else if (files_) {
        if (key.special == SpecialKey::escape) files_.reset();
      } else if (!session_) {
        if (command == commands::open_file) list_files();
      } else if (key.special == SpecialKey::escape &&
                 ImGui::IsPopupOpen("", ImGuiPopupFlags_AnyPopup)) {
        ImGui::ClosePopupToLevel(0, true);  // a menu is topmost
      } else if (command != nullptr) {
        command(*session_);
        if (command == commands::search) focus_search();
        if (command == commands::write_note && session_->writing) focus_note();
        if (command == commands::search || command == commands::write_note)
          text_frames_ = kTextFrames;
      }
    }
    typed_.pop_front();
  }
}

void Viewer::feed(const FrameInput& input) {
  ImGuiIO& io = ImGui::GetIO();
  io.DisplaySize = {static_cast<float>(std::max(input.width, 1)),
                    static_cast<float>(std::max(input.height, 1))};
  io.DeltaTime = std::clamp(input.seconds, 1e-4f, 0.25f);
  const bool outside = input.mouse_x < 0 || input.mouse_y < 0;
  io.MousePos = outside ? ImVec2(-FLT_MAX, -FLT_MAX) : ImVec2(input.mouse_x, input.mouse_y);
  io.MouseDown[0] = input.left;
  io.MouseDown[1] = input.right;
  io.MouseDown[2] = input.middle;
  io.MouseWheel = input.wheel;
  io.MouseWheelH = input.wheel_x;
  set_modifiers(io, input.shift, input.ctrl);
  feed_keys(input);
}

void Viewer::draw_root(const FrameInput& input, bool was_playing) {
  if (session_) theme = session_->look.theme;
  const Palette& palette = palette_of(theme);
  apply_style(ImGui::GetStyle(), palette, theme);
  begin_root_window();
  if (loading_ != nullptr) {
    draw_loading(*loading_, imgui_->fonts(), palette);
  } else if (session_) {
    // A pause may last for hours, in which no frame is drawn, and is no part of what is played.
    if (was_playing) advance(*session_, input.seconds);
    const PanelContext context{*session_, textures, imgui_->fonts(), palette};
    draw_workspace(context, splits);
    if (session_->writing) draw_notes(context);
    if (session_->panels.help) draw_help(context);
    if (!session_->wishes.said.empty()) show_notice(std::exchange(session_->wishes.said, ""));
    if (const std::string copied = std::exchange(session_->wishes.copied, ""); !copied.empty()) {
      ImGui::SetClipboardText(copied.c_str());
      show_notice("Copied: " + copied.substr(0, std::min<std::size_t>(copied.find('\n'), 160)));
    }
    if (std::exchange(session_->wishes.file, false)) list_files();
  } else if (start_) {
    start_->simulated.look.theme = theme;
    draw_start({start_->simulated, textures, imgui_->fonts(), palette}, *start_);
    if (std::exchange(start_->wants_file, false)) list_files();
    if (!start_->chosen.empty()) chosen_ = std::exchange(start_->chosen, {});
  }
  ImGui::End();
  if (starting() && loading_ == nullptr) {
    if (!start_->complete()) settling_ = std::max(settling_, 1);  // what it records is drawn next
    if (std::optional<Session> ready = start_->go_on()) open(std::move(*ready));
  }
  if (files_ && loading_ == nullptr)
    if (const auto chosen = draw_files(*files_, imgui_->fonts(), palette)) {
      if (!chosen->empty()) chosen_ = {*chosen};
      files_.reset();
    }
  if (notice_seconds_ > 0) {
    draw_notice(notice_, std::min(1.0f, notice_seconds_), palette);
    notice_seconds_ -= input.seconds;
  }
  if (showing_error() && draw_error(error_, imgui_->fonts(), palette)) error_.clear();
}

// Let the user choose a file, from the folder of what is open or was last.
void Viewer::list_files() {
  if (ask_for_file) return ask_for_file();
  const std::string last = session_                            ? session_->document().trace.path
                           : start_ && !start_->recent.empty() ? start_->recent.front().front()
                                                               : "";
  files_.emplace(std::filesystem::path(last).parent_path().string());
  text_frames_ = kTextFrames;
}

const ImDrawData& Viewer::frame(const FrameInput& input) {
  imgui_->make_current();
  if (settling_ > 0) --settling_;
  const bool was_playing = session_ && session_->playback.playing();
  feed(input);
  ImGui::NewFrame();
  ImGui::PushFont(imgui_->fonts().text);
  draw_root(input, was_playing);
  ImGui::PopFont();
  ImGui::Render();
  return *ImGui::GetDrawData();
}

const ImDrawData& settled_frame(Viewer& viewer, const FrameInput& input) {
  do {
    viewer.frame(input);
  } while (viewer.settling());
  return viewer.frame(input);
}

Image picture_of(Viewer& viewer, const FrameInput& input, int width, int height) {
  Image image(width, height, 0xff000000u);
  render(settled_frame(viewer, input), image);
  return image;
}

}  // namespace ringscope::viz
