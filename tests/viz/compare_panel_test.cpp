#include <gtest/gtest.h>

#include <string>

#include "tests/viz/panel_stage.h"
#include "viz/panels/balance/balance_heatmap.h"
#include "viz/panels/compare/compare_card.h"
#include "viz/window/viewer.h"

namespace ringscope::viz {
namespace {

std::vector<Document> four() {
  std::vector<Document> documents;
  for (const char* partition : {"contiguous", "striped", "zigzag", "fold"})
    documents.push_back(make_document(ring_trace(4, partition)));
  return documents;
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

TEST(ComparePanel, DrawsOddCompany) {
  std::vector<Document> documents;
  documents.push_back(make_document(foreign_trace()));
  documents.push_back(make_document(empty_trace()));
  documents.push_back(make_document(ring_trace(1)));
  Stage stage(draw_compare, std::move(documents), 1600, 780);
  stage.session.comparing = true;
  stage.picture();
  EXPECT_EQ(stage.box_of_picture("compare mask 0").width(), 0);
  EXPECT_GT(stage.box_of_picture("compare mask 2").width(), 0);
}

TEST(ComparePanel, DrawsManyRanks) {
  std::vector<Document> documents;
  documents.push_back(make_document(ring_trace(64, "contiguous")));
  documents.push_back(make_document(ring_trace(64, "zigzag")));
  Stage stage(draw_compare, std::move(documents), 1600, 780);
  EXPECT_GT(stage.box_of_picture("compare pairs 1").height(), 64);
}

TEST(ComparePanel, ColumnsStandSideBySideAtOneHeight) {
  Stage stage(draw_compare, four(), 1600, 780);
  for (const std::string slot : {"compare mask ", "compare pairs "}) {
    const Box first = stage.box_of_picture(slot + "0");
    ASSERT_GT(first.width(), 100);
    for (int i = 1; i < 4; ++i) {
      const Box box = stage.box_of_picture(slot + std::to_string(i));
      const Box before = stage.box_of_picture(slot + std::to_string(i - 1));
      EXPECT_FLOAT_EQ(box.y0, first.y0);
      EXPECT_FLOAT_EQ(box.height(), first.height());
      EXPECT_FLOAT_EQ(box.width(), first.width());
      EXPECT_GT(box.x0, before.x1);
      EXPECT_LT(box.x1, 1600);
    }
  }
}

TEST(ComparePanel, ClickOnATitleShowsThatRecordingAlone) {
  Stage stage(draw_compare, four(), 1600, 780);
  stage.session.comparing = true;
  const Box mask = stage.box_of_picture("compare mask 2");
  stage.click({mask.x0 + 20, mask.y0 - 25});
  EXPECT_FALSE(stage.session.comparing);
  EXPECT_EQ(stage.session.active, 2u);
}

TEST(ComparePanel, ClickOnACellGoesThereInAllRecordings) {
  Stage stage(draw_compare, four(), 1600, 780);
  stage.session.comparing = true;
  stage.session.set_axis_mode(AxisMode::steps);
  const HeatLayout layout{stage.box_of_picture("compare pairs 1"), 4, 4};
  stage.click(layout.cell(2, 3).center());
  EXPECT_EQ(stage.session.selected_rank, 2);
  EXPECT_TRUE(stage.session.comparing);
  for (std::size_t d = 0; d < 4; ++d)
    EXPECT_EQ(common_step(stage.session.moment(d)), 3) << "recording " << d;
}

TEST(ComparePanel, HoveringACellShowsAllRecordings) {
  Stage stage(draw_compare, four(), 1600, 780);
  const HeatLayout layout{stage.box_of_picture("compare pairs 1"), 4, 4};
  stage.hover(layout.cell(2, 3).center());
  EXPECT_TRUE(Stage::tooltip_shown());
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

// The same through the whole viewer: the comparison is what several recordings open with.
TEST(ComparePanel, WorksInTheViewer) {
  StageTextures textures;
  Viewer viewer(Session(four()), textures);
  viewer.session().comparing = true;
  FrameInput input;
  for (int i = 0; i < 3; ++i) viewer.frame(input);
  const auto click = [&](ImVec2 at) {
    input.mouse_x = at.x;
    input.mouse_y = at.y;
    for (const bool down : {false, false, true, false}) {
      input.left = down;
      viewer.frame(input);
    }
  };
  const HeatLayout layout{box_of(textures, "compare pairs 3"), 4, 4};
  ASSERT_GT(layout.box.width(), 100);
  click(layout.cell(1, 2).center());
  EXPECT_EQ(viewer.session().selected_rank, 1);
  EXPECT_EQ(common_step(viewer.session().moment(0)), 2);
  const Box mask = box_of(textures, "compare mask 3");
  click({mask.x0 + 20, mask.y0 - 25});
  EXPECT_FALSE(viewer.session().comparing);
  EXPECT_EQ(viewer.session().active, 3u);
  viewer.frame(input);
  EXPECT_GT(box_of(textures, "mask").width(), 100);  // the panels of one recording instead
}

TEST(CompareLayout, FitsFourRecordingsOnAScreen) {
  const CompareLayout layout = compare_layout({0, 0}, {1568, 735}, 4, 4, 11);
  EXPECT_LE(layout.width, 1568);
  EXPECT_LE(layout.height, 735);
  EXPECT_GE(layout.columns[0].mask.width(), 150);
  for (const CompareColumn& column : layout.columns) {
    EXPECT_GT(column.highlights.width(), 100);
    EXPECT_LE(column.strip.y1, layout.table_y);
    EXPECT_LE(column.heat.y1, layout.ruler_y);
  }
}

}  // namespace
}  // namespace ringscope::viz
