#include "core/trace/rank_events.h"

#include <gtest/gtest.h>

#include <cstring>

#include "core/base/error.h"
#include "tests/core/trace/sample_recording.h"

namespace ringscope {
namespace rank_events_test {

RankEvents sample() {
  const Recording recording = sample_recording(3, true);
  return {recording.events[1],
          recording.samples,
          3,
          12345,
          26,
          {},
          {{KernelPart::wait, 15, 3, 0, 9, 2, 4, 10, 15, 6}},
          8};
}

TEST(RankEvents, ComeBackAsTheyWere) {
  const RankEvents original = sample();
  ASSERT_FALSE(original.events.empty());
  EXPECT_EQ(unpack_rank_events(pack(original)), original);
  EXPECT_EQ(unpack_rank_events(pack({})), RankEvents{});
}

// No field is forgotten: whichever byte of a packed event changes, something else comes back.
TEST(RankEvents, EveryByteCounts) {
  RankEvents original = sample();
  original.events.resize(1);
  original.samples.resize(1);
  const std::string bytes = pack(original);
  for (std::size_t i = 0; i < bytes.size(); ++i)
    for (const int bit : {1, 64}) {
      std::string other = bytes;
      other[i] = static_cast<char>(other[i] ^ bit);
      try {
        EXPECT_NE(unpack_rank_events(other), original) << i;
      } catch (const RunError&) {
      }
    }
}

TEST(RankEvents, NothingElseIsAccepted) {
  const std::string bytes = pack(sample());
  for (std::size_t size = 0; size < bytes.size(); size += size < 64 ? 1 : 13)
    EXPECT_THROW(unpack_rank_events(bytes.substr(0, size)), RunError) << size;
  EXPECT_THROW(unpack_rank_events(bytes + '\0'), RunError);
  // Counts that nobody could allocate.
  const std::string empty = pack({});
  for (const std::uint64_t count : {std::uint64_t{1}, std::uint64_t{1} << 60, ~std::uint64_t{0}}) {
    std::string claims = empty;
    std::memcpy(claims.data() + claims.size() - 8, &count, 8);
    EXPECT_THROW(unpack_rank_events(claims), RunError) << count;
    claims = empty;
    std::memcpy(claims.data() + claims.size() - 16, &count, 8);
    EXPECT_THROW(unpack_rank_events(claims), RunError) << count;
  }
  // A lane that there is not.
  RankEvents one;
  one.events.push_back({.lane = static_cast<Lane>(4)});
  EXPECT_THROW(unpack_rank_events(pack(one)), RunError);
}

TEST(RankEvents, PutTogetherARecording) {
  const Recording original = sample_recording(3, false);
  Recording recording;
  recording.info = original.info;
  recording.info.clock_error_ns.assign(3, 0);
  recording.events.resize(3);
  recording.dropped.resize(3);
  for (const int rank : {0, 1, 2}) {
    const auto r = static_cast<std::size_t>(rank);
    RankEvents of_rank{.events = original.events[r], .samples = {}, .dropped = original.dropped[r]};
    of_rank.clock_error_ns = original.info.clock_error_ns[r];
    for (const SoftmaxSample& s : original.samples)
      if (s.rank == rank) of_rank.samples.push_back(s);
    add_rank(recording, rank, unpack_rank_events(pack(of_rank)));
  }
  EXPECT_EQ(recording, original);
}

}  // namespace rank_events_test
}  // namespace ringscope
