// The whole viewer under a person's hands: events go in, and what the session then holds is
// asserted.
#include "viz/window/viewer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tests/viz/hands.h"
#include "tests/viz/panel_stage.h"
#include "viz/panels/timeline/timeline_frame.h"

namespace ringscope::viz {
namespace viewer_test {

Person one() { return Person(session_of({slow_ring_trace()})); }

// Heights of the toolbar's and the playback bar's middle in a window of 1600 x 900.
constexpr float kToolbar = 6 + 23, kPlayback = 900 - 6 - 23;

Box timeline() { return timeline_state().body; }

// Where slice `index` of a rank's lane is on the screen.
ImVec2 place_of(Person& person, int rank, ringscope::Lane lane, std::size_t index) {
  const Document& document = person.session().document();
  const std::uint32_t row = document.trace.row_of(rank, lane);
  const Slice& slice = document.trace.slices_of(rank, lane)[index];
  const TimelineLayout& layout = timeline_state().layout;
  const std::int64_t middle = (slice.begin_ns + slice.end_ns) / 2;
  const double position = document.axis.position(person.session().axis_mode, rank, middle);
  const RowPlace& place = *layout.place_of(row);
  return {timeline().x0 + layout.x_of(person.session().view, position),
          timeline().y0 + place.y + place.height / 2};
}

TEST(Viewer, SpaceAndTheButtonPlayAndPause) {
  Person person = one();
  Session& session = person.session();
  EXPECT_FALSE(person.viewer.animating());
  person.type(" ");
  EXPECT_TRUE(session.playback.playing());
  EXPECT_TRUE(person.viewer.animating());
  const double before = session.playback.position();
  person.pass(0.2f);
  const double after = session.playback.position();
  EXPECT_GT(after, before);
  person.type(" ");
  EXPECT_FALSE(session.playback.playing());
  const double paused = session.playback.position();
  person.pass(0.2f);
  EXPECT_EQ(session.playback.position(), paused);

  // The third of five buttons, 30 pixels wide with gaps of 3, in the bar at the bottom.
  person.click(16 + 2 * 33 + 15, kPlayback);
  EXPECT_TRUE(session.playback.playing());
}

// Every rank's wait for step t + 1 begins at 100 t + 60 units, and the last slice ends at 360.
TEST(Viewer, StepsByKeyAndButton) {
  Person person = one();
  Session& session = person.session();
  for (const int position : {60, 160, 260}) {
    person.press(SpecialKey::right);
    EXPECT_EQ(session.playback.position(), position * kUnit);
  }
  person.press(SpecialKey::left);
  EXPECT_EQ(session.playback.position(), 160 * kUnit);
  person.press(SpecialKey::right, true);
  EXPECT_EQ(session.playback.position(), 360 * kUnit);
  person.press(SpecialKey::left, true);
  EXPECT_EQ(session.playback.position(), 0);
  person.click(16 + 3 * 33 + 15, kPlayback);
  EXPECT_EQ(session.playback.position(), 60 * kUnit);
  person.click(16 + 33 + 15, kPlayback);
  EXPECT_EQ(session.playback.position(), 0);
}

TEST(Viewer, ScrubsAlongTheBar) {
  Person person = one();
  Session& session = person.session();
  person.type(" ");
  person.drag(600, kPlayback, 800, kPlayback);
  EXPECT_FALSE(session.playback.playing());
  EXPECT_GT(session.playback.position(), 0.25 * 360 * kUnit);
  EXPECT_LT(session.playback.position(), 0.75 * 360 * kUnit);
  person.drag(800, kPlayback, 1599, kPlayback);
  EXPECT_EQ(session.playback.position(), 360 * kUnit);
  person.drag(800, kPlayback, 0, kPlayback);
  EXPECT_EQ(session.playback.position(), 0);
}

TEST(Viewer, PlaybackStopsAtTheEndAndThenNothingMoves) {
  Person person = one();
  person.type(" ");
  for (int i = 0; i < 1000 && person.viewer.animating(); ++i) person.pass(0.2f);
  EXPECT_FALSE(person.viewer.animating());
  EXPECT_EQ(person.session().playback.position(), 360 * kUnit);
}

TEST(Viewer, SpeedDoublesAndHalves) {
  Person person = one();
  person.type("++");
  EXPECT_EQ(person.session().playback.speed(), 4);
  person.type("---");
  EXPECT_EQ(person.session().playback.speed(), 0.5);
}

TEST(Viewer, WheelZoomsAtTheCursor) {
  Person person = one();
  const Session& session = person.session();
  const float x = timeline().x0 + 300, y = timeline().y0 + 40;
  const auto under = [&] { return timeline_state().layout.position_at(session.view, 300); };
  const double before = under(), width = session.view.width();
  person.wheel(x, y, 3);
  EXPECT_LT(session.view.width(), 0.7 * width);
  EXPECT_NEAR(under(), before, 1e-6 * width);
  person.wheel(x, y, -30);
  EXPECT_EQ(session.view, fitted(session.length()));
}

TEST(Viewer, RightDragPansAndBackspaceGoesBack) {
  Person person = one();
  const Session& session = person.session();
  person.wheel(timeline().x0 + 300, timeline().y0 + 40, 5);
  const TimelineView before = session.view;
  const double a_pixel = before.width() / static_cast<double>(timeline_state().layout.width);
  person.drag(600, timeline().y0 + 50, 500, timeline().y0 + 50, true);
  EXPECT_NEAR(session.view.begin, before.begin + 100 * a_pixel, 1e-6 * before.width());
  EXPECT_NEAR(session.view.width(), before.width(), 1e-6 * before.width());
  person.press(SpecialKey::backspace);
  EXPECT_EQ(session.view, before);
  person.press(SpecialKey::home);
  EXPECT_EQ(session.view, fitted(session.length()));
}

TEST(Viewer, DragMeasuresFromEdgeToEdge) {
  Person person = one();
  const auto x = [&](double position) {
    return timeline().x0 + timeline_state().layout.x_of(person.session().view, position);
  };
  const float y = place_of(person, 0, ringscope::Lane::compute, 0).y;
  person.drag(x(0) + 3, y, x(160 * kUnit) - 4, y);  // near the ends of compute slices of rank 0
  ASSERT_TRUE(person.session().measure.has_value());
  EXPECT_EQ(person.session().measure->from, 0);
  EXPECT_EQ(person.session().measure->to, 160 * kUnit);
  EXPECT_FALSE(person.session().selected.has_value());
  person.press(SpecialKey::escape);
  EXPECT_FALSE(person.session().measure.has_value());
}

TEST(Viewer, ClickSelectsAndKeysWalkOn) {
  Person person = one();
  Session& session = person.session();
  const Trace& trace = session.document().trace;
  const ImVec2 at = place_of(person, 2, ringscope::Lane::send, 1);
  person.click(at.x, at.y);
  const SliceId sent{trace.row_of(2, ringscope::Lane::send), 1};
  ASSERT_EQ(session.selected, sent);
  EXPECT_EQ(session.selected_rank, 2);
  person.type("]");
  EXPECT_EQ(session.selected, (SliceId{trace.row_of(3, ringscope::Lane::recv), 1}));
  EXPECT_EQ(session.selected_rank, 3);
  person.type("[");
  EXPECT_EQ(session.selected, sent);
  person.type(".");
  EXPECT_EQ(session.selected, (SliceId{sent.row, 2}));
  person.type(",,");
  EXPECT_EQ(session.selected, (SliceId{sent.row, 0}));
  person.press(SpecialKey::escape);
  EXPECT_FALSE(session.selected.has_value());
  EXPECT_EQ(session.selected_rank, -1);
}

TEST(Viewer, FocusFillsTheTimelineWithTheSelection) {
  Person person = one();
  Session& session = person.session();
  const ImVec2 at = place_of(person, 1, ringscope::Lane::compute, 2);  // [200, 260)
  person.click(at.x, at.y);
  person.type("f");
  EXPECT_LT(session.view.begin, 200 * kUnit);
  EXPECT_GT(session.view.end, 260 * kUnit);
  EXPECT_LT(session.view.width(), 180 * kUnit);
  person.type("f");
  EXPECT_EQ(session.view, fitted(session.length()));
}

// Every key that is typed behind `/`, in one frame, is text until Enter; those behind it are keys
// again.
TEST(Viewer, SearchTakesWhatIsTypedAndNothingElseDoes) {
  Person person = one();
  Session& session = person.session();
  person.type("/kind:wait");
  EXPECT_TRUE(session.search_open);
  EXPECT_EQ(session.search_text, "kind:wait");
  EXPECT_EQ(session.found.total, 12u);  // 4 ranks wait 3 times
  EXPECT_EQ(session.theme, Theme::dark);
  EXPECT_FALSE(session.playback.playing());
  person.press(SpecialKey::backspace);
  EXPECT_EQ(session.search_text, "kind:wai");
  person.type("t");
  EXPECT_EQ(session.search_text, "kind:wait");

  person.press(SpecialKey::enter);
  ASSERT_TRUE(session.selected.has_value());
  const SliceId first = *session.selected;
  EXPECT_EQ(session.document().trace.slice(first).kind, Kind::wait);
  person.type("n");
  EXPECT_EQ(session.search_text, "kind:wait");
  EXPECT_NE(session.selected, first);
  person.type("p");
  EXPECT_EQ(session.selected, first);
  person.press(SpecialKey::escape);
  EXPECT_FALSE(session.search_open);
  person.type("t");
  EXPECT_EQ(session.theme, Theme::light);
}

TEST(Viewer, SearchIsClosedByEscapeWhileTyping) {
  Person person = one();
  person.type("/rank:1");
  person.press(SpecialKey::escape);
  EXPECT_FALSE(person.session().search_open);
  EXPECT_EQ(person.session().search_text, "");
  person.type("t");
  EXPECT_EQ(person.session().theme, Theme::light);
}

TEST(Viewer, SwitchesByKey) {
  Person person = one();
  Session& session = person.session();
  person.type("xcltko");
  EXPECT_EQ(session.axis_mode, AxisMode::steps);
  EXPECT_EQ(session.color_by, ColorBy::kind);
  EXPECT_FALSE(session.show_flows);
  EXPECT_EQ(session.theme, Theme::light);
  EXPECT_TRUE(session.show_critical_path);
  EXPECT_EQ(session.mask_order, MaskOrder::local);
  person.type("xcltko");
  EXPECT_EQ(session.axis_mode, AxisMode::time);
  EXPECT_EQ(session.color_by, ColorBy::owner);
  EXPECT_TRUE(session.show_flows);
  EXPECT_EQ(session.theme, Theme::dark);
  EXPECT_FALSE(session.show_critical_path);
  EXPECT_EQ(session.mask_order, MaskOrder::global);
}

// The theme's button is the last but one, the help's the last.
TEST(Viewer, SwitchesByButton) {
  Person person = one();
  person.click(1600 - 6 - 10 - 5, kToolbar);
  EXPECT_TRUE(person.session().show_help);
  person.press(SpecialKey::escape);
  person.click(1600 - 6 - 10 - 60, kToolbar);
  EXPECT_EQ(person.session().theme, Theme::light);
}

TEST(Viewer, QuestionMarkListsEveryKey) {
  Person person = one();
  EXPECT_FALSE(drawn("help"));
  person.type("?");
  person.rest(2);
  EXPECT_TRUE(person.session().show_help);
  EXPECT_TRUE(drawn("help"));
  person.press(SpecialKey::escape);
  person.rest(2);
  EXPECT_FALSE(drawn("help"));
  person.type("?");
  person.click(20, 400);  // beside it
  EXPECT_FALSE(person.session().show_help);
}

TEST(Viewer, SeveralRecordingsAreComparedOrShownOneByOne) {
  Person person(session_of({ring_trace(4), ring_trace(4, "zigzag")}));
  Session& session = person.session();
  EXPECT_TRUE(session.comparing);
  person.type("v");
  EXPECT_FALSE(session.comparing);
  EXPECT_EQ(session.active, 0u);
  person.press(SpecialKey::tab);
  EXPECT_EQ(session.active, 1u);
  person.type("v");
  EXPECT_TRUE(session.comparing);
}

TEST(Viewer, MarksAreSetAndFound) {
  Person person = one();
  Session& session = person.session();
  person.press(SpecialKey::right);
  person.type("m");
  ASSERT_EQ(session.marks.size(), 1u);
  person.press(SpecialKey::end);
  person.type("'");
  EXPECT_EQ(session.playback.position(), 60 * kUnit);
}

TEST(Viewer, BarsBetweenPanelsCanBeDragged) {
  Person person = one();
  const Splits before = person.viewer.splits;
  const float room = 900 - 2 * 58 - 36;  // between the toolbar and the details
  const float y = 58 + std::floor(room * before.timeline) + 3;
  person.drag(800, y, 800, y + 100);
  EXPECT_NEAR(person.viewer.splits.timeline, before.timeline + 100 / room, 0.01);
  EXPECT_EQ(person.viewer.splits.ring, before.ring);
  person.drag(800, y + 100, 800, 5000);
  EXPECT_LT(person.viewer.splits.timeline, 0.95);  // panels keep some room
}

}  // namespace viewer_test
}  // namespace ringscope::viz
