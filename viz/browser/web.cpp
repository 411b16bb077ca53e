// The viewer in a page. The page (app/view/viewer.js) hands over events and files, and shows the
// pixels that come back; what a key means, how a recording is read and every number are the
// viewer's own. It draws without OpenGL, so that its pictures are those of `ringscope view
// --screenshot`.
#include <emscripten.h>
#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <optional>
#include <string>
#include <vector>

#include "core/base/text.h"
#include "viz/data/session/selection.h"
#include "viz/window/open_session.h"
#include "viz/window/software_renderer.h"
#include "viz/window/viewer.h"

namespace ringscope::viz {
namespace {

std::optional<Viewer> viewer;
InputQueue queue;
Image image;
std::string reply;  // the last text that was handed to the page

std::vector<std::string> words_of(const std::string& lines) {
  std::vector<std::string> words;
  if (!lines.empty())
    for (const std::string_view word : split(lines, '\n')) words.emplace_back(word);
  return words;
}

// Return the options that parameters of the page's address ask for, each "name=value", as view_of()
// gives them.
ViewOptions options_of(const std::vector<std::string>& parameters) {
  ViewOptions options;
  for (const std::string& parameter : parameters) {
    const std::size_t end = std::min(parameter.find('='), parameter.size());
    const std::string name = parameter.substr(0, end);
    const std::string value = parameter.substr(std::min(end + 1, parameter.size()));
    const auto require = [&](bool right, const char* accepted) {
      if (!right)
        throw InputError(fmt::format("{}: '{}' given; accepted: {}", name, value, accepted));
    };
    if (name == "at")
      require(take_moment(options, value), "a step such as 3 or back:3");
    else if (name == "story")
      require((options.story = parse_number<int>(value)) && *options.story >= 0, "an integer");
    else if (name == "axis")
      options.axis = value;
    else if (name == "panel")
      options.panel = parse_name(value, kAllFigures);
    else if (name == "select")
      options.select = value;
    else if (name == "range")
      options.range = value;
    else if (name == "pin" || name == "fold")
      require(take_ranks(name == "pin" ? options.order.pinned : options.order.folded, value),
              "different ranks, such as 3,7");
    else if (name == "layer")
      options.layer = value;
    else if (name == "note")
      require(take_note(options, value), kAcceptedNotes);
    else if (name == "what-if")
      options.what_if = value;
    else if (name == "difference")
      options.difference = true;
    else if (name == "bare")
      options.bare = true;
  }
  return options;
}

// Open recordings as an address asks for. It may select a rank alone, by its number.
void open(const std::vector<std::string>& paths, ViewOptions options) {
  require_openable(paths);
  const std::string rank = options.select.value_or("");
  const auto number = parse_number<int>(rank);
  if (number) {
    options.select.reset();
    if (options.step)
      options.select = fmt::format("rank:{},kind:compute,step:{},pass:{}", *number, *options.step,
                                   name_of(options.in_backward ? Pass::backward : Pass::forward));
  }
  Session session = open_session(paths, options, nullptr);
  const auto ranks = session.document().trace.rank_count();
  if (number && (*number < 0 || *number >= ranks))
    throw InputError(
        fmt::format("select: '{}' given; accepted: a rank from 0 to {}", rank, ranks - 1));
  if (!options.step && !options.at_ns && !options.at_steps && !session.story_shown())
    session.go_to_failure();
  if (number && !options.step) session.select_rank(*number);
  session.look.theme = viewer->theme;
  viewer->open(std::move(session));
}

const char* said(std::string text) {
  reply = std::move(text);
  return reply.c_str();
}

}  // namespace
}  // namespace ringscope::viz

using namespace ringscope::viz;  // NOLINT: the functions below are the page's

extern "C" {

// Begin with the sliders of a simulation, in case no recording is opened. `scale` is the number of screen
// pixels per pixel of the page.
EMSCRIPTEN_KEEPALIVE void ringscope_begin(float scale) {
  viewer.emplace(scale);
  viewer->show_start({}, {});
  viewer->ask_for_file = [] {
    EM_ASM(const file = document.getElementById("file"); if (file) file.click());
  };
}

EMSCRIPTEN_KEEPALIVE void ringscope_theme(int light) {
  viewer->theme = light != 0 ? Theme::light : Theme::dark;
  if (viewer->is_open()) viewer->session().look.theme = viewer->theme;
}

// Open files of the page's own file system, one name a line, as parameters of its address ask for, one a
// line. Return "", or why not, which is also shown.
EMSCRIPTEN_KEEPALIVE const char* ringscope_open(const char* names, const char* parameters) {
  std::string why;
  try {
    open(words_of(names), options_of(words_of(parameters)));
  } catch (const std::bad_alloc&) {
    why = "Not enough memory for these traces.";
  } catch (const std::exception& error) {
    why = error.what();
  }
  if (!why.empty()) viewer->show_error(why);
  return said(why);
}

// Return parameters of an address that shows what is shown, one "name=value" a line, or "".
EMSCRIPTEN_KEEPALIVE const char* ringscope_view() {
  std::string lines;
  if (!viewer->is_open()) return said(lines);
  const Session& session = viewer->session();
  std::vector<const Document*> recordings;  // all that the address names, whichever is shown
  for (const Document& each : session.documents)
    if (each.predicted_from.empty()) recordings.push_back(&each);
  for (const auto& [name, value] : view_of(session, recordings))
    lines += (lines.empty() ? "" : "\n") + name + "=" + value;
  return said(lines);
}

// Tell paragraph `story` of the recording, from 1, whose text the page has; a page of a small
// `height` in points shows one panel at a time. Return the paragraph that is told then, or 0 for
// none.
EMSCRIPTEN_KEEPALIVE int ringscope_tell(int story, int height) {
  if (!viewer->is_open() || viewer->session().story().empty()) return 0;
  Session& session = viewer->session();
  session.telling.shown = false;
  if (height < 420 && !session.panels.alone) session.panels.alone = ringscope::Figure::timeline;
  session.tell(story - 1);
  return session.telling.at + 1;
}

EMSCRIPTEN_KEEPALIVE void ringscope_move(float x, float y) {
  queue.push({.kind = InputEvent::move, .x = x, .y = y});
}
EMSCRIPTEN_KEEPALIVE void ringscope_button(int number, int pressed) {
  queue.push({.kind = InputEvent::button, .button_number = number, .pressed = pressed != 0});
}
EMSCRIPTEN_KEEPALIVE void ringscope_scroll(float x, float y) {
  queue.push({.kind = InputEvent::scroll, .x = x, .y = y});
}
// A key is a SpecialKey by number, or a character that also counts as text.
EMSCRIPTEN_KEEPALIVE void ringscope_key(int special, int shift) {
  queue.push({.kind = InputEvent::key,
              .key_pressed = {.special = static_cast<SpecialKey>(special), .shift = shift != 0}});
}
EMSCRIPTEN_KEEPALIVE void ringscope_text(int character) {
  queue.push(
      {.kind = InputEvent::key, .key_pressed = {.character = static_cast<char32_t>(character)}});
}

// Draw a frame of `width` x `height` points. Return its pixels, RGBA, which are valid until the next call.
EMSCRIPTEN_KEEPALIVE const void* ringscope_frame(int width, int height, float scale, float seconds,
                                                 int shift, int ctrl) {
  FrameInput input = queue.take();
  input.width = width;
  input.height = height;
  input.seconds = seconds;
  input.shift = shift != 0;
  input.ctrl = ctrl != 0;
  const int pixels_x = static_cast<int>(static_cast<float>(width) * scale);
  const int pixels_y = static_cast<int>(static_cast<float>(height) * scale);
  if (image.width != pixels_x || image.height != pixels_y) image = Image(pixels_x, pixels_y);
  // A page may show a single frame, in which sizes that depend on contents must be right.
  while (viewer->settling()) viewer->frame({.width = width, .height = height});
  const ImDrawData& data = viewer->frame(input);
  std::fill(image.pixels.begin(), image.pixels.end(), 0xff000000u);
  render(data, image);
  return image.pixels.data();
}

// Return whether the next frame would differ.
EMSCRIPTEN_KEEPALIVE int ringscope_animating() {
  return viewer->animating() || viewer->settling() || !queue.empty() ? 1 : 0;
}

}  // extern "C"

int main() { return 0; }
