// The timeline under the mouse: events go in, and what the session then holds is asserted. Traces
// are made by hand, so every edge and every slice's place is known.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <regex>
#include <utility>

#include "tests/viz/hands.h"
#include "tests/viz_data/hand_made.h"

namespace ringscope::viz {
namespace {

// Two ranks, a millisecond.
Trace two_ranks() {
  return HandMade(2)
      .compute(0, 0, 0, 400'000)
      .wait(0, 1, 400'000, 500'000)
      .compute(0, 1, 500'000, 900'000)
      .compute(1, 0, 0, 300'000)
      .wait(1, 1, 300'000, 600'000)
      .compute(1, 1, 600'000, 1'000'000)
      .hop(0, 0, 10'000, 560'000)
      .hop(1, 0, 10'000, 450'000)
      .trace();
}

std::uint32_t compute_row(const Trace& trace, int rank) {
  return trace.row_of(rank, Lane::compute);
}

TEST(Timeline, HoveringFindsEverySlice) {
  Person hands(session_of(two_ranks()));
  for (const AxisMode mode : {AxisMode::time, AxisMode::steps}) {
    hands.session().set_axis_mode(mode);
    hands.rest();
    const auto all = hands.slices();
    EXPECT_EQ(all.size(), 10u);
    for (const SliceId id : all) {
      hands.point(hands.middle_of(id));
      ASSERT_TRUE(hands.session().hovered.has_value()) << id.row << " " << id.index;
      EXPECT_EQ(*hands.session().hovered, id);
    }
  }
  hands.point({2, 2});
  EXPECT_FALSE(hands.session().hovered.has_value());
}

// The receiver begins its step 100 ns after the sender, so its clock is behind on the step axis.
TEST(Timeline, NoArrowRunsBackwards) {
  HandMade made(2);
  made.compute(0, 0, 0, 100).compute(0, 1, 100, 400).compute(1, 0, 0, 200).compute(1, 1, 200, 400);
  made.hop(0, 1, {250, 270}, {250, 260});
  Stage stage(draw_timeline, documents_of(made.trace()));
  const PanelContext context{stage.session, stage.textures(), stage.fonts(),
                             palette_of(Theme::dark)};
  for (const AxisMode mode : {AxisMode::time, AxisMode::steps}) {
    stage.session.set_axis_mode(mode);
    const Document& document = stage.session.document();
    const TimelineFrame frame = make_frame(context, document, stage.box(), stage.session.view, 1);
    const auto ends = flow_ends(frame, document.trace.flows[0]);
    ASSERT_TRUE(ends);
    EXPECT_LE(ends->first.x, ends->second.x);
    EXPECT_LT(ends->first.y, ends->second.y);
  }
}

TEST(Timeline, AClickSelectsAndAClickBesideClears) {
  Person hands(session_of(two_ranks()));
  const Trace& trace = hands.document().trace;
  const SliceId second{compute_row(trace, 1), 1};
  hands.click(hands.middle_of(second));
  ASSERT_TRUE(hands.session().selected.has_value());
  EXPECT_EQ(*hands.session().selected, second);
  EXPECT_EQ(hands.session().selected_rank, 1);
  EXPECT_FALSE(hands.session().measure.has_value());
  EXPECT_EQ(hands.session().playback.position(), hands.session().span_of(second).first);

  // Rank 0 computes nothing between 400 and 500 µs.
  hands.click({hands.x_of(450'000), hands.y_of(compute_row(trace, 0))});
  EXPECT_FALSE(hands.session().selected.has_value());
}

TEST(Timeline, TheWheelKeepsThePositionUnderTheMouse) {
  Person hands(session_of(two_ranks()));
  for (const double at : {130'000.0, 700'000.0, 350'000.0}) {
    const ImVec2 mouse(std::round(hands.x_of(at)), hands.timeline().body.y0 + 20);
    hands.point(mouse);
    const double before = hands.position_of(mouse.x), width = hands.session().view.width();
    hands.wheel(2);
    EXPECT_LT(hands.session().view.width(), 0.8 * width);
    EXPECT_NEAR(hands.position_of(mouse.x), before, hands.pixel());
    hands.wheel(-1);
    EXPECT_NEAR(hands.position_of(mouse.x), before, 2 * hands.pixel());
  }
  hands.wheel(-30);
  EXPECT_EQ(hands.session().view, fitted(hands.session().length()));
}

TEST(Timeline, ADragMeasuresFromEdgeToEdge) {
  Person hands(session_of(two_ranks()));
  const float y = hands.y_of(compute_row(hands.document().trace, 0));
  hands.drag({hands.x_of(400'000) + 5, y}, {hands.x_of(900'000) - 5, y});
  ASSERT_TRUE(hands.session().measure.has_value());
  EXPECT_EQ(hands.session().measure->from, 400'000);
  EXPECT_EQ(hands.session().measure->to, 900'000);
  EXPECT_FALSE(hands.session().selected.has_value());  // it was no click

  // Far from edges it measures what is under the mouse.
  hands.drag({hands.x_of(650'000), y}, {hands.x_of(750'000), y});
  EXPECT_NEAR(hands.session().measure->from, 650'000, hands.pixel());
  EXPECT_NEAR(hands.session().measure->to, 750'000, hands.pixel());
}

// A rank's name selects, folds and pins it, and a drag measures the ranks that it touches.
TEST(Timeline, RanksAreFoldedPinnedAndMeasuredByTheMouse) {
  Person hands(session_of(two_ranks()));
  const Trace& trace = hands.document().trace;
  hands.drag({hands.x_of(100'000), hands.y_of(compute_row(trace, 1))},
             {hands.x_of(200'000), hands.y_of(trace.row_of(1, Lane::wait))});
  EXPECT_EQ(hands.session().measure->ranks, (std::vector<int>{1}));
  hands.drag({hands.x_of(100'000), hands.y_of(compute_row(trace, 0))},
             {hands.x_of(200'000), hands.y_of(compute_row(trace, 1))});
  EXPECT_EQ(hands.session().measure->ranks, (std::vector<int>{0, 1}));
  const auto name_of = [&](int rank) {
    return ImVec2(hands.timeline().gutter.x0 + 20, hands.y_of(compute_row(trace, rank)));
  };
  hands.double_click(name_of(1));
  EXPECT_EQ(hands.session().order, (RankOrder{{}, {1}}));
  hands.right_click(name_of(1));
  EXPECT_EQ(hands.session().order, (RankOrder{{1}, {1}}));
  EXPECT_LT(hands.y_of(compute_row(trace, 1)), hands.y_of(compute_row(trace, 0)));
}

// A bin of the table's histogram marks its slices, and a click goes to the first of them. The last bin of
// sends has the longest one.
TEST(Timeline, BinsOfDurationsMarkTheirSlices) {
  Person hands(session_of(two_ranks()));
  hands.press(Key{.character = U'j'});
  EXPECT_TRUE(hands.session().sought.marked.empty());
  ImVec2 bin(hands.timeline().body.x1 + 430, hands.timeline().ruler.y0);
  for (; hands.session().sought.marked.empty() && bin.y < 890; bin.y += 8) hands.point(bin);
  bin.y -= 8;
  const std::vector<SliceId> marked = hands.session().sought.marked;
  ASSERT_EQ(marked.size(), 1u);
  EXPECT_EQ(hands.document().trace.slice(marked[0]).lane, Lane::send);
  EXPECT_EQ(hands.document().trace.slice(marked[0]).duration_ns(), 550'000);
  hands.click(bin);
  EXPECT_EQ(hands.session().sought.found.slices, marked);
  EXPECT_EQ(hands.session().selected, marked[0]);
}

TEST(Timeline, DragsOfOtherButtonsPan) {
  using Button = Person::Button;
  for (const auto& [button, shift] :
       {std::pair(Button::left, true), {Button::right, false}, {Button::middle, false}}) {
    Person hands(session_of(two_ranks()));
    hands.session().set_view({300'000, 500'000, 0});
    hands.rest();
    const ImVec2 from(hands.timeline().body.center().x, hands.timeline().body.y0 + 30);
    hands.drag(from, {from.x - 100, from.y}, button, shift);
    EXPECT_NEAR(hands.session().view.begin, 300'000 + 100 * hands.pixel(), 1);
    EXPECT_NEAR(hands.session().view.width(), 200'000, 1);
    EXPECT_FALSE(hands.session().measure.has_value());
    commands::go_back(hands.session());
    EXPECT_NEAR(hands.session().view.begin, 300'000, 1);
  }
}

TEST(Timeline, TheRulerMovesThePlayhead) {
  Person hands(session_of(two_ranks()));
  for (const AxisMode mode : {AxisMode::time, AxisMode::steps}) {
    hands.session().set_axis_mode(mode);
    hands.rest();
    const double to = 0.25 * hands.session().length();
    const float y = hands.timeline().ruler.center().y;
    hands.click({hands.x_of(to), y});
    EXPECT_NEAR(hands.session().playback.position(), to, hands.pixel());
    hands.drag({hands.x_of(to), y}, {hands.x_of(3 * to), y + 60});
    EXPECT_NEAR(hands.session().playback.position(), 3 * to, hands.pixel());
    EXPECT_FALSE(hands.session().measure.has_value());
  }
}

TEST(Timeline, NoTickLosesItsFirstDigits) {
  Person hands(session_of(two_ranks()));
  const std::regex text("<text x=\"([0-9.-]+)\" y=\"([0-9.-]+)\"");
  int ticks = 0;
  for (int i = 0; i < 40; ++i) {
    hands.session().set_view({700.0 * i, 700.0 * i + 250'000, 0});
    const std::string svg = svg_of(hands.rest(), 1600, 900);
    const Box ruler = hands.timeline().ruler;
    for (std::sregex_iterator at(svg.begin(), svg.end(), text), end; at != end; ++at) {
      const float y = std::stof((*at)[2]);
      if (y < ruler.y0 || y > ruler.y1) continue;
      ++ticks;
      EXPECT_GE(std::stof((*at)[1]), ruler.x0) << i;
    }
  }
  EXPECT_GT(ticks, 200);
}

// Where the playhead's flag names a step, the axis beside it does not.
TEST(Timeline, NoStepIsNamedTwice) {
  Stage stage(draw_timeline, documents_of(two_ranks()), 1600, 400);
  stage.session.set_axis_mode(AxisMode::steps);
  for (const auto& [position, name] : {std::pair(0.0, ">step 0<"), {1.0, ">step 1<"}}) {
    stage.session.seek(position);
    stage.picture();
    const std::string svg = svg_of(*ImGui::GetDrawData(), 1600, 400);
    EXPECT_NE(svg.find(name), svg.npos);
    EXPECT_EQ(svg.find(name), svg.rfind(name)) << name;
  }
}

TEST(Timeline, ADoubleClickFocuses) {
  Person hands(session_of(two_ranks()));
  const SliceId wait{hands.document().trace.row_of(0, Lane::wait), 0};
  hands.double_click(hands.middle_of(wait));
  const TimelineView& view = hands.session().view;
  EXPECT_LE(view.begin, 400'000);
  EXPECT_GE(view.end, 500'000);
  EXPECT_LT(view.width(), 200'000);
  ASSERT_TRUE(hands.session().selected.has_value());
  EXPECT_EQ(*hands.session().selected, wait);
}

TEST(Timeline, TheMapMovesTheView) {
  Person hands(session_of(two_ranks()));
  hands.session().set_view({0, 100'000, 0});
  hands.rest();
  const Box map = hands.timeline().map;
  hands.drag({map.x0 + 5, map.center().y}, {map.x0 + map.width() * 0.75f, map.center().y});
  const TimelineView& view = hands.session().view;
  EXPECT_NEAR((view.begin + view.end) / 2, 750'000, 1'000'000 / map.width());
  EXPECT_NEAR(view.width(), 100'000, 1);
}

TEST(Timeline, RowsGrowAndScroll) {
  Person hands(session_of(two_ranks()));
  const float before = hands.timeline().layout.rows[0].height;
  hands.point({hands.timeline().body.center().x, hands.timeline().body.y0 + 30});
  for (int i = 0; i < 20; ++i) hands.wheel(1, false, true);
  EXPECT_GT(hands.timeline().layout.rows[0].height, 1.5f * before);
  const float beyond = hands.timeline().layout.content_height - hands.timeline().body.height();
  ASSERT_GT(beyond, 0);
  for (int i = 0; i < 100; ++i) hands.wheel(-1, true);
  EXPECT_NEAR(hands.session().view.scroll_y, beyond, 0.5);
  for (int i = 0; i < 100; ++i) hands.wheel(1, true);
  EXPECT_EQ(hands.session().view.scroll_y, 0);
}

TEST(Timeline, AClickOnItsNameSelectsARank) {
  Person hands(session_of(two_ranks()));
  const RankPlace rank = hands.timeline().layout.ranks[1];
  const ImVec2 at(hands.timeline().gutter.center().x,
                  hands.timeline().body.y0 + rank.y + rank.height / 2);
  hands.click(at);
  EXPECT_EQ(hands.session().selected_rank, 1);
  hands.click(at);
  EXPECT_EQ(hands.session().selected_rank, -1);
}

TEST(Timeline, APictureIsPaintedOncePerView) {
  Person hands(session_of(two_ranks()));
  const auto painted = [&] { return viz::painted(hands.viewer.textures, "timeline"); };
  const int before = painted();
  EXPECT_GE(before, 1);
  hands.point(hands.timeline().body.center());
  hands.rest(5);
  EXPECT_EQ(painted(), before);
  hands.wheel(1);
  EXPECT_EQ(painted(), before + 1);
  commands::toggle_theme(hands.session());
  hands.rest(2);
  EXPECT_EQ(painted(), before + 2);
}

// Rectangles of a frame do not grow with the trace.
TEST(Timeline, AFrameOfManySlicesIsSmall) {
  HandMade made(8);
  for (int rank = 0; rank < 8; ++rank)
    for (int i = 0; i < 30'000; ++i) made.compute(rank, 0, 100 * i, 100 * i + 60);
  Trace trace = made.trace();
  trace.is_ring = false;
  Person hands(session_of(std::move(trace)));
  for (int zoom = 0; zoom < 30; ++zoom) {
    EXPECT_LT(hands.rest().TotalIdxCount, 6 * 5000) << zoom;
    hands.point(hands.timeline().body.center());
    hands.wheel(2);
  }
}

// Anything may be done in any order; what is in view stays within the run.
TEST(Timeline, HandsGoneWildLeaveAViewOfTheRun) {
  Person hands(session_of(two_ranks()));
  std::mt19937 random(5);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  constexpr Command* kCommands[] = {commands::toggle_axis,  commands::toggle_critical_path,
                                    commands::toggle_flows, commands::toggle_colors,
                                    commands::fit_all,      commands::focus_selection,
                                    commands::go_back,      commands::next_slice,
                                    commands::follow_flow,  commands::toggle_theme};
  for (int i = 0; i < 400; ++i) {
    const Box& body = hands.timeline().body;
    const auto spot = [&] {
      return ImVec2(body.x0 - 40 + static_cast<float>(below(static_cast<int>(body.width()) + 50)),
                    body.y0 - 45 + static_cast<float>(below(static_cast<int>(body.height()) + 50)));
    };
    switch (below(5)) {
      case 0:
        hands.point(spot());
        hands.wheel(static_cast<float>(below(9) - 3), below(4) == 0, below(4) == 0);
        break;
      case 1:
        hands.drag(spot(), spot(), static_cast<Person::Button>(below(3)), below(2) == 0);
        break;
      case 2:
        hands.click(spot());
        break;
      case 3:
        hands.double_click(spot());
        break;
      default:
        kCommands[below(std::size(kCommands))](hands.session());
        break;
    }
    const TimelineView& view = hands.session().view;
    const double length = hands.session().length();
    ASSERT_GE(view.begin, -1e-6 * length) << i;
    ASSERT_LE(view.end, length * (1 + 1e-6)) << i;
    ASSERT_GT(view.width(), 0) << i;
    ASSERT_GE(view.scroll_y, 0) << i;
  }
}

}  // namespace
}  // namespace ringscope::viz
