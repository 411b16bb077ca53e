// Lists every key in one table, so that the viewer obeys exactly what `?` lists.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace ringscope::viz {

class Session;

// What keys and buttons do to the session. Each has a key.
using Command = void(Session& session);
namespace commands {

Command go_on;  // to the story's next paragraph; without one, or at its end, like play_pause
Command play_pause, story_back, step_forward, step_back, faster, slower;
Command to_start, to_end;  // move the playhead
Command zoom_in, zoom_out, pan_left, pan_right, fit_all, focus_selection;
Command go_back;  // to the previous view
Command next_slice, previous_slice, follow_flow, follow_flow_back;
Command search, next_found, previous_found;
Command toggle_overview, toggle_order, toggle_flows, toggle_critical_path, toggle_axis;
Command toggle_colors, toggle_theme, toggle_mask_order, next_trace, toggle_compare;
Command toggle_difference, toggle_story, toggle_what_if;
Command enlarge;  // enlarges one panel, or shows all of them again
Command toggle_table, copy_command, copy_table, screenshot, help;
Command cancel;  // closes what is open, else clears selection and measure

}  // namespace commands

// A key is a printable character or one of these. Shift is part of the character ('?' is '?').
enum class SpecialKey : std::uint8_t {
  none,
  left,
  right,
  home,
  end,
  backspace,
  escape,
  enter,
  tab
};

struct Key {
  char32_t character = 0;  // as typed; 0 for a special key
  SpecialKey special = SpecialKey::none;
  bool shift = false;  // special keys only
  bool operator==(const Key&) const = default;
};

struct KeyBinding {
  Key key;
  Command* command;
};
// Return all bindings. Two keys may mean one command.
const std::vector<KeyBinding>& key_bindings();

// A HelpLine gives keys or mouse gestures as people read them, what they do, and the keys' bindings.
struct HelpLine {
  std::string_view keys, text;
  std::vector<KeyBinding> bindings{};
};
std::span<const HelpLine> help_lines();

}  // namespace ringscope::viz
