// What the viewer draws when: messages over everything, loading, traces and windows of any size.
#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>
#include <utility>
#include <vector>

#include "tests/viz/hands.h"
#include "tests/viz/panel_stage.h"
#include "viz/window/viewer.h"

namespace ringscope::viz {
namespace {

Person one() { return Person(session_of({slow_ring_trace()})); }

// For every draw list sums over its vertices, which are finite only where all of them are.
std::vector<ImVec2> sums_of_vertices() {
  std::vector<ImVec2> sums;
  const ImDrawData& data = *ImGui::GetDrawData();
  for (int i = 0; i < data.CmdListsCount; ++i) {
    ImVec2 sum(0, 0);
    for (const ImDrawVert& vertex : data.CmdLists[i]->VtxBuffer) {
      sum.x += std::abs(vertex.pos.x);
      sum.y += std::abs(vertex.pos.y);
    }
    sums.push_back(sum);
  }
  return sums;
}

TEST(Viewer, AnErrorCoversEverythingUntilItIsClosed) {
  Person person = one();
  person.viewer.show_error("byte 17: this is no number");
  person.rest(3);
  EXPECT_TRUE(drawn("error"));
  person.type("t");
  EXPECT_EQ(person.session().theme, Theme::dark);
  EXPECT_TRUE(person.viewer.showing_error());
  person.press(SpecialKey::escape);
  EXPECT_FALSE(person.viewer.showing_error());
  person.type("t");
  EXPECT_EQ(person.session().theme, Theme::light);
}

TEST(Viewer, ANoticeFades) {
  Person person = one();
  person.viewer.show_notice("written");
  person.rest(2);
  EXPECT_TRUE(drawn("notice"));
  EXPECT_TRUE(person.viewer.animating());
  for (int i = 0; i < 30; ++i) person.pass(0.2f);
  EXPECT_FALSE(drawn("notice"));
  EXPECT_FALSE(person.viewer.animating());
}

TEST(Viewer, LoadingIsShownUntilThereIsSomethingToShow) {
  SoftwareTextures textures;
  Viewer viewer(textures);
  LoadProgress progress;
  progress.bytes_total = 1000;
  progress.bytes_done = 250;
  viewer.show_loading(&progress);
  FrameInput input;
  input.width = 600;
  input.height = 400;
  input.keys = {{.character = U' '}};
  viewer.frame(input);
  EXPECT_TRUE(viewer.animating());
  EXPECT_FALSE(viewer.is_open());
  viewer.show_loading(nullptr);
  viewer.open(session_of({ring_trace(4)}));
  input.keys.clear();
  viewer.frame(input);
  EXPECT_TRUE(viewer.is_open());
  EXPECT_FALSE(viewer.session().playback.playing());
}

TEST(Viewer, ThereIsOneAtATime) {
  Person person = one();
  SoftwareTextures textures;
  EXPECT_THROW(Viewer second(textures), std::logic_error);
}

// Whatever is opened, at any size of the window, by any key: every vertex stays finite.
TEST(Viewer, DrawsEveryTraceAtEverySize) {
  for (auto& [name, trace] : stage_traces()) {
    Person person(session_of({std::move(trace)}), 320, 240);
    for (const auto& [width, height] :
         {std::pair{320, 240}, {800, 500}, {1600, 900}, {3840, 2160}, {1, 1}, {5000, 100}}) {
      person.resize(width, height);
      for (const KeyBinding& binding : key_bindings()) {
        person.press(binding.key);
        for (const ImVec2 sum : sums_of_vertices())
          ASSERT_TRUE(std::isfinite(sum.x) && std::isfinite(sum.y))
              << name << " at " << width << "x" << height;
      }
      if (person.session().playback.playing()) person.type(" ");
      if (person.session().search_open) person.press(SpecialKey::escape);
    }
  }
}

}  // namespace
}  // namespace ringscope::viz
