// Lists every key in one table, so that the viewer obeys exactly what `?` lists.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace ringscope::viz {

enum class Command : std::uint8_t {
  go_on,  // to the story's next paragraph; without one, or at its end, like play_pause
  play_pause,
  story_back,
  step_forward,
  step_back,
  faster,
  slower,
  to_start,  // moves the playhead
  to_end,
  zoom_in,
  zoom_out,
  pan_left,
  pan_right,
  fit_all,
  focus_selection,
  go_back,  // to the previous view
  next_slice,
  previous_slice,
  follow_flow,
  follow_flow_back,
  search,
  next_found,
  previous_found,
  add_mark,
  next_mark,
  toggle_overview,
  toggle_order,
  toggle_flows,
  toggle_critical_path,
  toggle_axis,
  toggle_colors,
  toggle_theme,
  toggle_mask_order,
  next_trace,
  toggle_compare,
  toggle_difference,
  toggle_story,
  toggle_what_if,
  enlarge,  // enlarges one panel, or shows all of them again
  toggle_table,
  copy_command,
  copy_table,
  screenshot,
  help,
  cancel,  // closes what is open, else clears selection and measure
};

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
  char32_t character = 0;  // lower case; 0 for a special key
  SpecialKey special = SpecialKey::none;
  bool shift = false;  // special keys only
  bool operator==(const Key&) const = default;
};

struct KeyBinding {
  Key key;
  Command command;
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
