#include "app/view/view_command.h"

#include <fmt/format.h>

#include <limits>
#include <string>

#include "app/command_line/commands.h"
#include "app/report/fields.h"
#include "core/base/error.h"
#include "core/base/text.h"

#ifdef RINGSCOPE_HAS_VIEWER
#include "viz/window/png.h"
#include "viz/window/still.h"
#endif

namespace ringscope {
namespace {

// Let pictures say where they come from.
void note_pictures() {
#ifdef RINGSCOPE_HAS_VIEWER
  viz::set_png_comment(provenance_line());
#endif
}

}  // namespace

void require_pictures(const std::string& flag, const std::string& path,
                      const std::string& instead) {
  const std::string why = why_no_viewer();
  if (!why.empty()) throw InputError(flag + ": " + why + "; accepted: " + instead);
  for (const char* const ending : {".svg", ".pdf", ".jpg", ".jpeg", ".gif", ".eps", ".ps", ".webp"})
    if (path.ends_with(ending))
      throw InputError(flag + " '" + path + "': pictures are PNG; accepted: a name with .png");
  note_pictures();
}

#ifdef RINGSCOPE_HAS_VIEWER

const char* why_no_viewer() { return ""; }

bool can_show_windows() { return viz::display_is_there(); }

int carry_out(const viz::ViewOptions& options) {
  note_pictures();
  viz::view(options);
  return 0;
}

void write_sweep_picture(const SweepTable& table, const std::string& machine,
                         const std::string& path) {
  viz::write_sweep_picture(table, machine, path);
}

void write_loss_picture(const LossCurve& curve, const std::string& path) {
  viz::write_loss_picture(curve, path);
}

#else

const char* why_no_viewer() {
  return "this build has no viewer; the Debian packages libimgui-dev libglfw3-dev libgl-dev "
         "libstb-dev pkg-config and a build with RINGSCOPE_VIZ=ON bring it";
}

bool can_show_windows() { return false; }

int carry_out(const viz::ViewOptions&) {
  throw InputError(std::string("view: ") + why_no_viewer() +
                   "; accepted: run, info, demo, lesson, plan, simulate; a trace opens in "
                   "https://ui.perfetto.dev too");
}

void write_sweep_picture(const SweepTable&, const std::string&, const std::string&) {
  require_pictures("--picture", "");
}

void write_loss_picture(const LossCurve&, const std::string&) {
  require_pictures("--picture", "", "--loss-csv FILE");
}

#endif

Finish declare_view(CommandFlags& flags) {
  const auto view = std::make_shared<viz::ViewOptions>();
  flags.words("TRACE", view->traces, "recordings of run --trace, or other Chrome traces");
  flags.path("--screenshot", view->screenshot, "write a picture, PNG, and open no window");
  flags.value("--size", "WxH", "of the picture (1600x900)", [view](const std::string& text) {
    const auto size = sizes_in(text);
    if (!size || size->first < 320 || size->first > 7680 || size->second < 240 ||
        size->second > 4320)
      contradiction("--size", fmt::format("'{}' given", text),
                    "WIDTHxHEIGHT from 320x240 to 7680x4320");
    view->width = static_cast<int>(size->first);
    view->height = static_cast<int>(size->second);
  });
  flags.integer("--step", view->step, "begin at this ring step", 0, std::numeric_limits<int>::max(),
                "T");
  flags.integer("--story", view->story,
                "begin at this paragraph of its story, from 1; 0: without it", 0,
                std::numeric_limits<int>::max(), "K");
  flags.name("--panel", view->panel, "P",
             "one panel, large: timeline, ring, mask, balance or softmax",
             [](const std::string& text) { return parse_name(text, kAllFigures); });
  flags.optional_value("--what-if", "SETTING=VALUE,...",
                       "beside what would be recorded with these settings, such as bandwidth=2, "
                       "world-size=8, partition=zigzag",
                       [view](const std::string& text) { view->what_if = text; });
  flags.one_of("--theme", {"dark", "light"}, view->theme,
               "background (as last time; of a picture: dark)");
  return [view, &flags] {
    if (view->traces.empty()) contradiction("view", "no trace given", "view TRACE...");
    if (flags.given("--size") && !view->screenshot)
      contradiction("--size", "given without --screenshot",
                    "it together with --screenshot OUT.png");
    return *view;
  };
}

}  // namespace ringscope
