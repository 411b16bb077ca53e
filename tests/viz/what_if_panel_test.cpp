// The what-if under a person's hands, and drawn in every size.
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "tests/viz/hands.h"
#include "tests/viz/panel_stage.h"
#include "tests/viz_data/simulated.h"
#include "viz/panels/timeline/timeline_frame.h"

namespace ringscope::viz {
namespace {

// The panel as the workspace draws it.
void draw_open(const PanelContext& context) {
  context.session.show_what_if(true);
  draw_what_if(context);
}

TEST(WhatIfPanel, DrawsWhatCanNotBe) {
  Stage stage(draw_open, documents_of(simulated_trace(simulated_scenario(4))), 1600, 780);
  stage.picture();
  stage.session.what_if->settings.job.scheme = scheme_named("ulysses");
  stage.session.what_if->settings.job.world_size = 9;
  stage.picture();
  EXPECT_NE(stage.session.what_if->shown()->refusal, "");
  EXPECT_EQ(stage.box_of_picture("what if predicted").width(), 0);
  EXPECT_GT(stage.box_of_picture("what if recorded").width(), 100);
}

// Pictures are painted anew when the prediction is another one, however like the one before, and with
// others between that nobody saw.
TEST(WhatIfPanel, EveryPredictionIsPainted) {
  Scenario scenario = simulated_scenario(8);  // of as many rows each
  scenario.job.mask = MaskSpec::parse("full");
  Stage stage(draw_open, documents_of(simulated_trace(scenario)), 1600, 780);
  stage.frame();
  std::vector<Straggler>& slow = stage.session.what_if->settings.stragglers;
  slow = {{0, 1.0 / 3}};
  const Box strip = [&] {
    stage.picture();
    return stage.box_of_picture("what if predicted");
  }();
  const auto painted = [&](int slow_rank) {
    slow[0].rank = (slow_rank + 2) % 8;
    stage.session.update_what_if();
    slow[0].rank = slow_rank;
    stage.frame();
    Image image(1600, 780);
    render(*ImGui::GetDrawData(), image);
    std::vector<Color> pixels;
    for (int y = static_cast<int>(strip.y0); y < static_cast<int>(strip.y1); ++y)
      for (int x = static_cast<int>(strip.x0); x < static_cast<int>(strip.x1); ++x)
        pixels.push_back(image.at(x, y));
    return pixels;
  };
  std::vector<Color> before = painted(0);
  for (const int rank : {1, 2, 3, 4, 5, 6, 7}) {
    std::vector<Color> now = painted(rank);
    EXPECT_NE(now, before) << "rank " << rank;
    before = std::move(now);
  }
}

// Both timelines stand on one axis. That of twice as many ranks is higher.
TEST(WhatIfPanel, FitsScreensOfUsualSizes) {
  for (const auto& [width, height] : {std::pair(1568, 784), {1248, 604}})
    for (const int ranks : {1, 2, 8, 16, 64}) {
      Stage stage(draw_open, documents_of(simulated_trace(simulated_scenario(4))), width, height);
      stage.frame();
      stage.session.what_if->settings.job.world_size = ranks;
      const Box recorded = stage.box_of_picture("what if recorded");
      const Box predicted = stage.box_of_picture("what if predicted");
      ASSERT_GT(recorded.width(), 800);
      EXPECT_EQ(std::pair(predicted.x0, predicted.x1), std::pair(recorded.x0, recorded.x1));
      if (ranks == 8 && height > 700) {
        EXPECT_GT(predicted.height(), 1.5f * recorded.height());
      }
      EXPECT_GE(recorded.y0, 160);  // below sentences and figures
      EXPECT_GE(recorded.height(), 60);
      EXPECT_GE(predicted.y0, recorded.y1 + 20);
      EXPECT_GE(predicted.height(), 60);
      EXPECT_LE(predicted.y1, static_cast<float>(height));
    }
}

// Places in a window of 1600 x 900: the first slider, below its heading and behind its name.
constexpr float kLeft = 16 + 10 + 84, kRight = 16 + 316 - 10;
constexpr float kRanks = 6 + 46 + 6 + 8 + 8 + 28 + 12.5f;

Person person() { return Person(session_of(simulated_trace(simulated_scenario(4)))); }

TEST(WhatIfPanel, ARankSliderIsDraggedAndReset) {
  Person one = person();
  one.type("e");
  one.rest(3);
  Session& session = one.session();
  one.drag({kLeft + 60, kRanks}, {kRight + 50, kRanks});
  EXPECT_EQ(session.what_if->settings.job.world_size, kMostRanks);
  one.drag({kRight - 20, kRanks}, {0, kRanks});
  EXPECT_EQ(session.what_if->settings.job.world_size, 1);
  session.what_if->finish();
  EXPECT_EQ(session.what_if->shown()->settings.job.world_size, 1);
  one.drag({kLeft + 60, kRanks}, {kLeft + 60, kRanks}, Person::Button::right);
  EXPECT_EQ(session.what_if->settings.job.world_size, 4);
}

// Sliders of heads stop only where heads go together, and with the scheme.
TEST(WhatIfPanel, OnlyHeadsThatGoTogetherCanBeChosen) {
  Person one = person();
  one.type("e");
  one.rest(3);
  Problem& job = one.session().what_if->settings.job;
  const float heads = kRanks + 2 * 31, heads_kv = heads + 31;
  one.drag({kLeft + 60, heads}, {0, heads});
  EXPECT_EQ(job.shape.num_heads, 8);  // for 8 KV heads
  one.drag({kLeft + 60, heads_kv}, {0, heads_kv});
  EXPECT_EQ(job.shape.num_heads_kv, 1);
  job.scheme = scheme_named("ulysses");
  one.drag({kLeft + 60, heads}, {0, heads});
  EXPECT_EQ(job.shape.num_heads, 4);  // of 4 ranks
  one.drag({kLeft + 60, heads}, {kRight + 50, heads});
  EXPECT_EQ(job.shape.num_heads, 512);
}

// However many settings there are, the buttons stand below them.
TEST(WhatIfPanel, ItsButtonsAreInReachInEveryWindow) {
  for (const auto& [width, height] : {std::pair(640, 480), {1280, 720}, {1600, 900}}) {
    Person one(session_of(simulated_trace(simulated_scenario(4))), width, height);
    one.type("e");
    one.rest(3);
    WhatIf& what_if = *one.session().what_if;
    const Scenario recorded = what_if.unmoved_settings();
    apply(what_if.settings, recorded, "nodes=2,between=InfiniBand-NDR,straggler=1:0.5");
    one.rest(3);
    one.click_on("As recorded");
    EXPECT_EQ(settings_of(recorded, what_if.settings), "");
    what_if.finish();
    one.rest(2);
    EXPECT_LT(place_of_text("Keep").y, static_cast<float>(height) - 70);  // above the transport
    one.click_on("Keep");
    EXPECT_EQ(one.session().documents.size(), 2u);
  }
}

TEST(WhatIfPanel, WheelAndDragMoveBothTimelines) {
  Person one = person();
  one.type("e");
  one.rest(3);
  Session& session = one.session();
  const TimelineView whole = session.view;
  one.point({900, 500});
  one.wheel(4);
  EXPECT_LT(session.view.width(), whole.width() / 2);
  const TimelineView close = session.view;
  one.drag({900, 500}, {800, 500});
  EXPECT_GT(session.view.begin, close.begin);
  EXPECT_NEAR(session.view.width(), close.width(), 1e-6 * close.width());
  one.type("F");
  EXPECT_EQ(session.view, whole);
}

}  // namespace
}  // namespace ringscope::viz
