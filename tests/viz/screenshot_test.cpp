// `ringscope view --screenshot` through the real program: the same picture every time, no display,
// nothing left behind; and what it refuses.
#include <gtest/gtest.h>

#ifdef RINGSCOPE_HAS_WEBP
#include <webp/demux.h>
#endif

#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <memory>
#include <random>
#include <regex>
#include <string>
#include <vector>

#include "core/tools/foreign/trace_files.h"
#include "core/tools/sim/recording.h"
#include "core/trace/chrome_trace.h"
#include "tests/app/call_table.h"
#include "tests/viz/read_gif.h"
#include "tests/viz/read_png.h"
#include "viz/data/session/notes.h"
#include "viz/data/session/selection.h"
#include "viz/data/session/simulator.h"
#include "viz/window/open_session.h"
#include "viz/window/pictures.h"
#include "viz/window/software_renderer.h"
#include "viz/window/viewer.h"

namespace ringscope {
namespace {

class ScreenshotTest : public RefusingProgramTest {
 protected:
  // A recording of three ranks.
  void record(const std::string& name, const std::string& partition = "zigzag",
              const std::string& ranks = "3") {
    const ProgramResult result =
        run({"run", "--random", "--seqlen", "48", "--heads", "1", "--head-dim", "8", "--world-size",
             ranks, "--mask", "causal", "--partition", partition, "--trace", name});
    ASSERT_EQ(result.status, 0) << result.err;
  }
  // Where there is no display, and preferences would lie in the test's folder.
  ProgramResult view(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), "view");
    return run_after("unset DISPLAY WAYLAND_DISPLAY; export SOURCE_DATE_EPOCH=0 XDG_CONFIG_HOME=" +
                         path("config"),
                     arguments);
  }
  // A small screenshot of `trace`, with these arguments besides.
  std::vector<viz::Color> picture(std::vector<std::string> arguments,
                                  const std::string& trace = "a.json") const {
    arguments.insert(arguments.begin(), {trace, "--screenshot", "o.png", "--size", "640x400"});
    view_well(arguments);
    const viz::Image image = viz::read_png(path("o.png"));
    EXPECT_EQ(image.width, 640);
    EXPECT_EQ(image.height, 400);
    return image.pixels;
  }
  // A picture without what it says about its origin.
  auto pixels_of(const std::string& picture) const { return viz::read_png(path(picture)).pixels; }
  void view_well(const std::vector<std::string>& arguments) const {
    const ProgramResult result = view(arguments);
    EXPECT_EQ(result.status, 0);
    EXPECT_EQ(result.err, "");
    EXPECT_EQ(result.out, "");
  }
};

TEST_F(ScreenshotTest, IsTheSameEveryTimeAndLeavesNothingElse) {
  record("a.json");
  record("b.json", "contiguous");
  const std::set<std::string> before = files();
  for (const std::vector<std::string>& traces :
       {std::vector<std::string>{"a.json"}, {"a.json", "b.json"}}) {
    std::vector<std::string> arguments = traces;
    arguments.insert(arguments.end(), {"--screenshot", "1.png"});
    view_well(arguments);
    const std::string first = contents_of(path("1.png"));
    view_well(arguments);
    EXPECT_TRUE(contents_of(path("1.png")) == first);
    const viz::Image picture = viz::read_png(path("1.png"));
    EXPECT_EQ(picture.width, 1600);
    EXPECT_EQ(picture.height, 900);
    const std::set<viz::Color> colors(picture.pixels.begin(), picture.pixels.end());
    EXPECT_GT(colors.size(), 100u);
  }
  std::set<std::string> after = before;
  after.insert("1.png");
  EXPECT_EQ(files(), after);
}

// Every flag that reaches a view changes the picture, and two ways to one view give one picture.
TEST_F(ScreenshotTest, ReachesAView) {
  record("a.json");
  const auto plain = picture({}), at_1 = picture({"--at", "1"});
  const auto selected = picture({"--select", "rank:1,kind:compute"});
  EXPECT_EQ(picture({"--theme", "dark"}), plain);
  EXPECT_NE(picture({"--theme", "light"}), plain);
  EXPECT_EQ(at_1, picture({"--step", "1"}));
  EXPECT_NE(at_1, plain);
  EXPECT_NE(selected, plain);
  EXPECT_NE(picture({"--select", "rank:1,kind:compute", "--zoom"}), selected);
  EXPECT_NE(picture({"--axis", "time"}), picture({"--axis", "steps"}));
  EXPECT_NE(picture({"--axis", "time", "--at", "1"}), picture({"--axis", "steps", "--at", "1"}));
}

// A copied view is the same to the last bit, however close the zoom is.
TEST_F(ScreenshotTest, ACopiedViewIsTheSameToTheLastBit) {
  record("a.json");
  for (const char* axis : {"time", "steps"}) {
    viz::ViewOptions options;
    options.axis = axis;
    viz::Session session = viz::open_session({path("a.json")}, options, nullptr);
    std::mt19937_64 random(20261127);
    std::uniform_real_distribution<double> share(0, 1);
    for (int i = 0; i < 300; ++i) {
      const double length = session.length();
      session.view = viz::zoomed(viz::fitted(length), share(random) * length, 1 / share(random),
                                 length, session.axis_mode);
      if (i % 3 == 0) session.view = viz::panned(session.view, length, length);
      session.seek(share(random) * length);
      std::map<std::string, std::string> copied;
      for (const auto& [flag, value] : viz::view_of(session, {})) copied[flag] = value;
      options.range = copied.at("range");
      const viz::Session opened = viz::open_session({path("a.json")}, options, nullptr);
      ASSERT_EQ(opened.view, session.view) << *options.range;
      EXPECT_EQ(viz::place_on_axis(session, copied.at("at")), session.playback.position());
    }
  }
}

// The command that the viewer copies gives the picture that it was copied from.
TEST_F(ScreenshotTest, TheCommandOfAViewShowsItAgain) {
  record("a.json");
  viz::Viewer viewer;
  viewer.open(viz::open_session({path("a.json")}, {}, nullptr));
  viz::Session& session = viewer.session();
  viz::FrameInput input;
  input.width = 640;
  input.height = 400;
  const auto expect_same = [&] {
    std::string command = viz::view_command(session);
    command.replace(0, command.find(" view ") + 6, "");
    std::vector<std::string> words{"--screenshot", "o.png", "--size", "640x400"};
    // The only quotes are those around the words of --select.
    for (std::size_t at = 0; at < command.size();) {
      const bool quoted = command[at] == '\'';
      const std::size_t end = std::min(command.find(quoted ? '\'' : ' ', at + 1), command.size());
      words.push_back(command.substr(at + quoted, end - at - quoted));
      at = end + 1 + quoted;
    }
    view_well(words);
    EXPECT_EQ(pixels_of("o.png"), picture_of(viewer, input, 640, 400).pixels) << command;
  };
  expect_same();
  // Some ranks never wait, but all compute.
  const Trace& trace = session.document().trace;
  session.reveal({trace.row_of(1, Lane::compute), 0});
  viz::commands::zoom_in(session);
  expect_same();
  session.set_axis_mode(viz::AxisMode::steps);
  session.look.theme = viz::Theme::light;
  session.seek(1.25);
  expect_same();
  session.show_alone(Figure::timeline);
  viz::commands::zoom_in(session);
  session.documents[0].notes = {{1, session.document().trace.wall_ns() / 2, "a\nb: c"}};
  session.select(std::nullopt);
  expect_same();
}

// Notes are in pictures, from a flag as from the file beside the recording, of which a damaged one keeps
// nothing from being shown.
TEST_F(ScreenshotTest, ShowsNotes) {
  record("a.json");
  const auto plain = picture({}), flagged = picture({"--note", "1@1us:late: why?"});
  EXPECT_NE(flagged, plain);
  EXPECT_NE(picture({"--note", "1@1us:late", "--note", "2@1us:later"}), flagged);
  write_text("a.notes.json", viz::notes_json({{1, 1000, "late: why?"}}));
  EXPECT_EQ(picture({}), flagged);
  EXPECT_EQ(picture({"--note", "1@1us:late: why?"}), flagged);
  view_well({"a.json", "--panel", "timeline", "--bare", "--screenshot", "o.svg"});
  EXPECT_NE(contents_of(path("o.svg")).find("late: why?"), std::string::npos);

  for (const auto& [notes, part] :
       {std::pair(std::string("damaged"), "a.notes.json: no JSON at byte 0"),
        {viz::notes_json({{3, 1, "a rank"}, {0, INT64_C(1) << 60, "a time"}}),
         "a.notes.json: left out, because outside of the run: 2 notes"}}) {
    write_text("a.notes.json", notes);
    const ProgramResult result = view({"a.json", "--screenshot", "o.png", "--size", "640x400"});
    EXPECT_EQ(result.status, 0);
    expect_one_line(result);
    EXPECT_NE(result.err.find(part), std::string::npos) << result.err;
    EXPECT_EQ(contents_of(path("a.notes.json")), notes);
  }
}

// The copied command names the files of ranks that were given, and their folder only where all ranks' are.
TEST_F(ScreenshotTest, TheCommandOfSomeRanksNamesTheirFiles) {
  record("tr/");
  const auto copied = [&](const std::vector<std::string>& given) {
    std::vector<std::string> paths;
    for (const std::string& name : given) paths.push_back(path(name));
    const viz::Session session = viz::open_session(files_in(paths), {}, nullptr);
    const std::string command = viz::view_command(session);
    std::string named;
    for (const std::string& word : Strings(command.substr(command.find(" view ") + 6)))
      if (word.starts_with("/")) named += word.substr(path("").size()) + " ";
    return named;
  };
  EXPECT_EQ(copied({"tr"}), "tr ");
  EXPECT_EQ(copied({"tr/rank0.json", "tr/rank1.json", "tr/rank2.json"}), "tr ");
  EXPECT_EQ(copied({"tr/rank1.json", "tr/rank2.json"}), "tr/rank1.json tr/rank2.json ");
  EXPECT_EQ(copied({"tr/rank2.json"}), "tr/rank2.json ");
}

// A folder's recordings are opened without the notes beside them.
TEST_F(ScreenshotTest, OpensAFolderWithNotes) {
  std::filesystem::create_directory(path("runs"));
  record("runs/a.json");
  write_text("runs/a.notes.json", viz::notes_json({{1, 1000, "late"}}));
  view_well({"runs", "--screenshot", "o.png"});
  EXPECT_NE(pixels_of("o.png"), std::vector<viz::Color>());
}

// A large picture magnifies what one of 1600 x 900 pixels shows, by quarters.
TEST_F(ScreenshotTest, GrowsWithItsSize) {
  record("a.json");
  for (const auto& [size, box] :
       {std::pair("1600x900", "0 0 1600 900"), {"2560x1440", "0 0 1706.67 960"}}) {
    view_well({"a.json", "--screenshot", "o.svg", "--size", size});
    const std::string svg = contents_of(path("o.svg"));
    EXPECT_NE(svg.find(fmt::format("viewBox=\"{}\"", box)), std::string::npos);
    // It looks the same where the typeface is not installed.
    EXPECT_EQ(svg.find("@font-face{font-family:Roboto;font-weight:500") != std::string::npos,
              viz::font_name().starts_with("Roboto"));
  }
}

// What the sliders of the start screen simulate is what the command that they show records.
TEST_F(ScreenshotTest, TheCommandOfTheSlidersRecordsTheirRing) {
  std::vector<int> places;
  for (const viz::Slider& slider : viz::sliders()) places.push_back(slider.place);
  for (int moved = -1; moved < static_cast<int>(places.size()); ++moved) {
    if (moved >= 0) places[moved] = places[moved] > 0 ? 0 : 1;
    const std::string command = viz::command_at(places);
    ASSERT_EQ(run(Strings(command.substr(command.find(" ") + 1))).status, 0) << command;
    const viz::Session shown = viz::recorded_session(
        {ringscope::record(viz::ring_of(viz::settings_at(places))).recording});
    const Trace trace = std::move(load_traces({path("ring.json")}, nullptr).front());
    EXPECT_EQ(trace.slice_count, shown.document().trace.slice_count) << command;
    EXPECT_EQ(trace.wall_ns(), shown.document().trace.wall_ns()) << command;
  }
}

TEST_F(ScreenshotTest, WithoutATraceShowsWhereToStart) {
  view_well({"--screenshot", "1.png", "--size=1280x720"});
  std::filesystem::create_directories(path("config/ringscope"));
  write_text("config/ringscope/viewer.json", "{\"recent\": [\"/recordings/ring.json\"]}");
  view_well({"--screenshot", "2.png", "--size", "1280x720"});
  EXPECT_NE(pixels_of("1.png"), pixels_of("2.png"));
}

TEST_F(ScreenshotTest, WritesWhatIsSelectedAsCsv) {
  record("a.json");
  view_well({"a.json", "--csv", "all.csv"});
  view_well({"a.json", "--select", "rank:1,kind:compute", "--csv", "some.csv"});
  const std::string some = contents_of(path("some.csv")), all = contents_of(path("all.csv"));
  EXPECT_EQ(std::count(some.begin(), some.end(), '\n'), 1 + 3);
  const Trace trace = std::move(load_traces({path("a.json")}, nullptr).front());
  EXPECT_EQ(std::count(all.begin(), all.end(), '\n'), 1 + static_cast<long>(trace.slice_count));
  EXPECT_EQ(view({"a.json", "--select", "rank:1,kind:compute", "--csv", "-"}).out, some);
}

// Of a file that is cut off, what is whole is written, and stderr says so.
TEST_F(ScreenshotTest, SaysThatWhatItWritesIsCutOff) {
  record("a.json");
  const std::string whole = contents_of(path("a.json"));
  write_text("cut.json", whole.substr(0, whole.size() - 200));
  for (const char* flag : {"--csv", "--perfetto"}) {
    const ProgramResult written = view({"cut.json", flag, "o"});
    EXPECT_EQ(written.status, 0);
    expect_one_line(written, {"cut.json", "is cut off"});
    EXPECT_EQ(view({"a.json", flag, "o"}).err, "");
  }
}

TEST_F(ScreenshotTest, PreferencesDoNotMatter) {
  record("a.json");
  const auto without = picture({});
  std::filesystem::create_directories(path("config/ringscope"));
  write_text("config/ringscope/viewer.json", "{\"theme\": \"light\", \"color_by\": \"kind\"}");
  EXPECT_EQ(picture({}), without);
}

TEST_F(ScreenshotTest, Refuses) {
  record("a.json");
  record("b.json", "contiguous");
  record("five.json", "zigzag", "5");
  Recording told = read_chrome_trace(path("a.json"));
  told.story = {{.text = "One."}, {.text = "Two."}};
  write_chrome_trace(path("told.json"), told);
  write_text("empty.json", "");
  write_text("text.json", "this is no trace");
  write_text("half.json", contents_of(path("a.json")).substr(0, 1000));
  write_text("foreign.json", "[{\"ph\": \"X\", \"pid\": 1, \"tid\": 1, \"ts\": 0, \"dur\": 5}]");
  std::filesystem::create_directory(path("folder"));
  EXPECT_GT(expect_refusals("tests/viz/refusals.txt"), 70);
  // What these say is that of other commands, too.
  expect_refused("view text.json --screenshot o.png", {"text.json", "byte"});
  expect_refused("view half.json --screenshot o.png", {"half.json", "byte"});
  expect_refused("view a.json five.json --screenshot o.png", {"five.json", "3", "5"});
  expect_refused("view a.json --screenshot gone/o.png", {"gone/o.png"});
  expect_refused("view a.json --screenshot folder", {"folder"});
}

TEST_F(ScreenshotTest, OfAMomentOfTheStory) {
  record("a.json");
  Recording recording = read_chrome_trace(path("a.json"));
  recording.story = {{.text = "One."}, {.text = "Two.", .step = 1, .rank = 2}};
  write_chrome_trace(path("told.json"), recording);
  const auto first = picture({}, "told.json");
  EXPECT_EQ(picture({"--story", "1"}, "told.json"), first);
  EXPECT_NE(picture({"--story", "2"}, "told.json"), first);
  EXPECT_EQ(picture({"--story", "0"}, "told.json"), picture({}));
}

TEST_F(ScreenshotTest, OfOnePanel) {
  record("a.json");
  std::set<std::vector<viz::Color>> pictures{picture({}), picture({"--bare"})};
  for (const char* panel : {"timeline", "ring", "mask", "balance", "softmax", "links", "tile"})
    pictures.insert(picture({"--panel", panel}));
  EXPECT_EQ(pictures.size(), 9u);
}

// A panel for print fits a paper's column with letters of 9 points and ends where its contents do, alike in
// all formats.
TEST_F(ScreenshotTest, APanelForPrintFitsAColumn) {
  record("a.json");
  for (const std::string panel : {"timeline", "ring", "mask", "balance", "softmax", "links"}) {
    for (const char* format : {"svg", "png", "pdf"})
      view_well({"a.json", "--panel", panel, "--bare", "--theme", "light", "--at", "1",
                 "--screenshot", std::string("o.") + format});
    const std::string svg = contents_of(path("o.svg"));
    std::smatch size;
    ASSERT_TRUE(
        std::regex_search(svg, size, std::regex("width=\"([0-9.]+)pt\" height=\"([0-9.]+)pt\"")));
    const double width = std::stod(size[1]), height = std::stod(size[2]);
    EXPECT_LE(width, 245) << panel;
    const std::regex letters("font-size=\"([0-9.]+)\"");
    for (std::sregex_iterator it(svg.begin(), svg.end(), letters), end; it != end; ++it)
      EXPECT_GE(0.9 * std::stod((*it)[1]), 9) << panel;
    EXPECT_EQ(svg.find(">Show me<"), svg.npos);
    // No words run into the next ones of their line.
    std::map<double, std::map<double, double>> ends;  // by the line's y and the words' x
    const std::regex words(
        "<text x=\"([0-9.]+)\" y=\"([0-9.]+)\" font-size=\"[0-9.]+\" textLength=\"([0-9.]+)\"");
    for (std::sregex_iterator it(svg.begin(), svg.end(), words), end; it != end; ++it) {
      const double x = std::stod((*it)[1]);
      ends[std::stod((*it)[2])][x] = x + std::stod((*it)[3]);
    }
    for (const auto& [y, of_line] : ends)
      for (auto it = of_line.begin(); std::next(it) != of_line.end(); ++it)
        EXPECT_LE(it->second, std::next(it)->first) << panel << " at " << y;

    const viz::Image image = viz::read_png(path("o.png"));
    EXPECT_NEAR(image.width, width / 0.9 * 4, 0.1);
    EXPECT_NEAR(image.height, height / 0.9 * 4, 0.1);
    const auto is_ground = [&](int row) {
      const auto begin = image.pixels.begin() + std::ptrdiff_t{row} * image.width;
      return std::all_of(begin, begin + image.width,
                         [](viz::Color color) { return color == viz::rgb(255, 255, 255); });
    };
    constexpr int kMargin = 16;
    EXPECT_TRUE(is_ground(0) && is_ground(kMargin - 1) && !is_ground(kMargin)) << panel;
    const int last = image.height - 1;
    EXPECT_TRUE(is_ground(last) && is_ground(last - kMargin + 1) && !is_ground(last - kMargin))
        << panel;
    if (viz::font_name().starts_with("Roboto")) {
      const std::string page = fmt::format("/MediaBox[0 0 {} {}]", size[1].str(), size[2].str());
      EXPECT_NE(contents_of(path("o.pdf")).find(page), std::string::npos) << panel;
    }
  }
}

// Many ranks are rows of a heat map in print, each with its name.
TEST_F(ScreenshotTest, EachOfManyRanksIsNamedInPrint) {
  run({"simulate", "--gpu", "H100", "--link", "NVLink4", "--world-size", "32", "--seqlen", "4096",
       "--trace", "a.json"});
  view_well({"a.json", "--panel", "timeline", "--bare", "--screenshot", "o.svg"});
  const std::string svg = contents_of(path("o.svg"));
  for (int rank = 0; rank < 32; ++rank)
    EXPECT_NE(svg.find(fmt::format(">rank {}<", rank)), svg.npos) << rank;
}

// The playhead goes from end to end, and every image is the picture of its moment.
class AnimationTest : public ScreenshotTest {
 protected:
  // Of a real run two of its moments may look alike, and are then one image.
  void SetUp() override {
    ScreenshotTest::SetUp();
    ASSERT_EQ(
        run({"simulate", "--gpu", "H100", "--link", "NVLink4", "--world-size", "3", "--seqlen",
             "48", "--mask", "causal", "--partition", "zigzag", "--trace", "a.json"})
            .status,
        0);
  }
  // The arguments of an animation of five images.
  static std::vector<std::string> film(const std::string& name) {
    return {"a.json", "--animate", name, "--size",    "640x400", "--from", "0.5",   "--to",
            "2.5",    "--fps",     "5",  "--seconds", "1",       "--axis", "steps", "--bare"};
  }
  std::vector<viz::Color> pictured(int image) const {
    return picture({"--axis", "steps", "--bare", "--at", std::to_string(0.5 + 0.5 * image)});
  }
};

TEST_F(AnimationTest, AsWebP) {
#ifdef RINGSCOPE_HAS_WEBP
  view_well(film("o.webp"));
  const std::string file = contents_of(path("o.webp"));
  EXPECT_NE(file.find("--animate o.webp"), std::string::npos);  // which command made it
  const WebPData data{reinterpret_cast<const std::uint8_t*>(file.data()), file.size()};
  const std::unique_ptr<WebPAnimDecoder, void (*)(WebPAnimDecoder*)> decoder(
      WebPAnimDecoderNew(&data, nullptr), WebPAnimDecoderDelete);
  ASSERT_NE(decoder, nullptr);
  int ms = 0, images = 0;
  for (std::uint8_t* pixels = nullptr; WebPAnimDecoderHasMoreFrames(decoder.get()) != 0; ++images) {
    ASSERT_NE(WebPAnimDecoderGetNext(decoder.get(), &pixels, &ms), 0);
    const auto* const colors = reinterpret_cast<const viz::Color*>(pixels);
    EXPECT_EQ(std::vector(colors, colors + 640 * 400), pictured(images)) << images;
  }
  EXPECT_EQ(images, 5);
  EXPECT_EQ(ms, 1000 + 1500);
#else
  expect_refused("view a.json --animate o.webp", {"libwebp-dev"});
#endif
}

TEST_F(AnimationTest, AsGif) {
  view_well(film("o.gif"));
  const std::string file = contents_of(path("o.gif"));
  EXPECT_NE(file.find("--animate o.gif"), std::string::npos);
  const viz::ReadGif gif(file);
  ASSERT_EQ(gif.frames, 5);
  EXPECT_EQ(gif.ms, (std::vector{200, 200, 200, 200, 200 + 1500}));
  for (int i = 0; i < 5; ++i) {
    const std::vector<viz::Color> shown = gif.frame(i), meant = pictured(i);
    int same = 0;
    for (std::size_t k = 0; k < meant.size(); ++k) same += shown[k] == meant[k] ? 1 : 0;
    EXPECT_GT(same, 0.9 * 640 * 400) << i;  // all but rare colours, at the edges of letters
  }
}

// ffmpeg gets all images, and the last one for longer; without it, or where it fails, no file is left.
TEST_F(AnimationTest, AsMp4ByFfmpeg) {
  const auto view_with = [&](const std::string& ffmpeg) {
    std::filesystem::create_directories(path("bin"));
    write_text("bin/ffmpeg", "#!/bin/sh\n" + ffmpeg);
    std::filesystem::permissions(path("bin/ffmpeg"), std::filesystem::perms::owner_all);
    std::vector<std::string> arguments = film("o.mp4");
    arguments.insert(arguments.begin(), "view");
    return run_after("export PATH=" + path("bin") + ":/usr/bin:/bin", arguments);
  };
  EXPECT_EQ(view_with("for last; do :; done; wc -c > \"$last\"; echo \"$@\" >> \"$last\"").status,
            0);
  const std::string file = contents_of(path("o.mp4"));
  EXPECT_EQ(std::stoll(file), 640LL * 400 * 4 * (5 + 8));  // 1.5 s are 7.5 images
  EXPECT_NE(file.find("-s 640x400 -r 5"), std::string::npos) << file;
  std::filesystem::remove(path("o.mp4"));

  const ProgramResult failed = view_with("echo 'no encoder' >&2; exit 1");
  EXPECT_EQ(failed.status, 3);
  expect_one_line(failed, {"ffmpeg", "no encoder"});
  EXPECT_FALSE(std::filesystem::exists(path("o.mp4")));
  const ProgramResult without =
      run_after("export PATH=" + path("gone"), {"view", "a.json", "--animate", "o.mp4"});
  EXPECT_EQ(without.status, 2);
  expect_one_line(without, {"ffmpeg", ".gif"});
}

// Where an image can't be drawn, no program is left that waits for it.
TEST_F(AnimationTest, EndsFfmpegWhereDrawingFails) {
  const viz::Animation failing{2, 2, 2, 1.0, [](int) -> viz::Image { throw RunError("no image"); }};
  EXPECT_THROW(viz::write_animation(path("o.mp4"), failing), RunError);
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
}

TEST_F(ScreenshotTest, OfAPrediction) {
  record("a.json");
  std::set<std::vector<viz::Color>> pictures;
  for (const std::vector<std::string>& settings : {std::vector<std::string>{"--what-if"},
                                                   {"--what-if", "bandwidth=2"},
                                                   {"--what-if=world-size=8,partition=striped"},
                                                   {"--what-if", "cores=own"},
                                                   {"--what-if", "kv-buffers=in-step,cores=own"},
                                                   {"--what-if", "straggler=1:0.5"}}) {
    pictures.insert(picture(settings));
    EXPECT_TRUE(pictures.contains(picture(settings))) << settings.back();
  }
  EXPECT_GE(pictures.size(), 4u);  // bandwidth need not matter
}

TEST_F(ScreenshotTest, AWindowNeedsADisplay) {
  record("a.json");
  const ProgramResult result = view({"a.json"});
  EXPECT_EQ(result.status, 2);
  expect_one_line(result, {"no display", "DISPLAY", "--screenshot"});
}

TEST_F(ScreenshotTest, TheDemoEndsWithOne) {
  write_text("t.txt", std::string(1000, 'x'));
  const ProgramResult result =
      run({"demo", "--text", "t.txt", "--out", "d", "--seqlen", "200", "--no-view"});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_NE(result.out.find("d/compare.png"), std::string::npos);
  EXPECT_NE(result.out.find("ringscope view d/own_cores/contiguous.json"), std::string::npos);
  view_well({"d/own_cores/contiguous.json", "d/own_cores/striped.json", "d/own_cores/zigzag.json",
             "d/own_cores/fold.json", "--axis", "time", "--screenshot", "again.png"});
  ASSERT_GT(viz::read_png(path("d/compare.png")).width, 0);
  EXPECT_EQ(pixels_of("d/compare.png"), pixels_of("again.png"));
}

}  // namespace
}  // namespace ringscope
