#include "viz/model/session/commands.h"

namespace ringscope::viz {
namespace {

constexpr Key on(char32_t character) { return {.character = character}; }
constexpr Key on(SpecialKey special, bool shift = false) {
  return {.special = special, .shift = shift};
}

constexpr KeyBinding kBindings[] = {
    {on(U' '), Command::go_on},
    {on(U'b'), Command::story_back},
    {on(U'r'), Command::play_pause},
    {on(SpecialKey::right), Command::step_forward},
    {on(SpecialKey::left), Command::step_back},
    {on(SpecialKey::right, true), Command::to_end},
    {on(SpecialKey::left, true), Command::to_start},
    {on(SpecialKey::end), Command::to_end},
    {on(U'+'), Command::faster},
    {on(U'='), Command::faster},
    {on(U'-'), Command::slower},

    {on(U'w'), Command::zoom_in},
    {on(U's'), Command::zoom_out},
    {on(U'a'), Command::pan_left},
    {on(U'd'), Command::pan_right},
    {on(SpecialKey::home), Command::fit_all},
    {on(U'f'), Command::focus_selection},
    {on(SpecialKey::backspace), Command::go_back},

    {on(U'.'), Command::next_slice},
    {on(U','), Command::previous_slice},
    {on(U']'), Command::follow_flow},
    {on(U'['), Command::follow_flow_back},
    {on(U'/'), Command::search},
    {on(U'n'), Command::next_found},
    {on(SpecialKey::enter), Command::next_found},
    {on(U'p'), Command::previous_found},
    {on(SpecialKey::enter, true), Command::previous_found},
    {on(U'm'), Command::add_mark},
    {on(U'\''), Command::next_mark},

    {on(U'x'), Command::toggle_axis},
    {on(U'c'), Command::toggle_colors},
    {on(U'l'), Command::toggle_flows},
    {on(U'k'), Command::toggle_critical_path},
    {on(U'o'), Command::toggle_mask_order},
    {on(U't'), Command::toggle_theme},
    {on(SpecialKey::tab), Command::next_trace},
    {on(U'v'), Command::toggle_compare},
    {on(U'h'), Command::toggle_story},
    {on(U'e'), Command::toggle_what_if},
    {on(U'z'), Command::enlarge},
    {on(U'i'), Command::screenshot},
    {on(U'?'), Command::help},
    {on(SpecialKey::escape), Command::cancel},
};

constexpr HelpLine kHelp[] = {
    {"Space", "play, pause; beside a story first its paragraphs, one by one"},
    {"B", "the story's paragraph before"},
    {"R", "play, pause, whatever the story"},
    {"Right, Left", "next step, step before"},
    {"Shift-Left, Shift-Right, End", "playhead to the start, to the end"},
    {"+, =, -", "play faster, slower"},

    {"W, S", "zoom in, out"},
    {"A, D", "pan left, right"},
    {"Home", "fit everything"},
    {"F", "focus the selection; again: fit everything"},
    {"Backspace", "back to the view before"},

    {". ,", "next slice of the row, slice before"},
    {"] [", "follow a message onwards, back"},
    {"/", "search: part of a name, or rank:0 step:2 owner:1 kind:wait for:3 longer:1ms"},
    {"N, Enter", "next one found"},
    {"P, Shift-Enter", "found one before"},
    {"M, '", "mark the playhead's place; go to the next mark"},

    {"X", "axis in time or in ring steps"},
    {"C", "colours by KV owner or by kind"},
    {"L", "messages between ranks on, off"},
    {"K", "critical path on, off"},
    {"O", "mask in the sequence's order or in that of local rows"},
    {"T", "dark, light"},
    {"Tab", "next trace"},
    {"V", "compare traces side by side, or one alone"},
    {"H", "story on, off"},
    {"E", "what if: the run beside itself on another machine, dealt out otherwise"},
    {"Z", "the panel under the mouse large and alone; again: all panels"},
    {"I", "save a picture of the window"},
    {"?", "these keys"},
    {"Esc", "close what is open; else clear selection and measure"},

    {"Wheel", "zoom at the cursor; on the rank names: scroll"},
    {"Shift-Wheel, Ctrl-Wheel", "scroll; rows higher, lower"},
    {"Left-drag", "measure, snapping to the edges of slices"},
    {"Right-drag, Shift-drag", "pan"},
    {"Click", "select a slice, a rank or a block"},
    {"Double-click", "focus a slice"},
};

}  // namespace

std::span<const KeyBinding> key_bindings() { return kBindings; }
std::span<const HelpLine> help_lines() { return kHelp; }

}  // namespace ringscope::viz
