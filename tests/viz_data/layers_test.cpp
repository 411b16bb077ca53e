// All layers of a profile: which of them is shown, how another one comes to be, and how computing and
// communication overlap in each.
#include <gtest/gtest.h>

#include "core/tools/explain/explain.h"
#include "core/tools/foreign/trace_files.h"
#include "tests/core/trace/trace_text.h"
#include "tests/viz_data/hand_made.h"
#include "tests/viz_data/profiled.h"
#include "viz/data/session/selection.h"

namespace ringscope::viz {
namespace {

constexpr std::int64_t kUs = 1000;

std::vector<Trace> profiled() {
  const TemporaryFolder folder;  // which is gone before another layer is asked for
  return load_traces(write_profiles(folder));
}

TEST(Layers, AreAllListedInTheirTimes) {
  const Trace trace = std::move(profiled().front());
  ASSERT_TRUE(trace.is_ring);
  ASSERT_EQ(trace.layers.size(), 4u);
  EXPECT_EQ(trace.layer, 2u);  // the median of those behind the first
  std::int64_t before = 0;
  for (int i = 0; i < 4; ++i) {
    const ProfiledLayer& layer = trace.layers[i];
    EXPECT_EQ(layer.name(), fmt::format("{}:{}", i / 2, i % 2));
    EXPECT_EQ(words_of(trace.layers, i), fmt::format("layer {} of iteration {}", i % 2, i / 2));
    const auto [forward, backward] = std::pair(layer.passes[0], layer.passes[1]);
    const double late = ends_late(i + 1);
    EXPECT_EQ(forward.second - forward.first, (2 + 2 * kAttends + late) * kUs);
    EXPECT_EQ(backward.second - backward.first, (2 + 4 * kAttends + late) * kUs);
    EXPECT_GT(forward.first, before);
    EXPECT_GT(backward.first, forward.second);
    before = forward.first;
    ASSERT_EQ(layer.overlaps.size(), 2u);
    for (int rank = 0; rank < 2; ++rank) {
      const RankOverlap& o = layer.overlaps[rank];
      const double busy = rank == 1 ? 0.5 : 1;
      EXPECT_EQ(o.span, (4 + 6 * kAttends + 2 * late) * kUs);
      EXPECT_EQ(o.compute, 6 * kAttends * busy * kUs);
      EXPECT_EQ(o.communication, (3 * kAttends + 2 * late) * kUs);
      EXPECT_EQ(o.exposed, (3 * kAttends * (1 - busy) + 4 + 2 * late) * kUs);
      EXPECT_EQ(o.idle(), rank == 1 ? 1.5 * kAttends * kUs : 0);
    }
  }
}

// Each is shown as what its line of the table says, also in Balance and to explain, and is found again by
// its command.
TEST(Layers, EachIsShownAsItIsListed) {
  Session session = session_of(std::move(profiled().front()));
  session.select_rank(1);
  const std::vector<NamedOverlap> table = overlaps_of(session.document(), true);
  ASSERT_EQ(table.size(), 5u);
  for (std::size_t i = 0; i < 4; ++i) {
    session.measure = Measure{0, 1};
    session.show_layer(i, i % 2 == 0 ? Pass::forward : Pass::backward);
    const Document& shown = session.document();
    EXPECT_EQ(shown.trace.layer, i);
    EXPECT_EQ(table[i].name, words_of(shown.trace.layers, i));
    EXPECT_EQ(session.selected_rank, 1);
    EXPECT_FALSE(session.measure);
    EXPECT_EQ(session.step_now(0), i % 2 == 0 ? 0 : 2);
    const std::vector<NamedOverlap> ranks = overlaps_of(shown, false);
    ASSERT_EQ(ranks.size(), 3u);
    for (int rank = 0; rank < 2; ++rank) {
      const RankOverlap &o = ranks[rank].overlap, &listed = shown.trace.layers[i].overlaps[rank];
      EXPECT_EQ(std::tuple(o.compute, o.communication, o.exposed, o.span),
                std::tuple(listed.compute, listed.communication, listed.exposed, listed.span));
      EXPECT_EQ(o.compute, shown.idle.ranks[rank].compute);
      EXPECT_NEAR(1e-9 * static_cast<double>(o.span), shown.why.wall_s, 1e-12);
    }
    EXPECT_EQ(csv_of({ranks[2]}), csv_of({{"sum of all", table[i].overlap}}));
    EXPECT_TRUE(std::any_of(shown.trace.notices.begin(), shown.trace.notices.end(),
                            [&](const std::string& notice) {
                              return notice.starts_with("Shown is " + table[i].name);
                            }));
    EXPECT_NE(view_command(session).find(fmt::format(" --layer {}:{}", i / 2, i % 2)),
              std::string::npos);
  }
  commands::next_layer(session);  // there is none
  EXPECT_EQ(session.document().trace.layer, 3u);
  commands::previous_layer(session);
  EXPECT_EQ(session.document().trace.layer, 2u);
  session.show_layer(0);
  commands::previous_layer(session);
  EXPECT_EQ(session.document().trace.layer, 0u);
}

// The command names the files of all ranks, because one alone shows no ring.
TEST(Layers, AreChosenByName) {
  const TemporaryFolder folder;
  const std::vector<std::string> paths = write_profiles(folder);
  std::vector<Trace> traces = load_traces(paths);
  choose_layer(traces, "1:1");
  EXPECT_EQ(traces[0].layer, 3u);
  Session session = session_of(std::move(traces[0]));
  for (const bool predicts : {false, true}) {
    if (predicts) {
      session.show_what_if(true);
      session.what_if->finish();
      session.keep_prediction();
      EXPECT_EQ(session.active, 1u);
    }
    const std::string command = view_command(session);
    EXPECT_NE(command.find(paths[0] + " " + paths[1]), std::string::npos) << command;
    EXPECT_NE(command.find(" --layer 1:1"), std::string::npos) << command;
  }
  traces = load_traces(paths);
  EXPECT_EQ(complaint_of([&] { choose_layer(traces, "2:0"); }),
            fmt::format("--layer: '2:0' given for '{}'; accepted: ITERATION:LAYER, from 0:0 to 1:1",
                        paths[0]));
  traces = {two_steps().trace()};
  EXPECT_EQ(complaint_of([&] { choose_layer(traces, "0:0"); }),
            "--layer: '0:0' given for 'made.json'; accepted: no --layer with a trace that is no "
            "ring's profile");
}

}  // namespace
}  // namespace ringscope::viz
