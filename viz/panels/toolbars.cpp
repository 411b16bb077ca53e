// The bars above and below the panels. The toolbar selects what is shown and how: the recording,
// switches, search. What has no room is left out, least needed first, and everything has a key too.
#include <fmt/format.h>
#include <imgui.h>

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "viz/model/session/format.h"
#include "viz/panels/drawing.h"
#include "viz/panels/panels.h"

// This header needs imgui.h before it.
#include <imgui_stdlib.h>

namespace ringscope::viz {
namespace {

constexpr float kSearchWidth = 170, kFoundWidth = 64;
constexpr float kLeastChooser = 120, kMostChooser = 420;
constexpr float kItemGap = 12;

bool search_wants_focus = false;

// Draw a button that looks pressed while `on`. Return true if it was clicked.
bool toggle(const PanelContext& context, const char* text, bool on, const char* help) {
  const Palette& palette = context.palette;
  if (on) {
    ImGui::PushStyleColor(ImGuiCol_Button, mix(palette.panel, palette.accent, 0.35));
    ImGui::PushStyleColor(ImGuiCol_ButtonHovered, mix(palette.panel, palette.accent, 0.45));
  }
  const bool clicked = ImGui::Button(text);
  if (on) ImGui::PopStyleColor(2);
  if (ImGui::IsItemHovered()) draw_meaning(context, help);
  return clicked;
}

// Draw two buttons of which one is chosen. Return true if the other one was clicked.
bool choose(const PanelContext& context, const std::pair<const char*, const char*>& words,
            bool second, const char* help) {
  ImGui::BeginGroup();
  const bool to_first = toggle(context, words.first, !second, help) && second;
  ImGui::SameLine(0, 2);
  const bool to_second = toggle(context, words.second, second, help) && !second;
  ImGui::EndGroup();
  return to_first || to_second;
}

void draw_chooser(const PanelContext& context, float width) {
  Session& session = context.session;
  const std::string chosen = session.comparing
                                 ? fmt::format("{} recordings, compared", session.documents.size())
                                 : session.document().trace.title();
  if (session.documents.size() == 1) {
    ImGui::AlignTextToFramePadding();
    ImGui::TextUnformatted(fitted(context.fonts.text, chosen, width).c_str());
    if (ImGui::IsItemHovered()) {
      const Trace& trace = session.document().trace;
      const Axis& axis = session.document().axis;
      Pairs facts;
      if (trace.is_ring()) facts = facts_of(*trace.run, axis.steps() > axis.forward_steps());
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
    const std::string label = fmt::format("{}##{}", session.documents[i].trace.title(), i);
    if (!ImGui::Selectable(label.c_str(), !session.comparing && session.active == i)) continue;
    if (session.comparing) commands::toggle_compare(session);
    session.activate(i);
  }
  ImGui::EndCombo();
}

void draw_found(const PanelContext& context) {
  const SearchResult& found = context.session.found;
  std::string text;
  if (!found.complaint.empty()) {
    text = "?";
  } else if (!context.session.search_text.empty()) {
    text = found.slices.empty()
               ? "none"
               : fmt::format("{} of {}", context.session.found_at + 1, found.total);
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
  if (!session.search_open) {
    if (ImGui::Button("Search", {kSearchWidth, 0})) {
      commands::search(session);
      focus_search();
    }
    if (ImGui::IsItemHovered())
      draw_meaning(context, "slices by words: wait, step:2, owner:1, rank:0, longer:1ms (key: /)");
    return;
  }
  if (search_wants_focus) ImGui::SetKeyboardFocusHere();
  search_wants_focus = false;
  ImGui::SetNextItemWidth(kSearchWidth);
  std::string text = session.search_text;
  const bool entered = ImGui::InputTextWithHint("##search", "wait step:2 longer:1ms", &text,
                                                ImGuiInputTextFlags_EnterReturnsTrue);
  if (text != session.search_text) session.set_search(text);
  if (entered) (ImGui::GetIO().KeyShift ? commands::previous_found : commands::next_found)(session);
  draw_found(context);
}

// One item of the toolbar. Items of a lower `worth` are left out first when room is short.
struct Item {
  int worth = 0;
  float width = 0;
  std::function<void()> draw;
  bool shown = true;
};

std::vector<Item> items_of(const PanelContext& context) {
  Session& session = context.session;
  const ImGuiStyle& style = ImGui::GetStyle();
  const auto width = [&style](const char* text) {
    return ImGui::CalcTextSize(text).x + 2 * style.FramePadding.x;
  };
  std::vector<Item> items;
  const auto button = [&](int worth, const char* text, bool on, Command* command,
                          const char* help) {
    items.push_back({worth, width(text), [&context, text, on, command, help] {
                       if (toggle(context, text, on, help)) command(context.session);
                     }});
  };
  const auto choice = [&](int worth, std::pair<const char*, const char*> words, bool second,
                          Command* command, const char* help) {
    items.push_back({worth, width(words.first) + 2 + width(words.second),
                     [&context, words, second, command, help] {
                       if (choose(context, words, second, help)) command(context.session);
                     }});
  };
  const bool ring = session.document().trace.is_ring();
  if (ring || session.comparing) {
    choice(8, {"Time", "Steps"}, session.axis_mode == AxisMode::steps, commands::toggle_axis,
           "The x axis: time, or ring steps of equal length, so that the same step of all ranks "
           "stands at the same place");
    choice(7, {"Owner", "Kind"}, session.color_by == ColorBy::kind, commands::toggle_colors,
           "Colours: by the owner of the KV block, or by compute, send, recv and wait");
  }
  const bool alone = !session.comparing && !session.what_if;
  if (alone)
    button(3, "Flows", session.show_flows, commands::toggle_flows, "Arrows from sends to receives");
  if (ring && alone)
    button(6, "Critical path", session.show_critical_path, commands::toggle_critical_path,
           "What the run's length hangs on, across ranks");
  if (ring || session.what_if)
    button(4, "What if", session.what_if != nullptr, commands::toggle_what_if,
           "The run beside itself: on another machine, with other ranks, in another partition");
  if (!session.comparison.figures.empty())
    button(9, "Compare", session.comparing, commands::toggle_compare,
           "All recordings side by side");
  items.push_back({5, kSearchWidth + (session.search_open ? kFoundWidth + style.ItemSpacing.x : 0),
                   [&context] { draw_search(context); }});
  if (session.search_open) items.back().worth = 20;
  button(2, session.theme == Theme::dark ? "Light" : "Dark", false, commands::toggle_theme,
         "The other background");
  button(10, "?", session.show_help, commands::help, "Every key");
  return items;
}

}  // namespace

void focus_search() { search_wants_focus = true; }

void draw_toolbar(const PanelContext& context) {
  constexpr const char* kTitle = "Ringscope";
  const float room = ImGui::GetContentRegionAvail().x;
  const float title = text_width(context.fonts.title, kTitle) + kItemGap;
  std::vector<Item> items = items_of(context);
  float used = kLeastChooser;
  for (const Item& item : items) used += item.width + kItemGap;
  while (used > room) {
    Item* least = nullptr;
    for (Item& item : items)
      if (item.shown && (least == nullptr || item.worth < least->worth)) least = &item;
    if (least == nullptr) break;
    least->shown = false;
    used -= least->width + kItemGap;
  }

  const bool titled = used + title <= room;
  if (titled) {
    used += title;
    const Box box = content_box();
    draw_text(context.fonts.title, {box.x0, box.y0 + ImGui::GetFrameHeight() / 2}, {0, 0.5f},
              context.palette.text, kTitle);
    ImGui::Dummy({title - kItemGap, 1});
    ImGui::SameLine(0, kItemGap);
  }
  draw_chooser(context, std::clamp(kLeastChooser + room - used, 40.0f, kMostChooser));
  float x = room;
  for (const Item& item : items)
    if (item.shown) x -= item.width + kItemGap;
  x += kItemGap + ImGui::GetStyle().WindowPadding.x;
  for (const Item& item : items) {
    if (!item.shown) continue;
    ImGui::SameLine(x);
    item.draw();
    x += item.width + kItemGap;
  }
}

// ---
// Moves the playhead: has the usual player's buttons, a bar to scrub on with the ring steps marked,
// and the playhead's position in words.

namespace {

constexpr float kButton = 30, kButtonGap = 3;
constexpr float kSpeedWidth = 46, kWordsWidth = 250;
constexpr float kLeastBar = 60;

// A part of a button's picture, `x` pixels right of its middle: a bar, or a triangle.
enum IconShape { kToLeft, kUpright, kToRight };
struct IconPart {
  IconShape shape;
  float x;
};
using Icon = std::vector<IconPart>;

void draw_icon(const Icon& icon, ImVec2 c, Color color) {
  for (const auto& [shape, right] : icon) {
    const float x = c.x + right, s = shape == kToLeft ? -6.0f : 6.0f;
    if (shape == kUpright)
      fill({x - 1.5f, c.y - s, x + 1.5f, c.y + s}, color);
    else
      draw_list().AddTriangleFilled({x - s * 0.6f, c.y - s}, {x + s * 0.8f, c.y},
                                    {x - s * 0.6f, c.y + s}, color);
  }
}

void icon_button(const PanelContext& context, const char* id, const Icon& icon, Command* command,
                 const char* help) {
  const float height = ImGui::GetFrameHeight();
  if (ImGui::Button(id, {kButton, height})) command(context.session);
  const ImVec2 low = ImGui::GetItemRectMin(), high = ImGui::GetItemRectMax();
  draw_icon(icon, {(low.x + high.x) / 2, (low.y + high.y) / 2}, context.palette.text);
  if (ImGui::IsItemHovered()) ImGui::SetTooltip("%s", help);
  ImGui::SameLine(0, kButtonGap);
}

void draw_buttons(const PanelContext& context) {
  Session& session = context.session;
  const bool playing = session.playback.playing();
  icon_button(context, "##start", {{kToLeft, 5}, {kToLeft, -2}, {kUpright, -8}}, commands::to_start,
              "To the start");
  icon_button(context, "##back", {{kToLeft, 2}, {kUpright, -6}}, commands::step_back,
              "To the step before");
  icon_button(context, "##play",
              playing ? Icon{{kUpright, -4}, {kUpright, 4}} : Icon{{kToRight, 0}},
              commands::play_pause, playing ? "Pause (R)" : "Play (R)");
  icon_button(context, "##forward", {{kToRight, -2}, {kUpright, 6}}, commands::step_forward,
              "To the next step");
  icon_button(context, "##end", {{kToRight, -5}, {kToRight, 2}, {kUpright, 8}}, commands::to_end,
              "To the end");
}

void draw_speed(const PanelContext& context) {
  Session& session = context.session;
  const double speed = session.playback.speed();
  const std::string text =
      speed >= 1 ? fmt::format("{:.0f}\u00d7", speed) : fmt::format("1/{:.0f}\u00d7", 1 / speed);
  if (ImGui::Button("\u2212##slower", {22, 0})) commands::slower(session);
  if (ImGui::IsItemHovered()) ImGui::SetTooltip("Half the speed");
  ImGui::SameLine(0, 0);
  const ImVec2 at = ImGui::GetCursorScreenPos();
  ImGui::Dummy({kSpeedWidth, ImGui::GetFrameHeight()});
  draw_text(context.fonts.text, {at.x + kSpeedWidth / 2, at.y + ImGui::GetFrameHeight() / 2},
            {0.5f, 0.5f}, context.palette.text, text);
  ImGui::SameLine(0, 0);
  if (ImGui::Button("+##faster", {22, 0})) commands::faster(session);
  if (ImGui::IsItemHovered()) ImGui::SetTooltip("Twice the speed");
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
  const int rank = session.rank_now();  // whose steps the arrow keys go to as well
  if (length > 0 && room / std::max(1, axis.steps()) >= 6) {
    for (int step = 1; step < axis.steps(); ++step) {
      const double position =
          session.axis_mode == AxisMode::steps
              ? step
              : axis.position(AxisMode::time, rank, axis.step_begin_ns(rank, step));
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
