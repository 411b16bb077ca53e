#include "viz/window/viewer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <stdexcept>
#include <utility>

#include <imgui_internal.h>

#include "viz/model/session/format.h"
#include "viz/panels/drawing.h"
#include "viz/panels/panels.h"
#include "viz/panels/timeline/timeline_frame.h"
#include "viz/window/fonts.h"
#include "viz/window/open_session.h"
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
  held_.mouse_x = frame.mouse_x;
  held_.mouse_y = frame.mouse_y;
  held_.left = frame.left;
  held_.right = frame.right;
  held_.middle = frame.middle;
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

// Draw the recordings of an example below each other, on one axis.
void draw_example(const PanelContext& context, const Box& box) {
  const std::vector<Document>& documents = context.session.documents;
  double length = 0;
  for (const Document& document : documents)
    length = std::max(length, document.axis.length(context.session.axis_mode));
  const float high = box.height() / static_cast<float>(documents.size());
  draw_list().PushClipRect(box.min(), box.max(), true);
  for (std::size_t d = 0; d < documents.size(); ++d) {
    const float y = box.y0 + high * static_cast<float>(d);
    draw_timeline_strip(context, documents[d], fmt::format("example {}", documents[d].number),
                        {box.x0 - kTimelineStripGutter, y, box.x1, y + high - 4}, fitted(length));
  }
  draw_list().PopClipRect();
}

// Draw the start screen: cards of the examples, and one of the recent recordings. Note what is clicked.
void draw_start(Start& start, TextureStore& textures, const Fonts& fonts, const Palette& palette) {
  constexpr float kLeast = 280, kMost = 440, kGap = 16, kPad = 12, kWords = 58;
  const ImVec2 room = ImGui::GetContentRegionAvail();
  const float free = room.x - 2 * kGap;
  const int columns = std::clamp(static_cast<int>((free + kGap) / (kLeast + kGap)), 1, 3);
  const float wide = std::min(kMost, (free + kGap) / static_cast<float>(columns) - kGap);
  const float picture = std::round(wide * 0.42f), high = picture + kWords + 3 * kPad;
  const int cards = static_cast<int>(start.examples.size()) + 1,
            rows = (cards + columns - 1) / columns;
  const float x0 = std::round((room.x - static_cast<float>(columns) * (wide + kGap) + kGap) / 2);
  const float all = 92 + static_cast<float>(rows) * (high + kGap);
  ImGui::PushStyleColor(ImGuiCol_ChildBg, palette.background);
  ImGui::BeginChild("start", room);
  ImGui::PopStyleColor();
  const ImVec2 origin = ImGui::GetCursorScreenPos();
  const float top = std::max(kGap, (room.y - all) / 2);
  const ImVec2 at{origin.x + x0, origin.y + top};
  draw_text(fonts.title, at, {0, 0}, palette.text, "Ringscope");
  draw_wrapped(
      fonts.text, {at.x, at.y + 30}, room.x - 2 * x0, palette.text_dim,
      "Drop a recording of run, train or simulate --trace here, or a Chrome trace of another "
      "program. Or begin with an example.");
  for (int card = 0; card < cards; ++card) {
    const float x = at.x + static_cast<float>(card % columns) * (wide + kGap);
    const float y = at.y + 76 + static_cast<float>(card / columns) * (high + kGap);
    const Box box{x, y, x + wide, y + high};
    const auto index = static_cast<std::size_t>(card);
    const bool is_example = index < start.examples.size();
    const Touch touched = is_example ? touch(start.examples[index].name.c_str(), box) : Touch{};
    fill(box, palette.panel, 10);
    outline(box, touched.hovered ? palette.accent : palette.panel_border, 10);
    const Box inner{box.x0 + kPad, box.y0 + kPad, box.x1 - kPad, box.y1 - kPad};
    if (!is_example) {
      draw_text(fonts.strong, inner.min(), {0, 0}, palette.text, "Recent recordings");
      if (start.recent.empty())
        draw_wrapped(fonts.small, {inner.x0, inner.y0 + 28}, inner.width(), palette.text_dim,
                     "None yet. The command demo records four.");
      float line = inner.y0 + 26;
      for (const std::string& path : start.recent) {
        const Box place{inner.x0, line, inner.x1, line + 22};
        if (place.y1 > inner.y1) break;
        const Touch pointed = touch(path.c_str(), place);
        const std::filesystem::path file(path);
        const float used = draw_text(fonts.text, place.min(), {0, 0},
                                     pointed.hovered ? palette.text : palette.accent,
                                     file.filename().string(), place.width());
        draw_text(fonts.small, {place.x0 + used + 10, place.y0 + 2}, {0, 0}, palette.text_dim,
                  file.parent_path().string(), place.width() - used - 10);
        if (pointed.clicked) start.chosen = path;
        line += 24;
      }
      continue;
    }
    if (touched.clicked) start.opened = index;
    if (index < start.sessions.size())
      draw_example({start.sessions[index], textures, fonts, palette},
                   {inner.x0, inner.y0, inner.x1, inner.y0 + picture});
    const float words = inner.y0 + picture + kPad;
    draw_text(fonts.strong, {inner.x0, words}, {0, 0}, palette.text, start.examples[index].title,
              inner.width());
    draw_wrapped(fonts.small, {inner.x0, words + 24}, inner.width(), palette.text_dim,
                 start.examples[index].text);
  }
  ImGui::Dummy({1, top + all});
  ImGui::EndChild();
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

// The keys that ImGui's text fields know. Each ImGuiKey is also its index in io.KeysDown.
constexpr std::pair<SpecialKey, ImGuiKey> kTextKeys[] = {
    {SpecialKey::left, ImGuiKey_LeftArrow},      {SpecialKey::right, ImGuiKey_RightArrow},
    {SpecialKey::home, ImGuiKey_Home},           {SpecialKey::end, ImGuiKey_End},
    {SpecialKey::backspace, ImGuiKey_Backspace}, {SpecialKey::enter, ImGuiKey_Enter}};

// Return what a key does, or null. Capitals mean what their small letters do.
Command* command_of(Key key) {
  if (key.character >= U'A' && key.character <= U'Z') key.character += U'a' - U'A';
  for (const KeyBinding& binding : key_bindings())
    if (binding.key == key) return binding.command;
  return nullptr;
}

}  // namespace

Viewer::Viewer(float scale) {
  if (ImGui::GetCurrentContext() != nullptr)
    throw std::logic_error("a viewer is there already; there can be one at a time");
  IMGUI_CHECKVERSION();
  imgui_.emplace(textures, scale);
  ImGuiIO& io = ImGui::GetIO();
  io.ConfigWindowsMoveFromTitleBarOnly = true;
  for (const auto& [key, imgui_key] : kTextKeys) io.KeyMap[imgui_key] = static_cast<int>(imgui_key);
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
    return true;
  }
  // ImGui takes characters before keys, whatever their order was.
  if (!io.InputQueueCharacters.empty()) return false;
  for (const auto& [special, imgui_key] : kTextKeys)
    if (special == key.special) io.KeysDown[imgui_key] = text_key_down_ = true;
  if (key.special == SpecialKey::enter) text_frames_ = kTextFrames;
  return true;
}

void Viewer::feed_keys(const FrameInput& input) {
  ImGuiIO& io = ImGui::GetIO();
  typed_.insert(typed_.end(), input.keys.begin(), input.keys.end());
  const bool was_down = std::exchange(text_key_down_, false);
  for (const auto& [special, imgui_key] : kTextKeys) io.KeysDown[imgui_key] = false;
  if (text_frames_ > 0) --text_frames_;
  while (!typed_.empty()) {
    const Key key = typed_.front();
    if (showing_error()) {
      if (key.special == SpecialKey::escape || key.special == SpecialKey::enter) error_.clear();
    } else if (session_ && loading_ == nullptr) {
      if (text_frames_ > 0) return;
      const bool writes = session_->search_open && io.WantTextInput;
      if (writes && key.special != SpecialKey::escape) {
        // ImGui sees a press only after a frame in which the key was up.
        if ((key.special != SpecialKey::none && was_down) || !feed_text(key)) return;
      } else if (key.special == SpecialKey::escape &&
                 ImGui::IsPopupOpen("", ImGuiPopupFlags_AnyPopup)) {
        ImGui::ClosePopupToLevel(0, true);  // a menu is topmost
      } else if (Command* const command = command_of(key)) {
        command(*session_);
        if (command == commands::search) {
          focus_search();
          text_frames_ = kTextFrames;
        }
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
  io.KeyShift = input.shift;
  io.KeyCtrl = input.ctrl;
  feed_keys(input);
}

void Viewer::draw_root(const FrameInput& input, bool was_playing) {
  if (session_) theme = session_->theme;
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
    if (session_->show_help) draw_help(context);
    if (const std::string copied = std::exchange(session_->copied, ""); !copied.empty()) {
      ImGui::SetClipboardText(copied.c_str());
      show_notice("Copied: " + copied.substr(0, std::min<std::size_t>(copied.find('\n'), 160)));
    }
  }
  if (starting() && loading_ == nullptr) draw_start(*start_, textures, imgui_->fonts(), palette);
  ImGui::End();
  if (starting() && loading_ == nullptr) go_on_starting();
  if (notice_seconds_ > 0) {
    draw_notice(notice_, std::min(1.0f, notice_seconds_), palette);
    notice_seconds_ -= input.seconds;
  }
  if (showing_error() && draw_error(error_, imgui_->fonts(), palette)) error_.clear();
}

// Record the next example, or all those up to the one that is to be opened, and open that.
void Viewer::go_on_starting() {
  const std::optional<std::size_t> chosen = start_->opened;
  for (bool more = true; more && !start_->complete();) {
    more = chosen && start_->sessions.size() < *chosen;
    start_->sessions.push_back(
        recorded_session(start_->examples[start_->sessions.size()].record()));
    start_->sessions.back().theme = theme;
  }
  if (chosen) open(std::move(start_->sessions[*chosen]));
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
