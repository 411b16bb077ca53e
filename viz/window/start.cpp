#include "viz/window/viewer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <utility>

#include "core/tools/sim/recording.h"
#include "viz/data/session/simulator.h"
#include "viz/panels/drawing.h"
#include "viz/panels/timeline/timeline_frame.h"
#include "viz/window/open_session.h"

#include <imgui_stdlib.h>

namespace ringscope::viz {

namespace fs = std::filesystem;

namespace {

Session simulated_at(const std::vector<int>& places, Theme theme) {
  Session session = recorded_session({record(ring_of(settings_at(places))).recording});
  session.look.theme = theme;
  return session;
}

std::vector<int> first_places() {
  std::vector<int> places;
  for (const Slider& slider : sliders()) places.push_back(slider.place);
  return places;
}

}  // namespace

Start::Start(std::vector<std::vector<std::string>> recent_files, std::vector<Example> all_examples)
    : recent(std::move(recent_files)),
      examples(std::move(all_examples)),
      places(first_places()),
      simulated(simulated_at(places, Theme::dark)) {}

std::optional<Session> Start::go_on() {
  for (bool more = true; more && !complete();) {
    more = opened && sessions.size() < *opened && *opened < examples.size();
    sessions.push_back(recorded_session(examples[sessions.size()].record()));
  }
  if (!opened) return std::nullopt;
  return std::move(*opened < examples.size() ? sessions[*opened] : simulated);
}

namespace {

constexpr float kGap = 16, kPad = 12, kWords = 56, kLine = 30, kLabel = 104, kHead = 76;

// Draw recordings below each other, on one axis.
void draw_recordings(const PanelContext& context, Session& session, std::string_view name,
                     const Box& box) {
  session.look.theme = context.session.look.theme;
  double length = 0;
  for (const Document& document : session.documents)
    length = std::max(length, document.axis.length(session.axis_mode));
  const float high = box.height() / static_cast<float>(session.documents.size());
  draw_list().PushClipRect(box.min(), box.max(), true);
  for (std::size_t d = 0; d < session.documents.size(); ++d) {
    const float y = box.y0 + high * static_cast<float>(d);
    draw_timeline_strip({session, context.textures, context.fonts, context.palette},
                        session.documents[d], fmt::format("start {} {}", name, d),
                        {box.x0 - kTimelineStripGutter, y, box.x1, y + high - 4}, fitted(length));
  }
  draw_list().PopClipRect();
}

// Draw a card's ground, and return what is inside.
Box draw_card(const Palette& palette, const Box& box, bool hovered = false) {
  fill(box, palette.panel, 10);
  outline(box, hovered ? palette.accent : palette.panel_border, 10);
  return {box.x0 + kPad, box.y0 + kPad, box.x1 - kPad, box.y1 - kPad};
}

void draw_example(const PanelContext& context, Start& start, std::size_t index, const Box& box,
                  float picture) {
  const Example& example = start.examples[index];
  const Touch touched = touch(example.name.c_str(), box);
  if (touched.clicked) start.opened = index;
  const Box inner = draw_card(context.palette, box, touched.hovered);
  if (index < start.sessions.size())
    draw_recordings(context, start.sessions[index], example.name,
                    {inner.x0, inner.y0, inner.x1, inner.y0 + picture});
  const float words = inner.y0 + picture + kPad;
  draw_text(context.fonts.strong, {inner.x0, words}, {0, 0}, context.palette.text, example.title,
            inner.width());
  draw_wrapped(context.fonts.small, {inner.x0, words + 24}, inner.width(), context.palette.text_dim,
               example.text);
}

void draw_own(const PanelContext& context, Start& start, const Box& box) {
  const Palette& palette = context.palette;
  const Fonts& fonts = context.fonts;
  const Box inner = draw_card(palette, box);
  draw_text(fonts.strong, inner.min(), {0, 0}, palette.text, "Your recordings");
  ImGui::SetCursorScreenPos({inner.x1 - 76, inner.y0 - 4});
  if (ImGui::Button("Open\u2026", {76, 0})) start.wants_file = true;
  if (start.recent.empty())
    draw_wrapped(fonts.small, {inner.x0, inner.y0 + 36}, inner.width(), palette.text_dim,
                 "None yet. The command demo records four. Files can be dropped here, too.");
  float line = inner.y0 + 32;
  for (const std::vector<std::string>& files : start.recent) {
    const Box place{inner.x0, line, inner.x1, line + 22};
    if (place.y1 > inner.y1) break;
    ImGui::PushID(&files);
    const Touch pointed = touch("recent", place);
    ImGui::PopID();
    const fs::path file(files[0]);
    const std::size_t others = files.size() - 1;
    const float used = draw_text(
        fonts.text, place.min(), {0, 0}, pointed.hovered ? palette.text : palette.accent,
        file.filename().string() + (others > 0 ? fmt::format(" and {} more", others) : ""),
        place.width());
    draw_text(fonts.small, {place.x0 + used + 10, place.y0 + 2}, {0, 0}, palette.text_dim,
              file.parent_path().string(), place.width() - used - 10);
    if (pointed.clicked) start.chosen = files;
    line += 24;
  }
}

// Draw sliders in columns of `rows`, and right of them or below what they simulate.
void draw_simulator(const PanelContext& context, Start& start, int rows, const Box& box,
                    float wide) {
  const Palette& palette = context.palette;
  const Fonts& fonts = context.fonts;
  const Box inner = draw_card(palette, box);
  draw_text(fonts.strong, inner.min(), {0, 0}, palette.text, "Simulate a ring of H100s");
  const float top = inner.y0 + 28;
  for (std::size_t i = 0; i < start.places.size(); ++i) {
    const Slider& slider = sliders()[i];
    const int column = static_cast<int>(i) / rows, row = static_cast<int>(i) % rows;
    const float x = inner.x0 + static_cast<float>(column) * (wide + kGap);
    const float y = top + static_cast<float>(row) * kLine;
    draw_text(fonts.text, {x, y + 4}, {0, 0}, palette.text_dim, slider.label, kLabel);
    ImGui::SetCursorScreenPos({x + kLabel, y});
    ImGui::SetNextItemWidth(wide - kLabel - 2 * kPad);
    const std::string said = std::string(slider.values[start.places[i]]) + slider.unit;
    if (ImGui::SliderInt(fmt::format("##{}", slider.label).c_str(), &start.places[i], 0,
                         static_cast<int>(slider.values.size()) - 1, said.c_str()))
      start.simulated = simulated_at(start.places, start.simulated.look.theme);
  }
  const float below = top + static_cast<float>(rows) * kLine + 6;
  ImGui::SetCursorScreenPos({inner.x0, below});
  if (ImGui::Button("Open it", {76, 0})) start.opened = start.examples.size();
  const bool stacked = box.width() < 2 * wide;
  const float right = stacked ? inner.x1 : box.x1 - wide - kPad;
  const float words = inner.x0 + 88, room = right - words;
  const std::string command = command_at(start.places);
  draw_wrapped(fonts.small, {words, below}, room, palette.text_dim,
               stacked ? fitted(fonts.small, command, room) : command);
  const Box shown = stacked ? Box{inner.x0, below + 30 + kPad, inner.x1, inner.y1}
                            : Box{right + 2 * kPad, inner.y0, inner.x1, inner.y1};
  const Touch touched = touch("simulated", shown);
  if (touched.clicked) start.opened = start.examples.size();
  draw_recordings(context, start.simulated, "simulated", shown);
  if (touched.hovered) outline(shown, palette.accent, 4);
}

}  // namespace

void draw_start(const PanelContext& context, Start& start) {
  constexpr float kLeast = 280, kMost = 440;
  const ImVec2 room = ImGui::GetContentRegionAvail();
  const float free = room.x - 2 * kGap;
  const int columns = std::clamp(static_cast<int>((free + kGap) / (kLeast + kGap)), 1, 3);
  const float wide = std::min(kMost, (free + kGap) / static_cast<float>(columns) - kGap);
  const int cards = static_cast<int>(start.examples.size()) + 1;
  const auto rows = static_cast<float>((cards + columns - 1) / columns);
  // Pictures are as high as leaves room for all cards, within reason.
  const int beside = std::max(1, columns - 1);  // columns of sliders
  const int lines = (static_cast<int>(start.places.size()) + beside - 1) / beside;
  float simulator = 64 + static_cast<float>(lines) * kLine + 2 * kPad;
  const float others = kHead + 4 * kGap + simulator;
  const float picture = std::round(
      std::clamp((room.y - others) / rows - kWords - 3 * kPad - kGap, 0.24f * wide, 0.42f * wide));
  if (columns == 1) simulator += picture + kPad;
  const float high = picture + kWords + 3 * kPad;
  const float across = static_cast<float>(columns) * (wide + kGap) - kGap;
  const float all = kHead + simulator + rows * (high + kGap) + kGap;
  ImGui::PushStyleColor(ImGuiCol_ChildBg, context.palette.background);
  ImGui::BeginChild("start", room);
  ImGui::PopStyleColor();
  const ImVec2 origin = ImGui::GetCursorScreenPos();
  const float top = std::max(kGap, (room.y - all) / 2);
  const ImVec2 at{origin.x + std::round((room.x - across) / 2), origin.y + top};
  draw_text(context.fonts.title, at, {0, 0}, context.palette.text, "Ringscope");
  draw_wrapped(context.fonts.text, {at.x, at.y + 30}, across, context.palette.text_dim,
               "Simulate a ring, take an example, or open a recording of run, train or simulate "
               "--trace, or another program's Chrome trace.");
  draw_simulator(context, start, lines,
                 {at.x, at.y + kHead, at.x + across, at.y + kHead + simulator}, wide);
  const float below = at.y + kHead + simulator + kGap;
  for (int card = 0; card < cards; ++card) {
    const float x = at.x + static_cast<float>(card % columns) * (wide + kGap);
    const float y = below + static_cast<float>(card / columns) * (high + kGap);
    const Box box{x, y, x + wide, y + high};
    if (card + 1 < cards)
      draw_example(context, start, static_cast<std::size_t>(card), box, picture);
    else
      draw_own(context, start, box);
  }
  ImGui::SetCursorScreenPos(origin);
  ImGui::Dummy({1, top + all});
  ImGui::EndChild();
}

// ---
// The list of files.

FileList::FileList(const std::string& wanted_folder) {
  std::error_code error;
  const fs::path place =
      fs::is_directory(wanted_folder, error) ? fs::path(wanted_folder) : fs::current_path(error);
  folder = fs::weakly_canonical(place, error).string();
  typed = folder.ends_with('/') ? folder : folder + "/";
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    std::error_code unknown;
    const std::string name = it->path().filename().string();
    if (name.starts_with('.')) continue;
    if (it->is_directory(unknown))
      names.push_back(name + "/");
    else if ((name.ends_with(".json") && !name.ends_with(".notes.json")) || name.ends_with(".gz"))
      names.push_back(name);
  }
  std::sort(names.begin(), names.end(), [](const std::string& a, const std::string& b) {
    return std::pair(!a.ends_with('/'), a) < std::pair(!b.ends_with('/'), b);
  });
  names.insert(names.begin(), "../");
}

std::optional<std::string> draw_files(FileList& list, const Fonts& fonts, const Palette& palette) {
  const ImVec2 display = ImGui::GetIO().DisplaySize;
  std::optional<std::string> chosen;
  begin_over_all(palette, "files", std::min(640.0f, display.x - 32),
                 std::min(520.0f, display.y - 32));
  write(fonts.title, palette.text, "Open a recording");
  ImGui::SameLine(ImGui::GetWindowWidth() - 96);
  if (ImGui::Button("Cancel", {76, 0})) chosen = "";
  ImGui::SetNextItemWidth(-1);
  if (std::exchange(list.fresh, false)) ImGui::SetKeyboardFocusHere();
  if (ImGui::InputText("##path", &list.typed, ImGuiInputTextFlags_EnterReturnsTrue))
    chosen = (fs::path(list.folder) / list.typed).string();
  draw_child("names", {0, 0}, 0, [&] {
    for (const std::string& name : list.names) {
      ImGui::PushStyleColor(ImGuiCol_Text, name.ends_with('/') ? palette.text_dim : palette.text);
      if (ImGui::Selectable(name.c_str())) chosen = (fs::path(list.folder) / name).string();
      ImGui::PopStyleColor();
    }
  });
  ImGui::End();
  std::error_code error;
  if (!chosen || chosen->empty() || !fs::is_directory(*chosen, error)) return chosen;
  list = FileList(*chosen);
  return std::nullopt;
}

}  // namespace ringscope::viz
