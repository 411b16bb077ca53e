// What a recorder keeps and counts. (That it allocates nothing: tests/memory.)
#include "core/trace/recorder.h"

#include <gtest/gtest.h>

namespace ringscope {
namespace {

TEST(Recorder, KeepsWhatFitsAndCountsTheRest) {
  Recorder recorder(100, 10, 0);
  for (int i = 0; i < 150; ++i) recorder.record(TraceEvent{.step = i});
  for (int i = 0; i < 12; ++i) recorder.record(SoftmaxSample{.step = i});
  // No implementation reserves more than was asked for, but it may.
  ASSERT_GE(recorder.events().size(), 100u);
  ASSERT_GE(recorder.samples().size(), 10u);
  const std::size_t kept = recorder.events().size() + recorder.samples().size();
  EXPECT_EQ(static_cast<std::size_t>(recorder.dropped()), 162 - kept);
  for (std::size_t i = 0; i < recorder.events().size(); ++i)
    EXPECT_EQ(recorder.events()[i].step, static_cast<int>(i));
  for (std::size_t i = 0; i < recorder.samples().size(); ++i)
    EXPECT_EQ(recorder.samples()[i].step, static_cast<int>(i));
}

TEST(Recorder, NoRoomAtAll) {
  Recorder recorder(0, 0, 0);
  recorder.record(TraceEvent{});
  recorder.record(SoftmaxSample{});
  EXPECT_EQ(recorder.dropped(), 2);
  EXPECT_TRUE(recorder.events().empty());
}

TEST(Recorder, TimesCountFromTheOrigin) {
  const std::int64_t origin = monotonic_ns();
  const Recorder recorder(1, 1, origin);
  const std::int64_t before = monotonic_ns() - origin, now = recorder.now_ns();
  EXPECT_EQ(recorder.origin_ns(), origin);
  EXPECT_LE(before, now);
  EXPECT_LE(now, monotonic_ns() - origin);
}

}  // namespace
}  // namespace ringscope
