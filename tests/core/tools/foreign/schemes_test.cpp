// Other ways of context parallelism in profiles: PyTorch's ring by all-to-alls, gathered keys and values,
// and Ulysses, whose kernels need not say what they are.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/core/base/thrown.h"
#include "tests/core/tools/foreign/profile_text.h"

namespace ringscope {
namespace {

using namespace profiles;

// Return split sizes of which only the one of `rank` is not 0.
std::string one_split(int ranks, int rank) {
  std::string text = "[";
  for (int i = 0; i < ranks; ++i)
    text += fmt::format("{}{}", i > 0 ? ", " : "", i == rank ? 4096 : 0);
  return text + "]";
}

std::string lengths(int queries, int keys, bool causal) {
  return fmt::format(
      R"("Input Dims":[[1,4,{0},64],[1,4,{1},64],[1,4,{1},64],[],[]],"Concrete Inputs":["","","","0.","{2}","",""])",
      queries, keys, causal ? "True" : "False");
}

enum class Told { functions, on_device, notes_only };

// PyTorch's ring, zigzag, as it stands in profiles of gloo and of NCCL.
std::vector<ProfileText> rotated(int ranks, Told told) {
  std::vector<ProfileText> texts(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    ProfileText& text = texts[static_cast<std::size_t>(rank)];
    double now = 1000;
    for (int layer = 0; layer < 3; ++layer)
      for (int step = 0; step < ranks; ++step) {
        const std::string to = one_split(ranks, (rank + 1) % ranks),
                          from = one_split(ranks, (rank + ranks - 1) % ranks);
        if (step + 1 < ranks && told == Told::on_device)
          text.kernel(
              kSendRecv, now + 5, 100, 20,
              fmt::format(
                  R"("Collective name":"all_to_allv","In split size":"{}","Out split size":"{}")",
                  to, from));
        if (step + 1 < ranks && told != Told::on_device) {
          if (told == Told::functions)
            text.add("cpu_op", "_c10d_functional::all_to_all_single", now, 20, 1,
                     fmt::format(R"("Concrete Inputs":["","{}","{}",""])", from, to));
          text.add("user_annotation", "gloo:all_to_all", now + 4, 100, 2);
        }
        const int owner = (rank - step + ranks) % ranks;
        const std::string dims = step == 0      ? lengths(64, 64, true)
                                 : owner < rank ? lengths(64, 32, false)
                                                : lengths(32, 64, false);
        if (told == Told::on_device)
          text.kernel(kAttention, now, 500, 7);
        else
          text.add("cpu_op", kCpuAttention, now + 1, 500, 1, dims);
        now += 503;
      }
  }
  return texts;
}

TEST(Schemes, AnAllToAllToOneRankIsAHop) {
  for (const Told told : {Told::functions, Told::on_device, Told::notes_only})
    for (const int ranks : {2, 3, 4}) {
      SCOPED_TRACE(fmt::format("{} ranks, told {}", ranks, static_cast<int>(told)));
      const InferredRing ring = ring_of(rotated(ranks, told));
      ASSERT_TRUE(ring.recording) << notes_of(ring);
      expect_contains(notes_of(ring), fmt::format("A ring of {} ranks: 3 layers", ranks));
      expect_contains(notes_of(ring), "as PyTorch rotates blocks");
      if (ranks > 2 && told != Told::notes_only)
        expect_contains(notes_of(ring), "r + 1 (confidence 0.95: the sends name their peers)");
      if (told != Told::on_device) EXPECT_EQ(ring.recording->info.partition, "zigzag");
      EXPECT_TRUE(explain(*ring.recording).findings.empty())
          << headline_of(explain(*ring.recording).findings[0]);
    }
}

// Ulysses: `before` all-to-alls, attention, and one more. Kernels name their collective, or the calls on
// the host do, or nobody.
TEST(Schemes, UlyssesIsKnownByItsOrder) {
  for (const int told : {0, 1, 2})
    for (const int before : {1, 2, 3})
      for (const int layers : {1, 5}) {
        std::vector<ProfileText> texts(4);
        for (ProfileText& text : texts) {
          double now = 1000;
          const auto swap = [&] {
            text.kernel(kSendRecv, now, 100, 20,
                        told == 0 ? R"("Collective name":"all_to_allv")" : "");
            if (told == 1) text.add("user_annotation", "nccl:all_to_all", now + 2, 8, 1);
            now += 105;
          };
          for (int layer = 0; layer < layers; ++layer) {
            for (int i = 0; i < before; ++i) swap();
            text.kernel(kAttention, now, 900, 7);
            now += 905;
            swap();
            now += 300;
          }
        }
        const InferredRing ring = ring_of(texts);
        EXPECT_FALSE(ring.recording);
        expect_contains(notes_of(ring),
                        fmt::format("{} all-to-alls beside {} attentions deal out heads",
                                    (before + 1) * layers, layers));
      }
}

// Gathered keys and values: `kernels` per layer, of which the first is beside the gather if `beside`. Rank r
// attends `time(r)` microseconds and comes `late(r)` to the gather of each layer.
struct Gathered {
  int kernels = 1;
  bool beside = false, backward = false, has_lengths = true, on_device = true;
  double gather = 200;
  std::vector<double> times = {400, 400, 400, 400};
  std::vector<int> keys = {256, 256, 256, 256};
};

std::vector<ProfileText> gathered(const Gathered& script) {
  std::vector<ProfileText> texts(4);
  double now = 1000;
  for (int layer = 0; layer < (script.backward ? 6 : 3); ++layer) {
    const bool back = layer >= 3;
    double next = 0;
    for (std::size_t rank = 0; rank < 4; ++rank) {
      ProfileText& text = texts[rank];
      if (script.on_device) {
        text.kernel("ncclDevKernel_AllGather_RING_LL(x)", now, script.gather, 20);
      } else {
        text.add("user_annotation", "gloo:all_gather", now, script.gather, 20);
      }
      double at = script.beside ? now + 5 : now + script.gather + 5;
      for (int k = 0; k < script.kernels; ++k) {
        if (k == 1 && script.beside) at = std::max(at, now + script.gather + 5);
        if (!script.on_device)
          text.add("cpu_op", kCpuAttention, at, script.times[rank], 7,
                   lengths(64, script.keys[rank], false));
        if (script.on_device) text.kernel(back ? kBackward : kAttention, at, script.times[rank], 7);
        if (script.on_device && script.has_lengths)
          text.add("cpu_op", "aten::_scaled_dot_product_flash_attention", at - 20, 10, 1,
                   lengths(64, script.keys[rank], true));
        at += script.times[rank] + 2;
      }
      next = std::max(next, at);
      if (!back) continue;
      for (int step = 0; step < 4; ++step)  // gradients, one hop after each block
        text.kernel(kSendRecv, at + 40 * step, 30, 21);
      next = std::max(next, at + 160);
    }
    now = next + 20;
  }
  return texts;
}

TEST(Schemes, ExplainsGatheredKeysAndValues) {
  const auto explained = [](const Gathered& script) {
    const InferredRing ring = ring_of(gathered(script));
    EXPECT_TRUE(ring.recording) << notes_of(ring);
    expect_contains(notes_of(ring), "4 ranks gather keys and values");
    const Explanation why = explain(ring.recording.value());
    EXPECT_TRUE(why.gathers);
    EXPECT_EQ(finding_of(why, Cause::no_overlap).saved_s, 0);
    return why;
  };
  const Explanation plain = explained({});
  EXPECT_TRUE(plain.findings.empty()) << headline_of(plain.findings[0]);
  EXPECT_NEAR(plain.transfers_s, 200e-6, 10e-6);
  const Explanation beside = explained({.kernels = 4, .beside = true});
  EXPECT_TRUE(beside.findings.empty()) << headline_of(beside.findings[0]);
  EXPECT_LT(beside.transfers_s, 10e-6);
  const Explanation slow = explained({.kernels = 4, .beside = true, .times = {400, 400, 600, 400}});
  EXPECT_EQ(slow.findings.at(0).cause, Cause::slow_rank);
  EXPECT_EQ(slow.findings.at(0).rank, 2);
  EXPECT_NEAR(slow.findings.at(0).saved_s, 800e-6, 40e-6);
  for (const bool has_lengths : {true, false}) {
    // Causal, each rank its own part of the sequence: the last has seven times the work of the first.
    const Explanation uneven = explained(
        {.has_lengths = has_lengths, .times = {100, 300, 500, 700}, .keys = {64, 128, 192, 256}});
    EXPECT_EQ(uneven.findings.at(0).cause, Cause::imbalance);
    EXPECT_EQ(uneven.findings.at(0).rank, 3);
    EXPECT_NEAR(uneven.findings.at(0).saved_s, 300e-6, 30e-6);
  }
  // As much work for each rank, of all pairs and of fewer.
  for (const int keys : {256, 128}) {
    const InferredRing even =
        ring_of(gathered({.on_device = false, .keys = {keys, keys, keys, keys}}));
    EXPECT_EQ(even.recording.value().info.mask, keys == 256 ? "full" : "causal") << notes_of(even);
  }
  // PyTorch gathers in the backward pass too, and sends gradients around.
  EXPECT_TRUE(explained({.kernels = 4, .beside = true, .backward = true}).transfers_s > 0);
}

}  // namespace
}  // namespace ringscope
