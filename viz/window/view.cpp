#include "viz/window/view.h"

#include <algorithm>
#include <utility>

#include "core/base/files.h"
#include "viz/model/analysis/what_if_settings.h"
#include "viz/window/open_session.h"
#include "viz/window/png.h"
#include "viz/window/software_renderer.h"
#include "viz/window/viewer.h"
#include "viz/window/window.h"

namespace ringscope::viz {
namespace {

constexpr int kWidth = 1600, kHeight = 900;  // of a picture at scale 1

void take_screenshot(const ViewOptions& options) {
  require_writable(*options.screenshot);
  Session session = open_session(options.traces, options, nullptr);
  if (!options.step && !options.select && !session.story_shown() && !session.go_to_failure())
    session.seek(session.length());
  // Large pictures magnify everything rather than show more: they are for large screens and print.
  const int scale = std::max(1, std::min(options.width / kWidth, options.height / kHeight));
  SoftwareTextures textures;
  Viewer viewer(std::move(session), textures, static_cast<float>(scale));
  FrameInput input;
  input.width = (options.width + scale - 1) / scale;
  input.height = (options.height + scale - 1) / scale;
  write_png(*options.screenshot, picture_of(viewer, input, options.width, options.height));
}

}  // namespace

void view(const ViewOptions& options) {
  require_openable(options.traces);
  if (options.what_if) check_settings(*options.what_if);
  if (options.screenshot) {
    take_screenshot(options);
  } else {
    run_window(options);
  }
}

}  // namespace ringscope::viz
