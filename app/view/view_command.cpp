#include "app/view/view_command.h"

#include <string>

#include "core/base/error.h"

#ifdef RINGSCOPE_HAS_VIEWER
#include "viz/window/still.h"
#endif

namespace ringscope {

void require_pictures(const std::string& flag, const std::string& instead) {
  const std::string why = why_no_viewer();
  if (!why.empty()) throw InputError(flag + ": " + why + "; accepted: " + instead);
}

#ifdef RINGSCOPE_HAS_VIEWER

void write_sweep_picture(const SweepTable& table, const std::string& machine,
                         const std::string& path) {
  viz::write_sweep_picture(table, machine, path);
}

void write_loss_picture(const LossCurve& curve, const std::string& path) {
  viz::write_loss_picture(curve, path);
}

#else

void write_sweep_picture(const SweepTable&, const std::string&, const std::string&) {
  require_pictures("--picture");
}

void write_loss_picture(const LossCurve&, const std::string&) {
  require_pictures("--picture", "--loss-csv FILE");
}

#endif

#ifdef RINGSCOPE_HAS_VIEWER

const char* why_no_viewer() { return ""; }

bool can_show_windows() { return viz::display_is_there(); }

int view_command(const viz::ViewOptions& options) {
  viz::view(options);
  return 0;
}

#else

const char* why_no_viewer() {
  return "this build has no viewer; the Debian packages libimgui-dev libglfw3-dev libgl-dev "
         "libstb-dev pkg-config and a build with RINGSCOPE_VIZ=ON bring it";
}

bool can_show_windows() { return false; }

int view_command(const viz::ViewOptions&) {
  throw InputError(std::string("view: ") + why_no_viewer() +
                   "; accepted: run, info, demo, lesson, plan, simulate; a trace opens in "
                   "https://ui.perfetto.dev too");
}

#endif

}  // namespace ringscope
