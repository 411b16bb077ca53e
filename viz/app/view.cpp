#include "viz/app/view.h"

#include <utility>

#include "core/base/atomic_file.h"
#include "viz/app/open_session.h"
#include "viz/app/png.h"
#include "viz/app/software_renderer.h"
#include "viz/app/viewer.h"
#include "viz/app/window.h"

namespace ringscope::viz {
namespace {

void take_screenshot(const ViewOptions& options) {
  require_writable(*options.screenshot);
  Session session = open_session(options.traces, options, nullptr);
  if (!options.step) session.seek(session.length());
  SoftwareTextures textures;
  Viewer viewer(std::move(session), textures);
  FrameInput input;
  input.width = options.width;
  input.height = options.height;
  write_png(*options.screenshot, picture_of(viewer, input));
}

}  // namespace

void view(const ViewOptions& options) {
  require_openable(options.traces);
  if (options.screenshot) {
    take_screenshot(options);
  } else {
    run_window(options);
  }
}

}  // namespace ringscope::viz
