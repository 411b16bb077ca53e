// The window of the desktop: GLFW provides it and its input, which goes into the viewer's queue. The
// software renderer draws the frames, so that the window shows the pixels of --screenshot, and OpenGL
// only brings them onto the screen. A frame is drawn only when something happened or moves.
#define GLFW_INCLUDE_NONE
#include <GLFW/glfw3.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/files.h"
#include "viz/data/analysis/what_if.h"
#include "viz/data/session/format.h"
#include "viz/window/glfw_versions.h"
#include "viz/window/open_session.h"
#include "viz/window/pictures.h"
#include "viz/window/preferences.h"
#include "viz/window/software_renderer.h"
#include "viz/window/view.h"
#include "viz/window/viewer.h"

namespace ringscope::viz {

namespace {

SpecialKey special_key(int key) {
  constexpr std::pair<int, SpecialKey> kKeys[] = {
      {GLFW_KEY_LEFT, SpecialKey::left},      {GLFW_KEY_RIGHT, SpecialKey::right},
      {GLFW_KEY_HOME, SpecialKey::home},      {GLFW_KEY_END, SpecialKey::end},
      {GLFW_KEY_ENTER, SpecialKey::enter},    {GLFW_KEY_BACKSPACE, SpecialKey::backspace},
      {GLFW_KEY_KP_ENTER, SpecialKey::enter}, {GLFW_KEY_ESCAPE, SpecialKey::escape},
      {GLFW_KEY_TAB, SpecialKey::tab}};
  for (const auto& [known, special] : kKeys)
    if (known == key) return special;
  return SpecialKey::none;
}

// Receives what GLFW reports about a window.
struct WindowListener {
  InputQueue queue;
  float scale = 1;                 // screen pixels per pixel of FrameInput
  std::function<void()> happened;  // called for every event, in the queue or not
  std::function<void(std::vector<std::string>)> dropped;  // called with the files
  std::function<void(int)> text_resized;  // called with 1: larger, -1: smaller, 0: as at first
};

WindowListener& of(GLFWwindow* window) {
  return *static_cast<WindowListener*>(glfwGetWindowUserPointer(window));
}

void push(GLFWwindow* window, const InputEvent& event) {
  of(window).queue.push(event);
  of(window).happened();
}

// Return what a key beside Ctrl does to the size of text, as for WindowListener::text_resized.
// Its sign is what counts, because + and - lie elsewhere on other keyboards.
std::optional<int> text_change(int key, int scancode) {
  const char* const printed = glfwGetKeyName(key, scancode);
  const std::string_view sign = printed == nullptr ? "" : printed;
  if (sign == "=" || sign == "+") return 1;
  if (sign == "-") return -1;
  return sign == "0" ? std::optional(0) : std::nullopt;
}

// Listen to `window`, which `listener` must outlive. Ctrl-Q and Ctrl-W ask the window to close.
void listen(GLFWwindow* window, WindowListener& listener) {
  glfwSetWindowUserPointer(window, &listener);
  glfwSetCursorPosCallback(window, [](GLFWwindow* from, double x, double y) {
    int window_width = 1, window_height = 1, width = 1, height = 1;
    glfwGetWindowSize(from, &window_width, &window_height);
    glfwGetFramebufferSize(from, &width, &height);
    const double ratio = width / std::max(1.0, double(window_width)) / of(from).scale;
    push(from, {.kind = InputEvent::move,
                .x = static_cast<float>(x * ratio),
                .y = static_cast<float>(y * ratio)});
  });
  glfwSetCursorEnterCallback(window, [](GLFWwindow* from, int entered) {
    if (entered != GLFW_TRUE) push(from, {.kind = InputEvent::move, .x = -1, .y = -1});
  });
  glfwSetMouseButtonCallback(window, [](GLFWwindow* from, int button, int action, int) {
    if (button <= GLFW_MOUSE_BUTTON_MIDDLE)
      push(from,
           {.kind = InputEvent::button, .button_number = button, .pressed = action == GLFW_PRESS});
  });
  glfwSetScrollCallback(window, [](GLFWwindow* from, double x, double y) {
    push(from,
         {.kind = InputEvent::scroll, .x = static_cast<float>(x), .y = static_cast<float>(y)});
  });
  glfwSetKeyCallback(window, [](GLFWwindow* from, int key, int scancode, int action, int mods) {
    of(from).happened();  // modifiers alone can matter
    if (action == GLFW_RELEASE) return;
    if ((mods & GLFW_MOD_CONTROL) != 0 && (key == GLFW_KEY_Q || key == GLFW_KEY_W))
      glfwSetWindowShouldClose(from, GLFW_TRUE);
    if ((mods & GLFW_MOD_CONTROL) != 0 && (key == GLFW_KEY_O || key == GLFW_KEY_S))
      push(from, {.kind = InputEvent::key,
                  .key_pressed = {.character = static_cast<char32_t>(key) - U'@'}});
    if (const auto change = text_change(key, scancode); change && (mods & GLFW_MOD_CONTROL) != 0)
      of(from).text_resized(*change);
    const Key pressed{.special = special_key(key), .shift = (mods & GLFW_MOD_SHIFT) != 0};
    if (pressed.special != SpecialKey::none)
      push(from, {.kind = InputEvent::key, .key_pressed = pressed});
  });
  // Printable keys arrive as the characters that the keyboard's layout makes of them.
  glfwSetCharCallback(window, [](GLFWwindow* from, unsigned character) {
    push(from, {.kind = InputEvent::key, .key_pressed = {.character = character}});
  });
  glfwSetDropCallback(window, [](GLFWwindow* from, int count, const char** paths) {
    of(from).happened();
    of(from).dropped(std::vector<std::string>(paths, paths + count));
  });
  glfwSetWindowRefreshCallback(window, [](GLFWwindow* from) { of(from).happened(); });
  glfwSetFramebufferSizeCallback(window, [](GLFWwindow* from, int, int) { of(from).happened(); });
}

namespace fs = std::filesystem;

constexpr double kFrameSeconds = 1.0 / 60, kSlowFrameSeconds = 1.0 / 20;
constexpr int kFramesAfterInput = 3;              // until the change has settled
constexpr std::uintmax_t kQuickBytes = 4u << 20;  // read before the window opens if smaller

// Initialises the library, and terminates it at the end.
class Glfw {
 public:
  Glfw() {
    glfwSetErrorCallback([](int, const char* text) { last_error() = text; });
    choose_platform();
    if (glfwInit() != GLFW_TRUE) throw InputError("no display: " + last_error() + kAdvice);
  }
  ~Glfw() { glfwTerminate(); }
  Glfw(const Glfw&) = delete;
  Glfw& operator=(const Glfw&) = delete;

  static std::string& last_error() {
    static std::string text;
    return text;
  }
  static constexpr const char* kAdvice =
      "; accepted: DISPLAY or WAYLAND_DISPLAY set to a display, or --screenshot OUT.png";
};

// Return a function of OpenGL, which GLFW knows once there is a context. So the program itself isn't
// linked with OpenGL and starts where there is none.
template <class Function>
Function* gl_function(const char* name) {
  auto* const found = reinterpret_cast<Function*>(glfwGetProcAddress(name));
  if (found == nullptr) throw RunError(fmt::format("this display's OpenGL has no {}", name));
  return found;
}

// Bring rows of RGBA bytes, the top one first, onto the whole of the current context's window.
void draw_pixels(int width, int height, const void* pixels) {
  static const auto viewport = gl_function<void(int, int, int, int)>("glViewport");
  static const auto raster_pos = gl_function<void(float, float)>("glRasterPos2f");
  static const auto pixel_zoom = gl_function<void(float, float)>("glPixelZoom");
  static const auto draw =
      gl_function<void(int, int, unsigned, unsigned, const void*)>("glDrawPixels");
  constexpr unsigned kRgba = 0x1908, kUnsignedByte = 0x1401;  // GL_RGBA, GL_UNSIGNED_BYTE
  viewport(0, 0, width, height);
  raster_pos(-1, 1);  // top left, because OpenGL's rows go up and ours down
  pixel_zoom(1, -1);
  draw(width, height, kRgba, kUnsignedByte, pixels);
}

// Return the first free ringscope-N with this ending in the current folder.
std::string next_picture_path(const std::string& ending) {
  for (int n = 1;; ++n) {
    const fs::path path = fs::current_path() / fmt::format("ringscope-{}{}", n, ending);
    if (!fs::exists(path)) return path.string();
  }
}

class Window {
 public:
  explicit Window(const ViewOptions& options);
  ~Window();
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;

  void show(Session session);
  void start() { viewer_->show_start(preferences_.recent, options_.examples); }
  void load(std::vector<std::string> paths);
  void run();

 private:
  void draw();
  void wait();
  void finish_loading();
  void save_picture(const ImDrawData& data);
  void fit_scale(int width, int height);
  void use_cursor();
  Preferences present_preferences() const;

  ViewOptions options_;
  Preferences preferences_;
  Glfw glfw_;
  GLFWwindow* window_ = nullptr;
  float content_scale_ = 1, scale_ = 1;  // frame buffer pixels per pixel of FrameInput
  std::optional<Viewer> viewer_;
  Image image_;  // the last frame
  GLFWcursor* cursors_[ImGuiMouseCursor_COUNT] = {};
  WindowListener listener_;
  std::unique_ptr<BackgroundLoad> loading_;
  std::exception_ptr failure_;  // the first load's failure
  int frames_due_ = kFramesAfterInput;
  double last_frame_ = 0;
};

Window::Window(const ViewOptions& options) : options_(options), preferences_(load_preferences()) {
  glfwWindowHint(GLFW_VISIBLE, GLFW_FALSE);
  int width = preferences_.width, height = preferences_.height;
  if (GLFWmonitor* const monitor = glfwGetPrimaryMonitor(); monitor != nullptr) {
    int x = 0, y = 0, most_width = 0, most_height = 0;
    glfwGetMonitorWorkarea(monitor, &x, &y, &most_width, &most_height);
    if (most_width > 0) width = std::min(width, most_width);
    if (most_height > 0) height = std::min(height, most_height);
  }
  window_ = glfwCreateWindow(width, height, "Ringscope", nullptr, nullptr);
  if (window_ == nullptr)
    throw RunError("no window with OpenGL can be opened: " + Glfw::last_error());
  glfwSetWindowSizeLimits(window_, 320, 240, GLFW_DONT_CARE, GLFW_DONT_CARE);
  glfwMakeContextCurrent(window_);
  glfwSwapInterval(1);
  float scale_y = 1;
  glfwGetWindowContentScale(window_, &content_scale_, &scale_y);
  if (!(content_scale_ >= 0.5f && content_scale_ <= 8)) content_scale_ = 1;
  fit_scale(width, height);
  viewer_->splits = preferences_.splits;
  viewer_->theme = options.theme ? theme_of(*options.theme) : preferences_.theme;
  for (const auto& [cursor, shape] : {std::pair{ImGuiMouseCursor_TextInput, GLFW_IBEAM_CURSOR},
                                      {ImGuiMouseCursor_ResizeEW, GLFW_HRESIZE_CURSOR},
                                      {ImGuiMouseCursor_ResizeNS, GLFW_VRESIZE_CURSOR},
                                      {ImGuiMouseCursor_ResizeAll, GLFW_CROSSHAIR_CURSOR},
                                      {ImGuiMouseCursor_Hand, GLFW_HAND_CURSOR}})
    cursors_[cursor] = glfwCreateStandardCursor(shape);
  listener_.happened = [this] { frames_due_ = kFramesAfterInput; };
  listener_.text_resized = [this](int change) {
    preferences_.text_scale = changed_text_scale(preferences_.text_scale, change);
  };
  listener_.dropped = [this](std::vector<std::string> paths) { load(std::move(paths)); };
  listen(window_, listener_);
  glfwShowWindow(window_);
}

Window::~Window() {
  loading_.reset();
  viewer_.reset();
  glfwDestroyWindow(window_);
}

// Let everything grow with a large window.
void Window::fit_scale(int width, int height) {
  scale_ = scale_in_window(content_scale_, width, height, preferences_.text_scale);
  listener_.scale = scale_;
  if (viewer_ && !viewer_->set_scale(scale_)) return;
  if (!viewer_) viewer_.emplace(scale_);
  // Text goes to and comes from the clipboard of the desktop.
  ImGuiIO& io = ImGui::GetIO();
  io.ClipboardUserData = window_;
  io.SetClipboardTextFn = [](void* window, const char* text) {
    glfwSetClipboardString(static_cast<GLFWwindow*>(window), text);
  };
  io.GetClipboardTextFn = [](void* window) {
    return glfwGetClipboardString(static_cast<GLFWwindow*>(window));
  };
}

void Window::show(Session session) {
  if (!options_.theme) session.look.theme = preferences_.theme;
  session.look.color_by = preferences_.color_by;
  viewer_->open(std::move(session));
  for (const Document& document : viewer_->session().documents)
    note_recent(preferences_, document.trace);
  save_preferences(preferences_);  // at once, in case the program is ended by a signal
  std::string title = "Ringscope";
  for (const Document& document : viewer_->session().documents)
    title += " - " + fs::path(document.trace.path).filename().string();
  glfwSetWindowTitle(window_, title.c_str());
  frames_due_ = kFramesAfterInput;
}

void Window::load(std::vector<std::string> paths) {
  if (loading_ != nullptr) return;  // load one at a time
  try {
    paths = files_in(paths);
    require_openable(paths);
  } catch (const InputError& error) {
    viewer_->show_error(error.what());
    return;
  }
  if (viewer_->is_open()) {
    preferences_ = present_preferences();
    options_ = ViewOptions();  // those were for the recordings that it began with
  }
  loading_ = std::make_unique<BackgroundLoad>(std::move(paths), options_);
  viewer_->show_loading(&loading_->progress());
}

void Window::finish_loading() {
  viewer_->show_loading(nullptr);
  frames_due_ = kFramesAfterInput;
  const std::unique_ptr<BackgroundLoad> done = std::move(loading_);
  try {
    show(done->take());
  } catch (const std::exception& error) {
    const bool too_large = dynamic_cast<const std::bad_alloc*>(&error) != nullptr;
    viewer_->show_error(too_large ? "Not enough memory for these traces." : error.what());
    failure_ = std::current_exception();
  }
}

// Save the last frame, whose draw data are `data`.
void Window::save_picture(const ImDrawData& data) {
  try {
    const std::string path =
        next_picture_path(std::exchange(viewer_->session().wishes.picture, ""));
    write_picture(path, data, image_.width, image_.height);
    viewer_->show_notice("Written: " + path);
  } catch (const std::exception& error) {
    viewer_->show_notice(error.what());
  }
}

void Window::use_cursor() {
  const ImGuiMouseCursor wanted = ImGui::GetMouseCursor();
  const bool known = wanted >= 0 && wanted < ImGuiMouseCursor_COUNT;
  glfwSetCursor(window_, known ? cursors_[wanted] : nullptr);  // null: the arrow
}

void Window::draw() {
  FrameInput input = listener_.queue.take();
  int width = 0, height = 0;
  glfwGetFramebufferSize(window_, &width, &height);
  if (width <= 0 || height <= 0) return;  // minimised
  const auto held = [this](int left, int right) {
    return glfwGetKey(window_, left) == GLFW_PRESS || glfwGetKey(window_, right) == GLFW_PRESS;
  };
  input.shift = held(GLFW_KEY_LEFT_SHIFT, GLFW_KEY_RIGHT_SHIFT);
  input.ctrl = held(GLFW_KEY_LEFT_CONTROL, GLFW_KEY_RIGHT_CONTROL);
  fit_scale(width, height);
  input.width = static_cast<int>(std::lround(width / scale_));
  input.height = static_cast<int>(std::lround(height / scale_));
  const double now = glfwGetTime();
  input.seconds = static_cast<float>(now - last_frame_);
  last_frame_ = now;
  // Take a screenshot that the previous frame asked for, because a click in the frame of the key
  // changes what is drawn only in the next one.
  const bool picture_due = viewer_->is_open() && !viewer_->session().wishes.picture.empty();
  const ImDrawData& data = viewer_->frame(input);
  image_ = Image(width, height, palette_of(viewer_->theme).background);
  render(data, image_);
  draw_pixels(width, height, image_.pixels.data());
  if (picture_due && viewer_->is_open()) save_picture(data);
  glfwSwapBuffers(window_);
  use_cursor();
}

// Wait until there is something to draw, and pace frames if the driver does not.
void Window::wait() {
  if (!listener_.queue.empty()) return glfwPollEvents();
  if (frames_due_ <= 0 && !viewer_->animating()) return glfwWaitEvents();
  const double pace = loading_ != nullptr ? kSlowFrameSeconds : kFrameSeconds;
  const double left = last_frame_ + pace - glfwGetTime();
  if (left > 0) {
    glfwWaitEventsTimeout(left);
  } else {
    glfwPollEvents();
  }
}

void Window::run() {
  last_frame_ = glfwGetTime();
  // Events that came before the request to close still count.
  while (glfwWindowShouldClose(window_) == GLFW_FALSE || !listener_.queue.empty()) {
    wait();
    if (loading_ != nullptr && loading_->finished()) finish_loading();
    if (frames_due_ <= 0 && listener_.queue.empty() && !viewer_->animating()) continue;
    if (frames_due_ > 0) --frames_due_;
    draw();
    if (auto chosen = viewer_->take_chosen(); !chosen.empty()) load(std::move(chosen));
    if (!viewer_->is_open() && !viewer_->starting() && loading_ == nullptr &&
        !viewer_->showing_error())
      break;
  }
  save_preferences(viewer_->is_open() ? present_preferences() : preferences_);
  if (!viewer_->is_open() && !viewer_->starting() && failure_) std::rethrow_exception(failure_);
}

Preferences Window::present_preferences() const {
  Preferences p = preferences_;
  p.theme = viewer_->session().look.theme;
  p.color_by = viewer_->session().look.color_by;
  p.splits = viewer_->splits;
  // Keep the size that a maximised window returns to.
  if (glfwGetWindowAttrib(window_, GLFW_MAXIMIZED) != GLFW_TRUE)
    glfwGetWindowSize(window_, &p.width, &p.height);
  return p;
}

// Open the window, load, and return when it is closed. Throw InputError if there is no display,
// what loading threw if there is nothing else to show, and RunError if OpenGL fails.
void run_window(const ViewOptions& options) {
  if (!display_is_there()) throw InputError(std::string("no display") + Glfw::kAdvice);
  std::uintmax_t bytes = 0;
  for (const std::string& path : options.traces) {
    std::error_code error;
    const std::uintmax_t size = fs::file_size(path, error);
    bytes += error ? kQuickBytes : std::min(size, kQuickBytes);
  }
  // Small traces are read first because their errors then need no window.
  std::optional<Session> quick;
  if (bytes < kQuickBytes && !options.traces.empty())
    quick = open_session(options.traces, options, nullptr);
  Window window(options);
  if (quick) {
    window.show(std::move(*quick));
  } else if (!options.traces.empty()) {
    window.load(options.traces);
  } else {
    window.start();
  }
  window.run();
}

// Return the two ends of the playhead's way in an animation.
std::pair<double, double> way_of(const ViewOptions& options, const Session& session) {
  const auto end = [&](const char* flag, const std::optional<std::string>& text, double otherwise,
                       double least) {
    const double at = text ? place_on_axis(session, *text).value_or(-1) : otherwise;
    if (!(at >= least && at <= session.length()))
      throw InputError(fmt::format(
          "{}: '{}' given for an axis of {}; accepted: {}, with --from before --to", flag,
          text.value_or(""),
          session.axis_mode == AxisMode::steps ? fmt::format("{} steps", session.length())
                                               : time_text(session.length()),
          session.axis_mode == AxisMode::steps ? "a number of steps such as 2.5"
                                               : "a time such as 1.5ms"));
    return at;
  };
  const double from = end("--from", options.from, 0, 0);
  const double to = end("--to", options.to, session.length(), std::nextafter(from, INFINITY));
  return {from, to};
}

// Return the width of a paper's column, in ImGui's points, or of two for a tile, and a height that a panel
// can use in it. What it leaves is cut off.
std::pair<int, int> size_in_print(const Session& session) {
  constexpr int kColumn = 272;
  const int ranks = session.document().trace.rank_count();
  switch (*session.panels.alone) {
    case Figure::timeline:
      if (session.rank_map.shown)  // a line for each rank, but at most a page
        return {kColumn, std::clamp(110 + 15 * ranks, 420, 730)};
      return {kColumn, 120 + std::min(ranks, 64) * (ranks <= 8 ? 54 : 34)};
    case Figure::ring:
      return {kColumn, 320};
    case Figure::balance:
    case Figure::softmax:
    case Figure::links:
      return {kColumn, 1000};
    case Figure::tile:
      return {2 * kColumn + 16, 420};
    default:
      return {kColumn, 400};
  }
}

// Write the picture or the animation that is asked for.
void take_picture(ViewOptions options) {
  require_writable(options.animate ? *options.animate : *options.screenshot);
  const bool print = options.bare && options.panel && options.screenshot && !options.what_if;
  std::optional<Session> session;
  if (!options.traces.empty()) session = open_session(options.traces, options, nullptr);
  const bool sized = options.width > 0;
  if (!sized)
    std::tie(options.width, options.height) =
        print ? size_in_print(*session) : std::pair(1600, 900);
  float scale = magnification(options.width, options.height);
  // In print, what has pixels is as fine as 320 of them per inch. A PNG keeps the size that it was given.
  if (print && (!sized || !is_png(*options.screenshot))) {
    const int fine = std::clamp(6400 / options.width, 1, 4);
    scale = static_cast<float>(fine);
    options.width *= fine;
    options.height *= fine;
  }
  Viewer viewer(scale);
  std::pair<double, double> way;
  if (!session) {
    viewer.theme = theme_of(options.theme.value_or("dark"));
    viewer.show_start(load_preferences().recent, options.examples);
  } else {
    const bool placed = options.step || options.at_ns || options.at_steps || options.select;
    if (options.animate) way = way_of(options, *session);
    if (!placed && !session->story_shown() && !session->go_to_failure())
      session->seek(session->length());
    session->panels.print = print;
    if (const std::string said = std::exchange(session->wishes.said, ""); !said.empty())
      fmt::print(stderr, "ringscope: {}\n", said);
    viewer.open(std::move(*session));
  }
  // What moves gets most of the room of a picture in which nothing can be clicked.
  if (options.bare) viewer.splits = {.timeline = 0.4f, .ring = 0.34f, .mask = 0.32f};
  FrameInput input;
  input.width = static_cast<int>(std::ceil(static_cast<float>(options.width) / scale));
  input.height = static_cast<int>(std::ceil(static_cast<float>(options.height) / scale));
  if (options.animate) {
    const int frames = std::max(2, static_cast<int>(std::lround(options.seconds * options.fps)));
    const auto draw = [&](int frame) {
      viewer.session().seek(std::lerp(way.first, way.second, frame / (frames - 1.0)));
      return picture_of(viewer, input, options.width, options.height);
    };
    return write_animation(*options.animate,
                           {options.width, options.height, frames, options.seconds, draw});
  }
  const ImDrawData& data = settled_frame(viewer, input);
  write_picture(*options.screenshot, data, options.width, options.height,
                print ? std::optional(palette_of(viewer.theme).panel) : std::nullopt);
}

}  // namespace

bool display_is_there() {
  const auto set = [](const char* name) {
    const char* const value = std::getenv(name);
    return value != nullptr && *value != '\0';
  };
  return set("DISPLAY") || set("WAYLAND_DISPLAY");
}

std::string example_picture(const std::vector<Recording>& recordings) {
  Session session = recorded_session(recordings);
  session.panels.bare = true;
  session.telling.shown = false;
  if (!session.go_to_failure()) session.seek(session.length() / 2);
  Viewer viewer;
  viewer.open(std::move(session));
  FrameInput input;
  input.width = 960;
  input.height = 540;
  return png_of(picture_of(viewer, input, input.width, input.height));
}

std::string story_picture(const Recording& recording, int paragraph) {
  Session session = recorded_session({recording});
  session.panels.bare = true;
  const Figure figure =
      recording.story.at(static_cast<std::size_t>(paragraph)).figure.value_or(Figure::timeline);
  session.show_alone(figure);
  // A time-out may be a thousand times as long as the run before it.
  if (recording.info.failure) session.set_axis_mode(AxisMode::steps);
  session.tell(paragraph);
  Viewer viewer;
  viewer.open(std::move(session));
  FrameInput input;
  input.width = 830;
  const int lanes = recording.model.empty() ? 94 : 138;  // pixels of a rank
  input.height = figure == Figure::timeline  ? 74 + lanes * recording.info.world_size
                 : figure == Figure::balance ? 480
                                             : 400;
  input.height = std::min(input.height, 560);
  return svg_of(settled_frame(viewer, input), input.width, input.height);
}

void view(const ViewOptions& options) {
  require_openable(options.traces);
  if (options.what_if) check_settings(*options.what_if);
  if (options.screenshot || options.animate) {
    take_picture(options);
  } else {
    run_window(options);
  }
}

}  // namespace ringscope::viz
