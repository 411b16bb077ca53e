// The story beside a recording, under a person's hands.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "tests/viz/hands.h"
#include "tests/viz/panel_stage.h"
#include "tests/viz_data/told.h"
#include "viz/panels/drawing.h"
#include "viz/panels/timeline/timeline_frame.h"

namespace ringscope::viz {
namespace {

constexpr std::int64_t kUs = 1000;

Person reader(int width = 1600, int height = 900) { return Person(told_session(), width, height); }

// Long and odd: long words, marks without end, characters that no typeface has.
std::vector<StoryStep> odd_story() {
  std::vector<StoryStep> story;
  for (const char* text : {"", "x", "**", "` `", "- \n- \n\n\n", "\x01\x7f",
                           "\xe4\xb8\x96\xe7\x95\x8c \xf0\x9f\x8c\x90"})
    story.push_back({.text = text});
  story.push_back({.text = std::string(kMaxStoryText, 'w')});
  story.push_back({.text = '`' + std::string(kMaxStoryText - 2, 'w') + '`'});
  std::string words;
  while (words.size() + 5 < kMaxStoryText) words += "**b** ";
  story.push_back({.text = words, .step = 1, .rank = 1});
  return story;
}

TEST(StoryPanel, DrawsEverything) {
  Trace trace = told_trace();
  trace.story = odd_story();
  Stage stage(draw_story, documents_of(std::move(trace)), 340, 500);
  for (const auto& [width, height] : {std::pair{340, 500}, {120, 300}, {61, 61}, {20, 20}})
    for (int paragraph = 0; paragraph < 10; ++paragraph) {
      stage.resize(width, height);
      stage.session.tell(paragraph);
      stage.picture();
      const std::string svg = svg_of(*ImGui::GetDrawData(), width, height);
      EXPECT_EQ(svg.find(">Story</text>") != svg.npos, width > 60) << width << " " << paragraph;
      EXPECT_EQ(svg.find("nan"), svg.npos);
    }
}

TEST(StoryPanel, StandsBesideTheTimelineUntilItIsHidden) {
  Person person = reader();
  const float beside = timeline_state().body.x0;
  EXPECT_GT(beside, 300);
  person.type("h");
  EXPECT_LT(timeline_state().body.x0, beside - 200);
  person.type("H");
  EXPECT_EQ(timeline_state().body.x0, beside);
}

// Somewhere down its left column every paragraph can be clicked, in order.
TEST(StoryPanel, AClickGoesToAParagraph) {
  Person person = reader();
  Session& session = person.session();
  std::vector<int> reached;
  for (float y = 110; y < 500; y += 12) {
    session.tell(0);
    person.rest(2);
    person.click({200, y});
    if (reached.empty() || reached.back() != session.telling.at)
      reached.push_back(session.telling.at);
  }
  // Beyond the last one nothing is.
  ASSERT_GT(reached.size(), 4u);
  EXPECT_EQ(std::vector<int>(reached.begin(), reached.begin() + 5),
            (std::vector<int>{0, 1, 2, 3, 4}));
  session.tell(1);
  EXPECT_EQ(session.selected_rank, 1);
}

TEST(StoryPanel, ButtonsGoOnAndBack) {
  Person person = reader();
  Session& session = person.session();
  // At the bottom of the column, above details and playback.
  const float y = 900 - 6 - 46 - 6 - 30 - 6 - 10 - 15;
  const float next = 6 + 1588 * person.viewer.splits.story - 60, back = 80;
  person.click({next, y});
  EXPECT_EQ(session.telling.at, 1);
  person.click({next, y});
  EXPECT_EQ(session.telling.at, 2);
  person.click({back, y});
  EXPECT_EQ(session.telling.at, 1);
  session.tell(4);
  person.click({next, y});
  EXPECT_TRUE(session.playback.playing());
  EXPECT_LT(session.playback.position(), 100 * kUs);  // from the start
  person.click({next, y});
  EXPECT_FALSE(session.playback.playing());
}

// The tab that a paragraph is about comes to the front.
TEST(StoryPanel, OpensTheFigureThatItIsAbout) {
  Person person = reader();
  person.session().tell(4);
  EXPECT_EQ(person.session().panels.front, Figure::softmax);
  person.rest(3);
  EXPECT_FALSE(person.session().panels.front);
}

TEST(RichTextPanel, WrapsAndMeasuresAlike) {
  static float narrow, wide, drawn;
  static std::string text;
  text = "Some words, `some code` and *emphasis*, enough of them for several lines of a column.";
  Stage stage(
      [](const PanelContext& context) {
        const ImDrawList& list = draw_list();
        narrow = rich_height(context, 100, text);
        wide = rich_height(context, 2000, text);
        const int before = list.VtxBuffer.Size;
        drawn = draw_rich(context, {10, 10}, 100, true, text);
        float right = 0;
        for (int i = before; i < list.VtxBuffer.Size; ++i)
          right = std::max(right, list.VtxBuffer[i].pos.x);
        EXPECT_GT(right, 60);
        EXPECT_LE(right, 112);
      },
      documents_of(told_trace()), 400, 400);
  stage.picture();
  EXPECT_EQ(narrow, drawn);
  EXPECT_GT(narrow, 3 * wide);
}

TEST(RichTextPanel, SetsWordsInTheirStyles) {
  Stage stage(
      [](const PanelContext& context) {
        draw_rich(context, {10, 10}, 600, true,
                  "one \t two\nthree **strong**, `x  *\ny` and [a link](b)\n\n- an *item*");
      },
      documents_of(told_trace()), 640, 400);
  stage.picture();
  const std::string svg = svg_of(*ImGui::GetDrawData(), 640, 400);
  for (const char* text : {">three</text>", " font-weight=\"500\"", ">x * y</text>",
                           ">link](b)</text>", ">\u2022</text>", ">item</text>"})
    EXPECT_NE(svg.find(text), svg.npos) << text << "\n" << svg;
}

// The balance panel's pictures stand below its sentences: told to look there, they are in sight.
TEST(StoryPanel, ScrollsToTheFigureThatItIsAbout) {
  const auto top_of = [](Stage& stage) {
    stage.frame();
    return stage.box_of_picture("balance").y0;
  };
  Stage stage(draw_balance, documents_of(told_trace()), 400, 200);
  const float before = top_of(stage);
  stage.session.tell(2);
  EXPECT_LT(top_of(stage), before - 50);
  stage.session.tell(0);
  stage.frame();
  EXPECT_LT(top_of(stage), before - 50);  // and stays where it is
}

TEST(Alone, TheKeyEnlargesThePanelUnderTheMouse) {
  Person person = reader();
  Session& session = person.session();
  const struct {
    float x, y;
    Figure figure;
  } places[] = {{900, 200, Figure::timeline},
                {500, 700, Figure::ring},
                {850, 700, Figure::mask},
                {1400, 700, Figure::balance}};
  for (const auto& place : places) {
    person.point({place.x, place.y});
    person.type("z");
    EXPECT_EQ(session.panels.alone, place.figure) << name_of(place.figure);
    person.type("z");
    EXPECT_FALSE(session.panels.alone);
  }
  // Balance and softmax share a panel: it is the open one that is enlarged.
  session.panels.front = Figure::softmax;
  person.point({1400, 700});
  person.type("z");
  EXPECT_EQ(session.panels.alone, Figure::softmax);
}

HandMade failed_ranks() {
  HandMade made = two_ranks();
  made.recording().info.failure = RunEnd{"rank 1: connection reset\nby peer", 1, 1};
  made.wait(0, 1, 360 * kUs, 900 * kUs, Payload::dkv, Pass::backward);
  return made;
}

TEST(Failure, IsShownAboveAndLeadsToItsPlace) {
  HandMade made = failed_ranks();
  Person person(session_of(made.trace()), 1280, 720);
  const float top = timeline_state().body.y0;
  const double place = 360 * kUs;  // where the wait that did not end begins
  EXPECT_EQ(person.session().playback.position(), place);
  person.session().seek(0);
  person.session().select_rank(-1);
  person.click({600, 6 + 46 + 6 + 15});
  EXPECT_EQ(person.session().selected_rank, 1);
  EXPECT_EQ(person.session().playback.position(), place);
  Trace well = made.trace();
  well.info.failure.reset();
  person.viewer.open(session_of(std::move(well)));
  person.rest(3);
  EXPECT_EQ(timeline_state().body.y0, top - 36);
}

// Ranks that wait for each other have no culprit among them.
TEST(Failure, OfACircleNamesNoRank) {
  HandMade made(2);
  made.recording().info.failure = RunEnd{"ranks wait for each other", 0, 1};
  for (const int rank : {0, 1})
    made.compute(rank, 0, 0, 100 * kUs).wait(rank, 1, 100 * kUs, 900 * kUs);
  Person person(session_of(made.trace()), 1280, 720);
  const std::string svg = svg_of(person.rest(), 1280, 720);
  EXPECT_NE(svg.find(">This run failed in a circle of waits at step 1</text>"), svg.npos);
  EXPECT_EQ(svg.find("failed on rank"), svg.npos);
}

// Of no rank and no step, or of ones that are not there.
TEST(Failure, OfUnknownPlace) {
  for (const RunEnd& end : {RunEnd{"", -1, -1}, RunEnd{std::string(5000, 'x'), 99, 99}}) {
    HandMade made = two_ranks();
    made.recording().info.failure = end;
    Person person(session_of(made.trace()), 640, 400);
    person.click({300, 6 + 46 + 6 + 15});
    EXPECT_EQ(person.session().selected_rank, -1);
  }
}

}  // namespace
}  // namespace ringscope::viz
