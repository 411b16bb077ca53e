// Every command, the playhead, predictions beside a recording, and documents, driven and asserted
// without a screen.
#include "viz/data/session/selection.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/viz_data/hand_made.h"
#include "tests/viz_data/recorded.h"
#include "tests/viz_data/simulated.h"
#include "viz/data/session/session.h"

namespace ringscope::viz {
namespace {

Session one() { return session_of(two_steps().trace()); }

Session three() {
  const auto recorded = [](PartitionKind partition) {
    return trace_of(record_run(partition, "causal", scheme_named("ring"), 3, false));
  };
  Trace foreign = two_steps().trace();
  foreign.is_ring = false;
  return session_of(recorded(PartitionKind::contiguous), recorded(PartitionKind::zigzag), foreign);
}

TEST(Session, OneTraceStartsFittedInTimeAndHasNothingToCompare) {
  Session session = one();
  EXPECT_EQ(session.view, fitted(400'000));
  EXPECT_EQ(session.axis_mode, AxisMode::time);
  EXPECT_FALSE(session.comparing);
  EXPECT_TRUE(session.comparison.figures.empty());
  EXPECT_EQ(session.active, 0u);
  EXPECT_FALSE(session.selected.has_value());
  commands::toggle_compare(session);
  EXPECT_FALSE(session.comparing);
}

TEST(Session, TwoRingsStartCompared) {
  Session session = three();
  EXPECT_TRUE(session.comparing);
  EXPECT_FALSE(session.comparison.figures.empty());
  EXPECT_EQ(session.comparison.figures[0].values.size(), 2u);
  EXPECT_EQ(session.axis_mode, AxisMode::steps);
  EXPECT_EQ(session.view, fitted(3));
  commands::toggle_compare(session);
  EXPECT_FALSE(session.comparing);
  commands::toggle_compare(session);
  EXPECT_TRUE(session.comparing);
}

TEST(Session, ZoomsAndPansWithKeysAndGoesBack) {
  Session session = one();
  const TimelineView whole = session.view;
  commands::zoom_in(session);
  const TimelineView closer = session.view;
  EXPECT_LT(closer.width(), whole.width());
  EXPECT_DOUBLE_EQ(closer.begin + closer.end, whole.begin + whole.end);
  commands::pan_left(session);
  EXPECT_LT(session.view.begin, closer.begin);
  commands::pan_right(session);
  EXPECT_DOUBLE_EQ(session.view.begin, closer.begin);
  commands::zoom_out(session);
  EXPECT_GT(session.view.width(), closer.width());
  for (int i = 0; i < 4; ++i) commands::go_back(session);
  EXPECT_EQ(session.view, whole);
  commands::go_back(session);  // there is nothing before
  EXPECT_EQ(session.view, whole);
  // Views that do not move are not remembered.
  commands::zoom_in(session);
  commands::fit_all(session);
  commands::fit_all(session);
  commands::zoom_out(session);
  commands::go_back(session);
  EXPECT_LT(session.view.width(), 400'000);
}

TEST(Session, FocusShowsTheSelectionAndThenEverything) {
  Session session = one();
  session.select(SliceId{3, 0});  // the wait
  commands::focus_selection(session);
  EXPECT_LT(session.view.begin, 100'000);
  EXPECT_GT(session.view.begin, 50'000);
  EXPECT_GT(session.view.end, 250'000);
  EXPECT_LT(session.view.end, 300'000);
  commands::focus_selection(session);
  EXPECT_EQ(session.view, fitted(400'000));
  session.select(std::nullopt);
  commands::zoom_in(session);
  commands::focus_selection(session);
  EXPECT_EQ(session.view, fitted(400'000));
}

TEST(Session, PlaysAndSteps) {
  Session session = one();
  commands::play_pause(session);
  advance(session, 1);
  EXPECT_DOUBLE_EQ(session.playback.position(), 40'000);
  // Rank 0 begins to wait for its next block at 100 us; that rank 1 begins at 200 is another's step.
  for (const auto& [command, position] : {std::pair{&commands::step_forward, 100'000},
                                          {commands::step_forward, 400'000},
                                          {commands::step_back, 100'000},
                                          {commands::to_end, 400'000},
                                          {commands::to_start, 0}}) {
    command(session);
    EXPECT_DOUBLE_EQ(session.playback.position(), position);
    EXPECT_FALSE(session.playback.playing());
  }
  commands::faster(session);
  commands::faster(session);
  commands::slower(session);
  EXPECT_EQ(session.playback.speed(), 2);
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
  commands::toggle_axis(session);
  EXPECT_EQ(session.axis_mode, AxisMode::steps);
  EXPECT_DOUBLE_EQ(session.playback.position(), 0.5);  // of rank 1, in the middle of its step 0
  EXPECT_EQ(session.view, fitted(2));
  session.set_view({0.25, 0.75, 0});
  commands::toggle_axis(session);
  EXPECT_DOUBLE_EQ(session.playback.position(), 100'000);
  EXPECT_NEAR(session.view.begin, 50'000, 1);
  EXPECT_NEAR(session.view.end, 150'000, 1);
  commands::go_back(session);  // views of the other axis mean nothing here
  EXPECT_NEAR(session.view.begin, 50'000, 1);
}

TEST(Session, WalksAlongSlicesAndMessages) {
  Session session = one();
  for (const auto& [command, slice] :
       {std::pair{&commands::next_slice, SliceId{0, 0}},  // nothing is selected: the first there is
        {commands::previous_slice, {0, 0}},               // there is none before
        {commands::next_slice, {0, 1}},
        {commands::next_slice, {0, 1}},
        {commands::previous_slice, {0, 0}},
        {commands::follow_flow, {1, 0}},  // its block is sent
        {commands::follow_flow, {6, 0}},  // to rank 1
        {commands::follow_flow_back, {1, 0}},
        {commands::follow_flow_back, {0, 0}}}) {
    command(session);
    EXPECT_EQ(session.selected, slice);
    EXPECT_EQ(session.selected_rank, slice.row / 4);
  }
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
  commands::search(session);
  EXPECT_TRUE(session.sought.open);
  session.set_search("kind:compute rank:1");
  EXPECT_EQ(session.sought.found.total, 2u);
  for (const auto& [command, slice] : {std::pair{&commands::next_found, SliceId{4, 0}},
                                       {commands::next_found, {4, 1}},
                                       {commands::next_found, {4, 0}},
                                       {commands::previous_found, {4, 1}}}) {
    command(session);
    EXPECT_EQ(session.selected, slice);
  }
  session.set_search("nothing like it");
  commands::next_found(session);
  EXPECT_EQ(session.selected, (SliceId{4, 1}));
}

TEST(Session, PinsAndFoldsAreToggledAndUndone) {
  Session session = one();
  commands::pin_rank(session);  // no rank is selected
  EXPECT_EQ(session.order, RankOrder{});
  session.select_rank(1);
  commands::pin_rank(session);
  commands::fold_rank(session);
  EXPECT_EQ(session.order, (RankOrder{{1}, {1}}));
  commands::pin_rank(session);
  EXPECT_EQ(session.order, (RankOrder{{}, {1}}));
  commands::go_back(session);
  EXPECT_EQ(session.order, (RankOrder{{1}, {1}}));
  commands::go_back(session);
  commands::go_back(session);
  EXPECT_EQ(session.order, RankOrder{});
}

TEST(Session, CancelClosesOneThingAfterTheOther) {
  Session session = one();
  session.select(SliceId{0, 0});
  session.measure = Measure{1, 2};
  session.sought.open = true;
  session.set_search("wait");
  session.panels.help = true;
  commands::cancel(session);
  EXPECT_FALSE(session.panels.help);
  EXPECT_TRUE(session.sought.open);
  commands::cancel(session);
  EXPECT_FALSE(session.sought.open);
  EXPECT_EQ(session.sought.text, "");
  EXPECT_TRUE(session.selected.has_value());
  commands::cancel(session);
  EXPECT_FALSE(session.selected.has_value());
  EXPECT_FALSE(session.measure.has_value());
}

TEST(Session, GoesFromTraceToTrace) {
  Session session = three();
  session.select(SliceId{4, 0});
  session.set_search("kind:compute");
  session.seek(2.5);
  commands::next_trace(session);
  EXPECT_EQ(session.active, 1u);
  EXPECT_FALSE(session.selected.has_value());
  EXPECT_EQ(session.selected_rank, 1);
  EXPECT_EQ(session.playback.position(), 2.5);
  EXPECT_EQ(session.sought.found.total, 9u);
  // The next one knows no ring and so no steps.
  commands::next_trace(session);
  EXPECT_EQ(session.axis_mode, AxisMode::time);
  EXPECT_EQ(session.view, fitted(400'000));
  EXPECT_TRUE(session.moment(2).ranks.empty());
  commands::toggle_axis(session);
  EXPECT_EQ(session.axis_mode, AxisMode::time);
  session.seek_step(1);
  EXPECT_EQ(session.axis_mode, AxisMode::time);
  commands::step_forward(session);
  EXPECT_GT(session.playback.position(), 0);
  commands::next_trace(session);
  EXPECT_EQ(session.active, 0u);
  session.activate(17);
  EXPECT_EQ(session.active, 0u);
}

Trace many_ranks(int ranks) {
  HandMade made(ranks);
  for (int rank = 0; rank < ranks; ++rank)
    for (int step = 0; step < ranks; ++step)
      made.compute(rank, step, 100 * step, 100 * step + 60 + rank, 10);
  return made.trace();
}

// Whatever ranks do at the trace's begin, all are at step 0; on the step axis all are always at one step.
TEST(Session, NowIsOneStep) {
  HandMade made(3);
  for (int step = 0; step < 3; ++step) {
    made.compute(0, step, 100 * step, 100 * step + 50, 1);
    made.compute(2, step, 300 * step, 300 * step + 200, 1);
  }
  made.compute(1, 1, 0, 50, 1).compute(1, 2, 50, 60, 1);  // nothing at step 0, which takes no time
  Session session = session_of(made.trace());
  const auto steps = [&] {
    std::vector<int> all;
    for (const RankMoment& rank : session.moment(0).ranks) all.push_back(rank.step);
    return all;
  };
  session.seek(0);
  EXPECT_EQ(steps(), (std::vector<int>{0, 0, 0}));
  session.seek(240);
  EXPECT_EQ(steps(), (std::vector<int>{2, 2, 0}));
  EXPECT_EQ(session.step_now(0), 2);  // that of rank 0, since no rank is selected
  session.select_rank(2);
  EXPECT_EQ(session.step_now(0), 0);
  session.set_axis_mode(AxisMode::steps);
  for (const double position : {0.0, 0.5, 1.0, 1.9, 2.5}) {
    session.seek(position);
    const int step = static_cast<int>(position);
    EXPECT_EQ(steps(), (std::vector<int>{step, step, step})) << position;
    EXPECT_EQ(session.step_now(0), step);
  }
}

TEST(Session, GoesToAStepOnEitherAxis) {
  for (const AxisMode mode : {AxisMode::time, AxisMode::steps}) {
    Session session = session_of(many_ranks(4), many_ranks(4));
    session.comparing = false;
    session.set_axis_mode(mode);
    session.go_to_step(0, 2, 1);
    ASSERT_TRUE(session.selected);
    EXPECT_EQ(session.playback.position(), session.span_of(*session.selected).first);
    EXPECT_EQ(session.axis_mode, mode);
    session.select(std::nullopt);
    session.go_to_step(1, 3, 2);  // of the other recording, whose slices can't be selected
    EXPECT_FALSE(session.selected);
    EXPECT_EQ(session.selected_rank, 3);
    EXPECT_EQ(session.step_now(1), 2);
  }
}

// Rank 0 attends nothing at step 2, but other ranks do then.
TEST(Session, GoesToAStepAtWhichTheRankAttendsNothing) {
  Scenario scenario = simulated_scenario(4);
  scenario.job.hops = Hops::needed;
  for (const AxisMode mode : {AxisMode::time, AxisMode::steps}) {
    Session session = session_of(simulated_trace(scenario));
    session.set_axis_mode(mode);
    session.go_to_step(0, 0, 2);
    EXPECT_EQ(session.wishes.said, "rank 0 attends nothing at step 2");
    EXPECT_FALSE(session.selected);
    EXPECT_EQ(session.selected_rank, 0);
    const std::vector<RankMoment> ranks = session.moment(0).ranks;
    EXPECT_TRUE(ranks[2].step == 2 || ranks[3].step == 2);
    EXPECT_LT(session.playback.position(), session.length());
    session.wishes.said.clear();
    session.go_to_step(0, 3, 2);
    EXPECT_EQ(session.wishes.said, "");
  }
}

TEST(Session, MoreThanSixteenRanksBeginAtAGlance) {
  EXPECT_FALSE(session_of(many_ranks(16)).rank_map.shown);
  Session session = session_of(many_ranks(17));
  EXPECT_TRUE(session.rank_map.shown);
  commands::toggle_overview(session);
  EXPECT_FALSE(session.rank_map.shown);
  commands::toggle_overview(session);
  Trace failed = many_ranks(17);
  failed.info.failure = RunEnd{"killed", 1, 0};
  EXPECT_FALSE(session_of(std::move(failed)).rank_map.shown);
  Session pair = session_of(many_ranks(17), many_ranks(17));
  EXPECT_TRUE(pair.comparing && pair.rank_map.shown);
  Session unlike = session_of(many_ranks(17), many_ranks(4));
  EXPECT_NE(unlike.rank_map.metric, 0);
  unlike.activate(1);
  EXPECT_EQ(unlike.rank_map.metric, 0);
}

TEST(Session, OpensASliceFromAllRanks) {
  Session session = session_of(many_ranks(17));
  session.open_slice(5, 9);
  EXPECT_FALSE(session.rank_map.shown);
  ASSERT_TRUE(session.selected);
  const TraceEvent& slice = session.document().trace.slice(*session.selected);
  EXPECT_EQ(slice.step, 9);
  EXPECT_EQ(session.selected_rank, 5);
  EXPECT_EQ(session.view, session.view_of(*session.selected));
  EXPECT_EQ(session.step_now(0), 9);
  commands::toggle_overview(session);
  EXPECT_TRUE(session.rank_map.shown);
  session.reveal(*session.selected);  // as a search does
  EXPECT_FALSE(session.rank_map.shown);
}

TEST(Session, AnEmptyTraceTakesEveryCommand) {
  for (const bool ours : {false, true}) {
    Session session = session_of(ours ? HandMade(2).trace() : Trace{});
    for (const KeyBinding& binding : key_bindings()) {
      binding.command(session);
      advance(session, 0.1);
    }
    EXPECT_EQ(session.playback.position(), 0);
    EXPECT_GT(session.view.width(), 0);
    EXPECT_EQ(session.document().balance.ranks, ours ? 2 : 0);
  }
}

// ---
// The playhead: how far it gets, where it stops, and which steps it finds.

TEST(Playback, TheWholeTimeAxisTakesTenSecondsAndAStepOne) {
  Playback playback;
  playback.toggle(5000);
  playback.advance(2, AxisMode::time, 5000);
  EXPECT_DOUBLE_EQ(playback.position(), 1000);
  playback.seek(0, 8);
  playback.advance(2.5, AxisMode::steps, 8);
  EXPECT_DOUBLE_EQ(playback.position(), 2.5);
}

TEST(Playback, StandsStillUntilItPlaysAndStopsAtTheEnd) {
  Playback playback;
  playback.toggle(0);  // nothing to play
  EXPECT_FALSE(playback.playing());
  playback.advance(1, AxisMode::steps, 4);
  EXPECT_EQ(playback.position(), 0);
  playback.toggle(4);
  playback.advance(100, AxisMode::steps, 4);
  EXPECT_EQ(playback.position(), 4);
  EXPECT_FALSE(playback.playing());
  playback.toggle(4);
  EXPECT_TRUE(playback.playing());
  EXPECT_EQ(playback.position(), 0);
}

TEST(Playback, SpeedDoublesAndHalvesWithinBounds) {
  Playback playback;
  playback.faster();
  EXPECT_EQ(playback.speed(), 2);
  playback.toggle(10);
  playback.advance(1, AxisMode::steps, 10);
  EXPECT_EQ(playback.position(), 2);
  for (int i = 0; i < 20; ++i) playback.faster();
  EXPECT_EQ(playback.speed(), 64);
  for (int i = 0; i < 20; ++i) playback.slower();
  EXPECT_EQ(playback.speed(), 1.0 / 64);
}

TEST(Playback, SeekingStaysOnTheAxis) {
  Playback playback;
  playback.seek(7, 5);
  EXPECT_EQ(playback.position(), 5);
  playback.seek(-1, 5);
  EXPECT_EQ(playback.position(), 0);
  playback.seek(3, 5);
  playback.seek(std::nan(""), 5);
  EXPECT_EQ(playback.position(), 0);
  playback.seek(1, -2);
  EXPECT_EQ(playback.position(), 0);
}

// Step 1 begins at 40 on rank 0 and at 70 on rank 1.
Trace two_rank_trace() {
  return HandMade(2)
      .compute(0, 0, 0, 40)
      .compute(0, 1, 40, 100)
      .compute(1, 0, 0, 60)
      .wait(1, 1, 70, 80)
      .compute(1, 1, 80, 100)
      .trace();
}

// Expect where a step of `rank` from each position leads: on, or back.
void expect_steps(int rank, AxisMode mode, const std::vector<std::pair<double, double>>& on,
                  const std::vector<std::pair<double, double>>& back) {
  const Axis axis(two_rank_trace());
  for (const auto& [from, to] : on) EXPECT_EQ(next_step(axis, mode, rank, from), to) << from;
  for (const auto& [from, to] : back) EXPECT_EQ(previous_step(axis, mode, rank, from), to) << from;
}

TEST(Playback, StepsInTimeAreTheMomentsAtWhichTheRankBeginsOne) {
  expect_steps(0, AxisMode::time, {{0, 40}, {40, 100}, {100, 100}}, {{100, 40}, {41, 40}, {40, 0}});
  expect_steps(1, AxisMode::time, {{0, 70}, {55, 70}, {70, 100}}, {{100, 70}, {70, 0}, {0, 0}});
}

// Under a contiguous causal mask rank 0 has but one step, and the others go on.
TEST(Playback, StepsOfAllRanksByKeyWhereNoneIsSelected) {
  HandMade made(3, "contiguous", "causal");
  made.compute(0, 0, 0, 20).compute(1, 0, 0, 40).compute(1, 1, 40, 70).compute(2, 0, 0, 50);
  made.compute(2, 1, 50, 90).compute(2, 2, 90, 150);
  Session session = session_of(made.trace());
  for (const double position : {40, 90, 150, 150}) {
    commands::step_forward(session);
    EXPECT_EQ(session.playback.position(), position);
  }
  for (const double position : {90, 40, 0}) {
    commands::step_back(session);
    EXPECT_EQ(session.playback.position(), position);
  }
}

// Where ranks skip steps, a later one may begin before an earlier one.
TEST(Playback, StepsThatBeginInAnotherOrderAreAllVisited) {
  HandMade made(2);
  made.compute(0, 0, 0, 20).compute(0, 2, 30, 60).compute(1, 0, 0, 50).compute(1, 1, 50, 90);
  Session session = session_of(made.trace());
  for (const double position : {30, 50, 90}) {
    commands::step_forward(session);
    EXPECT_EQ(session.playback.position(), position);
  }
  for (const double position : {50, 30, 0}) {
    commands::step_back(session);
    EXPECT_EQ(session.playback.position(), position);
  }
}

// The arrow keys stop where the bar has its ticks: at the steps of the selected rank.
TEST(Playback, StepsOfTheSelectedRankByKey) {
  Session session = session_of(two_rank_trace());
  commands::step_forward(session);
  EXPECT_EQ(session.playback.position(), 40);
  session.select_rank(1);
  commands::step_forward(session);
  EXPECT_EQ(session.playback.position(), 70);
}

TEST(Playback, StepsOnTheStepAxisAreWholeNumbers) {
  // 1 - 1e-12 is as good as 1.
  expect_steps(0, AxisMode::steps, {{0, 1}, {0.5, 1}, {1 - 1e-12, 2}, {2, 2}},
               {{2, 1}, {1.5, 1}, {1 + 1e-12, 0}, {0, 0}});
}

// ---
// The session beside a prediction: one axis for both, and what opens and closes it.

Session simulated() { return session_of(simulated_trace(simulated_scenario(4))); }

TEST(SessionWhatIf, OpensAndClosesByCommand) {
  Session session = simulated();
  EXPECT_EQ(session.what_if, nullptr);
  commands::toggle_what_if(session);
  ASSERT_NE(session.what_if, nullptr);
  EXPECT_NE(session.what_if->shown(), nullptr);
  EXPECT_EQ(session.view, fitted(session.length()));
  commands::toggle_what_if(session);
  EXPECT_EQ(session.what_if, nullptr);
  commands::toggle_what_if(session);
  commands::cancel(session);
  EXPECT_EQ(session.what_if, nullptr);
}

void apply_settings(Session& session, const std::string& settings) {
  apply(session.what_if->settings, session.what_if->unmoved_settings(), settings);
}

// A prediction that takes longer is seen to its end, by the keys as well. Closing it brings the
// playhead back.
TEST(SessionWhatIf, TheAxisIsAsLongAsTheLongerOne) {
  Session session = simulated();
  const double recorded = session.length();
  commands::toggle_what_if(session);
  apply_settings(session, "flops=0.5");
  session.update_what_if();
  EXPECT_NEAR(session.length(), 2 * recorded, 0.1 * recorded);
  EXPECT_EQ(session.view, fitted(session.length()));
  commands::to_end(session);
  EXPECT_EQ(session.playback.position(), session.length());
  commands::toggle_what_if(session);
  EXPECT_EQ(session.playback.position(), recorded);
  EXPECT_EQ(session.view, fitted(recorded));
  commands::toggle_what_if(session);
  apply_settings(session, "flops=4");
  session.update_what_if();
  EXPECT_EQ(session.length(), recorded);
}

TEST(SessionWhatIf, ACloseViewStaysWhereItIs) {
  Session session = simulated();
  commands::toggle_what_if(session);
  commands::zoom_in(session);
  commands::zoom_in(session);
  const TimelineView close = session.view;
  apply_settings(session, "flops=0.5");
  session.update_what_if();
  EXPECT_EQ(session.view, close);
  commands::fit_all(session);
  EXPECT_EQ(session.view, fitted(session.length()));
}

TEST(SessionWhatIf, IsOfOneRecordingAndLeavesTheComparison) {
  Session session = session_of(simulated_trace(simulated_scenario(3), "a"),
                               simulated_trace(simulated_scenario(3), "b"));
  EXPECT_TRUE(session.comparing);
  commands::toggle_what_if(session);
  EXPECT_FALSE(session.comparing);
  EXPECT_NE(session.what_if, nullptr);
  commands::toggle_compare(session);
  EXPECT_TRUE(session.comparing);
  EXPECT_EQ(session.what_if, nullptr);
  commands::toggle_what_if(session);
  commands::next_trace(session);
  EXPECT_EQ(session.active, 1u);
  EXPECT_EQ(session.what_if, nullptr);
}

TEST(SessionWhatIf, HasNoStoryBesideIt) {
  Recording recording = simulated_recording(simulated_scenario(3));
  recording.story = {{.text = "One."}, {.text = "Two."}};
  Session session = session_of(to_trace(recording, "told"));
  EXPECT_TRUE(session.story_shown());
  commands::toggle_what_if(session);
  EXPECT_FALSE(session.story_shown());
  commands::go_on(session);
  EXPECT_TRUE(session.playback.playing());
}

TEST(SessionWhatIf, OfATraceThatIsNotOursSaysWhyNot) {
  Trace foreign = simulated_trace(simulated_scenario(2));
  foreign.is_ring = false;
  Session session = session_of(std::move(foreign));
  commands::toggle_what_if(session);
  ASSERT_NE(session.what_if, nullptr);
  EXPECT_NE(session.what_if->refusal(), "");
  session.update_what_if();
  session.what_if->finish();
  EXPECT_FALSE(session.what_if->pending());
  EXPECT_EQ(session.what_if->shown(), nullptr);
  EXPECT_EQ(headline_of(*session.what_if) + trust_of(*session.what_if), "");
  session.keep_prediction();
  EXPECT_EQ(session.documents.size(), 1u);
}

TEST(SessionWhatIf, TriesSettingsFromTheRecordedOnes) {
  Session session = simulated();
  session.try_settings("partition=zigzag");
  ASSERT_NE(session.what_if, nullptr);
  EXPECT_EQ(session.what_if->settings.job.partition, PartitionKind::zigzag);
  session.try_settings("flops=2");
  EXPECT_NE(session.what_if->settings.job.partition, PartitionKind::zigzag);
  const Scenario& recorded = session.what_if->unmoved_settings();
  EXPECT_EQ(settings_of(recorded, session.what_if->settings), "flops=2");
  session.try_settings("partition=crooked");
  EXPECT_EQ(settings_of(recorded, session.what_if->settings), "flops=2");
}

// What is kept is a document like any other: whole, active, and compared where ranks are as many.
TEST(SessionWhatIf, APredictionCanBeKept) {
  Session session = simulated();
  commands::toggle_what_if(session);
  session.what_if->settings.job.partition = PartitionKind::zigzag;
  session.update_what_if();
  session.keep_prediction();
  ASSERT_EQ(session.documents.size(), 2u);
  EXPECT_EQ(session.active, 1u);
  EXPECT_EQ(session.what_if, nullptr);
  EXPECT_EQ(session.document().trace.info.partition, "zigzag");
  EXPECT_FALSE(session.document().findings.empty());
  EXPECT_FALSE(session.comparison.figures.empty());
  commands::toggle_compare(session);
  EXPECT_TRUE(session.comparing);
  session.activate(0);
  commands::toggle_what_if(session);
  session.what_if->settings.job.world_size = 8;
  session.update_what_if();
  session.keep_prediction();
  ASSERT_EQ(session.documents.size(), 3u);
  EXPECT_EQ(session.document().trace.ranks.size(), 8u);
  EXPECT_TRUE(session.comparison.figures.empty());  // of 4 and of 8 ranks
  commands::toggle_compare(session);
  EXPECT_FALSE(session.comparing);
}

// Its command names the recording and the settings, because a prediction is in no file.
TEST(SessionWhatIf, TheCommandOfAPredictionMakesItAgain) {
  Session session = session_of(simulated_trace(simulated_scenario(4), "ring.json"));
  commands::toggle_what_if(session);
  apply_settings(session, "partition=zigzag,bandwidth=2");
  session.update_what_if();
  const std::string open = view_command(session);
  session.keep_prediction();
  session.reveal({0, 0});
  const std::string kept = view_command(session);
  commands::toggle_compare(session);
  for (const std::string& command : {open, kept, view_command(session)}) {
    EXPECT_NE(command.find(" view ring.json --"), std::string::npos) << command;
    EXPECT_NE(command.find(" --what-if bandwidth=2,partition=zigzag"), std::string::npos)
        << command;
    EXPECT_EQ(command.find("predicted"), std::string::npos) << command;
    EXPECT_EQ(command.find("--select"), std::string::npos) << command;
  }
}

TEST(SessionWhatIf, ASampleCanNotBeKept) {
  Session session = simulated();
  commands::toggle_what_if(session);
  session.what_if->settings.job.world_size = 100;
  session.what_if->finish();
  session.keep_prediction();
  EXPECT_EQ(session.documents.size(), 1u);
  EXPECT_NE(session.what_if, nullptr);
}

// Steps are compared with steps, however many.
TEST(SessionWhatIf, StepsOfBothAreOnOneAxis) {
  Session session = simulated();
  commands::toggle_axis(session);
  commands::toggle_what_if(session);
  session.what_if->settings.job.world_size = 8;
  session.update_what_if();
  EXPECT_EQ(session.axis_mode, AxisMode::steps);
  EXPECT_EQ(session.length(), 8);
}

// A document holds what each part works out from its trace, and goes on doing so when it is moved.
TEST(Document, HoldsWhatIsWorkedOut) {
  Document made = make_document(trace_of(
      record_run(PartitionKind::zigzag, "causal+documents:40,56", scheme_named("ring"), 3, true)));
  const Document document = std::move(made);
  const Trace& trace = document.trace;
  EXPECT_EQ(trace.ranks.size(), 3u);
  EXPECT_EQ(document.axis.steps(), 6);
  ASSERT_TRUE(document.mask.has_value());
  EXPECT_FALSE(document.mask->mask().allows(50, 10));
  EXPECT_EQ(document.balance.ranks, 3);
  EXPECT_TRUE(document.balance.predicted);
  EXPECT_EQ(document.idle.wall_ns, trace.wall_ns());
  EXPECT_EQ(document.path().compute_ns + document.path().link_ns + document.path().overhead_ns,
            trace.wall_ns());
  EXPECT_EQ(document.links.links.size(), 3u);
  EXPECT_EQ(document.findings, findings(trace, document.why, document.idle, document.balance));
  EXPECT_FALSE(document.findings.empty());
  const std::uint32_t row = trace.row_of(1, Lane::compute);
  EXPECT_EQ(document.index.row(row).begins.size(), trace.slices(row).size());
}

// ---
// Keys mean one thing each, and nothing is bound that the help doesn't say.

// As the help writes keys.
std::string name_of(const Key& key) {
  static const std::map<SpecialKey, std::string> names = {
      {SpecialKey::left, "Left"},   {SpecialKey::right, "Right"},
      {SpecialKey::home, "Home"},   {SpecialKey::end, "End"},
      {SpecialKey::escape, "Esc"},  {SpecialKey::backspace, "Backspace"},
      {SpecialKey::enter, "Enter"}, {SpecialKey::tab, "Tab"}};
  if (key.special != SpecialKey::none) return (key.shift ? "Shift-" : "") + names.at(key.special);
  if (key.character == U' ') return "Space";
  const char c = static_cast<char>(key.character);
  if (c < ' ') return std::string("Ctrl-") + static_cast<char>(c + '@');
  if (c >= 'A' && c <= 'Z') return std::string("Shift-") + c;
  return std::string(1, c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c);
}

// "A, D" and ". ," are two keys each; a comma that stands alone is a key.
std::vector<std::string> keys_of(std::string_view text) {
  std::vector<std::string> keys;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    std::string key(text.substr(at, end - at));
    if (key.size() > 1 && key.back() == ',') key.pop_back();
    keys.push_back(key);
    at = end + 1;
  }
  return keys;
}

// No key is bound twice, and the help lists every key and every gesture once, and nothing else.
TEST(Commands, TheHelpListsEveryKeyAndGestureOnce) {
  std::multiset<std::string> known = {"Wheel",        "Shift-Wheel", "Ctrl-Wheel", "Left-drag",
                                      "Right-drag",   "Shift-drag",  "Click",      "Right-click",
                                      "Double-click", "Ctrl-+",      "Ctrl--",     "Ctrl-0"};
  for (const KeyBinding& binding : key_bindings()) known.insert(name_of(binding.key));
  std::multiset<std::string> listed;
  for (const HelpLine& line : help_lines()) {
    EXPECT_FALSE(line.text.empty()) << line.keys;
    for (const std::string& key : keys_of(line.keys)) listed.insert(key);
  }
  EXPECT_EQ(listed, known);
  for (const std::string& key : known) EXPECT_EQ(known.count(key), 1u) << key;
}

// A special key has no character, and only special keys know Shift.
TEST(Commands, KeysAreWellFormed) {
  for (const KeyBinding& binding : key_bindings()) {
    const Key& key = binding.key;
    EXPECT_NE(key.character == 0, key.special == SpecialKey::none) << name_of(key);
    if (key.character != 0) {
      EXPECT_FALSE(key.shift) << name_of(key);
    }
  }
}

}  // namespace
}  // namespace ringscope::viz
