// The panels of figures: each is drawn whatever the trace, and reacts to the mouse where it should.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <tuple>

#include "tests/core/trace/sample_recording.h"
#include "tests/viz/panel_stage.h"
#include "viz/data/session/format.h"
#include "viz/data/session/selection.h"
#include "viz/panels/balance/balance_heatmap.h"
#include "viz/panels/layouts.h"

namespace ringscope::viz {
namespace {

// The colours of a picture inside `box`, `margin` pixels from its sides.
std::set<Color> colors_in(const Image& image, const Box& box, int margin = 0) {
  std::set<Color> seen;
  for (int x = static_cast<int>(box.x0) + margin; x < static_cast<int>(box.x1) - margin; ++x)
    for (int y = static_cast<int>(box.y0) + margin; y < static_cast<int>(box.y1) - margin; ++y)
      seen.insert(image.at(x, y));
  return seen;
}

// ---
// The ring.

// Discs and tiles keep inside the box and apart from their neighbours.
TEST(RingLayout, FitsWithoutOverlap) {
  for (const int ranks : {1, 2, 3, 4, 8, 16, 64, 128})
    for (const auto& [width, height] : {std::pair(300, 250), {600, 600}, {1600, 900}}) {
      SCOPED_TRACE(std::to_string(ranks) + " ranks, width " + std::to_string(width));
      const Box box{10, 20, 10.0f + static_cast<float>(width), 20.0f + static_cast<float>(height)};
      const RingLayout ring = ring_layout(box, ranks);
      for (int rank = 0; rank < ranks; ++rank) {
        const Box tile = ring.tile(rank);
        EXPECT_GE(tile.x0, box.x0);
        EXPECT_LE(tile.x1, box.x1);
        EXPECT_GE(tile.y0, box.y0);
        EXPECT_LE(tile.y1, box.y1);
      }
      if (ranks == 1) continue;
      const ImVec2 a = ring.at(0, ring.radius), b = ring.at(1, ring.radius);
      EXPECT_GT(std::hypot(a.x - b.x, a.y - b.y), 2 * ring.disc);
    }
}

TEST(RingLayout, RanksGoClockwiseFromTheTopAndAreFoundUnderTheMouse) {
  const RingLayout ring = ring_layout({0, 0, 500, 500}, 8);
  const ImVec2 top = ring.at(0, ring.radius), right = ring.at(2, ring.radius);
  EXPECT_NEAR(top.x, 250, 0.01);
  EXPECT_LT(top.y, 200);
  EXPECT_GT(right.x, 300);
  EXPECT_NEAR(right.y, 250, 0.01);
  for (int rank = 0; rank < 8; ++rank) {
    EXPECT_EQ(ring.rank_at(ring.at(rank, ring.radius)), rank);
    EXPECT_EQ(ring.rank_at(ring.tile(rank).center()), rank);
    EXPECT_EQ(ring.rank_at(ring.at(rank + 0.5, ring.radius)), -1);
  }
  EXPECT_EQ(ring.rank_at({250, 250}), -1);
  EXPECT_EQ(ring_layout({0, 0, 500, 500}, 0).rank_at({250, 250}), -1);
}

TEST(RingPanel, ClickSelectsARankAndClickBesidesClears) {
  Stage stage(draw_ring, documents_of(ring_trace(4)), 500, 500);
  const RingLayout ring = ring_layout(stage.box(), 4);
  stage.click(ring.at(2, ring.radius));
  EXPECT_EQ(stage.session.selected_rank, 2);
  stage.click(ring.tile(3).center());
  EXPECT_EQ(stage.session.selected_rank, 3);
  EXPECT_TRUE(Stage::tooltip_shown());
  stage.click({3, 497});
  EXPECT_EQ(stage.session.selected_rank, -1);
  stage.hover({3, 497});
  EXPECT_FALSE(Stage::tooltip_shown());
}

// A tile's name is one text, whose ground is that of the tile above the bar.
TEST(RingPanel, ANameLiesOnOneGround) {
  Stage stage(draw_ring, documents_of(ring_trace(4)), 600, 600);
  stage.session.set_axis_mode(AxisMode::steps);
  stage.session.seek(1.5);
  stage.picture();
  const std::string svg = svg_of(*ImGui::GetDrawData(), 600, 600);
  for (const char* name : {">KV 0<", ">KV 3<"}) {
    std::size_t count = 0;
    for (std::size_t at = 0; (at = svg.find(name, at)) != svg.npos; ++at) ++count;
    EXPECT_EQ(count, 1u) << name;
  }
}

// At step 2 the tile of rank r shows KV (r - 2) mod 4: its frame has that owner's colour.
TEST(RingPanel, TilesHaveTheColourOfTheBlockHeld) {
  Stage stage(draw_ring, documents_of(ring_trace(4)), 600, 600);
  const RingLayout ring = ring_layout(stage.box(), 4);
  for (const int step : {0, 2, 3}) {
    stage.session.set_axis_mode(AxisMode::steps);
    stage.session.seek(step + 0.9);
    const Image image = stage.picture();
    for (int rank = 0; rank < 4; ++rank) {
      const int owner = (rank - step + 4) % 4;
      EXPECT_TRUE(colors_in(image, ring.tile(rank))
                      .contains(owner_color(stage.session.look.theme, owner, 4)))
          << "rank " << rank << ", step " << step;
    }
  }
}

// Between two ranks' tiles there is an arrow once a block has gone there. Where all is gathered before
// anything is attended, steps have no hops and the picture no arrows.
TEST(RingPanel, StepsWithoutHopsHaveNoArrows) {
  for (const auto& [scheme, has_arrows] :
       {std::pair("ring", true), {"allgather", false}, {"ulysses", false}}) {
    HandMade made(4, "zigzag", "causal", scheme);
    for (int rank = 0; rank < 4; ++rank) {
      made.hop(rank, 0, 10, 40);
      for (int step = 0; step < 4; ++step)
        made.compute(rank, step, 50 * step + 50, 50 * step + 100);
    }
    Stage stage(draw_ring, documents_of(made.trace()), 600, 600);
    const RingLayout ring = ring_layout({0, 0, 600, 600}, 4);
    const auto between = [&](double at) {
      stage.session.seek(at);
      const ImVec2 middle = ring.at(0.5, ring.orbit);
      return colors_in(stage.picture(),
                       {middle.x - 60, middle.y - 60, middle.x + 60, middle.y + 60});
    };
    const std::set<Color> before = between(0);
    EXPECT_EQ(between(175) != before, has_arrows) << scheme;
  }
}

// Links between nodes are not averaged with those inside: 4096 bytes take 1 us there and 8 us here.
TEST(RingPanel, LinksOfNodesAreToldApart) {
  HandMade made(4);
  made.recording().info.machine.emplace().nodes = 2;
  for (int rank = 0; rank < 4; ++rank) {
    made.compute(rank, 0, 0, 9000);
    made.hop(rank, 0, 0, rank % 2 == 0 ? 1000 : 8000, 4096);
  }
  Stage stage(draw_ring, documents_of(made.trace()), 900, 900);
  stage.session.seek(stage.session.length());
  stage.picture();
  const std::string svg = svg_of(*ImGui::GetDrawData(), 900, 900);
  EXPECT_NE(svg.find(bandwidth_text(4096e6) + " a link in a node"), svg.npos);
  EXPECT_NE(svg.find(bandwidth_text(4096e6 / 8) + " a link between nodes"), svg.npos);
}

// ---
// The links.

// Two nodes of two ranks: 4096 bytes take 1 us inside a node, 8 us from 1 to 2 and 20 us from 3 to 0.
Trace two_nodes() {
  HandMade made(4);
  made.recording().info.machine =
      RunMachine{.link = "NVLink4", .between = "NDR InfiniBand", .nodes = 2};
  for (int rank = 0; rank < 4; ++rank) {
    made.compute(rank, 0, 0, 30000);
    made.hop(rank, 0, 0, rank % 2 == 0 ? 1000 : rank == 1 ? 8000 : 20000, 4096);
  }
  return made.trace();
}

TEST(LinksPanel, NodesAreToldApartAndTheSlowestComesFirst) {
  std::vector<Document> documents = documents_of(two_nodes());
  std::vector<LinkKind> kinds = link_kinds(documents[0]);
  ASSERT_EQ(kinds.size(), 2u);
  EXPECT_EQ(kinds[0].name, "NVLink4, in a node");
  EXPECT_EQ(kinds[1].name, "NDR InfiniBand, between nodes");
  ASSERT_EQ(kinds[1].links.size(), 2u);
  EXPECT_EQ(kinds[1].links[0]->src, 3);
  EXPECT_EQ(kinds[1].links[0]->dst, 0);
  EXPECT_DOUBLE_EQ(kinds[0].median().bytes_per_second(), 4096e6);
  EXPECT_DOUBLE_EQ(kinds[1].links[0]->bytes_per_second(), 4096e6 / 20);
  EXPECT_EQ(kinds[1].largest[0], 4096);
  EXPECT_EQ(kinds[1].largest[1], 20000);
  // One message of a real run says nothing; what is found slow is marked, and nothing else.
  EXPECT_TRUE(kinds[0].slow.empty());
  EXPECT_TRUE(kinds[1].slow.empty());
  documents[0].why.findings = {{.cause = Cause::slow_link, .from = 3, .to = 0, .alike = {{3, 0}}}};
  kinds = link_kinds(documents[0]);
  EXPECT_TRUE(kinds[0].slow.empty());
  EXPECT_EQ(kinds[1].slow, std::set<const LinkHistory::Carried*>{kinds[1].links[0]});
}

// A click on the cell of a link, by sender downwards and receiver across, leads to its message.
TEST(LinksPanel, ClicksLeadToTheMessage) {
  Stage stage(draw_links, documents_of(two_nodes()), 900, 600);
  const Box map = stage.box_of_picture("links");
  ASSERT_GT(map.width(), 300);
  stage.click(map.at(2.5 / 4, 1.5 / 4));
  ASSERT_TRUE(stage.session.selected.has_value());
  const TraceEvent& slice = stage.session.document().trace.slice(*stage.session.selected);
  EXPECT_EQ(slice.lane, Lane::recv);
  EXPECT_EQ(slice.src, 1);
  EXPECT_EQ(slice.dst, 2);
  const Image image = stage.picture();
  const auto beside_number = [&](int to, int from) {
    const ImVec2 place = map.at((to + 0.2) / 4, (from + 0.2) / 4);
    return image.at(static_cast<int>(place.x), static_cast<int>(place.y));
  };
  for (int from = 0; from < 4; ++from)
    for (int to = 0; to < 4; ++to)
      EXPECT_EQ(beside_number(to, from) != beside_number(0, 0), to == (from + 1) % 4) << from;
  stage.session.select(std::nullopt);
  stage.click(map.at(0.5 / 4, 0.5 / 4));  // no link
  EXPECT_FALSE(stage.session.selected.has_value());
}

// ---
// A recorded tile.

TEST(TilePanel, GoesFromQToOutAndBack) {
  Trace trace = ring_trace(4);
  trace.tile = sample_tile();
  trace.tile->q.assign(2 * 4, 0.5f);
  trace.tile->k.assign(3 * 4, 0.75f);
  trace.tile->row_max_before = trace.tile->row_max = {-1, -1};
  trace.tile->row_sum_before = {2, 3};
  trace.info.shape.head_dim = 4;
  Stage stage(draw_tile, documents_of(std::move(trace)), 900, 600);
  const auto shows = [&](const char* words) {
    stage.picture();
    return svg_of(*ImGui::GetDrawData(), 900, 600).find(words) != std::string::npos;
  };
  const char* const names[] = {">S = scale Q Kᵀ<", ">S<", ">m<",          ">P = exp(S - m)<",
                               ">factor O<",       ">l<", ">out = O / l<"};
  for (int step = 0; step < kTileSteps; ++step) {
    EXPECT_EQ(stage.session.panels.tile_step, step);
    EXPECT_TRUE(shows(names[step])) << step;
    EXPECT_EQ(shows(">-inf<"), step == 1 || step == 2) << step;  // what the mask forbids
    EXPECT_EQ(shows("max(-1.0000, -inf)"), step == 2) << step;   // of the last row
    EXPECT_EQ(shows(">0.27<"), step == 4) << step;               // exp(-1 - 1) times the old l
    commands::next_in_tile(stage.session);
  }
  EXPECT_EQ(stage.session.panels.tile_step, kTileSteps - 1);
  EXPECT_TRUE(shows(">0.25<"));  // the output
  EXPECT_EQ(stage.session.panels.front, Figure::tile);
  commands::previous_in_tile(stage.session);
  EXPECT_TRUE(shows(">O<"));
}

// Without one the panel says which command records the tile of the step that is looked at.
TEST(TilePanel, SaysHowToRecordOne) {
  Trace trace = ring_trace(4);
  trace.info.command = "./ringscope run --random";
  EXPECT_EQ(record_command(trace.info, 2, 1),
            "./ringscope run --random --trace tile.json --record-tile 2:1");
  trace.info.command += " --record-tile 0:0 --seed 3";
  EXPECT_EQ(record_command(trace.info, 2, 1),
            "./ringscope run --random --seed 3 --trace tile.json --record-tile 2:1");
  trace.info.backend = "sim";
  EXPECT_EQ(
      record_command(trace.info, 2, 1),
      "ringscope run --random --world-size 4 --seqlen 64 --mask causal --partition contiguous "
      "--trace tile.json --record-tile 2:1");
  Stage stage(draw_tile, documents_of(std::move(trace)), 900, 600);
  stage.session.go_to_step(0, 2, 1);
  stage.picture();
  EXPECT_NE(svg_of(*ImGui::GetDrawData(), 900, 600).find("--record-tile 2:1"), std::string::npos);
}

// ---
// The mask.

TEST(MaskPanel, TabsChangeTheOrder) {
  Stage stage(draw_mask, documents_of(ring_trace(4)), 600, 400);
  const MaskLayout layout = mask_layout(stage.box());
  ASSERT_EQ(stage.session.look.mask_order, MaskOrder::global);
  stage.click(tab_boxes(stage.fonts(), layout.tabs, kMaskOrders)[1].center());
  EXPECT_EQ(stage.session.look.mask_order, MaskOrder::local);
  stage.click(tab_boxes(stage.fonts(), layout.tabs, kMaskOrders)[0].center());
  EXPECT_EQ(stage.session.look.mask_order, MaskOrder::global);
}

// An axis names no position twice, and no more of them than it has room for.
TEST(MaskPanel, NumbersOfOneQueryStandApart) {
  Trace trace = ring_trace(4);
  trace.info.shape.seqlen_q = 1;
  Stage stage(draw_mask, documents_of(std::move(trace)), 600, 400);
  stage.picture();
  const std::string svg = svg_of(*ImGui::GetDrawData(), 600, 400);
  const std::size_t first = svg.find(">63</text>");
  ASSERT_NE(first, svg.npos);
  EXPECT_EQ(svg.find(">63</text>", first + 1), svg.npos);
  EXPECT_EQ(svg.find(">64</text>"), svg.rfind(">64</text>"));  // of the keys alone
}

// A run that failed has pairs to attend that its ranks did not come to.
TEST(MaskPanel, WhatAFailedRunDidNotComeToCounts) {
  HandMade made(2, "contiguous", "causal");
  made.recording().info.failure = RunEnd{"its process was killed", 1, 1};
  Trace trace = made.compute(0, 0, 0, 10).compute(1, 0, 0, 10).trace();
  const Index rows = trace.info.shape.seqlen;
  Stage stage(draw_mask, documents_of(std::move(trace)), 600, 400);
  stage.picture();
  EXPECT_NE(svg_of(*ImGui::GetDrawData(), 600, 400)
                .find(" of " + count_text(static_cast<double>(rows * (rows + 1) / 2)) + " pairs"),
            std::string::npos);
}

// Lines of the text's colour on a rim of the ground's, whatever lies below, say where documents end.
TEST(MaskPanel, DocumentsHaveEdgesAndNames) {
  Trace trace = ring_trace(4);
  trace.info.mask = "causal+documents:16,24,24";
  Stage stage(draw_mask, documents_of(std::move(trace)), 600, 400);
  stage.session.seek(stage.session.length());  // where no frame is
  const Box box = mask_layout(stage.box()).picture;
  for (const Theme theme : {Theme::dark, Theme::light}) {
    stage.session.look.theme = theme;
    const Palette& palette = palette_of(theme);
    const Image image = stage.picture();
    for (const int end : {16, 40}) {
      const auto [x, y] = box.at(end / 64.0, end / 64.0);
      const float left = std::round(x), top = std::round(y);
      EXPECT_EQ(colors_in(image, {left, box.y0, left + 1, box.y1}), std::set{palette.text});
      EXPECT_EQ(colors_in(image, {box.x0, top, box.x1, top + 1}), std::set{palette.text});
      EXPECT_EQ(colors_in(image, {left + 1, box.y0, left + 2, box.y1}),
                std::set({palette.text, palette.background}));
    }
  }
  const std::string svg = svg_of(*ImGui::GetDrawData(), 600, 400);
  for (const char* text : {">16</text>", ">40</text>", ">doc 0</text>", ">doc 2</text>"}) {
    const std::size_t of_keys = svg.find(text);
    EXPECT_NE(of_keys, svg.npos) << text;
    EXPECT_NE(svg.find(text, of_keys + 1), svg.npos) << text << " of queries";
  }
}

// In local order the picture's block (2, 1) is what rank 2 does with KV block 1. The panel of a tile comes
// to the front where one of this block was recorded, and does not hide the mask for others.
TEST(MaskPanel, ClickSelectsTheSliceOfTheRegion) {
  Trace trace = ring_trace(4, "zigzag");
  trace.tile = sample_tile();
  trace.tile->rank = 2;
  trace.tile->kv_owner = 1;
  Stage stage(draw_mask, documents_of(std::move(trace)), 600, 400);
  stage.session.look.mask_order = MaskOrder::local;
  const MaskLayout layout = mask_layout(stage.box());
  stage.click(layout.picture.at(0.5 / 4, 2.5 / 4));
  EXPECT_FALSE(stage.session.panels.front.has_value());
  stage.click(layout.picture.at(1.5 / 4, 2.5 / 4));
  ASSERT_TRUE(stage.session.selected.has_value());
  const TraceEvent& slice = stage.session.document().trace.slice(*stage.session.selected);
  EXPECT_EQ(stage.session.selected_rank, 2);
  EXPECT_EQ(slice.lane, Lane::compute);
  EXPECT_EQ(slice.kv_owner, 1);
  EXPECT_EQ(slice.step, 1);
  EXPECT_EQ(stage.session.panels.front, Figure::tile);
  const auto [begin, end] = stage.session.span_of(*stage.session.selected);
  EXPECT_GE(stage.session.playback.position(), begin);
  EXPECT_LT(stage.session.playback.position(), end);
}

// In both orders a frame of the playhead's colour stands around what is attended now.
TEST(MaskPanel, WhatIsAttendedNowIsFramed) {
  Stage stage(draw_mask, documents_of(ring_trace(4)), 600, 400);
  for (const MaskOrder order : {MaskOrder::global, MaskOrder::local}) {
    stage.session.look.mask_order = order;
    const auto framed = [&](double share) {
      stage.session.seek(share * stage.session.length());
      const Image image = stage.picture();
      return std::count(image.pixels.begin(), image.pixels.end(),
                        palette_of(stage.session.look.theme).playhead);
    };
    EXPECT_GT(framed(0.1), 20);
    EXPECT_EQ(framed(1), 0);
  }
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
  stage.session.look.mask_order = MaskOrder::local;
  EXPECT_NE(stage.picture().pixels, first.pixels);
  stage.session.look.mask_order = MaskOrder::global;
  EXPECT_EQ(stage.picture().pixels, first.pixels);
  stage.session.look.theme = Theme::light;
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
  const auto sides = [](const Box& box) { return std::tuple(box.x0, box.y0, box.x1, box.y1); };
  ASSERT_EQ(boxes.size(), 2u);
  EXPECT_EQ(sides(boxes[0]), std::tuple(300, 0, 500, 100));
  EXPECT_EQ(sides(boxes[1]), std::tuple(300, 700, 500, 800));
  const auto local = region_boxes(zigzag, MaskOrder::local, picture, 1, 2);
  ASSERT_EQ(local.size(), 1u);
  EXPECT_EQ(sides(local[0]), std::tuple(400, 200, 600, 400));
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

// ---
// The work by rank and step.

// Rows are evenly high, or the first ones have a height of their own, in the order of numbers or another.
TEST(HeatLayout, CellsTileTheBoxAndAreFoundAgain) {
  const HeatLayout even{{10, 20, 110, 80}, 3, 5};
  const HeatLayout ordered{{10, 20, 110, 100}, 5, 4, {3, 1, 4, 0, 2}, 2, 25};
  for (const HeatLayout& layout : {even, ordered}) {
    for (int row = 0; row < layout.ranks; ++row)
      for (int step = 0; step < layout.steps; ++step) {
        EXPECT_EQ(layout.at(layout.cell(row, step).center()), std::pair(layout.rank_of(row), step));
        EXPECT_EQ(layout.row_of(layout.rank_of(row)), row);
      }
    EXPECT_EQ(layout.row_of(7), -1);
    const Box last = layout.cell(layout.ranks - 1, layout.steps - 1);
    EXPECT_FLOAT_EQ(last.x1, layout.box.x1);
    EXPECT_FLOAT_EQ(last.y1, layout.box.y1);
    EXPECT_FALSE(layout.at({9, 30}).has_value());
    EXPECT_FALSE(layout.at({110, 30}).has_value());
  }
  EXPECT_FLOAT_EQ(ordered.cell(1, 0).y0, 45);
  EXPECT_FLOAT_EQ(ordered.cell(2, 0).y0, 70);
  EXPECT_FLOAT_EQ(ordered.cell(3, 0).height(), 10);
  EXPECT_FALSE((HeatLayout{{10, 20, 110, 80}, 0, 0}).at({50, 50}).has_value());
}

// On either axis, a click moves the playhead into the slice and leaves the axis as it is.
void expect_in_slice(const Session& session, AxisMode mode, int rank, int step) {
  EXPECT_EQ(session.axis_mode, mode);
  EXPECT_EQ(session.selected_rank, rank);
  ASSERT_TRUE(session.selected.has_value());
  const auto [begin, end] = session.span_of(*session.selected);
  EXPECT_GE(session.playback.position(), begin);
  EXPECT_LT(session.playback.position(), end);
  EXPECT_EQ(session.step_now(session.active), step);
  EXPECT_EQ(session.moment(session.active).ranks[rank].doing, RankMoment::computing);
}

TEST(BalancePanel, ClickOnACellGoesThere) {
  const struct {
    const char* partition;
    bool backward;
    int rank, step;
  } cells[] = {{"contiguous", false, 3, 2}, {"zigzag", true, 1, 6}};
  for (const AxisMode mode : {AxisMode::time, AxisMode::steps})
    for (const auto& [partition, backward, rank, step] : cells) {
      Stage stage(draw_balance, documents_of(ring_trace(4, partition, "causal", backward)), 900,
                  700);
      stage.session.set_axis_mode(mode);
      const HeatLayout layout{stage.box_of_picture("balance"), 4, backward ? 8 : 4};
      ASSERT_GT(layout.box.width(), 100);
      stage.click(layout.cell(rank, step).center());
      expect_in_slice(stage.session, mode, rank, step);
      const TraceEvent& slice = stage.session.document().trace.slice(*stage.session.selected);
      EXPECT_EQ(slice.lane, Lane::compute);
      EXPECT_EQ(slice.pass, backward ? Pass::backward : Pass::forward);
      EXPECT_EQ(slice.step, step % 4);
      EXPECT_EQ(slice.kv_owner, (rank - step + 8) % 4);
    }
}

TEST(BalancePanel, TabsChooseWhatIsShown) {
  Stage stage(draw_balance, documents_of(ring_trace(4)), 900, 700);
  const Box cells = stage.box_of_picture("balance");
  const Image pairs = stage.picture();
  const std::vector<std::string> words = {"pairs", "FLOPs", "time", "waiting"};
  const float heading = text_width(stage.fonts().text, "Work by rank and step");
  stage.click(tab_boxes(stage.fonts(), {22 + heading, cells.y0 - 49}, words)[3].center());
  const Image waiting = stage.picture();
  const int x = static_cast<int>(cells.x0) + 4, y = static_cast<int>(cells.y0) + 4;
  EXPECT_NE(pairs.at(x, y), waiting.at(x, y));
}

// However much there is to say, the first screen of a small window shows the first finding and the
// whole heat map, high enough to be read.
TEST(BalancePanel, TheHeatMapIsOnTheFirstScreen) {
  const Finding finding{
      "A sentence that is long enough to take two lines of a narrow panel, or one "
      "line of a wide one, and so pushes what is below it far down.",
      SliceId{0, 0}, "cores=1"};
  for (const auto& [width, height] : {std::pair(555, 282), {1250, 520}, {640, 330}})
    for (const int ranks : {2, 4, 8, 16})
      for (const bool backward : {false, true}) {
        SCOPED_TRACE(testing::Message() << width << " " << ranks << " " << backward);
        Stage stage(draw_balance, documents_of(ring_trace(ranks, "contiguous", "causal", backward)),
                    width, height);
        stage.session.documents[0].findings.assign(8, finding);
        const Box cells = stage.box_of_picture("balance");
        EXPECT_GT(cells.y0, 80);  // below the finding
        EXPECT_LE(cells.y1, static_cast<float>(height));
        EXPECT_GE(cells.height(), std::min(96, 16 * ranks));
      }
}

// Terms in panels are explained in the words of the glossary.
TEST(Meanings, ComeFromTheGlossary) {
  for (const char* term : {"balance ceiling", "exposed communication", "tile", "KV block"}) {
    const std::string meaning = meaning_of(term);
    EXPECT_TRUE(meaning.ends_with('.')) << term;
    EXPECT_EQ(meaning.find_first_of("\n|#"), std::string::npos) << meaning;
    EXPECT_EQ(meaning.find("  "), std::string::npos) << meaning;
  }
  EXPECT_TRUE(meaning_of("tile").starts_with("A rectangle of scores"));
  EXPECT_EQ(meaning_of("no such term"), "");
  EXPECT_EQ(meaning_of(""), "");
}

// A tooltip is as wide as what it says now, whatever the one before it said.
TEST(Tooltip, NothingInItIsCutOff) {
  static std::string value;
  Stage stage(
      [](const PanelContext& context) {
        draw_tooltip(context, "tile", {{"pairs", value}}, "tile");
      },
      documents_of(empty_trace()));
  for (const std::size_t length : {1, 40, 3, 30}) {
    value = std::string(length, 'w');
    stage.hover({10, 10});
    const ImDrawData& data = *ImGui::GetDrawData();
    for (int i = 0; i < data.CmdListsCount; ++i) {
      const ImDrawList& list = *data.CmdLists[i];
      if (!std::string(list._OwnerName).starts_with("##Tooltip")) continue;
      for (const ImDrawCmd& command : list.CmdBuffer)
        for (unsigned k = 0; k < command.ElemCount; ++k) {
          const int index = list.IdxBuffer[static_cast<int>(command.IdxOffset + k)];
          EXPECT_LE(list.VtxBuffer[index].pos.x, command.ClipRect.z + 1) << length;
        }
    }
    EXPECT_NE(svg_of(data, 800, 600).find(">" + value + "<"), std::string::npos);
    EXPECT_NE(svg_of(data, 800, 600).find(">tile<"), std::string::npos);
  }
}

// 32 ranks on 4 nodes; rank 21 takes twice as long.
Trace a_slow_rank_of_many() {
  HandMade made(32);
  made.recording().info.machine.emplace().nodes = 4;
  for (int rank = 0; rank < 32; ++rank)
    for (int step = 0; step < 32; ++step) {
      const int ns = rank == 21 ? 100 : 50;
      made.compute(rank, step, 100 * step, 100 * step + ns, 10);
      if (step < 31) made.hop(rank, step, 100 * step, 100 * step + 10, 1000);
    }
  return made.trace();
}

TEST(RankMap, WhatDiffersComesFirstAndClicksLeadToItsSlice) {
  Stage stage(draw_rank_map, documents_of(a_slow_rank_of_many()), 1400, 300);
  Session& session = stage.session;
  ASSERT_TRUE(session.rank_map.shown);
  const Box cells = stage.box_of_picture("rank map");
  ASSERT_GT(cells.width(), 700);
  const float step = cells.width() / 32;
  const ImVec2 first{cells.x0 + 4.5f * step, cells.y0 + 6};
  const Image image = stage.picture();
  const auto at = [&](float y) { return image.at(static_cast<int>(first.x), static_cast<int>(y)); };
  const Color warm = palette_of(session.look.theme).warning;
  const auto away = [&](Color color) {
    return std::abs(int(color & 255) - int(warm & 255)) +
           std::abs(int(color >> 16 & 255) - int(warm >> 16 & 255));
  };
  EXPECT_LT(away(at(cells.y0 + 6)), 60);
  EXPECT_GT(away(at(cells.y0 + 20)), 120);  // the others are quiet
  stage.click(first);
  EXPECT_TRUE(session.rank_map.shown);
  expect_in_slice(session, AxisMode::time, 21, 4);
  stage.click(first);  // the second click of two
  EXPECT_FALSE(session.rank_map.shown);
  expect_in_slice(session, AxisMode::time, 21, 4);
  EXPECT_EQ(session.view, session.view_of(*session.selected));
}

// A note is a flag on its rank's row, which the mouse reads and a click goes to.
TEST(RankMap, ShowsNotes) {
  Stage stage(draw_rank_map, documents_of(a_slow_rank_of_many()), 1400, 300);
  Session& session = stage.session;
  const Box cells = stage.box_of_picture("rank map");
  const Image bare = stage.picture();
  session.documents[0].notes = {{21, 450, "why?"}};
  const Image noted = stage.picture();
  Box changed{1e9f, 1e9f, -1, -1};
  for (int y = 0; y < bare.height; ++y)
    for (int x = 0; x < bare.width; ++x)
      if (bare.at(x, y) != noted.at(x, y)) {
        const float at_x = static_cast<float>(x), at_y = static_cast<float>(y);
        changed = {std::min(changed.x0, at_x), std::min(changed.y0, at_y),
                   std::max(changed.x1, at_x + 1), std::max(changed.y1, at_y + 1)};
      }
  ASSERT_GT(changed.x1, 0);
  EXPECT_NEAR(changed.x0, cells.x0 + 4.5f / 32 * cells.width(), 3);
  EXPECT_LE(changed.width(), 14);
  EXPECT_NEAR(changed.y0, cells.y0, 1);  // the row that differs most
  EXPECT_LE(changed.height(), 16);
  const ImVec2 flag{changed.x0 + 4, changed.y1 - 5};
  stage.hover(flag);
  EXPECT_NE(svg_of(*ImGui::GetDrawData(), 1, 1).find("why?"), std::string::npos);
  stage.click(flag);
  EXPECT_EQ(session.selected_rank, 21);
  EXPECT_EQ(session.playback.position(), 450);
}

// Of 32 ranks on 4 nodes, the even ones of nodes 1 and 3 are recorded.
TEST(RankMap, ShowsRecordedRanksAlone) {
  HandMade made(32);
  made.recording().info.machine.emplace().nodes = 4;
  for (const int rank : {8, 10, 12, 14, 24, 26, 28, 30})
    for (int step = 0; step < 32; ++step) made.compute(rank, step, 70 * step, 70 * step + 50, 10);
  Stage stage(draw_rank_map, documents_of(made.trace()), 1400, 300);
  const HeatLayout layout{stage.box_of_picture("rank map"), 8, 32};
  stage.click(layout.cell(4, 3).center());
  EXPECT_EQ(stage.session.selected_rank, 24);
}

// What all ranks have alike is no alarm, and the scale below it says what colours mean.
TEST(RankMap, AnAllAlikeRunIsCalm) {
  HandMade made(32);
  for (int rank = 0; rank < 32; ++rank)
    for (int step = 0; step < 8; ++step)
      made.compute(rank, step, 100 * step, 100 * step + 50, 10)
          .wait(rank, step, 100 * step + 50, 100 * step + 90);
  Stage stage(draw_rank_map, documents_of(made.trace()), 1400, 300);
  stage.session.rank_map.metric = 3;  // waiting
  const Box cells = stage.box_of_picture("rank map");
  const Image image = stage.picture();
  const ImVec2 third = cells.at(2.5 / 8, 0);
  const Color seen = image.at(static_cast<int>(third.x), static_cast<int>(third.y) + 5);
  const Palette& palette = palette_of(stage.session.look.theme);
  const auto orange = [&](double share) {
    return mix(palette.panel, palette.warning, share) & 255;
  };
  EXPECT_LT(seen & 255, orange(0.5));
  EXPECT_GT(seen & 255, orange(0.1));
  EXPECT_NE(svg_of(*ImGui::GetDrawData(), 1400, 300).find(">240 ns<"), std::string::npos);
}

TEST(RankMap, IsPaintedOnceAndFitsAnySize) {
  Stage stage(draw_rank_map, documents_of(a_slow_rank_of_many()), 1400, 300);
  stage.picture();
  stage.session.seek(stage.session.length() / 2);
  const int before = painted(stage.textures(), "rank map");
  stage.picture();
  EXPECT_EQ(painted(stage.textures(), "rank map"), before);
  commands::toggle_theme(stage.session);
  stage.picture();
  EXPECT_EQ(painted(stage.textures(), "rank map"), before + 1);
  for (const auto& [width, height] : {std::pair(30, 20), {300, 90}, {640, 200}, {2560, 700}}) {
    stage.resize(width, height);
    stage.picture();
  }
}

// A document that is opened where another one lay, with as many ranks and as long, is painted anew.
TEST(RankMap, AnotherDocumentAtTheSamePlaceIsNotTakenForTheFirst) {
  Trace other = a_slow_rank_of_many();
  for (TraceEvent& slice : other.slices(other.row_of(21, Lane::compute))) slice.end_ns -= 50;
  for (TraceEvent& slice : other.slices(other.row_of(3, Lane::compute))) slice.end_ns += 50;
  Stage stage(draw_rank_map, documents_of(a_slow_rank_of_many()), 1400, 300);
  const Image first = stage.picture();
  const void* const cells = stage.session.documents[0].balance.cells.data();
  Document next = make_document(other);
  std::copy(next.balance.cells.begin(), next.balance.cells.end(),
            stage.session.documents[0].balance.cells.begin());
  next.balance.cells.swap(stage.session.documents[0].balance.cells);
  std::swap(stage.session.documents[0], next);
  ASSERT_EQ(stage.session.documents[0].balance.cells.data(), cells);
  EXPECT_NE(stage.picture().pixels, first.pixels);
  const Box box = stage.box_of_picture("rank map");
  stage.click({box.x0 + 30, box.y0 + 6});
  EXPECT_EQ(stage.session.selected_rank, 3);
}

// ---
// The softmax state.

SoftmaxSample sample(std::int64_t query, int rank, int step, float row_sum) {
  SoftmaxSample made;
  made.query = query;
  made.rank = rank;
  made.step = step;
  made.row_sum = row_sum;
  return made;
}

TEST(SoftmaxPanel, DrawsOddNumbers) {
  Trace trace = ring_trace(4);
  const float odd[] = {std::numeric_limits<float>::infinity(),
                       -std::numeric_limits<float>::infinity(),
                       std::numeric_limits<float>::quiet_NaN(), 0};
  for (std::size_t i = 0; i < trace.samples.size(); ++i)
    trace.samples[i].lse = trace.samples[i].row_max = trace.samples[i].lse_error = odd[i % 4];
  trace.samples.push_back(sample(1, 99, -1, 1));  // of no rank
  Stage stage(draw_softmax, documents_of(std::move(trace)), 800, 500);
  for (const double share : {0.0, 0.5, 1.0}) {
    stage.session.seek(share * stage.session.length());
    stage.picture();
    const std::string svg = svg_of(*ImGui::GetDrawData(), 800, 500);
    for (const char* text : {">inf</text>", ">-inf</text>", ">nan</text>", ">0.0000</text>"})
      EXPECT_NE(svg.find(text), svg.npos) << text;
  }
}

TEST(SoftmaxRows, SortedByQueryThenStep) {
  Trace trace;
  trace.samples = {sample(9, 1, 1, 2), sample(3, 0, 0, 1), sample(9, 1, 0, 1)};
  const auto rows = softmax_rows(trace);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].query, 3);
  EXPECT_EQ(rows[1].query, 9);
  EXPECT_EQ(rows[1].rank, 1);
  ASSERT_EQ(rows[1].samples.size(), 2u);
  EXPECT_EQ(rows[1].samples[0].step, 0);
  EXPECT_EQ(rows[1].samples[1].step, 1);
  EXPECT_EQ(default_softmax_row(rows), 1);  // its state changes, the other's does not
  EXPECT_TRUE(softmax_rows(Trace()).empty());
}

// A second block whose maximum is higher by 2 makes exp(-2) of what there was.
TEST(SoftmaxRows, EveryBlockHasItsFactorAndItsPart) {
  SoftmaxRow row;
  for (const auto& [max, sum] : {std::pair(-INFINITY, 0.0f), {1, 2}, {3, 1.5f}}) {
    row.samples.push_back(sample(0, 0, 0, sum));
    row.samples.back().row_max = max;
  }
  const std::vector<SoftmaxStep> steps = softmax_steps(row);
  ASSERT_EQ(steps.size(), 3u);
  EXPECT_EQ(std::pair(steps[0].part, steps[1].factor), std::pair(0.0, 0.0));
  EXPECT_NEAR(steps[2].factor, std::exp(-2.0), 1e-12);
  EXPECT_NEAR(steps[1].part, 2 * std::exp(-2.0) / 1.5, 1e-12);
  EXPECT_NEAR(steps[1].part + steps[2].part, 1, 1e-12);
}

// A simulation computes no softmax, although its recordings are made with --trace.
TEST(SoftmaxPanel, SaysWhichCommandRecordsOne) {
  Stage stage(draw_softmax, documents_of(HandMade(2).compute(0, 0, 0, 10).trace()), 800, 500);
  stage.picture();
  EXPECT_NE(svg_of(*ImGui::GetDrawData(), 800, 500).find("made with run --trace keep"),
            std::string::npos);
}

// Below the table, m, l and the parts are drawn step by step, each under its name.
TEST(SoftmaxPanel, DrawsCurvesBelowTheTable) {
  Stage stage(draw_softmax, documents_of(ring_trace(4)), 800, 500);
  const Image image = stage.picture();
  const std::string svg = svg_of(*ImGui::GetDrawData(), 800, 500);
  for (const char* name : {">m, row_max<", ">l, row_sum<", ">part of the row<"})
    EXPECT_NE(svg.find(name), svg.npos) << name;
  const std::set<Color> seen = colors_in(image, {10, 280, 790, 490});
  for (int owner = 0; owner < 4; ++owner)
    EXPECT_TRUE(seen.contains(owner_color(stage.session.look.theme, owner, 4))) << owner;
}

// Clicks down the left side of the panel hit every line of the table, each of one step.
TEST(SoftmaxPanel, ClickOnALineGoesToItsStep) {
  Stage stage(draw_softmax, documents_of(ring_trace(4)), 800, 500);
  stage.session.set_axis_mode(AxisMode::steps);
  std::set<int> steps;
  for (float y = 40; y < 400; y += 8) {
    stage.session.select(std::nullopt);
    stage.click({60, y});
    if (!stage.session.selected) continue;
    const TraceEvent& slice = stage.session.document().trace.slice(*stage.session.selected);
    EXPECT_EQ(stage.session.selected_rank, 3);
    EXPECT_EQ(slice.step, static_cast<int>(stage.session.playback.position()));
    steps.insert(slice.step);
  }
  EXPECT_EQ(steps, (std::set<int>{0, 1, 2, 3}));
}

}  // namespace
}  // namespace ringscope::viz
