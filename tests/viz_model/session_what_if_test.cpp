// The session beside a prediction: one axis for both, and what opens and closes it.
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "tests/viz_model/hand_made.h"
#include "tests/viz_model/recorded.h"
#include "tests/viz_model/simulated.h"
#include "viz/model/session/session.h"

namespace ringscope::viz {
namespace session_what_if_test {

Session session_of(std::vector<Trace> traces) {
  std::vector<Document> documents;
  for (Trace& trace : traces) documents.push_back(make_document(std::move(trace)));
  return Session(std::move(documents));
}

Session one() { return session_of({simulated_trace(simulated_scenario(4))}); }

TEST(SessionWhatIf, OpensAndClosesByCommand) {
  Session session = one();
  EXPECT_EQ(session.what_if, nullptr);
  session.run(Command::toggle_what_if);
  ASSERT_NE(session.what_if, nullptr);
  EXPECT_NE(session.what_if->shown(), nullptr);
  EXPECT_EQ(session.view, fitted(session.length()));
  session.run(Command::toggle_what_if);
  EXPECT_EQ(session.what_if, nullptr);
  session.run(Command::toggle_what_if);
  session.run(Command::cancel);
  EXPECT_EQ(session.what_if, nullptr);
}

// A prediction that takes longer is seen to its end, by the keys as well.
TEST(SessionWhatIf, TheAxisIsAsLongAsTheLongerOne) {
  Session session = one();
  const double recorded = session.length();
  session.run(Command::toggle_what_if);
  session.what_if->settings.flops = 0.5;
  session.update_what_if();
  EXPECT_NEAR(session.length(), 2 * recorded, 0.1 * recorded);
  EXPECT_EQ(session.view, fitted(session.length()));
  session.run(Command::to_end);
  EXPECT_EQ(session.playback.position(), session.length());
  session.what_if->settings.flops = 4;
  session.update_what_if();
  EXPECT_EQ(session.length(), recorded);
  EXPECT_EQ(session.view, fitted(recorded));
  EXPECT_EQ(session.playback.position(), recorded);
}

TEST(SessionWhatIf, ACloseViewStaysWhereItIs) {
  Session session = one();
  session.run(Command::toggle_what_if);
  session.run(Command::zoom_in);
  session.run(Command::zoom_in);
  const TimelineView close = session.view;
  session.what_if->settings.flops = 0.5;
  session.update_what_if();
  EXPECT_EQ(session.view, close);
  session.run(Command::fit_all);
  EXPECT_EQ(session.view, fitted(session.length()));
}

TEST(SessionWhatIf, ClosingBringsThePlayheadBack) {
  Session session = one();
  const double recorded = session.length();
  session.run(Command::toggle_what_if);
  session.what_if->settings.flops = 0.5;
  session.update_what_if();
  session.run(Command::to_end);
  session.run(Command::toggle_what_if);
  EXPECT_EQ(session.playback.position(), recorded);
  EXPECT_EQ(session.view, fitted(recorded));
}

TEST(SessionWhatIf, IsOfOneRecordingAndLeavesTheComparison) {
  Session session = session_of(
      {simulated_trace(simulated_scenario(3), "a"), simulated_trace(simulated_scenario(3), "b")});
  EXPECT_TRUE(session.comparing);
  session.run(Command::toggle_what_if);
  EXPECT_FALSE(session.comparing);
  EXPECT_NE(session.what_if, nullptr);
  session.run(Command::toggle_compare);
  EXPECT_TRUE(session.comparing);
  EXPECT_EQ(session.what_if, nullptr);
  session.run(Command::toggle_what_if);
  session.run(Command::next_trace);
  EXPECT_EQ(session.active, 1u);
  EXPECT_EQ(session.what_if, nullptr);
}

TEST(SessionWhatIf, HasNoStoryBesideIt) {
  Recording recording = simulated_recording(simulated_scenario(3));
  recording.story = {{.text = "One."}, {.text = "Two."}};
  Session session = session_of({to_trace(recording, "told")});
  EXPECT_TRUE(session.story_shown());
  session.run(Command::toggle_what_if);
  EXPECT_FALSE(session.story_shown());
  session.run(Command::go_on);
  EXPECT_TRUE(session.playback.playing());
}

TEST(SessionWhatIf, OfATraceThatIsNotOursSaysWhyNot) {
  Trace foreign = simulated_trace(simulated_scenario(2));
  foreign.run.reset();
  Session session = session_of({std::move(foreign)});
  session.run(Command::toggle_what_if);
  ASSERT_NE(session.what_if, nullptr);
  EXPECT_NE(session.what_if->refusal(), "");
  session.update_what_if();
  session.keep_prediction();
  EXPECT_EQ(session.documents.size(), 1u);
}

// What is kept is a document like any other: whole, active, and compared where ranks are as many.
TEST(SessionWhatIf, APredictionCanBeKept) {
  Session session = one();
  session.run(Command::toggle_what_if);
  session.what_if->settings.partition = PartitionKind::zigzag;
  session.update_what_if();
  session.keep_prediction();
  ASSERT_EQ(session.documents.size(), 2u);
  EXPECT_EQ(session.active, 1u);
  EXPECT_EQ(session.what_if, nullptr);
  EXPECT_EQ(session.document().trace.run->partition, "zigzag");
  EXPECT_FALSE(session.document().findings.empty());
  EXPECT_FALSE(session.comparison.figures.empty());
  session.run(Command::toggle_compare);
  EXPECT_TRUE(session.comparing);

  session.activate(0);
  session.run(Command::toggle_what_if);
  session.what_if->settings.world_size = 8;
  session.update_what_if();
  session.keep_prediction();
  ASSERT_EQ(session.documents.size(), 3u);
  EXPECT_EQ(session.document().trace.ranks.size(), 8u);
  EXPECT_TRUE(session.comparison.figures.empty());  // of 4 and of 8 ranks
  session.run(Command::toggle_compare);
  EXPECT_FALSE(session.comparing);
}

TEST(SessionWhatIf, ASampleCanNotBeKept) {
  Session session = one();
  session.run(Command::toggle_what_if);
  session.what_if->settings.world_size = 100;
  session.what_if->finish();
  session.keep_prediction();
  EXPECT_EQ(session.documents.size(), 1u);
  EXPECT_NE(session.what_if, nullptr);
}

// Steps are compared with steps, however many.
TEST(SessionWhatIf, StepsOfBothAreOnOneAxis) {
  Session session = one();
  session.run(Command::toggle_axis);
  session.run(Command::toggle_what_if);
  session.what_if->settings.world_size = 8;
  session.update_what_if();
  EXPECT_EQ(session.axis_mode, AxisMode::steps);
  EXPECT_EQ(session.length(), 8);
}

}  // namespace session_what_if_test
}  // namespace ringscope::viz
