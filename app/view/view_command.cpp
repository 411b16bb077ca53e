#include "app/view/view_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <random>
#include <set>
#include <string>

#include "app/command_line/commands.h"
#include "app/command_line/option_groups.h"
#include "app/report/fields.h"
#include "app/report/machine.h"
#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/text.h"
#include "core/tools/foreign/merged_trace.h"
#include "core/tools/foreign/trace_files.h"
#include "lessons/book/lesson.h"
#include "viz/data/session/selection.h"

#ifdef RINGSCOPE_HAS_VIEWER
#include "viz/window/pictures.h"
#endif

namespace ringscope {
namespace {

// Return how many bytes a file has when it is unpacked, as gzip notes at its end, or 0 where none can
// be read.
double unpacked_bytes(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return 0;
  const auto size = static_cast<double>(std::filesystem::file_size(path, error));
  unsigned char magic[2] = {}, noted[4] = {};
  std::ifstream file(path, std::ios::binary);
  file.read(reinterpret_cast<char*>(magic), sizeof magic);
  if (magic[0] != 0x1f || magic[1] != 0x8b) return error ? 0 : size;
  file.seekg(-4, std::ios::end).read(reinterpret_cast<char*>(noted), sizeof noted);
  return noted[0] + 256.0 * (noted[1] + 256.0 * (noted[2] + 256.0 * noted[3]));
}

// Throw RunError where recordings take more memory than there is: a slice of a hundred bytes of text
// takes twice as many, and a page holds the text as well.
void require_memory(const viz::ViewOptions& options) {
  double bytes = 0;
  for (const std::string& path : options.traces) bytes += unpacked_bytes(path);
  require_bytes((options.html ? 5 : 2) * bytes, "fewer or smaller recordings");
}

// Load traces to write them in another form, and say on stderr what a reader of that could not know, such as
// that a recording is cut off.
std::vector<Trace> traces_to_write(const viz::ViewOptions& options) {
  std::vector<Trace> traces = load_traces(options.traces, nullptr);
  if (options.layer) choose_layer(traces, *options.layer);
  for (const Trace& trace : traces)
    for (const std::string& notice : trace.notices)
      fmt::print(stderr, "ringscope: {}: {}\n", trace.path, notice);
  return traces;
}

// Write the slices that the words of --select find, or all, as CSV. Throw as load_traces does.
void write_csv(const viz::ViewOptions& options) {
  std::vector<Trace> traces = traces_to_write(options);
  if (traces.size() > 1) contradiction("--csv", "given with several traces", "it with one");
  const Trace trace = std::move(traces.front());
  std::string words = options.select.value_or("dur>=0");
  std::replace(words.begin(), words.end(), ',', ' ');
  const viz::SearchResult found = viz::search(trace, words, trace.slice_count);
  if (!found.complaint.empty())
    contradiction("--select", fmt::format("'{}' given", words), std::string(found.complaint));
  write_file(*options.csv, viz::csv_of(trace, found.slices));
}

void require_picture(const std::string& path) {
  const std::string ending = std::filesystem::path(path).extension();
  if (!ending.empty() && ending != ".png" && ending != ".svg" && ending != ".pdf")
    throw InputError("--screenshot '" + path + "': accepted: a name with .png, .svg or .pdf");
}

void require_animation(const std::string& path) {
  const std::string ending = std::filesystem::path(path).extension();
  if (ending != ".webp" && ending != ".gif" && ending != ".mp4")
    throw InputError("--animate '" + path + "': accepted: a name with .webp, .gif or .mp4");
#ifdef RINGSCOPE_HAS_VIEWER
  if (const std::string why = viz::why_not_animated(path); !why.empty())
    throw InputError("--animate '" + path + "': " + why);
#endif
}

// Return the viewer and the figures, compiled for browsers, as a script that holds all they need,
// or "" where they were not built (`./ringscope site` builds them where there is emscripten).
std::string web_script() {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error).parent_path();
  for (const fs::path& path :
       {program.parent_path() / "share/ringscope/ringscope_web.js",
        fs::path(RINGSCOPE_SOURCE_DIR) / "build/wasm/viz/browser/ringscope_web.js"})
    if (fs::is_regular_file(path, error)) return read_file(path.string(), "script");
  return "";
}

// Return `text` with each `part` in it replaced, which browsers would take for the end of an element.
std::string replaced(std::string text, std::string_view part, std::string_view by) {
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += by.size())
    text.replace(at, part.size(), by);
  return text;
}

// Return the notes on recordings, as parameters of the viewer's address.
std::vector<std::string> notes_for_page(const viz::ViewOptions& options) {
  std::vector<Trace> traces = load_traces(options.traces, nullptr);
  std::vector<std::pair<int, viz::Note>> notes;
  std::vector<const Trace*> recordings;
  for (Trace& trace : traces) {
    recordings.push_back(&trace);
    const std::size_t notices = trace.notices.size();
    for (viz::Note& note : viz::saved_notes_within(trace))
      notes.emplace_back(recordings.size(), std::move(note));
    if (trace.notices.size() > notices) fmt::print(stderr, "ringscope: {}\n", trace.notices.back());
  }
  viz::require_within(options.notes, recordings);
  notes.insert(notes.end(), options.notes.begin(), options.notes.end());
  std::vector<std::string> words;
  for (const auto& [number, note] : notes)
    words.push_back(fmt::format("{}/{}", number, viz::words_of_note(note)));
  return words;
}

// Return a page that needs no other file: the viewer, opened on the recordings at `paths` with these notes.
// Its own scripts know a number that nobody can guess, and no others run.
std::string viewer_page(const std::string& viewer, const std::vector<std::string>& paths,
                        const std::vector<std::string>& notes) {
  std::random_device random;
  std::string nonce, scripts, title;
  for (int i = 0; i < 4; ++i) nonce += fmt::format("{:08x}", random());
  const auto add = [&](const std::string& text) {
    scripts += "<script nonce=\"" + nonce + "\">" + replaced(text, "</script", "<\\/script") +
               "</script>\n";
  };
  for (const std::string& path : paths) {
    const std::string name = std::filesystem::path(path).filename().string();
    title += name + " · ";
    add(fmt::format("(window.ringscopeRecordings ?\?= {{}})[{}] = \"{}\";\n",
                    replaced(Json(name).text(), "<", "\\u003c"),
                    base64(read_file(path, "trace file"))));
  }
  if (!notes.empty())
    add(fmt::format("window.ringscopeNotes = {};\n", replaced(Json(notes).text(), "<", "\\u003c")));
  add(viewer);
  add(std::string(lessons::embedded_text("app/view/viewer.js")));
  title = replaced(replaced(title, "&", "&amp;"), "<", "&lt;");
  return filled(lessons::embedded_text("app/view/viewer.html"),
                {{"title", title + "Ringscope"},
                 {"allowed", "'nonce-" + nonce + "'"},
                 {"back", ""},
                 {"scripts", scripts}});
}

// Write the viewer and its recordings as one page. Throw InputError, also for a recording that the
// viewer refuses.
void write_page(const viz::ViewOptions& options) {
  const std::string script = web_script();
  if (script.empty())
    throw InputError(
        "--html: the viewer for browsers is not built; accepted: --screenshot OUT.png, or a build "
        "of "
        "./ringscope site where there is emscripten (Debian package emscripten)");
  const std::vector<std::string> notes = notes_for_page(options);  // refuses what the viewer would
  write_file(*options.html, viewer_page(script, options.traces, notes));
}

void write_perfetto(const viz::ViewOptions& options) {
  const std::vector<Trace> traces = traces_to_write(options);
  AtomicFile file(*options.perfetto);
  write_merged_trace(file, traces);
  file.commit();
}

// Write what is asked for beside pictures. Return whether there is any.
bool write_files(const viz::ViewOptions& options) {
  require_memory(options);
  if (options.csv) write_csv(options);
  if (options.html) write_page(options);
  if (options.perfetto) write_perfetto(options);
  return options.csv || options.html || options.perfetto;
}

}  // namespace

#ifdef RINGSCOPE_HAS_VIEWER

const char* why_no_viewer() { return ""; }

bool can_show_windows() { return viz::display_is_there(); }

int carry_out(const viz::ViewOptions& options) {
  viz::set_picture_comment(provenance_line());  // pictures say where they come from
  if (!write_files(options) || options.screenshot || options.animate) viz::view(options);
  return 0;
}

void write_story_picture(const Recording& recording, int paragraph, const std::string& path) {
  write_file(path, viz::story_picture(recording, paragraph));
}

std::string example_picture(const std::vector<Recording>& recordings) {
  return viz::example_picture(recordings);
}

#else

std::string example_picture(const std::vector<Recording>&) { return ""; }

const char* why_no_viewer() {
  return "this build has no viewer; the Debian packages libimgui-dev libglfw3-dev libgl-dev "
         "libstb-dev pkg-config and a build with RINGSCOPE_VIZ=ON bring it";
}

bool can_show_windows() { return false; }

int carry_out(const viz::ViewOptions& options) {
  if (write_files(options)) return 0;
  throw InputError(std::string("view: ") + why_no_viewer() +
                   "; accepted: run, info, demo, lesson, plan, simulate; a trace opens in "
                   "https://ui.perfetto.dev too");
}

void write_story_picture(const Recording&, int, const std::string&) {}

#endif

Finish declare_view(CommandFlags& flags) {
  const auto view = std::make_shared<viz::ViewOptions>();
  flags.words("TRACE", view->traces,
              "recordings of run --trace, or other Chrome traces, as files "
              "or a folder");
  add_unpack(flags);
  flags.path("--screenshot", view->screenshot,
             "write a picture, PNG, SVG or PDF, and open no window");
  constexpr const char* kAnimation = "--animate FILE";
  constexpr const char* kPicture = "--screenshot FILE or --animate FILE";
  flags.path("--animate", view->animate,
             "write a WebP, GIF or MP4 in which the playhead moves, and open no window");
  flags
      .text("--from", "PLACE", view->from,
            "where on the axis it begins, such as 1.5ms, or 2.5 of --axis steps (0)")
      .needs(kAnimation);
  flags.text("--to", "PLACE", view->to, "where on the axis it ends (its end)").needs(kAnimation);
  flags
      .number("--seconds", view->seconds, {0.1, 120, true, "a number from 0.1 to 120"},
              fmt::format("how long it takes ({})", view->seconds))
      .needs(kAnimation);
  flags.integer("--fps", view->fps, fmt::format("pictures in each second ({})", view->fps), 1, 50)
      .needs(kAnimation);
  flags
      .flag("--bare", view->bare,
            "draw no toolbar and no transport; with --panel: a figure for print")
      .needs(kPicture);
  flags.path("--csv", view->csv,
             "write what --select finds, or all slices, as CSV, and open no window (-: to stdout)");
  flags.path("--perfetto", view->perfetto,
             "write the recordings as one trace for Perfetto, and open no window (-: to stdout)");
  flags.path("--html", view->html,
             "write a page that holds the recordings and the viewer, and open no window");
  flags
      .value("--size", "WxH", "of the picture (1600x900)",
             [view](const std::string& text) {
               const auto size = sizes_in(text);
               if (!size || size->first < 320 || size->first > 7680 || size->second < 240 ||
                   size->second > 4320)
                 contradiction("--size", fmt::format("'{}' given", text),
                               "WIDTHxHEIGHT from 320x240 to 7680x4320");
               view->width = static_cast<int>(size->first);
               view->height = static_cast<int>(size->second);
             })
      .needs(kPicture);
  flags.integer("--step", view->step, "begin at this ring step", 0, std::numeric_limits<int>::max(),
                "T");
  flags.value("--at", "[back:]T|TIME",
              "begin at this ring step, back: of the backward pass, or time",
              [view](const std::string& text) {
                if (!viz::take_moment(*view, text))
                  contradiction("--at", fmt::format("'{}' given", text),
                                "a ring step such as 3 or back:3, or a time such as 1.5ms");
              });
  flags.value("--select", "WORDS", "select the first slice that these find, such as rank:3,wait",
              [view](const std::string& text) { view->select = text; });
  flags.flag("--zoom", view->zoom, "zoom to the selected slice").needs("--select WORDS");
  flags.text("--range", "FROM..TO", view->range,
             "zoom to this part of the axis, such as 1ms..3.5ms, or 2..4 of --axis steps");
  const auto ranks = [&flags](const char* flag, const char* help, std::vector<int>& to) {
    flags.value(flag, "R,...", help, [flag, &to](const std::string& text) {
      if (!viz::take_ranks(to, text))
        contradiction(flag, fmt::format("'{}' given", text), "different ranks, such as 3,7");
    });
  };
  ranks("--pin", "the ranks on top of the timeline, such as 3,7", view->order.pinned);
  ranks("--fold", "the ranks that take one low row each", view->order.folded);
  flags.each_value("--note", "[K/]RANK@TIME:TEXT",
                   "a note at a moment of a rank, on the first recording or the K-th; again: more",
                   [view](const std::string& text) {
                     if (!viz::take_note(*view, text))
                       contradiction("--note", fmt::format("'{}' given", printable(text, 60)),
                                     viz::kAcceptedNotes);
                   });
  flags.flag("--table", view->table, "list what is selected, with its sums");
  flags.flag("--difference", view->difference,
             "of several recordings: what has changed from the first one");
  flags.text("--layer", "I:L", view->layer,
             "of profiles: layer L of iteration I, such as 0:2 (the median one)");
  flags.one_of("--axis", {"time", "steps"}, view->axis, "what the timeline's x axis shows (time)");
  flags.integer("--story", view->story,
                "begin at this paragraph of its story, from 1; 0: without it", 0,
                std::numeric_limits<int>::max(), "K");
  flags.name("--panel", view->panel, "P",
             "one panel, large: timeline, ring, mask, balance, softmax, links or tile",
             [](const std::string& text) { return parse_name(text, kAllFigures); });
  flags.optional_value("--what-if", "SETTING=VALUE,...",
                       "beside what would be recorded with these settings, such as bandwidth=2, "
                       "world-size=8, partition=zigzag",
                       [view](const std::string& text) { view->what_if = text; });
  flags.one_of("--theme", {"dark", "light"}, view->theme,
               "background (as last time; of a picture: dark)");
  return [view, &flags] {
    view->traces = files_in(view->traces);
    for (const char* flag :
         {"--html", "--csv", "--perfetto", "--animate", "--bare", "--step", "--at", "--select",
          "--range", "--pin", "--fold", "--note", "--table", "--difference", "--layer", "--axis",
          "--story", "--panel", "--what-if"})
      if (view->traces.empty() && flags.given(flag))
        contradiction(flag, "no trace given", "it together with TRACE...");
    if (view->traces.empty()) view->examples = viewer_examples();
    for (auto* const path : {&view->csv, &view->perfetto})
      if (*path == "-") *path = "/dev/stdout";
    std::set<std::string> names;  // by which a page knows its recordings
    for (const std::string& path : view->traces)
      if (const std::string name = std::filesystem::path(path).filename();
          view->html && !names.insert(name).second)
        contradiction("--html", fmt::format("two files are called '{}'", name),
                      "files of different names");
    if (view->screenshot) require_picture(*view->screenshot);
    if (flags.given("--step") && flags.given("--at"))
      contradiction("--at", "given with --step", "one of them");
    if (view->animate) require_animation(*view->animate);
    for (const auto& [flag, other] : {std::pair("--html", "--screenshot"),
                                      {"--html", "--animate"},
                                      {"--animate", "--screenshot"}})
      if (flags.given(flag) && flags.given(other))
        contradiction(flag, fmt::format("given beside {}", other), "one of them");
    check_output_places({{"--csv", view->csv},
                         {"--perfetto", view->perfetto},
                         {"--html", view->html},
                         {"--animate", view->animate},
                         {"--screenshot", view->screenshot}},
                        view->traces, false);
    return *view;
  };
}

}  // namespace ringscope
