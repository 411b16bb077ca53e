// Every command, driven and asserted without a screen.
#include "viz/model/session/session.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "tests/viz_model/hand_made.h"
#include "tests/viz_model/recorded.h"

namespace ringscope::viz {
namespace {

// Rank 0 is done with step 0 after 100 us and waits; rank 1 takes twice as long for it.
HandMade made() {
  return HandMade(2)
      .compute(0, 0, 0, 100'000)
      .hop(0, 0, 10'000, 40'000)
      .wait(0, 1, 100'000, 250'000)
      .compute(0, 1, 250'000, 400'000)
      .compute(1, 0, 0, 200'000)
      .hop(1, 0, 20'000, 250'000)
      .compute(1, 1, 200'000, 400'000);
}

Session one() {
  std::vector<Document> documents;
  documents.push_back(make_document(made().trace()));
  return Session(std::move(documents));
}

Session three() {
  std::vector<Document> documents;
  for (const PartitionKind partition : {PartitionKind::contiguous, PartitionKind::zigzag})
    documents.push_back(
        make_document(trace_of(record_run(partition, "causal", Scheme::ring, 3, false))));
  Trace foreign = made().trace();
  foreign.run.reset();
  documents.push_back(make_document(std::move(foreign)));
  return Session(std::move(documents));
}

TEST(Session, OneTraceStartsFittedInTime) {
  const Session session = one();
  EXPECT_EQ(session.view, fitted(400'000));
  EXPECT_EQ(session.axis_mode, AxisMode::time);
  EXPECT_FALSE(session.comparing);
  EXPECT_TRUE(session.comparison.figures.empty());
  EXPECT_EQ(session.active, 0u);
  EXPECT_FALSE(session.selected.has_value());
}

TEST(Session, TwoRingsStartCompared) {
  Session session = three();
  EXPECT_TRUE(session.comparing);
  EXPECT_FALSE(session.comparison.figures.empty());
  EXPECT_EQ(session.comparison.figures[0].values.size(), 2u);
  EXPECT_EQ(session.axis_mode, AxisMode::steps);
  EXPECT_EQ(session.view, fitted(3));
  session.run(Command::toggle_compare);
  EXPECT_FALSE(session.comparing);
  session.run(Command::toggle_compare);
  EXPECT_TRUE(session.comparing);
}

TEST(Session, OneTraceHasNothingToCompare) {
  Session session = one();
  session.run(Command::toggle_compare);
  EXPECT_FALSE(session.comparing);
}

TEST(Session, ZoomsAndPansWithKeysAndGoesBack) {
  Session session = one();
  const TimelineView whole = session.view;
  session.run(Command::zoom_in);
  const TimelineView closer = session.view;
  EXPECT_LT(closer.width(), whole.width());
  EXPECT_DOUBLE_EQ(closer.begin + closer.end, whole.begin + whole.end);
  session.run(Command::pan_left);
  EXPECT_LT(session.view.begin, closer.begin);
  session.run(Command::pan_right);
  EXPECT_DOUBLE_EQ(session.view.begin, closer.begin);
  session.run(Command::zoom_out);
  EXPECT_GT(session.view.width(), closer.width());
  for (int i = 0; i < 4; ++i) session.run(Command::go_back);
  EXPECT_EQ(session.view, whole);
  session.run(Command::go_back);  // there is nothing before
  EXPECT_EQ(session.view, whole);
}

TEST(Session, ViewsThatDoNotMoveAreNotRemembered) {
  Session session = one();
  session.run(Command::zoom_in);
  session.run(Command::fit_all);
  session.run(Command::fit_all);
  session.run(Command::zoom_out);
  session.run(Command::go_back);
  EXPECT_LT(session.view.width(), 400'000);
}

TEST(Session, FocusShowsTheSelectionAndThenEverything) {
  Session session = one();
  session.select(SliceId{3, 0});  // the wait
  session.run(Command::focus_selection);
  EXPECT_LT(session.view.begin, 100'000);
  EXPECT_GT(session.view.begin, 50'000);
  EXPECT_GT(session.view.end, 250'000);
  EXPECT_LT(session.view.end, 300'000);
  session.run(Command::focus_selection);
  EXPECT_EQ(session.view, fitted(400'000));
  session.select(std::nullopt);
  session.run(Command::zoom_in);
  session.run(Command::focus_selection);
  EXPECT_EQ(session.view, fitted(400'000));
}

TEST(Session, PlaysAndSteps) {
  Session session = one();
  session.run(Command::play_pause);
  advance(session, 1);
  EXPECT_DOUBLE_EQ(session.playback.position(), 40'000);
  session.run(Command::step_forward);  // rank 0 begins to wait for its next block
  EXPECT_FALSE(session.playback.playing());
  EXPECT_DOUBLE_EQ(session.playback.position(), 100'000);
  session.run(Command::step_forward);
  EXPECT_DOUBLE_EQ(session.playback.position(), 200'000);
  session.run(Command::step_back);
  EXPECT_DOUBLE_EQ(session.playback.position(), 100'000);
  session.run(Command::to_end);
  EXPECT_DOUBLE_EQ(session.playback.position(), 400'000);
  session.run(Command::to_start);
  EXPECT_EQ(session.playback.position(), 0);
  session.run(Command::faster);
  EXPECT_EQ(session.playback.speed(), 2);
  session.run(Command::slower);
  EXPECT_EQ(session.playback.speed(), 1);
}

TEST(Session, SeeksToTheMiddleOfAStep) {
  Session session = one();
  session.seek_step(1);
  EXPECT_EQ(session.axis_mode, AxisMode::steps);
  EXPECT_EQ(session.playback.position(), 1.5);
  const RingMoment moment = session.moment(0);
  ASSERT_EQ(moment.ranks.size(), 2u);
  for (const RankMoment& rank : moment.ranks) EXPECT_EQ(rank.step, 1);
  session.seek_step(99);
  EXPECT_EQ(session.playback.position(), 1.5);
  session.seek_step(-5);
  EXPECT_EQ(session.playback.position(), 0.5);
}

TEST(Session, ChangingTheAxisKeepsPlayheadAndViewAtTheirMoments) {
  Session session = one();
  session.select_rank(1);
  session.seek(100'000);
  session.run(Command::toggle_axis);
  EXPECT_EQ(session.axis_mode, AxisMode::steps);
  EXPECT_DOUBLE_EQ(session.playback.position(), 0.5);  // of rank 1, in the middle of its step 0
  EXPECT_EQ(session.view, fitted(2));
  session.set_view({0.25, 0.75, 0});
  session.run(Command::toggle_axis);
  EXPECT_DOUBLE_EQ(session.playback.position(), 100'000);
  EXPECT_NEAR(session.view.begin, 50'000, 1);
  EXPECT_NEAR(session.view.end, 150'000, 1);
  session.run(Command::go_back);  // views of the other axis mean nothing here
  EXPECT_NEAR(session.view.begin, 50'000, 1);
}

TEST(Session, WalksAlongSlicesAndMessages) {
  Session session = one();
  session.run(Command::next_slice);  // nothing is selected: the first there is
  EXPECT_EQ(session.selected, (SliceId{0, 0}));
  EXPECT_EQ(session.selected_rank, 0);
  session.run(Command::next_slice);
  EXPECT_EQ(session.selected, (SliceId{0, 1}));
  session.run(Command::next_slice);
  EXPECT_EQ(session.selected, (SliceId{0, 1}));
  session.run(Command::previous_slice);
  EXPECT_EQ(session.selected, (SliceId{0, 0}));
  session.run(Command::follow_flow);
  EXPECT_EQ(session.selected, (SliceId{1, 0}));  // its block is sent
  session.run(Command::follow_flow);
  EXPECT_EQ(session.selected_rank, 1);
  session.run(Command::follow_flow_back);
  session.run(Command::follow_flow_back);
  EXPECT_EQ(session.selected, (SliceId{0, 0}));
}

TEST(Session, RevealsWhatLiesOutsideTheView) {
  Session session = one();
  session.set_view({0, 50'000, 0});
  session.reveal({0, 0});  // too wide for the view
  EXPECT_GE(session.view.end, 100'000);
  session.set_view({0, 200'000, 0});
  session.reveal({0, 1});
  EXPECT_LE(session.view.begin, 250'000);
  EXPECT_GE(session.view.end, 400'000);
  EXPECT_DOUBLE_EQ(session.view.width(), 200'000);
  const TimelineView before = session.view;
  session.reveal({0, 1});
  EXPECT_EQ(session.view, before);
}

TEST(Session, SelectingARankKeepsOnlyItsSlice) {
  Session session = one();
  session.select(SliceId{4, 0});
  EXPECT_EQ(session.selected_rank, 1);
  session.select_rank(1);
  EXPECT_TRUE(session.selected.has_value());
  session.select_rank(0);
  EXPECT_FALSE(session.selected.has_value());
  session.select_rank(17);
  EXPECT_EQ(session.selected_rank, -1);
}

TEST(Session, SearchGoesThroughItsHitsAndRound) {
  Session session = one();
  session.run(Command::search);
  EXPECT_TRUE(session.search_open);
  session.set_search("kind:compute rank:1");
  EXPECT_EQ(session.found.total, 2u);
  session.run(Command::next_found);
  EXPECT_EQ(session.selected, (SliceId{4, 0}));
  session.run(Command::next_found);
  EXPECT_EQ(session.selected, (SliceId{4, 1}));
  session.run(Command::next_found);
  EXPECT_EQ(session.selected, (SliceId{4, 0}));
  session.run(Command::previous_found);
  EXPECT_EQ(session.selected, (SliceId{4, 1}));
  session.set_search("nothing like it");
  session.run(Command::next_found);
  EXPECT_EQ(session.selected, (SliceId{4, 1}));
}

TEST(Session, MarksAreGoneThroughAndTakenAway) {
  Session session = one();
  session.run(Command::next_mark);  // there is none
  for (const double position : {300'000.0, 100'000.0}) {
    session.seek(position);
    session.run(Command::add_mark);
  }
  ASSERT_EQ(session.marks.size(), 2u);
  session.run(Command::next_mark);
  EXPECT_EQ(session.playback.position(), 300'000);
  session.run(Command::next_mark);
  EXPECT_EQ(session.playback.position(), 100'000);
  session.run(Command::add_mark);
  EXPECT_EQ(session.marks.size(), 1u);
  session.set_axis_mode(AxisMode::steps);  // the mark belongs to the other axis
  const double position = session.playback.position();
  session.run(Command::next_mark);
  EXPECT_EQ(session.playback.position(), position);
}

TEST(Session, Switches) {
  Session session = one();
  session.run(Command::toggle_flows);
  EXPECT_FALSE(session.show_flows);
  session.run(Command::toggle_critical_path);
  EXPECT_TRUE(session.show_critical_path);
  session.run(Command::toggle_colors);
  EXPECT_EQ(session.color_by, ColorBy::kind);
  session.run(Command::toggle_theme);
  EXPECT_EQ(session.theme, Theme::light);
  session.run(Command::toggle_mask_order);
  EXPECT_EQ(session.mask_order, MaskOrder::local);
  session.run(Command::screenshot);
  EXPECT_TRUE(session.wants_screenshot);
  session.run(Command::help);
  EXPECT_TRUE(session.show_help);
}

TEST(Session, CancelClosesOneThingAfterTheOther) {
  Session session = one();
  session.select(SliceId{0, 0});
  session.measure = Measure{1, 2};
  session.search_open = true;
  session.set_search("wait");
  session.show_help = true;
  session.run(Command::cancel);
  EXPECT_FALSE(session.show_help);
  EXPECT_TRUE(session.search_open);
  session.run(Command::cancel);
  EXPECT_FALSE(session.search_open);
  EXPECT_EQ(session.search_text, "");
  EXPECT_TRUE(session.selected.has_value());
  session.run(Command::cancel);
  EXPECT_FALSE(session.selected.has_value());
  EXPECT_FALSE(session.measure.has_value());
}

TEST(Session, GoesFromTraceToTrace) {
  Session session = three();
  session.select(SliceId{4, 0});
  session.set_search("kind:compute");
  session.seek(2.5);
  session.run(Command::next_trace);
  EXPECT_EQ(session.active, 1u);
  EXPECT_FALSE(session.selected.has_value());
  EXPECT_EQ(session.selected_rank, 1);
  EXPECT_EQ(session.playback.position(), 2.5);
  EXPECT_EQ(session.found.total, 9u);
  // The next one knows no ring and so no steps.
  session.run(Command::next_trace);
  EXPECT_EQ(session.axis_mode, AxisMode::time);
  EXPECT_EQ(session.view, fitted(400'000));
  EXPECT_TRUE(session.moment(2).ranks.empty());
  session.run(Command::toggle_axis);
  EXPECT_EQ(session.axis_mode, AxisMode::time);
  session.seek_step(1);
  EXPECT_EQ(session.axis_mode, AxisMode::time);
  session.run(Command::step_forward);
  EXPECT_GT(session.playback.position(), 0);
  session.run(Command::next_trace);
  EXPECT_EQ(session.active, 0u);
  session.activate(17);
  EXPECT_EQ(session.active, 0u);
}

TEST(Session, AnEmptyTraceTakesEveryCommand) {
  for (const bool ours : {false, true}) {
    std::vector<Document> documents;
    Trace trace = HandMade(2).trace();
    if (!ours) trace = Trace{};
    documents.push_back(make_document(std::move(trace)));
    Session session(std::move(documents));
    for (int command = 0; command <= static_cast<int>(Command::cancel); ++command) {
      session.run(static_cast<Command>(command));
      advance(session, 0.1);
    }
    EXPECT_EQ(session.playback.position(), 0);
    EXPECT_GT(session.view.width(), 0);
  }
}

}  // namespace
}  // namespace ringscope::viz
