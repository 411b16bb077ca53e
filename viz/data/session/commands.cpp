#include "viz/data/session/session.h"

#include <algorithm>
#include <exception>
#include <set>

#include "viz/data/session/format.h"
#include "viz/data/session/notes.h"
#include "viz/data/session/selection.h"

namespace ringscope::viz {
namespace {

constexpr Key on(char32_t character) { return {.character = character}; }
constexpr Key on(SpecialKey special, bool shift = false) {
  return {.special = special, .shift = shift};
}

// ---
// What every command does to the session.

constexpr double kZoomStep = 1.5;
constexpr double kPanStep = 0.2;    // of the visible width
constexpr double kJumpStep = 0.05;  // of the whole, for a trace without steps

void zoom(Session& session, double factor) {
  const TimelineView& view = session.view;
  session.set_view(
      zoomed(view, (view.begin + view.end) / 2, factor, session.length(), session.axis_mode));
}

void pan(Session& session, double share) {
  session.set_view(panned(session.view, share * session.view.width(), session.length()));
}

void fit(Session& session) {
  TimelineView whole = fitted(session.length());
  whole.scroll_y = session.view.scroll_y;
  session.set_view(whole);
}

void step(Session& session, bool forward) {
  const Document& document = session.document();
  session.playback.pause();
  const double position = session.playback.position();
  if (document.axis.steps() == 0) {
    const double by = kJumpStep * session.length();
    return session.seek(forward ? position + by : position - by);
  }
  const int rank = session.selected_rank;
  session.seek(forward ? next_step(document.axis, session.axis_mode, rank, position)
                       : previous_step(document.axis, session.axis_mode, rank, position));
}

// Go to the selection's neighbour by `neighbour`, or to the first slice if none is selected.
template <class Neighbour>
void go_to_neighbour(Session& session, Neighbour&& neighbour) {
  const Trace& trace = session.document().trace;
  if (session.selected) {
    SliceId id = *session.selected;
    if (neighbour(trace, id)) session.reveal(id);
    return;
  }
  for (std::uint32_t row = 0; row < trace.rows.size(); ++row)
    if (!trace.slices(row).empty() &&
        (session.selected_rank < 0 || trace.rank_of_row(row) == session.selected_rank))
      return session.reveal({row, 0});
}

void follow(Session& session, bool onwards) {
  go_to_neighbour(session, [onwards](const Trace& trace, SliceId& id) {
    return follow_flow(trace, id, onwards);
  });
}

// Walk around the hits. The first time, go to the hit at which the walk stands.
void go_to_found(Session& session, bool forward) {
  const std::vector<SliceId>& hits = session.sought.found.slices;
  if (hits.empty()) return;
  const bool stands_there = session.selected == hits[session.sought.at];
  if (stands_there) {
    const std::size_t by = forward ? 1 : hits.size() - 1;
    session.sought.at = (session.sought.at + by) % hits.size();
  }
  session.reveal(hits[session.sought.at]);
}

// Go to the nearest note behind (before) the playhead, or from the last one round to the first. Notes at
// one place follow each other by rank.
void go_to_note(Session& session, bool forward) {
  using Place = std::pair<double, int>;
  const auto place_of = [&session](const Note* note) {
    return Place(session.position_of(*note), note->rank);
  };
  const auto sooner = [forward](Place a, Place b) { return forward ? a < b : b < a; };
  const Place here(session.playback.position(), session.selected_rank);
  const Note *first = nullptr, *next = nullptr;
  for (const Note& note : session.document().notes) {
    const Place place = place_of(&note);
    if (first == nullptr || sooner(place, place_of(first))) first = &note;
    if (sooner(here, place) && (next == nullptr || sooner(place, place_of(next)))) next = &note;
  }
  if (first != nullptr) session.go_to(next != nullptr ? *next : *first);
}

template <class Switch>
void other(Switch& value, Switch one, Switch two) {
  value = value == one ? two : one;
}
void flip(bool& value) { value = !value; }

}  // namespace

namespace commands {

void play_pause(Session& session) {
  session.telling.points = false;
  session.playback.toggle(session.length());
}

// Tell the story's next paragraph if there is one; otherwise play or pause.
void go_on(Session& session) {
  if (session.story_shown() && !session.story_over() && !session.playback.playing())
    return session.tell(session.telling.at + 1);
  play_pause(session);
}

void story_back(Session& session) {
  if (session.story_shown()) session.tell(session.telling.at - 1);
}

void step_forward(Session& s) { step(s, true); }
void step_back(Session& s) { step(s, false); }
void faster(Session& s) { s.playback.faster(); }
void slower(Session& s) { s.playback.slower(); }
void to_start(Session& s) { s.seek(0); }
void to_end(Session& s) { s.seek(s.length()); }
void zoom_in(Session& s) { zoom(s, kZoomStep); }
void zoom_out(Session& s) { zoom(s, 1 / kZoomStep); }
void pan_left(Session& s) { pan(s, -kPanStep); }
void pan_right(Session& s) { pan(s, kPanStep); }
void fit_all(Session& s) { s.set_view(fitted(s.length())); }

// Show the selected slice from edge to edge, or everything if it already fills the view.
void focus_selection(Session& session) {
  if (!session.selected) return fit(session);
  const TimelineView close = session.view_of(*session.selected);
  if (session.view == close)
    fit(session);
  else
    session.set_view(close);
}

void go_back(Session& s) { s.go_back(); }
void pin_rank(Session& s) {
  if (s.selected_rank >= 0) s.pin(s.selected_rank);
}
void fold_rank(Session& s) {
  if (s.selected_rank >= 0) s.fold(s.selected_rank);
}
void next_slice(Session& s) { go_to_neighbour(s, viz::next_slice); }
void previous_slice(Session& s) { go_to_neighbour(s, viz::previous_slice); }
void follow_flow(Session& s) { follow(s, true); }
void follow_flow_back(Session& s) { follow(s, false); }
void search(Session& s) { s.sought.open = true; }
void next_found(Session& s) { go_to_found(s, true); }
void previous_found(Session& s) { go_to_found(s, false); }

// Enlarge the panel under the mouse, or else the one that the story is about, or the timeline.
void enlarge(Session& session) {
  if (session.panels.alone) return session.show_alone(std::nullopt);
  std::optional<Figure> panel = session.panels.under_mouse;
  if (const StoryStep* told = session.pointed_at(); !panel && told != nullptr) panel = told->figure;
  session.show_alone(panel.value_or(Figure::timeline));
}

void toggle_compare(Session& session) {
  session.show_what_if(false);
  session.comparing = !session.comparing && !session.comparison.figures.empty();
}

void toggle_difference(Session& session) {
  if (session.comparison.differences.size() < 2) return;
  session.show_what_if(false);
  session.show_difference(!session.comparing || !session.difference);
  session.comparing = true;
}

void toggle_axis(Session& session) {
  session.set_axis_mode(session.axis_mode == AxisMode::time ? AxisMode::steps : AxisMode::time);
}

void next_trace(Session& s) {
  s.activate((s.active + 1) % std::max<std::size_t>(s.documents.size(), 1));
}

void next_layer(Session& s) { s.show_layer(s.document().trace.layer + 1); }
void previous_layer(Session& s) { s.show_layer(s.document().trace.layer - 1); }

void toggle_overview(Session& s) { s.show_overview(!s.rank_map.shown); }
void toggle_order(Session& s) { flip(s.rank_map.by_deviation); }
void toggle_flows(Session& s) { flip(s.look.flows); }
void toggle_critical_path(Session& s) { flip(s.look.critical_path); }
void toggle_colors(Session& s) { other(s.look.color_by, ColorBy::owner, ColorBy::kind); }
void toggle_theme(Session& s) { other(s.look.theme, Theme::dark, Theme::light); }
void toggle_mask_order(Session& s) {
  other(s.look.mask_order, MaskOrder::global, MaskOrder::local);
}
void toggle_story(Session& s) { flip(s.telling.shown); }
void toggle_what_if(Session& s) { s.show_what_if(s.what_if == nullptr); }
void toggle_table(Session& s) { flip(s.panels.table); }
void copy_command(Session& s) { s.wishes.copied = view_command(s); }
void copy_table(Session& s) {
  s.wishes.copied = csv_of(s.document().trace, selection_of(s).slices);
}
void write_note(Session& s) { s.write_note(); }
void next_note(Session& s) { go_to_note(s, true); }
void previous_note(Session& s) { go_to_note(s, false); }

// Save the notes on each recording beside it, also that there are none any more.
void save_notes(Session& session) {
  std::set<std::string> written;  // once each, because recordings may share one
  try {
    for (const Document& document : session.documents)
      if (!document.notes.empty() || !saved_notes(document.trace.path).empty())
        written.insert(viz::save_notes(document.trace, document.notes));
    session.wishes.said = written.empty()
                              ? "There are no notes to save"
                              : "Written: " + listed({written.begin(), written.end()}, " and ");
  } catch (const std::exception& error) {
    session.wishes.said = error.what();
  }
}

void toggle_bare(Session& s) { flip(s.panels.bare); }
void picture_png(Session& s) { s.wishes.picture = ".png"; }
void picture_svg(Session& s) { s.wishes.picture = ".svg"; }
void open_file(Session& s) { s.wishes.file = true; }
void help(Session& s) { flip(s.panels.help); }

void step_in_tile(Session& session, int by) {
  session.panels.tile_step = std::clamp(session.panels.tile_step + by, 0, kTileSteps - 1);
  if (session.panels.alone != Figure::tile) session.panels.front = Figure::tile;
}
void next_in_tile(Session& s) { step_in_tile(s, 1); }
void previous_in_tile(Session& s) { step_in_tile(s, -1); }

// Cancel one thing at a time, the topmost first.
void cancel(Session& session) {
  if (session.panels.help) {
    session.panels.help = false;
  } else if (session.writing) {
    session.writing.reset();
  } else if (session.what_if && !session.sought.open) {
    session.show_what_if(false);
  } else if (session.sought.open) {
    session.sought.open = false;
    session.set_search("");
  } else {
    session.select(std::nullopt);
    session.measure.reset();
    session.telling.points = false;
    session.set_search("");
  }
}

}  // namespace commands

const std::vector<KeyBinding>& key_bindings() {
  static const std::vector<KeyBinding> all = [] {
    std::vector<KeyBinding> bindings;
    for (const HelpLine& line : help_lines())
      bindings.insert(bindings.end(), line.bindings.begin(), line.bindings.end());
    return bindings;
  }();
  return all;
}

std::span<const HelpLine> help_lines() {
  using namespace commands;  // NOLINT: their names are short here
  static const HelpLine lines[] = {
      {"Space", "play, pause; beside a story, its next paragraph", {{on(U' '), go_on}}},
      {"B", "the story's paragraph before", {{on(U'b'), story_back}}},
      {"R", "play, pause, whatever the story", {{on(U'r'), play_pause}}},
      {"Right, Left",
       "next step, step before",
       {{on(SpecialKey::right), step_forward}, {on(SpecialKey::left), step_back}}},
      {"Home, End",
       "playhead to the start, to the end",
       {{on(SpecialKey::home), to_start}, {on(SpecialKey::end), to_end}}},
      {"+, =, -",
       "play faster, slower",
       {{on(U'+'), faster}, {on(U'='), faster}, {on(U'-'), slower}}},

      {"W, S", "zoom in, out", {{on(U'w'), zoom_in}, {on(U's'), zoom_out}}},
      {"A, D", "pan left, right", {{on(U'a'), pan_left}, {on(U'd'), pan_right}}},
      {"F, Shift-F",
       "focus the selection, again: as before; fit everything",
       {{on(U'f'), focus_selection}, {on(U'F'), fit_all}}},
      {"Backspace",
       "back to the view, pins and folds before",
       {{on(SpecialKey::backspace), go_back}}},
      {"M, _",
       "pin the selected rank to the top, fold it; again: as before",
       {{on(U'm'), pin_rank}, {on(U'_'), fold_rank}}},

      {". ,",
       "next slice of the row, slice before",
       {{on(U'.'), next_slice}, {on(U','), previous_slice}}},
      {"] [",
       "follow a message onwards, back",
       {{on(U']'), follow_flow}, {on(U'['), follow_flow_back}}},
      {"/",
       "search: part of a name, or rank:0 step:2 owner:1 kind:wait for:3 dur>1ms begin:2ms; or, "
       "not",
       {{on(U'/'), search}}},
      {"N, Enter", "next one found", {{on(U'n'), next_found}, {on(SpecialKey::enter), next_found}}},
      {"P, Shift-Enter",
       "found one before",
       {{on(U'p'), previous_found}, {on(SpecialKey::enter, true), previous_found}}},

      {"G", "all ranks at a glance, or their slices", {{on(U'g'), toggle_overview}}},
      {"U", "all ranks by their difference, or by number", {{on(U'u'), toggle_order}}},
      {"X", "axis in time or in ring steps", {{on(U'x'), toggle_axis}}},
      {"C", "colours by KV owner or by kind", {{on(U'c'), toggle_colors}}},
      {"L", "messages between ranks on, off", {{on(U'l'), toggle_flows}}},
      {"K", "critical path on, off", {{on(U'k'), toggle_critical_path}}},
      {"O",
       "mask in the sequence's order or in that of local rows",
       {{on(U'o'), toggle_mask_order}}},
      {"> <",
       "in the recorded tile: next step, step before",
       {{on(U'>'), next_in_tile}, {on(U'<'), previous_in_tile}}},
      {"T", "dark, light", {{on(U't'), toggle_theme}}},
      {"Tab", "next trace", {{on(SpecialKey::tab), next_trace}}},
      {"} {",
       "of a profile: next layer, layer before",
       {{on(U'}'), next_layer}, {on(U'{'), previous_layer}}},
      {"V", "compare traces side by side, or one alone", {{on(U'v'), toggle_compare}}},
      {"Y", "what has changed from one trace to the other", {{on(U'y'), toggle_difference}}},
      {"H", "story on, off", {{on(U'h'), toggle_story}}},
      {"E",
       "what if: the run beside itself on another machine, or in another partition",
       {{on(U'e'), toggle_what_if}}},
      {"Z", "the panel under the mouse large and alone; again: all panels", {{on(U'z'), enlarge}}},
      {"J",
       "the slices that are found, measured or of the selected rank: their sums, and a table",
       {{on(U'j'), toggle_table}}},
      {"Q", "copy the command that shows this view", {{on(U'q'), copy_command}}},
      {"$", "copy these slices as CSV", {{on(U'$'), copy_table}}},
      {"! ) (",
       "a note at the playhead, and a list; next note, note before",
       {{on(U'!'), write_note}, {on(U')'), next_note}, {on(U'('), previous_note}}},
      {"0", "panels alone, without bars; again: with them", {{on(U'0'), toggle_bare}}},
      {"I, Shift-I",
       "save a picture of the window as PNG, as SVG",
       {{on(U'i'), picture_png}, {on(U'I'), picture_svg}}},
      {"Ctrl-O, Ctrl-S",  // as ASCII has them
       "open another recording, save the notes beside this one",
       {{on(U'O' - U'@'), open_file}, {on(U'S' - U'@'), save_notes}}},
      {"Ctrl-+, Ctrl--, Ctrl-0", "everything larger, smaller, as at first"},  // the window's own
      {"?", "these keys", {{on(U'?'), help}}},
      {"Esc",
       "close what is open; else clear selection and measure",
       {{on(SpecialKey::escape), cancel}}},

      {"Wheel", "zoom at the cursor; on the rank names: scroll"},
      {"Shift-Wheel, Ctrl-Wheel", "scroll; rows higher, lower"},
      {"Left-drag", "measure the ranks that it touches, snapping to the edges of slices"},
      {"Right-drag, Shift-drag", "pan"},
      {"Click", "select a slice, a rank or a block"},
      {"Right-click", "on a rank's name: pin it to the top"},
      {"Double-click",
       "focus a slice; of all ranks at a glance, the slices of one; fold a rank by its name"},
  };
  return lines;
}

}  // namespace ringscope::viz
