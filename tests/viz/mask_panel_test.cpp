#include <gtest/gtest.h>

#include <algorithm>

#include "tests/viz/panel_stage.h"
#include "viz/panels/mask/mask_picture.h"

namespace ringscope::viz {
namespace {

ImVec2 point_of(const Box& box, double x, double y) {
  return {box.x0 + box.width() * static_cast<float>(x),
          box.y0 + box.height() * static_cast<float>(y)};
}

TEST(MaskPanel, DrawsEverything) { draws_everything(draw_mask); }

TEST(MaskPanel, TabsChangeTheOrder) {
  Stage stage(draw_mask, documents_of(ring_trace(4)), 600, 400);
  const MaskLayout layout = mask_layout(stage.box());
  ASSERT_EQ(stage.session.mask_order, MaskOrder::global);
  stage.click(tab_box(stage.fonts(), layout.tabs, mask_order_names(), 1).center());
  EXPECT_EQ(stage.session.mask_order, MaskOrder::local);
  stage.click(tab_box(stage.fonts(), layout.tabs, mask_order_names(), 0).center());
  EXPECT_EQ(stage.session.mask_order, MaskOrder::global);
}

TEST(MaskPanel, OrderSetElsewhereStays) {
  Stage stage(draw_mask, documents_of(ring_trace(4)), 600, 400);
  stage.session.mask_order = MaskOrder::local;
  stage.frame();
  stage.frame();
  EXPECT_EQ(stage.session.mask_order, MaskOrder::local);
}

// In local order the picture's block (2, 1) is what rank 2 does with KV block 1.
TEST(MaskPanel, ClickSelectsTheSliceOfTheRegion) {
  Stage stage(draw_mask, documents_of(ring_trace(4, "zigzag")), 600, 400);
  stage.session.mask_order = MaskOrder::local;
  const MaskLayout layout = mask_layout(stage.box());
  stage.click(point_of(layout.picture, 1.5 / 4, 2.5 / 4));
  ASSERT_TRUE(stage.session.selected.has_value());
  const Slice& slice = stage.session.document().trace.slice(*stage.session.selected);
  EXPECT_EQ(stage.session.selected_rank, 2);
  EXPECT_EQ(slice.kind, Kind::compute);
  EXPECT_EQ(slice.kv_owner, 1);
  EXPECT_EQ(slice.step, 1);
}

TEST(MaskPanel, TooltipOverThePictureOnly) {
  Stage stage(draw_mask, documents_of(ring_trace(4)), 600, 400);
  const Box picture = mask_layout(stage.box()).picture;
  stage.hover(picture.center());
  EXPECT_TRUE(Stage::tooltip_shown());
  stage.hover({picture.x0 - 4, picture.y0 + 4});
  EXPECT_FALSE(Stage::tooltip_shown());
}

// A causal mask: keys after the query are the colour of nothing; allowed pairs grow stronger as the
// playhead passes them.
TEST(MaskPanel, ShowsWhatIsAllowedAndWhatIsDone) {
  Stage stage(draw_mask, documents_of(ring_trace(4)), 600, 400);
  const Box picture = mask_layout(stage.box()).picture;
  const auto pixel = [](const Image& image, ImVec2 at) {
    return image.at(static_cast<int>(at.x), static_cast<int>(at.y));
  };
  stage.session.seek(0);
  const Image before = stage.picture();
  stage.session.seek(stage.session.length());
  const Image after = stage.picture();
  const ImVec2 masked = point_of(picture, 0.8, 0.3), allowed = point_of(picture, 0.1, 0.9);
  EXPECT_EQ(pixel(before, masked), pixel(after, masked));
  EXPECT_NE(pixel(before, allowed), pixel(after, allowed));
  EXPECT_EQ(pixel(after, allowed), owner_color(stage.session.theme, 0, 4));
  EXPECT_NE(pixel(after, allowed), pixel(after, masked));
}

// Drawing again after every kind of change shows the change: what is kept is not kept too long.
TEST(MaskPanel, RepaintsWhenSomethingChanges) {
  Stage stage(draw_mask, documents_of(ring_trace(4, "striped")), 600, 400);
  stage.session.seek(stage.session.length());
  const Image first = stage.picture();
  EXPECT_EQ(stage.picture().pixels, first.pixels);
  stage.session.select_rank(1);
  const Image ranked = stage.picture();
  EXPECT_NE(ranked.pixels, first.pixels);
  stage.session.select_rank(-1);
  stage.session.mask_order = MaskOrder::local;
  EXPECT_NE(stage.picture().pixels, first.pixels);
  stage.session.mask_order = MaskOrder::global;
  EXPECT_EQ(stage.picture().pixels, first.pixels);
  stage.session.theme = Theme::light;
  EXPECT_NE(stage.picture().pixels, first.pixels);
}

TEST(MaskPicture, RegionBoxesCoverTheRegion) {
  const Box picture{0, 0, 800, 800};
  const auto model = [](PartitionKind kind) {
    return MaskModel{MaskSpec::parse("causal"), {kind, 32, 4}};
  };
  const MaskModel zigzag = model(PartitionKind::zigzag);
  // Rank 0 holds chunks 0 and 7 of 8, rank 3 holds 3 and 4, which touch.
  const auto boxes = region_boxes(zigzag, MaskOrder::global, picture, 0, 3);
  ASSERT_EQ(boxes.size(), 2u);
  EXPECT_FLOAT_EQ(boxes[0].y0, 0);
  EXPECT_FLOAT_EQ(boxes[0].y1, 100);
  EXPECT_FLOAT_EQ(boxes[1].y0, 700);
  EXPECT_FLOAT_EQ(boxes[1].y1, 800);
  for (const Box& box : boxes) {
    EXPECT_FLOAT_EQ(box.x0, 300);
    EXPECT_FLOAT_EQ(box.x1, 500);
  }
  const auto local = region_boxes(zigzag, MaskOrder::local, picture, 1, 2);
  ASSERT_EQ(local.size(), 1u);
  EXPECT_FLOAT_EQ(local[0].x0, 400);
  EXPECT_FLOAT_EQ(local[0].y0, 200);
  EXPECT_FLOAT_EQ(local[0].x1, 600);
  EXPECT_FLOAT_EQ(local[0].y1, 400);
  EXPECT_TRUE(
      region_boxes(model(PartitionKind::striped), MaskOrder::global, picture, 0, 1).empty());
}

TEST(MaskLayout, PictureIsSquareAndInside) {
  for (const auto& [width, height] : {std::pair(300, 250), {420, 380}, {900, 260}, {1600, 900}}) {
    const Box box{5, 7, 5.0f + static_cast<float>(width), 7.0f + static_cast<float>(height)};
    const MaskLayout layout = mask_layout(box);
    EXPECT_FLOAT_EQ(layout.picture.width(), layout.picture.height());
    EXPECT_GE(layout.picture.x0, box.x0);
    EXPECT_LE(layout.picture.x1, box.x1);
    EXPECT_LE(layout.picture.y1, box.y1);
    EXPECT_GT(layout.picture.width(), 120);
    if (layout.notes.width() > 0) {
      EXPECT_GT(layout.notes.x0, layout.picture.x1);
      EXPECT_LE(layout.notes.x1, box.x1);
    }
  }
}

}  // namespace
}  // namespace ringscope::viz
