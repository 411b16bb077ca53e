// Rings whose hops run beside attention, or take turns with it, drawn at random: only the latter are
// told that hops do not overlap, with the steps, the cost and the reason.
#include <gtest/gtest.h>

#include <algorithm>

#include "core/base/random.h"
#include "tests/core/base/thrown.h"
#include "tests/core/tools/foreign/profile_text.h"

namespace ringscope {
namespace {

using namespace profiles;

enum class Order { beside, hop_after, hop_before };
enum class Why { unseen, sync, stream, blocking, queue };

struct DrawnRing {
  int ranks = 4, layers = 3;
  Order order = Order::beside;
  Why why = Why::unseen;
  double attention = 500, hop = 400;  // microseconds
  double varies = 0;                  // by up to this share of a kernel's time
  bool backward = false;
};

DrawnRing drawn(std::uint64_t seed) {
  const auto draw = [&](std::uint64_t what, double low, double high) {
    return low + (high - low) * unit_interval(random_bits(seed, 5, what));
  };
  DrawnRing ring;
  ring.ranks = 2 + static_cast<int>(draw(0, 0, 6.99));
  ring.layers = 2 + static_cast<int>(draw(1, 0, 2.99));
  ring.order = static_cast<Order>(static_cast<int>(draw(2, 0, 2.99)));
  ring.attention = draw(3, 150, 900);
  ring.hop = draw(4, 60, 1500);
  ring.varies = draw(5, 0, 0.05);
  ring.backward = draw(6, 0, 1) < 0.4;
  if (ring.order != Order::beside) ring.why = static_cast<Why>(static_cast<int>(draw(7, 0, 4.99)));
  if (ring.why == Why::queue) ring.order = Order::hop_after;
  return ring;
}

// Return what the ring's ranks record. A hop begins when both its ends have come to it.
std::vector<ProfileText> texts_of(const DrawnRing& ring, std::uint64_t seed) {
  const auto n = static_cast<std::size_t>(ring.ranks);
  std::vector<ProfileText> texts(n);
  std::vector<double> now(n, 1000);
  std::uint64_t drawn = 0;
  const auto varied = [&](double time) {
    return time * (1 + ring.varies * unit_interval(random_bits(seed, 6, ++drawn)));
  };
  const int hop_stream = ring.why == Why::stream ? 7 : 20;
  const auto attend = [&](std::size_t rank, double begin, double time, bool back) {
    if (ring.why == Why::blocking)
      texts[rank].add("cuda_runtime", "cudaLaunchKernel", begin - 4, time + 6, 1,
                      fmt::format(R"("correlation":{})", texts[rank].launched() + 1));
    texts[rank].kernel(back ? kBackward : kAttention, begin, time, 7);
    return begin + time;
  };
  // Move a block when all have come, and return when each may go on.
  const auto hop = [&](const std::vector<double>& from) {
    std::vector<double> ends(n);
    for (std::size_t rank = 0; rank < n; ++rank) {
      const double both = std::max({from[rank], from[(rank + 1) % n], from[(rank + n - 1) % n]});
      ends[rank] = both + varied(ring.hop);
      texts[rank].kernel(kSendRecv, from[rank], ends[rank] - from[rank], hop_stream);
      if (ring.why == Why::sync)
        texts[rank].add("cuda_runtime", "cudaStreamSynchronize", from[rank],
                        ends[rank] + 2 - from[rank], 1);
    }
    return ends;
  };
  for (int pass = 0; pass < (ring.backward ? 2 * ring.layers : ring.layers); ++pass) {
    const bool back = pass >= ring.layers;
    for (int step = 0; step < ring.ranks; ++step) {
      const bool moves = step + 1 < ring.ranks;
      const std::vector<double> begun = now;
      std::vector<double> start = now, come = now;
      if (moves && ring.order == Order::hop_before) {
        start = come = hop(begun);
        for (double& time : start) time += 6;
      } else if (moves && ring.order == Order::beside) {
        for (double& time : start) time += 5;
        come = hop(start);
        start = begun;
      }
      for (std::size_t rank = 0; rank < n; ++rank) {
        const double time = varied(back ? 2.5 * ring.attention : ring.attention);
        if (moves && ring.why == Why::queue)
          texts[rank].kernel("ncclDevKernel_AllReduce_Sum_bf16_RING_LL()", start[rank] + 3, time,
                             20);
        now[rank] = std::max(attend(rank, start[rank], time, back), come[rank]) + 6;
      }
      if (moves && ring.order == Order::hop_after) {
        now = hop(now);
        for (double& time : now) time += 6;
      }
    }
    for (double& time : now) time += 40;
  }
  return texts;
}

TEST(Overlap, NamesRingsWhoseHopsTakeTurnsAndNoOthers) {
  int in_turn = 0, beside = 0;
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    const DrawnRing ring = drawn(seed);
    SCOPED_TRACE(fmt::format("seed {}: {} ranks, order {}, why {}, {} beside {} us, backward {}",
                             seed, ring.ranks, static_cast<int>(ring.order),
                             static_cast<int>(ring.why), ring.hop, ring.attention, ring.backward));
    const InferredRing found = ring_of(texts_of(ring, seed));
    ASSERT_TRUE(found.recording) << notes_of(found);
    const Explanation why = explain(*found.recording);
    const Diagnosis finding = finding_of(why, Cause::no_overlap);
    if (ring.order == Order::beside) {
      ++beside;
      EXPECT_EQ(finding.saved_s, 0) << finding.evidence;
      continue;
    }
    ++in_turn;
    ASSERT_FALSE(why.findings.empty());
    EXPECT_EQ(why.findings[0].cause, Cause::no_overlap) << headline_of(why.findings[0]);
    const int hops = ring.ranks - 1;
    const double saved = 1e-6 * hops *
                         (std::min(ring.hop, ring.attention) +
                          (ring.backward ? std::min(ring.hop, 2.5 * ring.attention) : 0));
    const double launches = 12e-6 * hops * (ring.backward ? 2 : 1);
    EXPECT_NEAR(finding.saved_s, saved, 0.12 * saved + launches);
    expect_contains(finding.evidence, hops == 1   ? "step 0"
                                      : hops == 2 ? "steps 0 and 1"
                                                  : fmt::format("steps 0 to {}", hops - 1));
    const char* const reasons[] = {"", "host waits", "stream 7", "CUDA_LAUNCH_BLOCKING",
                                   "one communicator"};
    expect_contains(finding.evidence, reasons[static_cast<int>(ring.why)]);
    if (ring.why == Why::unseen) EXPECT_TRUE(found.recording->info.turns_because.empty());
  }
  EXPECT_GT(in_turn, 60);
  EXPECT_GT(beside, 30);
}

// Only the middle one of three hops waits for attention.
TEST(Overlap, NamesTheStepsThatTakeTurns) {
  std::vector<ProfileText> texts(4);
  for (ProfileText& text : texts) {
    double now = 1000;
    for (int layer = 0; layer < 3; ++layer)
      for (int step = 0; step < 4; ++step) {
        const bool in_turn = step == 1;
        if (step < 3 && !in_turn) text.kernel(kSendRecv, now + 5, 300, 20);
        text.kernel(kAttention, now, 500, 7);
        now += 510;
        if (!in_turn) continue;
        text.kernel(kSendRecv, now, 300, 20);
        now += 310;
      }
  }
  const Explanation why = explain(ring_of(texts).recording.value());
  ASSERT_FALSE(why.findings.empty());
  EXPECT_EQ(why.findings[0].cause, Cause::no_overlap);
  expect_contains(why.findings[0].evidence, "At step 1,");
  EXPECT_NEAR(why.findings[0].saved_s, 310e-6, 15e-6);
}

}  // namespace
}  // namespace ringscope
