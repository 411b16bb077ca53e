// Pictures of traces made by hand, against those in tests/viz/golden. When a picture is meant to
// look different, look at what
//
//   RINGSCOPE_WRITE_GOLDEN=1 ./ringscope test -R Golden
//
// writes there, and commit it. Machines round differently, so a little may differ.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/tools/sim/recording.h"
#include "tests/viz/hands.h"
#include "tests/viz/panel_stage.h"
#include "tests/viz/read_png.h"
#include "tests/viz_data/profiled.h"
#include "tests/viz_data/simulated.h"
#include "viz/window/fonts.h"
#include "viz/window/pictures.h"

namespace ringscope::viz {
namespace {

// The typeface that the committed pictures were drawn with, and its release.
constexpr std::string_view kFont = "Roboto", kRelease = "Roboto 797e35f7f5d6";

// Channels are 0 to 255.
constexpr double kMostMeanDifference = 0.6;
constexpr int kNoticeable = 40;
constexpr double kMostNoticeable = 0.004;  // share of pixels
// Long lines are wider by a pixel in other releases of the typeface.
constexpr double kOfOtherRelease = 2;

struct Difference {
  double mean = 0, noticeable = 0;
};

Difference difference(const Image& a, const Image& b) {
  Difference d;
  for (std::size_t i = 0; i < a.pixels.size(); ++i) {
    int most = 0;
    for (const int shift : {0, 8, 16}) {
      const int by = std::abs(static_cast<int>(a.pixels[i] >> shift & 255) -
                              static_cast<int>(b.pixels[i] >> shift & 255));
      d.mean += by;
      most = std::max(most, by);
    }
    d.noticeable += most > kNoticeable;
  }
  const auto pixels = static_cast<double>(a.pixels.size());
  return {d.mean / (3 * pixels), d.noticeable / pixels};
}

void expect_picture(const std::string& path, const Image& image) {
  if (!font_name().starts_with(kFont))
    GTEST_SKIP() << "drawn with " << font_name() << ", the committed pictures with " << kFont;
  const Image golden = read_png(path);
  ASSERT_EQ(golden.width, image.width) << path;
  ASSERT_EQ(golden.height, image.height) << path;
  const Difference d = difference(golden, image);
  const double share = font_name() == kRelease ? 1 : kOfOtherRelease;
  if (d.mean <= share * kMostMeanDifference && d.noticeable <= share * kMostNoticeable) return;
  const std::string drawn = testing::TempDir() + "ringscope_" + std::to_string(::getpid()) + "_" +
                            path.substr(path.find_last_of('/') + 1);
  write_png(drawn, image);
  ADD_FAILURE() << "mean difference " << d.mean << ", noticeable " << 100 * d.noticeable
                << " % of pixels; compare " << path << " and " << drawn;
}

void expect_golden(const std::string& name, const Image& image) {
  const std::string path = std::string(RINGSCOPE_SOURCE_DIR "/tests/viz/golden/") + name + ".png";
  if (std::getenv("RINGSCOPE_WRITE_GOLDEN") != nullptr)
    write_png(path, image);
  else
    expect_picture(path, image);
}

TEST(Golden, OneRecording) {
  Person person(session_of(ring_trace(4)), 960, 540);
  person.press(SpecialKey::right);
  person.type("k");
  expect_golden("one_dark", person.picture());
  person.type("t");
  expect_golden("one_light", person.picture());
}

TEST(Golden, SmallWindow) {
  Person person(session_of(ring_trace(3, "striped")), 640, 400);
  person.press(SpecialKey::end);
  expect_golden("small", person.picture());
}

TEST(Golden, RanksPinnedFoldedMeasuredAndListed) {
  Person person(session_of(slow_ring_trace()), 1280, 640);
  Session& session = person.session();
  session.pin(3);
  session.fold(0);
  session.measure = Measure{0.2 * session.length(), 0.6 * session.length(), {3, 1}};
  person.type("j");
  person.click_on("by kind");
  person.point({-1, -1});
  expect_golden("arranged", person.picture());
}

TEST(Golden, LayersOfAProfileAndTheirOverlap) {
  const TemporaryFolder folder;
  Person person(session_of(std::move(load_traces(write_profiles(folder)).front())), 1280, 640);
  person.type("j");
  person.click_on("overlap");
  person.point({-1, -1});
  expect_golden("layers", person.picture());
}

TEST(Golden, Story) {
  Trace trace = ring_trace(4);
  trace.story = {
      {.text = "Four ranks, one sequence."},
      {.text = "Rank 1 **waits** for rank 0:\n\n- its block is *late*;\n- `step 2` begins.",
       .step = 2,
       .rank = 1,
       .lane = Lane::wait,
       .figure = Figure::ring},
      {.text = "So much for that."}};
  Person person(session_of(std::move(trace)), 960, 600);
  person.type(" ");
  expect_golden("story", person.picture());
}

TEST(Golden, FailedRun) {
  HandMade made(3, "zigzag", "causal", "ring", 48);
  made.recording().info.failure = RunEnd{"its process was killed", 1, 1};
  for (const int rank : {0, 1, 2}) {
    made.compute(rank, 0, 0, 100'000, 100);
    made.hop(rank, 0, 20'000, 50'000);
    if (rank == 1) continue;
    made.compute(rank, 1, 100'000, 180'000 + 40'000 * rank, 90);
    made.wait(rank, 2, 180'000 + 40'000 * rank, 500'000);
  }
  Person person(session_of(made.trace()), 960, 600);
  expect_golden("failed", person.picture());
}

TEST(Golden, PanelAlone) {
  Trace trace = ring_trace(4, "zigzag");
  trace.story = {
      {.text = "A rank meets half of every block but its own.", .step = 1, .figure = Figure::mask}};
  Person person(session_of(std::move(trace)), 960, 540);
  person.type("z");
  expect_golden("alone", person.picture());
}

TEST(Golden, Compared) {
  Person person(session_of(ring_trace(4), ring_trace(4, "zigzag")), 960, 540);
  person.press(SpecialKey::right);
  expect_golden("compared", person.picture());
}

// viz/compare.png is what `./ringscope demo` draws, which draws it again after a change. Ideal
// timelines follow from what was counted, so those of simulated runs of its problem are the same.
TEST(Golden, TheDemosPictureInTheReadme) {
  std::vector<Document> documents;
  for (const PartitionKind partition : kAllPartitions) {
    Scenario scenario = simulated_scenario(4, partition);
    scenario.job.shape = {
        .batch = 1, .num_heads = 4, .num_heads_kv = 4, .seqlen = 8192, .head_dim = 64};
    scenario.job.dtype = DType::f32;
    documents.push_back(
        make_document(to_trace(ideal_timeline(simulated_recording(scenario)), "ideal")));
  }
  Person person(Session(std::move(documents)), 1600, 900);
  person.session().set_axis_mode(AxisMode::time);
  person.press(SpecialKey::end);
  expect_picture(RINGSCOPE_SOURCE_DIR "/viz/compare.png", person.picture());
}

TEST(Golden, WhatIf) {
  Person person(session_of(simulated_trace(simulated_scenario(4, PartitionKind::contiguous, true))),
                1120, 640);
  person.type("e");
  Scenario& settings = person.session().what_if->settings;
  settings.job.partition = PartitionKind::zigzag;
  settings.rates.bytes_per_s /= 16;
  person.rest(3);
  expect_golden("what_if", person.picture());
}

// Pictures of one size side by side, in two rows.
Image in_two_rows(const std::vector<Image>& pictures) {
  const int columns = static_cast<int>(pictures.size() + 1) / 2;
  const int width = pictures[0].width, height = pictures[0].height;
  Image all{columns * width, 2 * height, {}};
  all.pixels.resize(static_cast<std::size_t>(all.width) * static_cast<std::size_t>(all.height));
  for (std::size_t i = 0; i < pictures.size(); ++i)
    for (int y = 0; y < height; ++y)
      std::copy_n(&pictures[i].pixels[y * width], width,
                  &all.pixels[(static_cast<int>(i) / columns * height + y) * all.width +
                              static_cast<int>(i) % columns * width]);
  return all;
}

// One panel alone, at a moment of a story.
Image panel_alone(Trace trace, Figure figure, int step) {
  trace.story = {{.text = "", .step = step, .figure = figure}};
  Person person(session_of(std::move(trace)), 480, 400);
  person.type("z");
  return person.picture();
}

TEST(Golden, WaysOfEveryScheme) {
  std::vector<Image> pictures;
  for (const char* scheme : {"ring", "bidirectional", "pass-q", "allgather:2", "ulysses",
                             "hybrid:2", "two-level:2", "mesh:2x2"}) {
    Scenario scenario = simulated_scenario(4, PartitionKind::zigzag);
    set_scheme(scenario.job, scheme);
    pictures.push_back(panel_alone(simulated_trace(scenario), Figure::ring, 1));
  }
  expect_golden("schemes", in_two_rows(pictures));
}

TEST(Golden, MasksOfDealtPartitions) {
  std::vector<Image> pictures;
  for (const auto& [partition, mask] :
       {std::pair{"documents:zigzag", "causal+documents:1000,2000,1096"},
        {"documents:contiguous", "causal+documents:1000,2000,1096"},
        {"fold", "causal+documents:4000,96"},
        {"zigzag", "causal+window:600+sink:300"}}) {
    Scenario scenario = simulated_scenario(4);
    scenario.job.partition = PartitionSpec::parse(partition);
    scenario.job.mask = MaskSpec::parse(mask);
    scenario.job.deal_out();
    pictures.push_back(panel_alone(simulated_trace(scenario), Figure::mask, 1));
  }
  expect_golden("deals", in_two_rows(pictures));
}

TEST(Golden, OtherPrograms) {
  Person person(session_of(foreign_trace()), 640, 400);
  expect_golden("foreign", person.picture());
}

TEST(Golden, Help) {
  Person person(session_of(ring_trace(4)), 960, 720);
  person.type("?");
  person.rest(3);
  expect_golden("help", person.picture());
}

// The tolerance is small: pictures that differ in a playhead's place are told apart.
TEST(Golden, TellsPicturesApart) {
  Person person(session_of(ring_trace(4)), 960, 540);
  const Image before = person.picture();
  person.press(SpecialKey::right);
  const Difference d = difference(before, person.picture());
  EXPECT_GT(d.noticeable, kMostNoticeable);
  const Difference none = difference(before, before);
  EXPECT_EQ(none.mean, 0);
  EXPECT_EQ(none.noticeable, 0);
}

}  // namespace
}  // namespace ringscope::viz
