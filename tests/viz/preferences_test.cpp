// What is remembered, and what is made of a file that somebody else wrote.
#include "viz/window/preferences.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "core/base/error.h"
#include "core/base/files.h"
#include "tests/app/program.h"
#include "tests/viz/hands.h"
#include "tests/viz_data/profiled.h"
#include "viz/window/open_session.h"

namespace ringscope::viz {
namespace {

Preferences unusual() {
  return {Theme::light,
          ColorBy::kind,
          1234,
          567,
          1.5f,
          {0.25f, 0.5f, 0.125f},
          {{"/a b.json"}, {"/\"ä\".json", "/b.json"}}};
}

TEST(Preferences, ComeBackAsTheyWere) {
  EXPECT_EQ(parse_preferences(preferences_text(unusual())), unusual());
  EXPECT_EQ(parse_preferences(preferences_text({})), Preferences());
  EXPECT_NE(unusual(), Preferences());
}

TEST(Preferences, KeepAFewRecentRecordingsTheLatestFirst) {
  Preferences p;
  const auto open = [&](int i) {
    Trace trace;
    trace.path = "/" + std::to_string(i);
    note_recent(p, trace);
  };
  for (int i = 0; i < 20; ++i) open(i);
  open(15);
  ASSERT_EQ(p.recent.size(), 8u);
  const std::vector<std::string> again = {"/15"};
  EXPECT_EQ(p.recent[0], again);
  EXPECT_EQ(p.recent[1][0], "/19");
  EXPECT_EQ(std::count(p.recent.begin(), p.recent.end(), again), 1);
}

// What is kept of a profile opens all of it, as its folder if this holds nothing else.
TEST(Preferences, KeepAllFilesOfAProfile) {
  const TemporaryFolder folder;
  const std::vector<std::string> paths = write_profiles(folder);
  for (const bool alone : {true, false}) {
    if (!alone) folder.write("other.json", "[]");
    Preferences p;
    note_recent(p, load_traces(paths).front());
    p = parse_preferences(preferences_text(p));
    ASSERT_EQ(p.recent.size(), 1u);
    EXPECT_EQ(p.recent[0], alone ? std::vector<std::string>{folder.path()} : paths);
    EXPECT_EQ(files_in(p.recent[0]), paths);
  }
}

TEST(Preferences, ReadRecordingsOfAnOlderVersion) {
  EXPECT_EQ(parse_preferences(R"({"recent": ["/a.json", ["/b.json", 7], []]})").recent,
            (std::vector<std::vector<std::string>>{{"/a.json"}, {"/b.json"}}));
}

TEST(Preferences, WhatMakesNoSenseIsAsIfItWereNotThere) {
  for (const char* text :
       {"", "{", "[]", "null", "\"theme\"", "{\"theme\": 7}", "{\"width\": -5, \"height\": 1e99}",
        "{\"width\": 100000000000}", "{\"text_scale\": 9}", "{\"splits\": []}",
        "{\"splits\": {\"ring\": 1.5}}", "{\"splits\": {\"mask\": \"wide\"}}",
        "{\"theme\": \"green\"}", "{\"recent\": 5}", "{\"recent\": [5, null]}", "\xff\xfe",
        "{\"splits\": {\"timeline\": 0}}"})
    EXPECT_EQ(parse_preferences(text), Preferences()) << text;
  EXPECT_EQ(parse_preferences(std::string(50000, '[')), Preferences());
  Preferences light;
  light.theme = Theme::light;
  EXPECT_EQ(parse_preferences("{\"theme\": \"light\", \"width\": \"?\", \"more\": {}}"), light);
}

// Every size of text that keys lead to is kept.
TEST(TextSize, HasLimitsAndComesBack) {
  for (const auto& [change, limit] : {std::pair(1, kMostTextScale), {-1, kLeastTextScale}}) {
    Preferences p;
    for (int i = 0; i < 40; ++i) {
      const float before = std::exchange(p.text_scale, changed_text_scale(p.text_scale, change));
      EXPECT_EQ((p.text_scale - before) * static_cast<float>(change) > 0, before != limit);
      EXPECT_EQ(parse_preferences(preferences_text(p)), p);
    }
    EXPECT_EQ(p.text_scale, limit);
    EXPECT_EQ(changed_text_scale(limit, 0), 1);
  }
}

// Text grows on the screen until the layout is as small as that of the smallest window.
TEST(TextSize, LeavesASmallWindowItsPanels) {
  float before = 0;
  for (float text = kLeastTextScale;; text = changed_text_scale(text, 1)) {
    const float scale = scale_in_window(1, 640, 480, text);
    SCOPED_TRACE(testing::Message() << text << " is " << scale);
    Viewer viewer(scale);
    viewer.open(session_of(ring_trace(4)));
    FrameInput input;
    input.width = static_cast<int>(std::lround(640 / scale));
    input.height = static_cast<int>(std::lround(480 / scale));
    picture_of(viewer, input, 640, 480);
    EXPECT_EQ(ImGui::GetDrawData()->FramebufferScale.x, scale);
    EXPECT_EQ(scale > before, text <= 2);
    for (const char* shown : {"rank 0", "Play", "0 ns"}) {
      const ImVec2 place = place_of_text(shown);
      EXPECT_TRUE(place.x < static_cast<float>(input.width) && place.y > 0 &&
                  place.y < static_cast<float>(input.height))
          << shown;
    }
    before = scale;
    if (text == kMostTextScale) break;
  }
  EXPECT_GT(scale_in_window(1, 1600, 900, 1.125f), 1);
  EXPECT_EQ(scale_in_window(1, 3200, 1800, 1), 2);
}

class PreferencesPlace : public ProgramTest {
 protected:
  PreferencesPlace() : config_(value_of("XDG_CONFIG_HOME")), home_(value_of("HOME")) {}
  ~PreferencesPlace() override {
    set("XDG_CONFIG_HOME", config_);
    set("HOME", home_);
  }
  static void set(const char* name, const std::optional<std::string>& value) {
    if (value) {
      ::setenv(name, value->c_str(), 1);
    } else {
      ::unsetenv(name);
    }
  }

 private:
  static std::optional<std::string> value_of(const char* name) {
    const char* const value = std::getenv(name);
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  }
  std::optional<std::string> config_, home_;
};

TEST_F(PreferencesPlace, IsThePlatforms) {
  set("XDG_CONFIG_HOME", path("config"));
  set("HOME", path("home"));
  EXPECT_EQ(preferences_path(), path("config/ringscope/viewer.json"));
  set("XDG_CONFIG_HOME", "not/absolute");
  EXPECT_EQ(preferences_path(), path("home/.config/ringscope/viewer.json"));
  set("XDG_CONFIG_HOME", std::nullopt);
  EXPECT_EQ(preferences_path(), path("home/.config/ringscope/viewer.json"));
  set("HOME", std::nullopt);
  EXPECT_EQ(preferences_path(), "");
  save_preferences(unusual());
  EXPECT_EQ(load_preferences(), Preferences());
}

TEST_F(PreferencesPlace, IsMadeAndWrittenWhole) {
  set("XDG_CONFIG_HOME", path("config"));
  EXPECT_EQ(load_preferences(), Preferences());
  EXPECT_EQ(files(), std::set<std::string>());  // reading makes nothing
  save_preferences(unusual());
  EXPECT_EQ(load_preferences(), unusual());
  EXPECT_EQ(files(),
            (std::set<std::string>{"config", "config/ringscope", "config/ringscope/viewer.json"}));
}

TEST_F(PreferencesPlace, HasRoomForAllThatIsKept) {
  set("XDG_CONFIG_HOME", path("config"));
  Trace many;
  many.path = "/gone/0";  // in a folder that can't be listed
  Preferences p = unusual();
  for (int i = 1; i < 20; ++i) {
    many.more_paths.resize(20 * i * i, "/gone/" + std::string(60, 'a'));
    note_recent(p, many);
    save_preferences(p);
    EXPECT_EQ(load_preferences(), p) << i;
  }
  EXPECT_EQ(p.width, unusual().width);
}

TEST_F(PreferencesPlace, ThatCannotBeWrittenToIsNoError) {
  write_text("config", "a file");
  set("XDG_CONFIG_HOME", path("config"));
  save_preferences(unusual());
  EXPECT_EQ(load_preferences(), Preferences());
}

// ---
// Loading on another thread: what comes back, and that it can be given up.

using namespace std::chrono_literals;

class BackgroundLoadTest : public ProgramTest {
 protected:
  // A trace of `count` slices of one thread.
  void write_trace(const std::string& name, int count) const {
    std::string text = "[";
    for (int i = 0; i < count; ++i)
      text += (i == 0 ? "" : ",\n") +
              std::string("{\"ph\": \"X\", \"pid\": 1, \"tid\": 1, \"ts\": ") +
              std::to_string(2 * i) + ", \"dur\": 1, \"name\": \"work\"}";
    write_text(name, text + "]");
  }
  static void wait_for(const BackgroundLoad& load) {
    for (int i = 0; i < 2000 && !load.finished(); ++i) std::this_thread::sleep_for(10ms);
    ASSERT_TRUE(load.finished());
  }
};

TEST_F(BackgroundLoadTest, GivesTheSession) {
  write_trace("a.json", 1000);
  BackgroundLoad load({path("a.json")}, {});
  wait_for(load);
  EXPECT_EQ(load.take().document().trace.slice_count, 1000u);
  EXPECT_EQ(load.progress().bytes_done, load.progress().bytes_total);
  EXPECT_GT(load.progress().bytes_total, 0);
}

TEST_F(BackgroundLoadTest, ThrowsWhatLoadingThrew) {
  write_text("bad.json", "oops");
  BackgroundLoad load({path("bad.json")}, {});
  wait_for(load);
  EXPECT_THROW(load.take(), InputError);
}

TEST_F(BackgroundLoadTest, CanBeGivenUp) {
  write_trace("long.json", 200'000);
  LoadProgress progress;
  progress.cancel = true;
  EXPECT_THROW(open_session({path("long.json")}, {}, &progress), InputError);
}

}  // namespace
}  // namespace ringscope::viz
