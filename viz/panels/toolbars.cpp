// The bars above and below the panels. The toolbar selects what is shown and how: the recording,
// switches, search. What has no room is left out, least needed first, and everything has a key too.
#include <fmt/format.h>
#include <imgui.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "viz/data/session/format.h"
#include "viz/panels/drawing.h"
#include "viz/panels/panels.h"

// These headers need imgui.h before them.
#include <imgui_internal.h>
#include <imgui_stdlib.h>

namespace ringscope::viz {
namespace {

constexpr float kSearchWidth = 170, kFoundWidth = 64;
constexpr float kLeastChooser = 120, kMostChooser = 420;
constexpr float kItemGap = 12;

bool search_wants_focus = false;

void draw_chooser(const PanelContext& context, float width) {
  Session& session = context.session;
  const std::string chosen = session.comparing
                                 ? fmt::format("{} recordings, compared", session.documents.size())
                                 : title_of(session.document().trace);
  if (session.documents.size() == 1) {
    ImGui::AlignTextToFramePadding();
    ImGui::TextUnformatted(fitted(context.fonts.text, chosen, width).c_str());
    if (ImGui::IsItemHovered()) {
      const Trace& trace = session.document().trace;
      const Axis& axis = session.document().axis;
      Pairs facts;
      if (trace.is_ring) facts = facts_of(trace.info, axis.steps() > axis.forward_steps());
      draw_tooltip(context, trace.path, facts);
    }
    return;
  }
  ImGui::SetNextItemWidth(width);
  if (!ImGui::BeginCombo("##trace", chosen.c_str())) return;
  if (!session.comparison.figures.empty() &&
      ImGui::Selectable("All, compared", session.comparing) && !session.comparing)
    commands::toggle_compare(session);
  for (std::size_t i = 0; i < session.documents.size(); ++i) {
    const std::string label = fmt::format("{}##{}", title_of(session.documents[i].trace), i);
    if (!ImGui::Selectable(label.c_str(), !session.comparing && session.active == i)) continue;
    if (session.comparing) commands::toggle_compare(session);
    session.activate(i);
  }
  ImGui::EndCombo();
}

void draw_found(const PanelContext& context) {
  const SearchResult& found = context.session.sought.found;
  std::string text;
  if (!found.complaint.empty()) {
    text = "?";
  } else if (!context.session.sought.text.empty()) {
    text = found.slices.empty()
               ? "none"
               : fmt::format("{} of {}", context.session.sought.at + 1, found.total);
  }
  ImGui::SameLine();
  ImGui::AlignTextToFramePadding();
  const bool bad = !found.complaint.empty() || text == "none";
  write(context.fonts.text, bad ? context.palette.warning : context.palette.text_dim,
        fitted(context.fonts.text, text, kFoundWidth));
  if (ImGui::IsItemHovered())
    draw_meaning(context, "Click: a table of all that are found, and their sums (key: J)");
  if (ImGui::IsItemClicked()) commands::toggle_table(context.session);
  if (found.complaint.empty()) return;
  // What would be accepted stands below the words at once, not only under the mouse.
  const ImVec2 high = ImGui::GetItemRectMax();
  ImGui::SetNextWindowPos({high.x, high.y + 6}, ImGuiCond_Always, {1, 0});
  ImGui::BeginTooltip();
  ImGui::TextUnformatted(std::string(found.complaint).c_str());
  ImGui::EndTooltip();
}

void draw_search(const PanelContext& context) {
  Session& session = context.session;
  if (!session.sought.open) {
    if (ImGui::Button("Search", {kSearchWidth, 0})) {
      commands::search(session);
      focus_search();
    }
    if (ImGui::IsItemHovered())
      draw_meaning(context, "slices by words: wait, step:2, owner:1, rank:0, dur>1ms (key: /)");
    return;
  }
  if (std::exchange(search_wants_focus, false)) {
    ImGui::SetWindowFocus();  // ImGui 1.90.1 gives the focus to nothing in a window without it
    ImGui::SetKeyboardFocusHere();
  }
  ImGui::SetNextItemWidth(kSearchWidth);
  std::string text = session.sought.text;
  const bool entered = ImGui::InputTextWithHint("##search", "wait step:2 dur>1ms", &text,
                                                ImGuiInputTextFlags_EnterReturnsTrue);
  if (text != session.sought.text) session.set_search(text);
  if (entered) (ImGui::GetIO().KeyShift ? commands::previous_found : commands::next_found)(session);
  draw_found(context);
}

// A button, or two of which one is pressed. The search has none. Items of a lower `worth` are left out
// first when room is short.
struct Item {
  int worth = 0;
  std::vector<const char*> words;
  int pressed = -1;  // index of the word that looks pressed; -1: none
  Command* command = nullptr;
  const char* help = "";
};

std::vector<Item> items_of(const Session& session) {
  const bool ring = session.document().trace.is_ring;
  const bool alone = !session.comparing && !session.what_if;
  std::vector<Item> items;
  const auto button = [&](bool there, int worth, const char* word, bool on, Command* command,
                          const char* help) {
    if (there) items.push_back({worth, {word}, on ? 0 : -1, command, help});
  };
  button(true, 5, "Open", false, commands::open_file, "Another recording (key: Ctrl-O)");
  if (ring || session.comparing) {
    items.push_back({8,
                     {"Time", "Steps"},
                     session.axis_mode == AxisMode::steps ? 1 : 0,
                     commands::toggle_axis,
                     "The x axis: time, or ring steps of equal length, so that the same step of "
                     "all ranks stands at the same place (key: X)"});
    items.push_back(
        {7,
         {"Owner", "Kind"},
         session.look.color_by == ColorBy::kind ? 1 : 0,
         commands::toggle_colors,
         "Colours: by the owner of the KV block, or by compute, send, recv and wait (key: C)"});
  }
  button(alone, 3, "Flows", session.look.flows, commands::toggle_flows,
         "Arrows from sends to receives (key: L)");
  button(ring && alone, 6, "Critical path", session.look.critical_path,
         commands::toggle_critical_path, "What the run's length hangs on, across ranks (key: K)");
  button(
      ring || session.what_if, 4, "What if", session.what_if != nullptr, commands::toggle_what_if,
      "The run beside itself: on another machine, with other ranks, in another partition (key: E)");
  button(!session.comparison.figures.empty(), 9, "Compare", session.comparing,
         commands::toggle_compare, "All recordings side by side (key: V)");
  items.push_back({session.sought.open ? 10 : 5, {}});
  button(true, 2, session.look.theme == Theme::dark ? "Light" : "Dark", false,
         commands::toggle_theme, "The other background (key: T)");
  button(true, 10, "?", session.panels.help, commands::help, "Every key (?)");
  return items;
}

float width_of(const Session& session, const Item& item) {
  const ImGuiStyle& style = ImGui::GetStyle();
  if (item.words.empty())
    return kSearchWidth + (session.sought.open ? kFoundWidth + style.ItemSpacing.x : 0);
  float width = 2 * static_cast<float>(item.words.size() - 1);
  for (const char* word : item.words)
    width += ImGui::CalcTextSize(word).x + 2 * style.FramePadding.x;
  return width;
}

void draw_item(const PanelContext& context, const Item& item) {
  if (item.words.empty()) return draw_search(context);
  const Palette& palette = context.palette;
  for (int i = 0; i < static_cast<int>(item.words.size()); ++i) {
    if (i > 0) ImGui::SameLine(0, 2);
    const bool on = i == item.pressed;
    if (on) {
      ImGui::PushStyleColor(ImGuiCol_Button, mix(palette.panel, palette.accent, 0.35));
      ImGui::PushStyleColor(ImGuiCol_ButtonHovered, mix(palette.panel, palette.accent, 0.45));
    }
    if (ImGui::Button(item.words[i]) && (!on || item.words.size() == 1))
      item.command(context.session);
    if (on) ImGui::PopStyleColor(2);
    if (ImGui::IsItemHovered()) draw_meaning(context, item.help);
  }
}

}  // namespace

void focus_search() { search_wants_focus = true; }

void draw_toolbar(const PanelContext& context) {
  constexpr const char* kTitle = "Ringscope";
  const float room = ImGui::GetContentRegionAvail().x;
  const float title = text_width(context.fonts.title, kTitle) + kItemGap;
  std::vector<Item> items = items_of(context.session);
  const auto width = [&] {
    float sum = 0;
    for (const Item& item : items) sum += width_of(context.session, item) + kItemGap;
    return sum;
  };
  for (int worth = 0; kLeastChooser + width() > room && worth <= 10; ++worth)
    std::erase_if(items, [worth](const Item& item) { return item.worth <= worth; });

  const float used = width();
  const bool titled = kLeastChooser + used + title <= room;
  if (titled) {
    ImGui::PushFont(context.fonts.title);
    ImGui::AlignTextToFramePadding();
    ImGui::TextUnformatted(kTitle);
    ImGui::PopFont();
    ImGui::SameLine(0, kItemGap);
  }
  draw_chooser(context, std::clamp(room - used - (titled ? title : 0), 40.0f, kMostChooser));
  float x = room - used + kItemGap + ImGui::GetStyle().WindowPadding.x;
  for (const Item& item : items) {
    ImGui::SameLine(x);
    draw_item(context, item);
    x += width_of(context.session, item) + kItemGap;
  }
}

// ---
// Moves the playhead: has the usual player's buttons, a bar to scrub on with the ring steps marked,
// and the playhead's position in words.

namespace {

constexpr float kButton = 30, kPlay = 62, kButtonGap = 3;
constexpr float kSpeedWidth = 46, kWordsWidth = 250;
constexpr float kLeastBar = 60;

void draw_buttons(const PanelContext& context) {
  Session& session = context.session;
  const float high = ImGui::GetFrameHeight();
  const bool playing = session.playback.playing();
  const auto act = [&](bool clicked, Command* command, const char* help) {
    if (clicked) command(session);
    if (ImGui::IsItemHovered()) ImGui::SetTooltip("%s", help);
    ImGui::SameLine(0, kButtonGap);
  };
  act(ImGui::Button("\u00ab", {kButton, high}), commands::to_start, "To the start (Home)");
  act(ImGui::ArrowButtonEx("back", ImGuiDir_Left, {kButton, high}), commands::step_back,
      "To the step before (Left)");
  act(ImGui::Button(playing ? "Pause" : "Play", {kPlay, high}), commands::play_pause,
      playing ? "Pause (R)" : "Play (R)");
  act(ImGui::ArrowButtonEx("forward", ImGuiDir_Right, {kButton, high}), commands::step_forward,
      "To the next step (Right)");
  act(ImGui::Button("\u00bb", {kButton, high}), commands::to_end, "To the end (End)");
}

void draw_speed(const PanelContext& context) {
  Session& session = context.session;
  const double speed = session.playback.speed();
  const std::string text =
      speed >= 1 ? fmt::format("{:.0f}\u00d7", speed) : fmt::format("1/{:.0f}\u00d7", 1 / speed);
  if (ImGui::Button("\u2212##slower", {22, 0})) commands::slower(session);
  if (ImGui::IsItemHovered()) ImGui::SetTooltip("Half the speed (-)");
  ImGui::SameLine(0, 0);
  const ImVec2 at = ImGui::GetCursorScreenPos();
  ImGui::Dummy({kSpeedWidth, ImGui::GetFrameHeight()});
  if (ImGui::IsItemHovered())
    ImGui::SetTooltip(
        "At 1\u00d7 the run takes ten seconds, or on the axis of steps each step one");
  draw_text(context.fonts.text, {at.x + kSpeedWidth / 2, at.y + ImGui::GetFrameHeight() / 2},
            {0.5f, 0.5f}, context.palette.text, text);
  ImGui::SameLine(0, 0);
  if (ImGui::Button("+##faster", {22, 0})) commands::faster(session);
  if (ImGui::IsItemHovered()) ImGui::SetTooltip("Twice the speed (+)");
}

// Describe the playhead's position. `brief` 1 omits the number of steps, and 2 also the step.
std::string words(const Session& session, int brief) {
  const Axis& axis = session.document().axis;
  const double position = session.playback.position();
  std::string step;
  if (const int at = session.step_now(session.active); at >= 0) {
    const bool backward = axis.is_backward(at);
    const int count = backward ? axis.steps() - axis.forward_steps() : axis.forward_steps();
    step = words_of_step(backward ? Pass::backward : Pass::forward, axis.ring_step(at));
    if (brief == 0) step += fmt::format(" (0 to {})", count - 1);
  }
  if (session.axis_mode == AxisMode::steps) return step;
  const std::string time =
      fmt::format("{} of {}", time_text(position), time_text(session.length()));
  return step.empty() || brief > 1
             ? time
             : fmt::format("{} \u00b7 rank {}: {}", time, session.rank_now(), step);
}

void draw_bar(const PanelContext& context, float width) {
  Session& session = context.session;
  const Palette& palette = context.palette;
  const double length = session.length();
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const float height = ImGui::GetFrameHeight();
  ImGui::InvisibleButton("##scrub", {width, height});
  const float x0 = at.x + 7, room = std::max(1.0f, width - 14), y = at.y + height / 2;
  if (ImGui::IsItemActive()) {
    session.playback.pause();
    session.seek(length * std::clamp((ImGui::GetIO().MousePos.x - x0) / room, 0.0f, 1.0f));
  }
  const bool lit = ImGui::IsItemActive() || ImGui::IsItemHovered();
  const double share = length > 0 ? std::clamp(session.playback.position() / length, 0.0, 1.0) : 0;
  const float x = x0 + room * static_cast<float>(share);
  draw_list().AddRectFilled({x0, y - 2}, {x0 + room, y + 2}, mix(palette.panel, palette.text, 0.16),
                            2);
  draw_list().AddRectFilled({x0, y - 2}, {x, y + 2}, palette.accent, 2);

  const Axis& axis = session.document().axis;
  const int rank = session.selected_rank;  // whose steps the arrow keys go to as well
  if (length > 0 && room / std::max(1, axis.steps()) >= 6) {
    for (int step = 1; step < axis.steps(); ++step) {
      const double position = axis.step_position(session.axis_mode, rank, step);
      const float tick = x0 + room * static_cast<float>(position / length);
      const bool first_backward = step == axis.forward_steps();
      const float reach = first_backward ? 8.0f : 5.0f;
      draw_list().AddLine({tick, y - reach}, {tick, y + reach}, palette.text_dim);
    }
  }
  draw_list().AddCircleFilled({x, y}, lit ? 8.0f : 7.0f, palette.playhead);
  draw_list().AddCircleFilled({x, y}, lit ? 4.0f : 3.0f, palette.panel);
}

}  // namespace

void draw_playback(const PanelContext& context) {
  draw_buttons(context);
  ImGui::SameLine(0, 10);
  float room = ImGui::GetContentRegionAvail().x;
  const bool has_speed = room > kLeastBar + 100;
  if (has_speed) {
    draw_speed(context);
    ImGui::SameLine(0, 10);
    room = ImGui::GetContentRegionAvail().x;
  }
  const bool has_words = room > kWordsWidth + 2 * kLeastBar;
  draw_bar(context, std::max(kLeastBar, room - (has_words ? kWordsWidth : 0)));
  if (!has_words) return;
  ImGui::SameLine(0, 10);
  const Box box = content_box();
  const float y = box.y0 + ImGui::GetFrameHeight() / 2;
  std::string text = words(context.session, 0);
  for (int brief = 1; brief <= 2 && text_width(context.fonts.text, text) > box.width(); ++brief)
    text = words(context.session, brief);
  draw_text(context.fonts.text, {box.x1, y}, {1, 0.5f}, context.palette.text_dim, text,
            box.width());
}

}  // namespace ringscope::viz
