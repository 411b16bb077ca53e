#include <gtest/gtest.h>

#include <regex>
#include <tuple>

#include "tests/viz/hands.h"
#include "tests/viz_data/simulated.h"
#include "viz/panels/balance/balance_heatmap.h"

// This header needs imgui.h before it.
#include <imgui_internal.h>

namespace ringscope::viz {
namespace {

std::vector<Document> four() {
  return documents_of(ring_trace(4, "contiguous"), ring_trace(4, "striped"),
                      ring_trace(4, "zigzag"), ring_trace(4, "fold"));
}

TEST(ComparePanel, DrawsAnyNumberOfRecordings) {
  for (const int count : {1, 2, 4, 6}) {
    std::vector<Document> documents;
    for (int i = 0; i < count; ++i)
      documents.push_back(
          make_document(ring_trace(4, i % 2 == 0 ? "contiguous" : "zigzag", "causal", i % 3 == 0)));
    Stage stage(draw_compare, std::move(documents), 1600, 780);
    for (const auto& [width, height] : {std::pair(30, 20), {300, 250}, {900, 260}, {1600, 900}}) {
      stage.resize(width, height);
      stage.session.seek(stage.session.length() / 2);
      stage.picture();
    }
    EXPECT_GT(stage.box_of_picture("compare mask 0").width(), 50);
  }
}

// Striped and zigzag ranks have pairs that differ by less than a per cent.
TEST(ComparePanel, AChangeThatRoundsToNothingIsNotShown) {
  Stage stage(draw_compare,
              documents_of(simulated_trace(simulated_scenario(8, PartitionKind::striped)),
                           simulated_trace(simulated_scenario(8, PartitionKind::zigzag))),
              1600, 780);
  stage.picture();
  const std::string svg = svg_of(*ImGui::GetDrawData(), 1600, 780);
  EXPECT_NE(svg.find(">balance ceiling<"), svg.npos);
  for (const char* nothing : {">-0 %<", ">+0 %<"}) EXPECT_EQ(svg.find(nothing), svg.npos);
}

TEST(ComparePanel, TheDifferenceLeadsToTheSliceThatChanged) {
  Stage stage(draw_compare, documents_of(ring_trace(4, "contiguous"), ring_trace(4, "zigzag")),
              1600, 780);
  EXPECT_EQ(stage.box_of_picture("difference").width(), 0);
  commands::toggle_difference(stage.session);
  EXPECT_EQ(stage.session.rank_map.metric, 2);  // time
  const Box box = stage.box_of_picture("difference");
  ASSERT_GT(box.width(), 300);
  EXPECT_EQ(stage.box_of_picture("compare mask 0").width(), 0);
  EXPECT_GT(stage.box_of_picture("timeline.to").width(), 300);
  for (const auto& [width, height] : {std::pair(30, 20), {300, 250}, {900, 260}, {1600, 780}}) {
    stage.resize(width, height);
    stage.picture();
  }
  stage.click({box.x0 + box.width() * 0.6f, box.y0 + box.height() * 0.4f});
  EXPECT_TRUE(stage.session.difference);
  EXPECT_EQ(stage.session.selected_rank, 1);
  EXPECT_EQ(stage.session.step_now(1), 2);
}

TEST(ComparePanel, DrawsOddCompanyAndManyRanks) {
  Stage stage(draw_compare, documents_of(foreign_trace(), empty_trace(), ring_trace(1)), 1600, 780);
  stage.session.comparing = true;
  stage.picture();
  EXPECT_EQ(stage.box_of_picture("compare mask 0").width(), 0);
  EXPECT_GT(stage.box_of_picture("compare mask 2").width(), 0);
  stage.session = Session(documents_of(ring_trace(64, "contiguous"), ring_trace(64, "zigzag")));
  EXPECT_GT(stage.box_of_picture("compare pairs 1").height(), 64);
}

// Equal strengths mean equal pairs in all columns: the contiguous recording has empty cells where
// zigzag has none.
TEST(ComparePanel, ColoursShareOneScale) {
  Stage stage(draw_compare, four(), 1600, 780);
  const HeatLayout contiguous{stage.box_of_picture("compare pairs 0"), 4, 4};
  const HeatLayout zigzag{stage.box_of_picture("compare pairs 2"), 4, 4};
  const Image image = stage.picture();
  const auto color = [&](const HeatLayout& layout, int rank, int step) {
    const Box cell = layout.cell(rank, step);
    return image.at(static_cast<int>(cell.x0) + 4, static_cast<int>(cell.y0) + 4);
  };
  EXPECT_EQ(color(zigzag, 0, 1), color(zigzag, 3, 1));
  EXPECT_NE(color(contiguous, 0, 1), color(contiguous, 3, 1));
  EXPECT_NE(color(contiguous, 3, 1), color(zigzag, 3, 1));  // a whole block against half of one
}

// All of eight ranks have their names beside each timeline, and of more every second one.
TEST(ComparePanel, RanksAreNamedEvenly) {
  const std::regex name("<text x=\"([0-9.-]+)\" y=\"([0-9.-]+)\"[^>]*>rank ([0-9]+)<");
  for (const auto& [ranks, every] : {std::pair(8, 1), {16, 2}}) {
    Person person(session_of(ring_trace(ranks), ring_trace(ranks, "zigzag")), 1280, 720);
    const Box strip = box_of(person.viewer.textures, "timeline.strip0");
    const std::string svg = svg_of(person.rest(), 1280, 720);
    std::vector<int> named;
    for (std::sregex_iterator at(svg.begin(), svg.end(), name), end; at != end; ++at) {
      const ImVec2 place(std::stof((*at)[1]), std::stof((*at)[2]));
      if (strip.contains({place.x + kTimelineStripGutter, place.y - 4}) && place.x < strip.x0)
        named.push_back(std::stoi((*at)[3]));
    }
    std::vector<int> all;
    for (int rank = 0; rank < ranks; rank += every) all.push_back(rank);
    EXPECT_EQ(named, all);
  }
}

// In the whole viewer: a click on a cell goes there in all recordings, one on a title shows that
// recording alone.
TEST(ComparePanel, ReactsToClicks) {
  Person person{Session(four())};
  person.session().comparing = true;
  person.rest(3);
  const HeatLayout layout{box_of(person.viewer.textures, "compare pairs 3"), 4, 4};
  ASSERT_GT(layout.box.width(), 100);
  person.click(layout.cell(1, 2).center());
  EXPECT_EQ(person.session().selected_rank, 1);
  EXPECT_TRUE(person.session().comparing);
  for (std::size_t d = 0; d < 4; ++d)
    EXPECT_EQ(person.session().step_now(d), 2) << "recording " << d;
  const Box mask = box_of(person.viewer.textures, "compare mask 3");
  person.click({mask.x0 + 20, mask.y0 - 25});
  EXPECT_FALSE(person.session().comparing);
  EXPECT_EQ(person.session().active, 3u);
  EXPECT_GT(box_of(person.viewer.textures, "mask").width(),
            100);  // the panels of one recording instead
}

// Four recordings fit a window of 1600 or 1280 pixels without scrolling.
TEST(ComparePanel, FourRecordingsFitAScreen) {
  for (const auto& [width, height, mask] : {std::tuple(1600, 900, 150), {1280, 720, 84}}) {
    Person person(Session(four()), width, height);
    ASSERT_TRUE(person.session().comparing);
    const TextureStore& textures = person.viewer.textures;
    EXPECT_GE(box_of(textures, "compare mask 0").width(), static_cast<float>(mask));
    EXPECT_GT(box_of(textures, "timeline.strip3").width(), 100);
    for (const ImGuiWindow* window : ImGui::GetCurrentContext()->Windows)
      EXPECT_FALSE(window->ScrollbarX || window->ScrollbarY) << window->Name << width;
  }
}

}  // namespace
}  // namespace ringscope::viz
