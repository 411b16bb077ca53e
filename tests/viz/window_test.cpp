// The real window on an X server without a screen (Xvfb), moved by real key and mouse events
// (xdotool). Skipped where these are not installed; .ci/run installs them.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tests/app/program.h"
#include "tests/viz/read_png.h"
#include "viz/window/preferences.h"

namespace ringscope {
namespace {

using namespace std::chrono_literals;

bool installed(const std::string& program) {
  return std::system(("command -v " + program + " >/dev/null 2>&1").c_str()) == 0;
}

bool comes_true(const std::function<bool()>& condition) {
  for (int i = 0; i < 600; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(50ms);
  }
  return false;
}

// Starts a program; `setup` runs in the child.
pid_t start(std::vector<std::string> words, const std::function<void()>& setup) {
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const pid_t child = ::fork();
  if (child != 0) return child;
  setup();
  ::execvp(argv[0], argv.data());
  ::_exit(127);
}

class WindowTest : public ProgramTest {
 protected:
  void SetUp() override {
    if (!installed("Xvfb") || !installed("xdotool"))
      GTEST_SKIP() << "Xvfb or xdotool is not installed";
    int number[2];
    ASSERT_EQ(::pipe(number), 0);
    // Xvfb looks for a free display itself and writes its number. Without -noreset it would drop the
    // viewer that is just connecting when xdotool, until then its only client, leaves.
    server_ = start(
        {"Xvfb", "-displayfd", "3", "-screen", "0", "1280x800x24", "-nolisten", "tcp", "-noreset"},
        [&] {
          const int nowhere = ::open("/dev/null", O_WRONLY);
          ::dup2(nowhere, 1);
          ::dup2(nowhere, 2);
          ::dup2(number[1], 3);
        });
    ::close(number[1]);
    std::string text;
    for (char c = 0; ::read(number[0], &c, 1) == 1 && c != '\n';) text += c;
    ::close(number[0]);
    ASSERT_FALSE(text.empty()) << "Xvfb does not start";
    display_ = ":" + text;
  }
  void TearDown() override {
    for (const pid_t child : {viewer_, server_}) {
      if (child <= 0) continue;
      ::kill(child, SIGTERM);
      ::waitpid(child, nullptr, 0);
    }
  }

  void record(const std::string& name) {
    const ProgramResult result =
        run({"run", "--random", "--seqlen", "48", "--heads", "1", "--head-dim", "8", "--world-size",
             "3", "--mask", "causal", "--trace", name});
    ASSERT_EQ(result.status, 0) << result.err;
  }

  void open(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {RINGSCOPE_PROGRAM, "view"});
    viewer_ = start(arguments, [this] {
      ::setenv("DISPLAY", display_.c_str(), 1);
      ::unsetenv("WAYLAND_DISPLAY");
      ::setenv("XDG_CONFIG_HOME", path("config").c_str(), 1);
      ::setenv("LIBGL_ALWAYS_SOFTWARE", "1", 1);
      // The driver's own leaks are not ours.
      ::setenv("ASAN_OPTIONS", "detect_leaks=0", 1);
      if (::chdir(path("pictures").c_str()) != 0) ::_exit(126);
      const int err = ::open(path("err").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
      ::dup2(err, STDERR_FILENO);
    });
    ASSERT_TRUE(comes_true([&] { return xdotool("search --onlyvisible --name Ringscope") == 0; }))
        << contents_of(path("err"));
    // Without a window manager nobody else gives it the keyboard.
    ASSERT_TRUE(comes_true(
        [&] { return xdotool("search --onlyvisible --name Ringscope windowfocus --sync") == 0; }));
    std::this_thread::sleep_for(300ms);
  }
  int xdotool(const std::string& command) const {
    return std::system(
        ("DISPLAY=" + display_ + " timeout 10 xdotool " + command + " >/dev/null 2>&1").c_str());
  }
  const std::string& display() const { return display_; }
  // Presses I and waits for the picture that the viewer then writes.
  viz::Image picture(int number) {
    const std::string png = path("pictures/ringscope-" + std::to_string(number) + ".png");
    EXPECT_EQ(xdotool("key i"), 0);
    EXPECT_TRUE(comes_true([&] { return std::filesystem::exists(png); })) << png;
    return viz::read_png(png);
  }
  void end_by_signal() {
    ::kill(viewer_, SIGTERM);
    ::waitpid(viewer_, nullptr, 0);
    viewer_ = -1;
  }
  // The exit status; -1 when it does not end.
  int ended() {
    int status = 0;
    const bool over = comes_true([&] { return ::waitpid(viewer_, &status, WNOHANG) == viewer_; });
    if (!over) return -1;
    viewer_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -2;
  }

 private:
  std::string display_;
  pid_t server_ = -1, viewer_ = -1;
};

TEST_F(WindowTest, ObeysKeysAndMouse) {
  record("a.json");
  std::filesystem::create_directory(path("pictures"));
  const std::set<std::string> before = files();
  open({path("a.json")});
  const viz::Image dark = picture(1);
  ASSERT_GE(dark.width, 640);
  EXPECT_LT(dark.at(2, 2) & 255, 100u);

  ASSERT_EQ(xdotool("key t"), 0);
  const viz::Image light = picture(2);
  EXPECT_GT(light.at(2, 2) & 255, 150u);

  // A click on the button before the last in the toolbar makes it dark again, and the bar between
  // timeline and ring is dragged downwards.
  const std::string toolbar = std::to_string(light.width - 6 - 10 - 60) + " 29";
  ASSERT_EQ(xdotool("mousemove " + toolbar + " click 1"), 0);
  const viz::Image again = picture(3);
  EXPECT_LT(again.at(2, 2) & 255, 100u);
  const float room = static_cast<float>(light.height) - 2 * 58 - 36;
  const int bar = 58 + static_cast<int>(room * viz::Splits().timeline) + 3;
  ASSERT_EQ(xdotool("mousemove 600 " + std::to_string(bar) +
                    " mousedown 1 mousemove_relative 0 60 "
                    "mousemove_relative 0 40 mouseup 1"),
            0);
  ASSERT_EQ(xdotool("key shift+i"), 0);
  EXPECT_TRUE(
      comes_true([&] { return std::filesystem::exists(path("pictures/ringscope-1.svg")); }));
  ASSERT_EQ(xdotool("key c key ctrl+q"), 0);
  EXPECT_EQ(ended(), 0) << contents_of(path("err"));
  EXPECT_EQ(contents_of(path("err")), "");

  const viz::Preferences kept =
      viz::parse_preferences(contents_of(path("config/ringscope/viewer.json")));
  EXPECT_EQ(kept.theme, viz::Theme::dark);
  EXPECT_EQ(kept.color_by, viz::ColorBy::kind);
  EXPECT_GT(kept.splits.timeline, viz::Splits().timeline + 0.05f);
  std::set<std::string> after = before;
  after.insert({"config", "config/ringscope", "config/ringscope/viewer.json", "err",
                "pictures/ringscope-1.png", "pictures/ringscope-2.png", "pictures/ringscope-3.png",
                "pictures/ringscope-1.svg"});
  EXPECT_EQ(files(), after);
}

// A file too long to be read before the window opens: the window tells what is wrong with it.
TEST_F(WindowTest, TellsWhatIsWrongWithALongFile) {
  std::filesystem::create_directory(path("pictures"));
  write_text("bad.json", "{\"traceEvents\": [" + std::string(5 << 20, ' ') + "oops");
  open({path("bad.json")});
  ASSERT_EQ(xdotool("key Escape"), 0);
  EXPECT_EQ(ended(), 2);
  EXPECT_NE(contents_of(path("err")).find("bad.json"), std::string::npos);
  EXPECT_NE(contents_of(path("err")).find("byte 52428"), std::string::npos)
      << contents_of(path("err"));
}

// What was opened is remembered at once, and without a trace the window shows where to start.
TEST_F(WindowTest, RemembersARecordingThoughItIsEndedByASignal) {
  record("a.json");
  std::filesystem::create_directory(path("pictures"));
  open({path("a.json")});
  end_by_signal();
  const viz::Preferences kept =
      viz::parse_preferences(contents_of(path("config/ringscope/viewer.json")));
  EXPECT_EQ(kept.recent, (std::vector<std::vector<std::string>>{{path("a.json")}}));
  open({});
  ASSERT_EQ(xdotool("key ctrl+q"), 0);
  EXPECT_EQ(ended(), 0) << contents_of(path("err"));
}

TEST_F(WindowTest, RefusesAShortBadFileWithoutAWindow) {
  write_text("bad.json", "oops");
  const ProgramResult result = run_after("export DISPLAY=" + display(), {"view", "bad.json"});
  EXPECT_EQ(result.status, 2);
  expect_one_line(result);
}

}  // namespace
}  // namespace ringscope
