// A recording in memory becomes the trace that its file would become.
#include "viz/model/trace/ring_trace.h"

#include <gtest/gtest.h>

#include <tuple>

#include "tests/viz_model/recorded.h"
#include "tests/viz_model/trace_loader_text.h"
#include "viz/model/session/document.h"
#include "viz/model/timeline/palette.h"

namespace ringscope::viz {
namespace {

// Names may be numbered otherwise.
void expect_same(const Trace& a, const Trace& b) {
  EXPECT_EQ(a.run, b.run);
  EXPECT_EQ(std::tie(a.begin_ns, a.end_ns, a.slice_count),
            std::tie(b.begin_ns, b.end_ns, b.slice_count));
  EXPECT_TRUE(a.ranks == b.ranks);
  ASSERT_EQ(a.rows.size(), b.rows.size());
  for (std::size_t row = 0; row < a.rows.size(); ++row) {
    EXPECT_EQ(a.rows[row].lane, b.rows[row].lane);
    ASSERT_EQ(a.rows[row].slices.size(), b.rows[row].slices.size());
    for (std::size_t i = 0; i < a.rows[row].slices.size(); ++i) {
      Slice x = a.rows[row].slices[i], y = b.rows[row].slices[i];
      EXPECT_EQ(a.name(x), b.name(y));
      EXPECT_EQ(x.flow == 0, y.flow == 0);
      if (x.flow != 0 && y.flow != 0) {
        EXPECT_EQ(a.flows[x.flow - 1].from, b.flows[y.flow - 1].from);
        EXPECT_EQ(a.flows[x.flow - 1].to, b.flows[y.flow - 1].to);
      }
      x.name = y.name = x.flow = y.flow = 0;
      EXPECT_EQ(x, y);
    }
  }
  EXPECT_EQ(a.flows.size(), b.flows.size());
  EXPECT_EQ(a.samples, b.samples);
  EXPECT_EQ(a.story, b.story);
}

TEST(RecordedTrace, IsWhatTheLoaderMakesOfTheFile) {
  for (const bool backward : {false, true})
    for (const Scheme scheme : kRunSchemes) {
      Recording recording = record_run(PartitionKind::zigzag, "causal", scheme, 3, backward);
      recording.story = {{.text = "One."}};
      expect_same(to_trace(recording, "made"), parse_trace(trace_text_of(recording), "made"));
      EXPECT_EQ(to_trace(recording, "made").path, "made");
    }
}

// What a kernel stamped lies in lanes below the rank's own, and what was lost is said.
TEST(RecordedTrace, KernelsHaveLanes) {
  Recording recording = record_run(PartitionKind::zigzag, "causal", Scheme::ring, 2, false);
  recording.info.dropped_stamps = {0, 4};
  recording.kernel.resize(2);
  recording.kernel[1] = {{KernelPart::softmax, 2, 1, 1, 5, 3, 4, 10, 15, 6},
                         {KernelPart::epilogue, 2, 0, 1, 5, 3, -1, 15, 15, 0}};
  const Trace trace = parse_trace(trace_text_of(recording), "made");
  EXPECT_TRUE(trace.has_kernel());
  EXPECT_FALSE(trace.has_model());
  ASSERT_EQ(trace.notices.size(), 1u);
  EXPECT_EQ(trace.notices[0], "4 stamps found the kernel's buffer full and are missing");
  EXPECT_EQ(trace.ranks[0].lanes, 4u);
  ASSERT_EQ(trace.ranks[1].lanes, 6u);
  EXPECT_EQ(trace.lanes[8].name, "SM 2 producer");
  EXPECT_EQ(trace.lanes[9].name, "SM 2 consumer 0");
  const Slice& slice = trace.rows[trace.lanes[9].first_row].slices.at(0);
  EXPECT_EQ(trace.name(slice), "softmax 4");
  EXPECT_EQ(kernel_part(slice), KernelPart::softmax);
  EXPECT_EQ(std::tuple(slice.step, slice.matrix, slice.own_tile, slice.ticks),
            std::tuple(1, 5, 3, 6));
  EXPECT_EQ(slice_color(Theme::dark, ColorBy::owner, slice, 2),
            kernel_color(Theme::dark, KernelPart::softmax));
}

TEST(RecordedTrace, OfNothing) {
  Recording recording;
  recording.info.world_size = 2;
  recording.events.resize(2);
  const Trace trace = to_trace(recording, "none");
  EXPECT_EQ(trace.ranks.size(), 2u);
  EXPECT_EQ(trace.slice_count, 0u);
  EXPECT_EQ(trace.rows.size(), 8u);
}

// The slices of some ranks, under their own names, and a timeline can be made of them.
TEST(RecordedTrace, ASampleHasTheRanksThatWereAskedFor) {
  const Recording recording = record_run(PartitionKind::striped, "causal", Scheme::ring, 5, false);
  const Trace all = to_trace(recording, "all"), some = sample_trace(recording, {1, 4}, "some");
  ASSERT_EQ(some.ranks.size(), 2u);
  EXPECT_EQ(some.ranks[0].name, "rank 1");
  EXPECT_EQ(some.ranks[1].name, "rank 4");
  EXPECT_EQ(some.ranks[1].pid, 4);
  EXPECT_EQ(some.run->world_size, 5);
  EXPECT_TRUE(some.flows.empty());
  const auto& there = all.slices_of(4, ringscope::Lane::compute);
  const auto& here = some.slices_of(1, ringscope::Lane::compute);
  ASSERT_EQ(here.size(), there.size());
  for (std::size_t i = 0; i < here.size(); ++i) EXPECT_EQ(here[i].begin_ns, there[i].begin_ns);
  const Axis axis(some);
  EXPECT_EQ(axis.steps(), 5);
  EXPECT_GT(axis.length(AxisMode::time), 0);
}

}  // namespace
}  // namespace ringscope::viz
