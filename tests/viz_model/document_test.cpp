// A document holds what each part works out from its trace, and goes on doing so when it is moved.
#include "viz/model/session/document.h"

#include <gtest/gtest.h>

#include <utility>

#include "tests/viz_model/hand_made.h"
#include "tests/viz_model/recorded.h"

namespace ringscope::viz {
namespace {

TEST(Document, HoldsWhatIsWorkedOut) {
  Document made = make_document(
      trace_of(record_run(PartitionKind::zigzag, "causal+documents:40,56", Scheme::ring, 3, true)));
  const Document document = std::move(made);
  const Trace& trace = document.trace;
  EXPECT_EQ(trace.ranks.size(), 3u);
  EXPECT_EQ(document.axis.steps(), 6);
  ASSERT_TRUE(document.mask.has_value());
  EXPECT_FALSE(document.mask->mask().allows(50, 10));
  EXPECT_EQ(document.balance.ranks, 3);
  EXPECT_TRUE(document.balance.predicted);
  EXPECT_EQ(document.idle.wall_ns, trace.wall_ns());
  EXPECT_EQ(document.path.compute_ns + document.path.link_ns + document.path.overhead_ns,
            trace.wall_ns());
  EXPECT_EQ(document.links.links.size(), 3u);
  EXPECT_EQ(document.findings, findings(trace, document.idle));
  EXPECT_FALSE(document.findings.empty());
  const std::uint32_t row = trace.row_of(1, RingLane::compute);
  EXPECT_EQ(document.index.row(row).begins.size(), trace.rows[row].slices.size());
}

TEST(Document, OfATraceThatIsNotOurs) {
  Trace trace;
  trace.ranks.push_back({1, "process", 0, 1});
  trace.lanes.push_back({0, 1, "thread", 0, 1});
  trace.names = {"work"};
  trace.rows.push_back({0, 0, {Slice{}}});
  trace.rows[0].slices[0].end_ns = 10;
  trace.end_ns = 10;
  trace.slice_count = 1;
  const Document document = make_document(std::move(trace));
  EXPECT_FALSE(document.mask.has_value());
  EXPECT_EQ(document.balance.ranks, 0);
  EXPECT_TRUE(document.idle.ranks.empty());
  EXPECT_TRUE(document.path.segments.empty());
  EXPECT_TRUE(document.findings.empty());
  EXPECT_EQ(document.index.row(0).begins.size(), 1u);
}

TEST(Document, OfNothing) {
  EXPECT_EQ(make_document(Trace{}).trace.slice_count, 0u);
  EXPECT_EQ(make_document(HandMade(2).trace()).balance.ranks, 2);
}

}  // namespace
}  // namespace ringscope::viz
