// A story on its way from a file to the playhead: what its paragraphs point at, how one goes from
// one to the next, and what becomes of stories that make no sense.
#include "viz/data/session/session.h"

#include <gtest/gtest.h>

#include <utility>

#include "tests/viz_data/told.h"
#include "tests/viz_data/trace_loader_text.h"

namespace ringscope::viz {
namespace story_test {

constexpr double kUs = 1000;

class Story : public testing::Test {
 protected:
  StoryMoment at(const StoryStep& told, AxisMode mode = AxisMode::time) const {
    return moment_of(trace_, axis_, mode, told);
  }
  const TraceEvent& slice(const StoryMoment& moment) const { return trace_.slice(*moment.slice); }

  const Trace trace_ = two_ranks().trace();
  const Axis axis_{trace_};
};

TEST_F(Story, AMomentIsTheMiddleOfWhatIsPointedAt) {
  const StoryMoment moment = at({.text = "x", .step = 1, .rank = 1, .lane = Lane::compute});
  ASSERT_TRUE(moment.slice);
  EXPECT_EQ(slice(moment).begin_ns, 100 * kUs);
  EXPECT_EQ(moment.position, 140 * kUs);
  const StoryMoment in_steps =
      at({.text = "x", .step = 1, .rank = 1, .lane = Lane::compute}, AxisMode::steps);
  ASSERT_TRUE(in_steps.position);
  EXPECT_GT(*in_steps.position, 1);
  EXPECT_LT(*in_steps.position, 2);
}

TEST_F(Story, WithoutARankTheLongestSliceIsTheMoment) {
  const StoryMoment moment = at({.text = "x", .step = 0, .lane = Lane::compute});
  ASSERT_TRUE(moment.slice);
  EXPECT_EQ(trace_.rank_of_row(moment.slice->row), 1);
  EXPECT_EQ(moment.position, 40 * kUs);
}

TEST_F(Story, ForwardBeforeBackwardAndComputeBeforeTheRest) {
  EXPECT_EQ(at({.text = "x", .step = 1, .rank = 0}).position, 120 * kUs);
  EXPECT_EQ(at({.text = "x", .pass = Pass::backward, .step = 1, .rank = 0}).position, 320 * kUs);
  const StoryMoment wait = at({.text = "x", .rank = 0, .lane = Lane::wait});
  ASSERT_TRUE(wait.slice);
  EXPECT_EQ(slice(wait).lane, Lane::wait);
  EXPECT_EQ(wait.position, 70 * kUs);
}

// Rank 1 waits for nothing; the step is there all the same.
TEST_F(Story, AStepWithoutSuchASliceHasAMiddle) {
  const StoryStep told{.text = "x", .step = 1, .rank = 1, .lane = Lane::wait};
  const StoryMoment moment = at(told);
  EXPECT_FALSE(moment.slice);
  ASSERT_TRUE(moment.position);
  EXPECT_GT(*moment.position, 80 * kUs);
  EXPECT_LT(*moment.position, 200 * kUs);
  EXPECT_EQ(at(told, AxisMode::steps).position, 1.5);
  StoryStep backward = told;
  backward.pass = Pass::backward;
  EXPECT_EQ(at(backward, AxisMode::steps).position, 3.5);
}

TEST_F(Story, WholeRanksAndRunsAreNoMoment) {
  for (const StoryStep& told : {StoryStep{.text = "x"}, StoryStep{.text = "x", .rank = 1},
                                StoryStep{.text = "x", .pass = Pass::backward}}) {
    EXPECT_FALSE(at(told).slice);
    EXPECT_FALSE(at(told).position);
  }
}

// The loader refuses most of these; a trace made otherwise may hold them.
TEST_F(Story, WhatIsNotThereIsNoMoment) {
  for (const StoryStep& told :
       {StoryStep{.text = "x", .step = 99}, StoryStep{.text = "x", .step = 0, .rank = 99},
        StoryStep{.text = "x", .pass = Pass::backward, .step = 2, .lane = Lane::send},
        StoryStep{.text = "x", .rank = 99, .lane = Lane::wait}}) {
    EXPECT_FALSE(at(told).slice);
    EXPECT_EQ(at(told).position.has_value(), told.step == 0);
  }
  const Trace nothing = HandMade(2).trace();
  EXPECT_FALSE(
      moment_of(nothing, Axis(nothing), AxisMode::time, {.text = "x", .step = 0}).position);
}

TEST_F(Story, PointsAtWhatAgreesWithAllThatIsSaid) {
  const auto lit = [&](const StoryStep& told) {
    int count = 0;
    for (std::uint32_t row = 0; row < trace_.rows.size(); ++row)
      for (const TraceEvent& s : trace_.slices(row))
        count += points_at(told, trace_.rank_of_row(row), s);
    return count;
  };
  EXPECT_EQ(lit({.text = "x"}), 0);  // nothing is set apart where all is meant
  EXPECT_EQ(lit({.text = "x", .lane = Lane::compute}), 8);
  EXPECT_EQ(lit({.text = "x", .step = 0, .lane = Lane::compute}), 4);
  EXPECT_EQ(lit({.text = "x", .step = 0, .rank = 1, .lane = Lane::compute}), 2);
  EXPECT_EQ(lit({.text = "x", .pass = Pass::forward, .rank = 0}), 2 + 1 + 1 + 1);
  EXPECT_EQ(lit({.text = "x", .rank = 0, .lane = Lane::wait}), 2);
}

TEST(StoryWords, WhereAParagraphIs) {
  EXPECT_EQ(place_of({.text = "x"}), "");
  EXPECT_EQ(place_of({.text = "x", .pass = Pass::backward, .step = 2, .rank = 1}),
            "rank 1 · backward step 2");
  EXPECT_EQ(place_of({.text = "x", .step = 0, .lane = Lane::wait}), "step 0 · wait");
  EXPECT_EQ(place_of({.text = "x", .pass = Pass::forward}), "forward pass");
}

TEST(StorySession, GoesOnAndBack) {
  Session session = told_session();
  EXPECT_TRUE(session.story_shown());
  EXPECT_EQ(session.telling.at, 0);
  EXPECT_FALSE(session.story_over());
  EXPECT_EQ(session.playback.position(), 0);
  commands::go_on(session);
  EXPECT_EQ(session.telling.at, 1);
  EXPECT_EQ(session.playback.position(), 40 * kUs);
  EXPECT_EQ(session.selected_rank, 1);
  ASSERT_TRUE(session.selected);
  EXPECT_EQ(session.document().trace.slice(*session.selected).step, 0);
  EXPECT_TRUE(session.telling.points);
  EXPECT_FALSE(session.panels.front);

  commands::go_on(session);
  EXPECT_EQ(session.selected_rank, 0);
  ASSERT_TRUE(session.selected);
  EXPECT_EQ(session.document().trace.slice(*session.selected).lane, Lane::wait);
  EXPECT_EQ(session.playback.position(), 70 * kUs);
  EXPECT_EQ(session.panels.front, Figure::balance);

  commands::go_on(session);
  EXPECT_FALSE(session.selected);  // of no one rank
  EXPECT_EQ(session.selected_rank, -1);
  EXPECT_EQ(session.playback.position(), 240 * kUs);

  commands::story_back(session);
  commands::story_back(session);
  EXPECT_EQ(session.telling.at, 1);
  EXPECT_EQ(session.playback.position(), 40 * kUs);
  for (int i = 0; i < 5; ++i) commands::story_back(session);
  EXPECT_EQ(session.telling.at, 0);
}

// Paragraph 5 has no moment of its own.
TEST(StorySession, AParagraphWithoutAMomentStaysAtTheOneBefore) {
  Session session = told_session();
  session.tell(4);
  EXPECT_EQ(session.playback.position(), 240 * kUs);
  EXPECT_EQ(session.selected_rank, 0);
  EXPECT_FALSE(session.selected);
}

TEST(StorySession, AtItsEndSpacePlays) {
  Session session = told_session();
  session.tell(99);
  EXPECT_EQ(session.telling.at, 4);
  EXPECT_TRUE(session.story_over());
  commands::go_on(session);
  EXPECT_TRUE(session.playback.playing());
  EXPECT_FALSE(session.telling.points);
  commands::go_on(session);
  EXPECT_FALSE(session.playback.playing());
  EXPECT_EQ(session.telling.at, 4);
  session.tell(-7);
  EXPECT_EQ(session.telling.at, 0);
}

TEST(StorySession, PlayingInTheMiddleIsPausedBeforeTheStoryGoesOn) {
  Session session = told_session();
  commands::play_pause(session);
  EXPECT_TRUE(session.playback.playing());
  commands::go_on(session);
  EXPECT_FALSE(session.playback.playing());
  EXPECT_EQ(session.telling.at, 0);
  commands::go_on(session);
  EXPECT_EQ(session.telling.at, 1);
}

TEST(StorySession, EscapeTakesThePointerAway) {
  Session session = told_session();
  session.tell(1);
  commands::cancel(session);
  EXPECT_FALSE(session.telling.points);
  EXPECT_FALSE(session.selected);
  commands::go_on(session);
  EXPECT_TRUE(session.telling.points);
}

TEST(StorySession, OnTheStepAxisThePlayheadGoesToTheStep) {
  Session session = told_session();
  commands::toggle_axis(session);
  session.tell(3);
  EXPECT_GT(session.playback.position(), 2);
  EXPECT_LT(session.playback.position(), 3);
}

TEST(StorySession, WhatIsPointedAtComesIntoView) {
  Session session = told_session();
  session.set_view({300 * kUs, 400 * kUs, 0});
  session.tell(1);
  EXPECT_LE(session.view.begin, 40 * kUs);
  EXPECT_GE(session.view.end, 40 * kUs);
}

TEST(StorySession, TheMaskIsShownAsRanksMeetBlocks) {
  Trace trace = told_trace();
  trace.story[1].figure = Figure::mask;
  Session session = session_of(std::move(trace));
  EXPECT_EQ(session.look.mask_order, MaskOrder::global);
  session.tell(1);
  EXPECT_EQ(session.look.mask_order, MaskOrder::local);
}

// One panel alone: the one under the mouse, or that of the story, or the timeline.
TEST(StorySession, APanelAloneFollowsTheStory) {
  Session session = told_session();
  commands::enlarge(session);
  EXPECT_EQ(session.panels.alone, Figure::timeline);
  commands::enlarge(session);
  EXPECT_FALSE(session.panels.alone);
  session.tell(2);
  commands::enlarge(session);
  EXPECT_EQ(session.panels.alone, Figure::balance);
  session.tell(3);  // says nothing of where to look
  EXPECT_EQ(session.panels.alone, Figure::balance);
  session.tell(4);
  EXPECT_EQ(session.panels.alone, Figure::softmax);
  commands::enlarge(session);
  session.panels.under_mouse = Figure::ring;
  commands::enlarge(session);
  EXPECT_EQ(session.panels.alone, Figure::ring);
}

// Each has its own story; compared, none is told.
TEST(StorySession, OfSeveralRecordings) {
  Session session = session_of(told_trace(), two_ranks().trace());
  EXPECT_TRUE(session.comparing);
  EXPECT_FALSE(session.story_shown());
  EXPECT_EQ(session.telling.at, -1);
  commands::toggle_compare(session);
  EXPECT_TRUE(session.story_shown());
  commands::go_on(session);
  EXPECT_EQ(session.telling.at, 0);
  commands::go_on(session);
  commands::next_trace(session);
  EXPECT_FALSE(session.story_shown());
  EXPECT_FALSE(session.telling.points);
  EXPECT_EQ(session.telling.at, -1);
}

TEST(LoadedStory, OfAnotherProgramIsItsOwnAffair) {
  const char* const text =
      R"({"story": [7, {"text": 1}], "traceEvents": [{"ph": "X", "pid": 1, "ts": 0, "dur": 5}]})";
  const Trace trace = parse_trace(text);
  EXPECT_FALSE(trace.is_ring);
  EXPECT_TRUE(trace.story.empty());
}

TEST(LoadedStory, StepsThatAreNotThereAreToldAllTheSame) {
  Recording recording = whole_recording();
  recording.story = sample_story();
  for (auto& events : recording.events)
    std::erase_if(events, [](const TraceEvent& e) { return e.step > 0; });
  recording.samples.clear();
  Session session = session_of(parse_trace(trace_text_of(recording)));
  for (int i = 0; i < 6; ++i) commands::go_on(session);
  EXPECT_EQ(session.telling.at, 4);
}

}  // namespace story_test
}  // namespace ringscope::viz
