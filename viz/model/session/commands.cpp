#include "viz/model/session/commands.h"

namespace ringscope::viz {
namespace {

constexpr Key on(char32_t character) { return {.character = character}; }
constexpr Key on(SpecialKey special, bool shift = false) {
  return {.special = special, .shift = shift};
}

const HelpLine kHelp[] = {
    {"Space",
     "play, pause; beside a story first its paragraphs, one by one",
     {{on(U' '), Command::go_on}}},
    {"B", "the story's paragraph before", {{on(U'b'), Command::story_back}}},
    {"R", "play, pause, whatever the story", {{on(U'r'), Command::play_pause}}},
    {"Right, Left",
     "next step, step before",
     {{on(SpecialKey::right), Command::step_forward}, {on(SpecialKey::left), Command::step_back}}},
    {"Shift-Left, Shift-Right, End",
     "playhead to the start, to the end",
     {{on(SpecialKey::left, true), Command::to_start},
      {on(SpecialKey::right, true), Command::to_end},
      {on(SpecialKey::end), Command::to_end}}},
    {"+, =, -",
     "play faster, slower",
     {{on(U'+'), Command::faster}, {on(U'='), Command::faster}, {on(U'-'), Command::slower}}},

    {"W, S", "zoom in, out", {{on(U'w'), Command::zoom_in}, {on(U's'), Command::zoom_out}}},
    {"A, D", "pan left, right", {{on(U'a'), Command::pan_left}, {on(U'd'), Command::pan_right}}},
    {"Home", "fit everything", {{on(SpecialKey::home), Command::fit_all}}},
    {"F", "focus the selection; again: fit everything", {{on(U'f'), Command::focus_selection}}},
    {"Backspace", "back to the view before", {{on(SpecialKey::backspace), Command::go_back}}},

    {". ,",
     "next slice of the row, slice before",
     {{on(U'.'), Command::next_slice}, {on(U','), Command::previous_slice}}},
    {"] [",
     "follow a message onwards, back",
     {{on(U']'), Command::follow_flow}, {on(U'['), Command::follow_flow_back}}},
    {"/",
     "search: part of a name, or rank:0 step:2 owner:1 kind:wait for:3 longer:1ms begin:2ms",
     {{on(U'/'), Command::search}}},
    {"N, Enter",
     "next one found",
     {{on(U'n'), Command::next_found}, {on(SpecialKey::enter), Command::next_found}}},
    {"P, Shift-Enter",
     "found one before",
     {{on(U'p'), Command::previous_found}, {on(SpecialKey::enter, true), Command::previous_found}}},
    {"M, '",
     "mark the playhead's place; go to the next mark",
     {{on(U'm'), Command::add_mark}, {on(U'\''), Command::next_mark}}},

    {"G", "all ranks at a glance, or their slices", {{on(U'g'), Command::toggle_overview}}},
    {"U", "all ranks by their difference, or by number", {{on(U'u'), Command::toggle_order}}},
    {"X", "axis in time or in ring steps", {{on(U'x'), Command::toggle_axis}}},
    {"C", "colours by KV owner or by kind", {{on(U'c'), Command::toggle_colors}}},
    {"L", "messages between ranks on, off", {{on(U'l'), Command::toggle_flows}}},
    {"K", "critical path on, off", {{on(U'k'), Command::toggle_critical_path}}},
    {"O",
     "mask in the sequence's order or in that of local rows",
     {{on(U'o'), Command::toggle_mask_order}}},
    {"T", "dark, light", {{on(U't'), Command::toggle_theme}}},
    {"Tab", "next trace", {{on(SpecialKey::tab), Command::next_trace}}},
    {"V", "compare traces side by side, or one alone", {{on(U'v'), Command::toggle_compare}}},
    {"Y", "what has changed from one trace to the other", {{on(U'y'), Command::toggle_difference}}},
    {"H", "story on, off", {{on(U'h'), Command::toggle_story}}},
    {"E",
     "what if: the run beside itself on another machine, or in another partition",
     {{on(U'e'), Command::toggle_what_if}}},
    {"Z",
     "the panel under the mouse large and alone; again: all panels",
     {{on(U'z'), Command::enlarge}}},
    {"J",
     "the slices that are found, measured or of the selected rank: their sums, and a table",
     {{on(U'j'), Command::toggle_table}}},
    {"Q", "copy the command that shows this view", {{on(U'q'), Command::copy_command}}},
    {"$", "copy these slices as CSV", {{on(U'$'), Command::copy_table}}},
    {"I", "save a picture of the window", {{on(U'i'), Command::screenshot}}},
    {"?", "these keys", {{on(U'?'), Command::help}}},
    {"Esc",
     "close what is open; else clear selection and measure",
     {{on(SpecialKey::escape), Command::cancel}}},

    {"Wheel", "zoom at the cursor; on the rank names: scroll"},
    {"Shift-Wheel, Ctrl-Wheel", "scroll; rows higher, lower"},
    {"Left-drag", "measure, snapping to the edges of slices"},
    {"Right-drag, Shift-drag", "pan"},
    {"Click", "select a slice, a rank or a block"},
    {"Double-click", "focus a slice"},
};

}  // namespace

const std::vector<KeyBinding>& key_bindings() {
  static const std::vector<KeyBinding> all = [] {
    std::vector<KeyBinding> bindings;
    for (const HelpLine& line : kHelp)
      bindings.insert(bindings.end(), line.bindings.begin(), line.bindings.end());
    return bindings;
  }();
  return all;
}

std::span<const HelpLine> help_lines() { return kHelp; }

}  // namespace ringscope::viz
