// A model that goes on with a text token by token, against one that reads the whole text at once.

#include <gtest/gtest.h>

#include <cstring>

#include "core/training/generate.h"
#include "tests/core/training/model_case.h"

namespace ringscope {
namespace {

// A rank's rows of a text, [batch, seqlen]. What follows the last byte is not read on.
RankBytes read_rows(const std::vector<std::uint8_t>& text, Index batch, Index seqlen,
                    const LocalRows& rows) {
  std::vector<std::uint8_t> windows;
  for (Index b = 0; b < batch; ++b) {
    windows.insert(windows.end(), text.begin() + b * seqlen, text.begin() + (b + 1) * seqlen);
    windows.push_back(0);
  }
  return take_rows(windows.data(), batch, seqlen, rows);
}

// Logits, [batch, positions, vocab], of the last `positions` of a text, [batch, seqlen], that one
// rank reads at once.
std::vector<float> read_at_once(ModelCase a_case, Index seqlen,
                                const std::vector<std::uint8_t>& text, Index positions) {
  a_case.seqlen = seqlen;
  std::vector<float> logits;
  run_replicas(a_case, PartitionKind::contiguous, 1, [&](TestReplica& rank) {
    Model& model = rank.replica.model();
    model.loss(rank.replica.store(),
               read_rows(text, a_case.batch, seqlen, rank.replica.ring().local_rows()));
    const Index vocab = a_case.shape.vocab;
    for (Index b = 0; b < a_case.batch; ++b) {
      const float* const last = model.logits() + (b + 1) * seqlen * vocab;
      logits.insert(logits.end(), last - positions * vocab, last);
    }
  });
  return logits;
}

// A rank's replica, which has read the prompt, and what it has gone on with.
struct Speaker {
  Speaker(const ModelCase& its_case, const std::string& text_mask, PartitionKind kind,
          Communicator& comm)
      : a_case(its_case), mask(MaskSpec::parse(text_mask)), replica(a_case, kind, comm) {}

  // text: [batch, length], of which seqlen are there; `next` fills position p of all sequences from
  // the logits. Keeps the logits of positions seqlen - 1 to length - 1.
  template <class Next>
  void speak(Index length, std::vector<std::uint8_t> prompt_and_room, const Next& next) {
    text = std::move(prompt_and_room);
    const Index batch = a_case.batch, vocab = a_case.shape.vocab;
    std::vector<std::uint8_t> prompt, fed(static_cast<std::size_t>(batch));
    for (Index b = 0; b < batch; ++b)
      prompt.insert(prompt.end(), text.begin() + b * length,
                    text.begin() + b * length + a_case.seqlen);
    Replica& r = replica.replica;
    r.model().loss(r.store(), read_rows(prompt, batch, a_case.seqlen, r.ring().local_rows()));
    replica.counting.take();  // the prefill's
    decoder =
        std::make_unique<Decoder>(replica.weights, r.store(), r.model(), r.ring().ring_problem(),
                                  mask.for_seqlen(length), replica.counting, nullptr);
    decoder->share_logits(r.model());
    const Index positions = length - a_case.seqlen + 1;
    logits.resize(static_cast<std::size_t>(batch * positions * vocab));
    for (Index i = 0; i < positions; ++i) {
      EXPECT_EQ(decoder->position(), a_case.seqlen + i);
      for (Index b = 0; b < batch; ++b)
        std::copy_n(decoder->logits() + b * vocab, vocab,
                    logits.data() + (b * positions + i) * vocab);
      if (i + 1 == positions) break;
      for (Index b = 0; b < batch; ++b) {
        std::uint8_t& at = text[b * length + a_case.seqlen + i];
        at = next(at, decoder->logits() + b * vocab, a_case.seqlen + i, b);
        fed[b] = at;
      }
      decoder->step(fed.data());
    }
    for (Index layer = 0; layer < a_case.shape.layers; ++layer)
      rows.push_back(decoder->shard(layer).rows());
  }

  ModelCase a_case;
  MaskSpec mask;
  TestReplica replica;
  std::unique_ptr<Decoder> decoder;  // hops name its memory
  std::vector<std::uint8_t> text;
  std::vector<float> logits;
  std::vector<Index> rows;  // held at the end, by layer
};

template <class Next>
auto spoken(const ModelCase& a_case, PartitionKind kind, int world_size, Index length,
            const std::vector<std::uint8_t>& text, const Next& next,
            const std::string& text_mask = "causal") {
  return run_rank_threads(
      world_size,
      [&](Communicator& comm) { return std::make_unique<Speaker>(a_case, text_mask, kind, comm); },
      [&](Speaker& speaker) { speaker.speak(length, text, next); });
}

void expect_logits(const Speaker& speaker, const std::vector<float>& expected,
                   const std::string& what) {
  ASSERT_EQ(speaker.logits.size(), expected.size());
  expect_rounded_alike(speaker.logits.data(), expected, what);
}

void expect_same_bits(const std::vector<std::unique_ptr<Speaker>>& ranks) {
  for (const auto& rank : ranks) {
    EXPECT_EQ(rank->text, ranks[0]->text);
    EXPECT_EQ(std::memcmp(rank->logits.data(), ranks[0]->logits.data(),
                          rank->logits.size() * sizeof(float)),
              0);
  }
}

const auto kAsGiven = [](std::uint8_t byte, const float*, Index, Index) { return byte; };

void check_all_partitions(ModelCase a_case, Index length) {
  const Index prompt = a_case.seqlen;
  a_case.seqlen = length - 1;  // windows() gives one byte more
  const std::vector<std::uint8_t> text = a_case.windows();
  a_case.seqlen = prompt;
  const std::vector<float> expected = read_at_once(a_case, length, text, length - prompt + 1);
  for (const PartitionKind kind : kAllPartitions)
    for (int n = 1; n <= 8; ++n) {
      const auto ranks = spoken(a_case, kind, n, length, text, kAsGiven);
      expect_logits(*ranks[0], expected, std::string(name_of(kind)) + ", " + std::to_string(n));
      expect_same_bits(ranks);
    }
}

TEST(Decoder, EqualsPrefillForEveryPartitionAndWorldSize) {
  ModelCase a_case = ModelCase::small();
  a_case.seqlen = 11;
  check_all_partitions(a_case, 18);
}

TEST(Decoder, EqualsPrefillFromASingleByteOn) {
  ModelCase a_case = ModelCase::small();
  a_case.seqlen = 1;
  check_all_partitions(a_case, 5);
}

// The prompt's mask and the whole text's; a window that is wider than the prompt among them.
TEST(Decoder, TakesMasksAsThePrefillDoes) {
  const std::pair<const char*, const char*> masks[] = {
      {"causal+window:6", "causal+window:6"},
      {"causal+window:20", "causal+window:20"},
      {"prefix:9", "prefix:9"},
      {"causal+documents:5,7", "causal+documents:5,20,15"}};
  for (const auto& [of_prompt, of_text] : masks) {
    ModelCase a_case = ModelCase::small();
    a_case.seqlen = 39;
    const std::vector<std::uint8_t> text = a_case.windows();
    a_case.mask = of_text;
    const std::vector<float> expected = read_at_once(a_case, 40, text, 29);
    a_case.mask = of_prompt;
    a_case.seqlen = 12;
    for (const PartitionKind kind : kAllPartitions)
      expect_logits(*spoken(a_case, kind, 3, 40, text, kAsGiven, of_text)[0], expected, of_text);
  }
}

// Drawn by every rank for itself, from its own logits. Shards have several pages, and the window begins
// inside one.
void check_thousand_tokens(const std::string& mask) {
  ModelCase a_case = ModelCase::small();
  a_case.batch = 1;
  a_case.seqlen = 17;
  a_case.mask = mask;
  constexpr Index kLength = 17 + 1000;
  std::vector<std::uint8_t> text = a_case.windows();
  text.resize(kLength);
  const auto draw = [&](std::uint8_t, const float* logits, Index position, Index) {
    return sample({.temperature = 1, .seed = 5}, a_case.shape.vocab, logits,
                  static_cast<std::uint64_t>(position));
  };
  const auto ranks = spoken(a_case, PartitionKind::fold, 4, kLength, text, draw, mask);
  expect_same_bits(ranks);
  expect_logits(*ranks[0], read_at_once(a_case, kLength, ranks[0]->text, 1001), "long run");

  Index least = kLength, most = 0;
  for (const auto& rank : ranks)
    for (const Index rows : rank->rows) {
      least = min_of(least, rows);
      most = max_of(most, rows);
    }
  EXPECT_LE(most - least, 2);  // one row of the prompt's, one of the thousand
}

TEST(Decoder, EqualsPrefillAfterAThousandTokens) {
  check_thousand_tokens("causal");
  check_thousand_tokens("causal+window:450");
}

}  // namespace
}  // namespace ringscope
