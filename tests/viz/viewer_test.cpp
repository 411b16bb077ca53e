// The whole viewer under a person's hands: events go in, and what the session then holds, or what is
// drawn, is asserted.
#include "viz/window/viewer.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/temporary_folder.h"
#include "tests/viz/hands.h"
#include "tests/viz_data/profiled.h"
#include "tests/viz_data/simulated.h"
#include "viz/data/session/notes.h"
#include "viz/data/session/selection.h"
#include "viz/panels/layouts.h"

namespace ringscope::viz {
namespace viewer_test {

Person one() { return Person(session_of(slow_ring_trace())); }

// Heights of the toolbar's and the playback bar's middle in a window of 1600 x 900.
constexpr float kToolbar = 6 + 23, kPlayback = 900 - 6 - 23;

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

  // The third of five buttons in the bar at the bottom, which are 30 pixels wide, with gaps of 3.
  person.click({16 + 2 * 33 + 15, kPlayback});
  EXPECT_TRUE(session.playback.playing());
  for (int i = 0; i < 1000 && person.viewer.animating(); ++i) person.pass(0.2f);
  EXPECT_FALSE(person.viewer.animating());  // at the end nothing moves
  EXPECT_EQ(session.playback.position(), 360 * kUnit);
}

// While nothing moves no frame is drawn, so the first one after a pause comes late.
TEST(Viewer, APauseIsNotPlayed) {
  Person person = one();
  person.pass(40);
  person.press(Key{.character = U' '}, 40);
  EXPECT_TRUE(person.session().playback.playing());
  EXPECT_LT(person.session().playback.position(), 0.05 * person.session().length());
}

// Every rank's wait for step t + 1 begins at 100 t + 60 units.
TEST(Viewer, StepsByButton) {
  Person person = one();
  Session& session = person.session();
  person.click({16 + 2 * 33 + 65 + 15, kPlayback});
  EXPECT_EQ(session.playback.position(), 60 * kUnit);
  person.click({16 + 33 + 15, kPlayback});
  EXPECT_EQ(session.playback.position(), 0);
}

TEST(Viewer, CopiesTheCommandOfTheViewAndTheTable) {
  Person person = one();
  person.session().reveal({0, 1});
  person.type("q");
  EXPECT_EQ(ImGui::GetClipboardText(), view_command(person.session()));
  EXPECT_NE(std::string(ImGui::GetClipboardText()).find("--select 'rank:0"), std::string::npos);
  person.type("$");
  const Trace& trace = person.document().trace;
  EXPECT_EQ(ImGui::GetClipboardText(), csv_of(trace, selection_of(person.session()).slices));
}

// The heads of the table's columns sort it, and a line leads to its slice.
TEST(Viewer, ListsWhatIsFound) {
  Person person = one();
  person.session().set_search("kind:compute");
  person.type("j");
  ASSERT_TRUE(person.session().panels.table);
  person.rest(3);
  person.click_on("by kind");
  const auto first_line = [&] {
    person.session().selected.reset();
    const float width = 440, left = 1600 - 6 - width + 10;
    for (float y = 200; y < 420 && !person.session().selected; y += 6) person.click({left + 20, y});
    return person.session().selected;
  };
  const std::optional<SliceId> earliest = first_line();
  ASSERT_TRUE(earliest);
  EXPECT_EQ(person.document().trace.slice(*earliest).begin_ns, 0);
  EXPECT_EQ(person.document().trace.slice(*earliest).lane, Lane::compute);
  person.type("j");
  EXPECT_FALSE(person.session().panels.table);
}

// The band of a profile's layers stands above the timeline in every window, and nowhere else.
TEST(Viewer, LeadsToTheLayersOfAProfile) {
  const TemporaryFolder folder;
  EXPECT_FALSE(one().sees(">layers<"));
  Person person(session_of(std::move(load_traces(write_profiles(folder)).front())));
  const auto shown = [&] { return person.document().trace.layer; };
  for (const auto& [width, height] : {std::pair(640, 480), {1280, 720}, {2560, 1440}}) {
    person.resize(width, height);
    const float right = static_cast<float>(width) - 20, left = place_of_text("layers").x + 50;
    const float y = place_of_text("layers").y;
    EXPECT_LT(y, Person::timeline().body.y0);
    person.click({left, y});  // the first pass, and the last one
    EXPECT_EQ(shown(), 0u);
    EXPECT_EQ(person.session().step_now(0), 0);
    person.click({right, y});
    EXPECT_EQ(shown(), 2u);
    EXPECT_EQ(person.session().step_now(0), 2);  // where its backward pass begins
    EXPECT_TRUE(person.sees("Layer 0 of iteration 1, backward"));
    person.type("}");
    EXPECT_EQ(shown(), 3u);
    person.type("{{");
    EXPECT_EQ(shown(), 1u);
  }
  person.type("q");
  EXPECT_EQ(ImGui::GetClipboardText(), view_command(person.session()));
  person.resize(1600, 900);
  person.type("j");
  person.click_on("overlap");
  EXPECT_TRUE(person.sees(" of it"));
  const auto copies = [&](bool by_layer) {
    person.click_on("Copy sums");
    EXPECT_EQ(ImGui::GetClipboardText(), csv_of(overlaps_of(person.document(), by_layer)));
  };
  copies(false);
  person.click_on("by layer");
  copies(true);
  person.type("}");  // the sums are those of the layer that is shown
  person.click_on("overlap");
  copies(false);
}

// Esc closes an open menu first, and nothing behind it.
TEST(Viewer, EscapeClosesAMenuFirst) {
  Person person(session_of(slow_ring_trace(), foreign_trace()));
  person.session().measure = Measure{0, 10};
  person.click({200, kToolbar});
  ASSERT_TRUE(ImGui::IsPopupOpen("", ImGuiPopupFlags_AnyPopup));
  person.press(SpecialKey::escape);
  person.rest(2);
  EXPECT_FALSE(ImGui::IsPopupOpen("", ImGuiPopupFlags_AnyPopup));
  EXPECT_TRUE(person.session().measure);
  person.press(SpecialKey::escape);
  EXPECT_FALSE(person.session().measure);
}

TEST(Viewer, ScrubsAlongTheBar) {
  Person person = one();
  Session& session = person.session();
  person.type(" ");
  person.drag({600, kPlayback}, {800, kPlayback});
  EXPECT_FALSE(session.playback.playing());
  EXPECT_GT(session.playback.position(), 0.25 * 360 * kUnit);
  EXPECT_LT(session.playback.position(), 0.75 * 360 * kUnit);
  person.drag({800, kPlayback}, {1599, kPlayback});
  EXPECT_EQ(session.playback.position(), 360 * kUnit);
  person.drag({800, kPlayback}, {0, kPlayback});
  EXPECT_EQ(session.playback.position(), 0);
}

// Every key that is typed behind `/`, in one frame, is text until Enter; those behind it are keys
// again.
TEST(Viewer, SearchTakesWhatIsTypedAndNothingElseDoes) {
  Person person = one();
  Session& session = person.session();
  person.type("/kind:wait");
  EXPECT_TRUE(session.sought.open);
  EXPECT_EQ(session.sought.text, "kind:wait");
  EXPECT_EQ(session.sought.found.total, 12u);  // 4 ranks wait 3 times
  EXPECT_EQ(session.look.theme, Theme::dark);
  EXPECT_FALSE(session.playback.playing());
  person.press(SpecialKey::backspace);
  EXPECT_EQ(session.sought.text, "kind:wai");
  person.type("t");
  EXPECT_EQ(session.sought.text, "kind:wait");

  person.press(SpecialKey::enter);
  ASSERT_TRUE(session.selected.has_value());
  const SliceId first = *session.selected;
  EXPECT_EQ(session.document().trace.slice(first).lane, Lane::wait);
  person.type("n");
  EXPECT_EQ(session.sought.text, "kind:wait");
  EXPECT_NE(session.selected, first);
  person.type("p");
  EXPECT_EQ(session.selected, first);
  person.press(SpecialKey::escape);
  EXPECT_FALSE(session.sought.open);
  EXPECT_EQ(session.sought.text, "");
  person.type("t");
  EXPECT_EQ(session.look.theme, Theme::light);
}

TEST(Viewer, SwitchesByKey) {
  Person person = one();
  const auto typed = [&] {
    person.type("xcltko");
    const Session& s = person.session();
    return std::tuple(s.axis_mode, s.look.color_by, s.look.flows, s.look.theme,
                      s.look.critical_path, s.look.mask_order);
  };
  EXPECT_EQ(typed(), std::tuple(AxisMode::steps, ColorBy::kind, false, Theme::light, true,
                                MaskOrder::local));
  EXPECT_EQ(typed(), std::tuple(AxisMode::time, ColorBy::owner, true, Theme::dark, false,
                                MaskOrder::global));
}

// The theme's button is the last but one, the help's the last.
TEST(Viewer, SwitchesByButton) {
  Person person = one();
  person.click({1600 - 6 - 10 - 5, kToolbar});
  EXPECT_TRUE(person.session().panels.help);
  person.press(SpecialKey::escape);
  person.click({1600 - 6 - 10 - 60, kToolbar});
  EXPECT_EQ(person.session().look.theme, Theme::light);
}

// A note is typed where the playhead stands, found by its flag, changed, and deleted.
TEST(Viewer, NotesAreWrittenFoundAndDeleted) {
  Person person = one();
  Session& session = person.session();
  const auto notes = [&] { return session.document().notes; };
  session.select_rank(2);
  session.seek(100 * kUnit);
  person.type("!");
  EXPECT_TRUE(drawn("notes"));
  person.type("t: why?");  // no commands
  EXPECT_EQ(session.look.theme, Theme::dark);
  person.press(SpecialKey::enter);
  EXPECT_FALSE(session.writing);
  EXPECT_EQ(notes(), (std::vector<Note>{{2, 100 * kUnit, "t: why?"}}));
  session.seek(200 * kUnit);
  session.select_rank(1);
  person.type("!x");
  person.press(SpecialKey::escape);  // leaves no note
  person.type("!later");
  person.press(SpecialKey::enter);
  ASSERT_EQ(notes().size(), 2u);

  session.seek(0);
  const Box ruler = person.timeline().ruler;
  const ImVec2 flag{person.x_of(100 * kUnit) + 3, ruler.y1 - 5};
  person.point(flag);
  person.rest(3);
  EXPECT_TRUE(person.sees("t: why?"));
  person.click(flag);
  EXPECT_EQ(session.selected_rank, 2);
  EXPECT_EQ(session.playback.position(), 100 * kUnit);
  person.click({person.x_of(150 * kUnit), ruler.y1 - 5});  // beside the flags is the ruler
  EXPECT_NEAR(session.playback.position(), 150 * kUnit, person.pixel());
  person.type(")");
  EXPECT_EQ(session.selected_rank, 1);
  person.type("(");
  EXPECT_EQ(session.selected_rank, 2);

  person.type("!");
  person.press(SpecialKey::end);
  person.type(" now");
  person.press(SpecialKey::enter);
  EXPECT_EQ(notes()[0].text, "t: why? now");
  person.type("!");
  person.click_on("rank 1 \u00b7 200");  // in the list
  EXPECT_EQ(session.playback.position(), 200 * kUnit);
  ASSERT_TRUE(session.writing);
  EXPECT_EQ(session.writing->text, "later");
  person.type("((");  // the keys are the timeline's until the text is clicked
  EXPECT_EQ(session.playback.position(), 200 * kUnit);
  person.type("(");
  EXPECT_EQ(session.playback.position(), 100 * kUnit);
  EXPECT_EQ(session.writing, notes()[0]);
  person.press(SpecialKey::right);
  EXPECT_GT(session.playback.position(), 100 * kUnit);
  EXPECT_EQ(session.writing, notes()[0]);
  person.type(")!");
  person.press(SpecialKey::end);
  person.type(" too");
  EXPECT_EQ(session.writing->text, "later too");
  person.click_on("Delete");
  EXPECT_EQ(notes(), (std::vector<Note>{{2, 100 * kUnit, "t: why? now"}}));
  EXPECT_FALSE(session.writing);
}

// The flags of several recordings stand on their own strips.
TEST(Viewer, NotesBelongToTheirRecording) {
  Person person(session_of(slow_ring_trace(), slow_ring_trace()));
  ASSERT_TRUE(person.session().comparing);
  const Image bare = person.picture();
  const auto columns_changed = [&](std::size_t document) {
    Session& session = person.session();
    session.documents[document].notes = {{1, 150 * kUnit, "here"}};
    const Image noted = person.picture();
    session.documents[document].notes.clear();
    std::set<int> columns;
    for (int y = 0; y < bare.height; ++y)
      for (int x = 0; x < bare.width; ++x)
        if (noted.at(x, y) != bare.at(x, y)) columns.insert(x);
    return columns;
  };
  const std::set<int> first = columns_changed(0), second = columns_changed(1);
  ASSERT_FALSE(first.empty() || second.empty());
  EXPECT_LT(*first.rbegin(), *second.begin());
}

TEST(Viewer, ControlSSavesNotes) {
  TemporaryFolder folder;
  folder.write("ring.json", "{}");
  Trace trace = slow_ring_trace();
  trace.path = folder.path("ring.json");
  Person person(session_of(std::move(trace)));
  person.type("!a");
  person.press(SpecialKey::enter);
  EXPECT_FALSE(std::filesystem::exists(folder.path("ring.notes.json")));
  person.press(Key{.character = U'S' - U'@'}, 1.0f / 60);
  person.rest(2);
  EXPECT_TRUE(person.sees("Written: "));
  EXPECT_EQ(saved_notes(folder.path("ring.json")), person.document().notes);
}

TEST(Viewer, QuestionMarkListsEveryKey) {
  Person person = one();
  EXPECT_FALSE(drawn("help"));
  person.type("?");
  person.rest(2);
  EXPECT_TRUE(person.session().panels.help);
  EXPECT_TRUE(drawn("help"));
  person.press(SpecialKey::escape);
  person.rest(2);
  EXPECT_FALSE(drawn("help"));
  person.type("?");
  person.click({20, 400});  // beside it
  EXPECT_FALSE(person.session().panels.help);
}

TEST(Viewer, BarsBetweenPanelsCanBeDragged) {
  Person person = one();
  const Splits before = person.viewer.splits;
  const float room = 900 - 2 * 58 - 36;  // between the toolbar and the details
  const float y = 58 + std::floor(room * before.timeline) + 3;
  person.drag({800, y}, {800, y + 100});
  EXPECT_NEAR(person.viewer.splits.timeline, before.timeline + 100 / room, 0.01);
  EXPECT_EQ(person.viewer.splits.ring, before.ring);
  person.drag({800, y + 100}, {800, 5000});
  EXPECT_LT(person.viewer.splits.timeline, 0.95);  // panels keep some room
}

// ---
// What is drawn when: messages over everything, loading, traces and windows of any size.

// For every draw list sums over its vertices, which are finite only where all of them are.
std::vector<ImVec2> sums_of_vertices() {
  std::vector<ImVec2> sums;
  const ImDrawData& data = *ImGui::GetDrawData();
  for (int i = 0; i < data.CmdListsCount; ++i) {
    ImVec2 sum(0, 0);
    for (const ImDrawVert& vertex : data.CmdLists[i]->VtxBuffer) {
      sum.x += std::abs(vertex.pos.x);
      sum.y += std::abs(vertex.pos.y);
    }
    sums.push_back(sum);
  }
  return sums;
}

TEST(Viewer, AnErrorCoversEverythingUntilItIsClosed) {
  Person person = one();
  person.viewer.show_error("byte 17: this is no number");
  person.rest(3);
  EXPECT_TRUE(drawn("error"));
  person.type("t");
  EXPECT_EQ(person.session().look.theme, Theme::dark);
  EXPECT_TRUE(person.viewer.showing_error());
  person.press(SpecialKey::escape);
  EXPECT_FALSE(person.viewer.showing_error());
  person.type("t");
  EXPECT_EQ(person.session().look.theme, Theme::light);
}

TEST(Viewer, ANoticeFades) {
  Person person = one();
  person.viewer.show_notice("written");
  person.rest(2);
  EXPECT_TRUE(drawn("notice"));
  EXPECT_TRUE(person.viewer.animating());
  for (int i = 0; i < 30; ++i) person.pass(0.2f);
  EXPECT_FALSE(drawn("notice"));
  EXPECT_FALSE(person.viewer.animating());
}

TEST(Viewer, LoadingIsShownUntilThereIsSomethingToShow) {
  Viewer viewer;
  LoadProgress progress;
  progress.bytes_total = 1000;
  progress.bytes_done = 250;
  viewer.show_loading(&progress);
  FrameInput input;
  input.width = 600;
  input.height = 400;
  input.keys = {{.character = U' '}};
  viewer.frame(input);
  EXPECT_TRUE(viewer.animating());
  EXPECT_FALSE(viewer.is_open());
  viewer.show_loading(nullptr);
  viewer.open(session_of(ring_trace(4)));
  input.keys.clear();
  viewer.frame(input);
  EXPECT_TRUE(viewer.is_open());
  EXPECT_FALSE(viewer.session().playback.playing());
}

Example example_of(const std::string& title, const Recording& recording, std::size_t count = 1) {
  return {title, title, "", [recording, count] { return std::vector(count, recording); }};
}

TEST(Viewer, BeginsWithExamplesOrARecentRecording) {
  const Recording recording = simulated_recording(simulated_scenario(4));
  using Files = std::vector<std::string>;
  Person person({{"/runs/ring.json"}, {"/runs/rank0.json", "/runs/rank1.json"}},
                {example_of("One", recording), example_of("Two", recording, 2)});
  EXPECT_FALSE(person.viewer.animating());
  person.click_on("Ringscope");
  EXPECT_TRUE(person.viewer.starting());
  person.click_on("ring.json");
  EXPECT_EQ(person.viewer.take_chosen(), Files{"/runs/ring.json"});
  EXPECT_EQ(person.viewer.take_chosen(), Files());
  person.click_on("rank0.json and 1 more");
  EXPECT_EQ(person.viewer.take_chosen(), (Files{"/runs/rank0.json", "/runs/rank1.json"}));
  person.click_on("Two");
  ASSERT_TRUE(person.viewer.is_open());
  EXPECT_EQ(person.viewer.session().documents.size(), 2u);
  EXPECT_TRUE(person.viewer.session().comparing);
}

// Nobody draws another frame until something happens, so the last example must be there by then.
TEST(Viewer, RestsWhenAllExamplesAreDrawn) {
  const Recording recording = simulated_recording(simulated_scenario(4));
  Viewer viewer;
  viewer.show_start({}, {example_of("One", recording), example_of("Two", recording)});
  FrameInput input;
  input.width = 1280, input.height = 720;
  do viewer.frame(input);
  while (viewer.animating());
  const std::string resting = svg_of(*ImGui::GetDrawData(), 1, 1);
  viewer.frame(input);
  EXPECT_EQ(svg_of(*ImGui::GetDrawData(), 1, 1), resting);
}

// The ring that is opened is the one that the sliders say.
TEST(Viewer, BeginsWithARingThatSlidersSimulate) {
  Person person({}, {});
  person.click_on("contiguous");  // left of the middle of a slider with four places
  EXPECT_TRUE(person.sees("--partition striped "));
  person.click_on("Open it");
  ASSERT_TRUE(person.viewer.is_open());
  EXPECT_EQ(person.viewer.session().document().trace.info.partition, "striped");
}

// A click on a folder lists it, and one on a file chooses it, as its typed name does.
TEST(Viewer, OpensAFileFromAList) {
  const std::filesystem::path folder =
      testing::TempDir() + "ringscope_files_" + std::to_string(::getpid());
  std::filesystem::create_directories(folder / "more");
  for (const char* name : {"b.json", "more/a.json", "more/notes.txt", "more/.hidden.json"})
    std::ofstream(folder / name) << "[]";
  const auto chosen = [&](auto&& choose) {
    Person person({{(folder / "b.json").string()}}, {});
    person.click_on("Open\u2026");
    EXPECT_TRUE(drawn("files"));
    choose(person);
    EXPECT_FALSE(drawn("files"));
    const std::vector<std::string> files = person.viewer.take_chosen();
    return files.empty() ? "" : files.front();
  };
  EXPECT_EQ(chosen([](Person& person) {
              person.click_on("more/");
              EXPECT_TRUE(person.sees("a.json") && person.sees("../"));
              EXPECT_FALSE(person.sees("notes") || person.sees("hidden"));
              person.click_on("a.json");
            }),
            folder / "more/a.json");
  EXPECT_EQ(chosen([](Person& person) {
              person.type("b.json");
              person.press(SpecialKey::enter);
            }),
            folder / "b.json");
  EXPECT_EQ(chosen([](Person& person) { person.press(SpecialKey::escape); }), "");
  EXPECT_EQ(chosen([](Person& person) { person.click_on("Cancel"); }), "");
  std::filesystem::remove_all(folder);
}

// What a newcomer clicks until they see what they look for.
TEST(Viewer, TasksOfANewcomerTakeThreeClicksAtMost) {
  Scenario slow = simulated_scenario(64, PartitionKind::zigzag);
  slow.stragglers = {{37, 0.5}};
  const std::vector<Example> examples = {
      example_of("Slow", simulated_recording(slow)),
      example_of("Zigzag", simulated_recording(simulated_scenario(4, PartitionKind::zigzag)))};
  const struct {
    std::vector<std::string> clicks;
    std::string seen;
  } tasks[] = {{{"Slow"}, "Rank 37 is slow"},  // the slow rank of 64
               // the tile of rank 2 at step 3, when it holds block 3
               {{"Zigzag", "KV 3 \u00b7 step 3"}, "rank 2 \u00b7 step 3"}};
  for (const auto& [clicks, seen] : tasks) {
    EXPECT_LE(clicks.size(), 3u);
    Person person({}, examples);
    EXPECT_FALSE(person.sees(seen));
    for (const std::string& click : clicks) person.click_on(click);
    EXPECT_TRUE(person.sees(seen)) << seen;
  }
  {  // maximum and sum of a row, step by step, and the factor between them
    Person person(session_of(ring_trace(4)));
    person.click_on("Softmax");
    for (const char* head : {"old m", "row_max", "factor", "row_sum"})
      EXPECT_TRUE(person.sees(head)) << head;
  }
  Person person = one();  // a bare picture
  EXPECT_EQ(person.session().wishes.picture, "");
  person.type("0I");
  EXPECT_TRUE(person.session().panels.bare);
  EXPECT_EQ(person.session().wishes.picture, ".svg");
  person.type("0i");
  EXPECT_FALSE(person.session().panels.bare);
  EXPECT_EQ(person.session().wishes.picture, ".png");
}

// Nothing can be clicked in a picture, so a panel alone has no tabs, and the timeline says what its
// colours mean.
TEST(Viewer, ABarePanelHasNoTabsButALegend) {
  Person person = one();
  const auto shows = [&](Figure figure, const char* text) {
    person.session().show_alone(figure);
    person.rest(3);
    return person.sees(text);
  };
  for (const bool bare : {false, true}) {
    person.session().panels.bare = bare;
    EXPECT_EQ(shows(Figure::mask, ">local order<"), !bare);
    EXPECT_TRUE(shows(Figure::mask, ">queries<"));
    EXPECT_EQ(shows(Figure::softmax, ">Balance<"), !bare);
    EXPECT_TRUE(shows(Figure::softmax, ">part of the row<"));
    EXPECT_EQ(shows(Figure::balance, ">FLOPs<"), !bare);
    // Rows too low for the names of lanes leave the legend alone to say what is white.
    person.resize(900, 300);
    EXPECT_EQ(shows(Figure::timeline, ">wait<"), bare);
    person.resize(1600, 900);
  }
}

// What a cause costs the run and what ranks idle for it are two quantities, and each is named.
TEST(Viewer, CausesSayOfWhatTheyAreAShare) {
  Scenario scenario = simulated_scenario(4, PartitionKind::zigzag);
  scenario.stragglers = {{2, 0.5}};
  Person person(session_of(simulated_trace(scenario)));
  EXPECT_TRUE(person.sees("% of the wall time)"));
  EXPECT_TRUE(person.sees(">idle: slow rank "));
}

// The ring and the transport speak of one step, and say when nothing is left to attend.
TEST(Viewer, PanelsSayTogetherThatNothingIsLeftToAttend) {
  Scenario scenario = simulated_scenario(8);
  scenario.job.hops = Hops::needed;
  Session session = session_of(simulated_trace(scenario));
  const TraceEvent last = session.document().trace.slices_of(1, Lane::compute).back();
  Person person(std::move(session));
  person.session().select_rank(1);
  person.session().seek(static_cast<double>(last.begin_ns + last.end_ns) / 2);
  person.rest();
  EXPECT_TRUE(person.sees("rank 1: step 1"));
  EXPECT_TRUE(person.sees(">rank 1 holds KV (1 - 1) mod 8 = 0<"));
  EXPECT_FALSE(person.sees(kNothingLeft));
  person.session().seek(static_cast<double>(last.end_ns + 1));
  person.rest();
  EXPECT_TRUE(person.sees("rank 1: step 1"));
  EXPECT_TRUE(person.sees(">rank 1 has nothing left to attend<"));
}

// Blocks that nobody attends do not travel, so the formula holds for the ranks that have work left.
TEST(Viewer, TheFormulaSaysForWhichRanksItHolds) {
  Scenario scenario = simulated_scenario(8);
  scenario.job.hops = Hops::needed;
  Person person(session_of(simulated_trace(scenario)));
  person.session().seek(person.session().length());
  person.rest();
  EXPECT_TRUE(person.sees(">all ranks have nothing left to attend<"));
  person.session().set_axis_mode(AxisMode::steps);
  person.session().seek(3.5);
  person.rest();
  EXPECT_TRUE(person.sees(">rank r with work left holds KV (r - 3) mod 8<"));
  person.session().seek(0.5);
  person.rest();
  EXPECT_TRUE(person.sees(">rank r holds KV r<"));
}

// What is dim, and the small square, are explained under the mouse.
TEST(MaskPanel, ExplainsWhatIsDimAndTheRecordedTile) {
  Stage stage(draw_mask, documents_of(ring_trace(4)), 600, 400);
  const Box box = mask_layout(stage.box()).picture;
  stage.session.look.mask_order = MaskOrder::local;
  stage.session.documents[0].trace.tile.reset();
  const auto says = [&](const std::string& words) {
    stage.hover(box.at(0.1, 0.9));  // rank 3 and KV 0
    return svg_of(*ImGui::GetDrawData(), 600, 400).find(words) != std::string::npos;
  };
  const std::string dim = "because rank 2 is selected", square = "shows the numbers of this tile";
  EXPECT_FALSE(says(dim));
  stage.session.select_rank(2);
  EXPECT_TRUE(says(dim));
  stage.session.select_rank(3);
  EXPECT_FALSE(says(dim));
  EXPECT_FALSE(says(square));
  stage.session.documents[0].trace.tile = RecordedTile{.rank = 3, .queries = {60}, .keys = {3}};
  EXPECT_TRUE(says(square));
}

// The picture shows what the scheme sends.
TEST(Viewer, TheRingIsThatOfTheScheme) {
  for (const auto& [scheme, seen] : std::map<std::string, std::vector<std::string>>{
           {"ring", {">rank r holds KV (r - 1) mod 4<", ">Q 3<", ">KV 3<"}},
           {"pass-q", {">rank r holds Q (r - 1) mod 4<", ">KV 3<", ">Q 3<"}},
           {"allgather", {">rank r attends KV (r - 1) mod 4<", ">Q 3<", ">KV 3<"}},
           {"ulysses", {">each rank attends its heads of all rows<", ">Q 3<", ">heads<"}}}) {
    Scenario scenario = simulated_scenario(4, PartitionKind::zigzag);
    set_scheme(scenario.job, scheme);
    Session session = session_of(simulated_trace(scenario));
    session.seek_step(0);
    session.seek(scheme == "ulysses" ? 0.999 : 1.999);  // when all of the step is attended
    Person person(std::move(session));
    for (const std::string& text : seen) EXPECT_TRUE(person.sees(text)) << scheme << " " << text;
  }
}

// As on a telephone: panels stand below each other, ring and mask behind tabs.
TEST(Viewer, ANarrowWindowStacksItsPanels) {
  Person person(session_of(ring_trace(4)), 390, 844);
  EXPECT_GT(box_of(person.viewer.textures, "timeline").width(), 250);
  person.click_on("Mask");
  EXPECT_GT(box_of(person.viewer.textures, "mask").width(), 250);
}

// As when a window becomes larger: what is shown stays, with larger letters.
TEST(Viewer, AnotherScaleKeepsTheSession) {
  Person person = one();
  person.type("t");
  EXPECT_FALSE(person.viewer.set_scale(1));
  EXPECT_TRUE(person.viewer.set_scale(2));
  const std::string svg = svg_of(person.rest(4), 3200, 1800);
  EXPECT_NE(svg.find("viewBox=\"0 0 1600 900\""), svg.npos);
  EXPECT_TRUE(person.sees("Critical path"));
  EXPECT_EQ(person.session().look.theme, Theme::light);
}

TEST(Viewer, ThereIsOneAtATime) {
  Person person = one();
  EXPECT_THROW(Viewer(), std::logic_error);
}

// Whatever is opened, at any size of the window, by any key: every vertex stays finite.
TEST(Viewer, DrawsEveryTraceAtEverySize) {
  for (auto& [name, trace] : stage_traces()) {
    Person person(session_of(std::move(trace)), 320, 240);
    for (const auto& [width, height] : {std::pair{320, 240}, {1600, 900}, {1, 1}, {5000, 100}}) {
      person.resize(width, height);
      for (const KeyBinding& binding : key_bindings()) {
        person.press(binding.key);
        if (person.session().writing) person.press(SpecialKey::escape);
        for (const ImVec2 sum : sums_of_vertices())
          ASSERT_TRUE(std::isfinite(sum.x) && std::isfinite(sum.y))
              << name << " at " << width << "x" << height;
      }
      if (person.session().playback.playing()) person.type(" ");
      if (person.session().sought.open) person.press(SpecialKey::escape);
      if (width < 300) continue;
      EXPECT_GT(person.rest().TotalIdxCount, 300) << name << " at " << width << "x" << height;
    }
  }
}

// ---
// Events of a window on their way to frames.

InputEvent button(int number, bool pressed) {
  return {.kind = InputEvent::button, .button_number = number, .pressed = pressed};
}
InputEvent move(float x, float y) { return {.kind = InputEvent::move, .x = x, .y = y}; }
InputEvent scroll(float y) { return {.kind = InputEvent::scroll, .y = y}; }
InputEvent key(char32_t character) {
  return {.kind = InputEvent::key, .key_pressed = {.character = character}};
}

InputQueue queue_of(const std::vector<InputEvent>& events) {
  InputQueue queue;
  for (const InputEvent& event : events) queue.push(event);
  return queue;
}

TEST(InputQueue, AClickWithinAFrameTakesTwo) {
  InputQueue queue = queue_of({move(5, 6), button(0, true), button(0, false)});
  const FrameInput first = queue.take();
  EXPECT_TRUE(first.left);
  EXPECT_EQ(first.mouse_x, 5);
  EXPECT_EQ(first.mouse_y, 6);
  EXPECT_FALSE(queue.empty());
  EXPECT_FALSE(queue.take().left);
  EXPECT_TRUE(queue.empty());
}

TEST(InputQueue, AButtonIsPressedWhereTheMouseWas) {
  InputQueue queue = queue_of({move(1, 1), button(1, true), move(9, 9), button(1, false)});
  const FrameInput pressed = queue.take();
  EXPECT_TRUE(pressed.right);
  EXPECT_EQ(pressed.mouse_x, 1);
  EXPECT_TRUE(queue.take().right);
  const FrameInput released = queue.take();
  EXPECT_FALSE(released.right);
  EXPECT_EQ(released.mouse_x, 9);
  EXPECT_TRUE(queue.empty());
}

TEST(InputQueue, ADragEndsAfterItsLastMovement) {
  InputQueue queue =
      queue_of({move(1, 1), button(0, true), move(5, 1), move(9, 1), button(0, false)});
  EXPECT_TRUE(queue.take().left);
  const FrameInput dragged = queue.take();
  EXPECT_TRUE(dragged.left);
  EXPECT_EQ(dragged.mouse_x, 9);
  const FrameInput released = queue.take();
  EXPECT_FALSE(released.left);
  EXPECT_EQ(released.mouse_x, 9);
  EXPECT_TRUE(queue.empty());
}

TEST(InputQueue, WhatLastsIsKeptAndWhatHappenedIsNot) {
  InputQueue queue =
      queue_of({move(3, 4), scroll(1), scroll(2), key(U'a'), key(U'a'), button(2, true)});
  const FrameInput first = queue.take();
  EXPECT_EQ(first.wheel, 3);
  EXPECT_EQ(first.keys, (std::vector<Key>{{.character = U'a'}, {.character = U'a'}}));
  const FrameInput second = queue.take();
  EXPECT_EQ(second.wheel, 0);
  EXPECT_TRUE(second.keys.empty());
  EXPECT_TRUE(second.middle);
  EXPECT_EQ(second.mouse_x, 3);
}

}  // namespace viewer_test
}  // namespace ringscope::viz
