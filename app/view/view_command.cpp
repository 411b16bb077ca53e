#include "app/view/view_command.h"

#include <string>

#include "core/base/error.h"

namespace ringscope {

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
