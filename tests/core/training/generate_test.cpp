// Text from a checkpoint: the same whoever says it, what is sent for it, and what is refused.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>
#include <vector>

#include "core/base/error.h"
#include "core/ring/loop_counts.h"
#include "core/training/generate.h"
#include "core/training/rank_threads.h"
#include "tests/core/base/thrown.h"
#include "tests/core/training/checkpoint_case.h"
#include "tests/core/training/message_log.h"

namespace ringscope {
namespace {

// `bytes` of them that a small model knows.
std::string some_prompt(Index bytes) {
  std::string prompt;
  for (Index i = 0; i < bytes; ++i) prompt += static_cast<char>((3 * i * i + i) % 17);
  return prompt;
}

GenerateOptions options_of(Index prompt, Index bytes, double temperature = 1) {
  return {some_prompt(prompt), bytes, {temperature, 5}};
}

std::string said_of(const Deal& deal, const GenerateOptions& options) {
  return std::string(name_of(deal.partition)) + ", " + std::to_string(deal.world_size) + ", " +
         std::to_string(options.bytes) + " bytes, temperature " +
         std::to_string(options.sampling.temperature);
}

// One rank's text, byte by byte from the logits of a model that reads all of it from the beginning
// every time: without a cache.
std::string without_cache(const Checkpoint& checkpoint, const GenerateOptions& options) {
  GenerateOptions one_byte = options;
  one_byte.bytes = 1;
  std::string text;
  for (Index i = 0; i < options.bytes; ++i) {
    text += generate_on_threads(checkpoint, {PartitionKind::contiguous, 1}, one_byte).text;
    one_byte.prompt = options.prompt + text;
  }
  return text;
}

TEST(Generate, IsTheTextThatIsReadAnewForEveryByteWhoeverSaysIt) {
  const Checkpoint checkpoint = small_checkpoint();
  for (const Index prompt : {1, 11}) {
    GenerateOptions likeliest = options_of(prompt, 10, 0), drawn = options_of(prompt, 10, 1);
    const std::string expected[] = {without_cache(checkpoint, likeliest),
                                    without_cache(checkpoint, drawn)};
    EXPECT_GT(std::set<char>(expected[1].begin(), expected[1].end()).size(), 4u) << expected[1];
    std::string told;
    for (const PartitionKind kind : kAllPartitions)
      for (int n = prompt == 1 ? 5 : 1; n <= 8; n += prompt == 1 ? 3 : 1) {
        const int turn = n + static_cast<int>(kind);
        const GenerateOptions& options = turn % 2 == 0 ? likeliest : drawn;
        told.clear();
        const auto tell = [&](std::uint8_t byte) { told += static_cast<char>(byte); };
        EXPECT_EQ(generate_on_threads(checkpoint, {kind, n}, options, tell).text,
                  expected[turn % 2])
            << said_of({kind, n}, options);
        EXPECT_EQ(told, expected[turn % 2]);
      }
  }
}

// Prompts of fewer rows than ranks among them: then there are blocks without a row.
TEST(Generate, SendsWhatTheFormulasSayAndSpreadsTheCacheEvenly) {
  const Checkpoint checkpoint = small_checkpoint();
  int parted = 0;
  for (const Index prompt : {3, 16})
    for (const Index bytes : {1, 9, 29})
      for (int n = 1; n <= 6; ++n) {
        const Deal deal{.partition = n % 2 == 0 ? PartitionKind::zigzag : PartitionKind::striped,
                        .world_size = n,
                        .hops = Hops::needed};
        const GenerateOptions options = options_of(prompt, bytes);
        SCOPED_TRACE(said_of(deal, options));
        WireCount prefill, decode;
        Index prompt_rows = 0, rows = 0, fewest = bytes, most = 0;
        for (const GeneratedShare& share : generate_on_threads(checkpoint, deal, options).shares) {
          prefill += share.prefill;
          decode += share.decode;
          prompt_rows += share.prompt_rows;
          rows += share.generated_rows;
          fewest = min_of(fewest, share.generated_rows);
          most = max_of(most, share.generated_rows);
          EXPECT_EQ(share.shard_bytes > 0, share.prompt_rows + share.generated_rows > 0);
        }
        // What is needed of K and V of 2 heads of 4 values, in each of 2 layers; and 17 logits.
        Problem job = attention_problem(checkpoint.settings, deal);
        job.shape = {1, 4, 2, prompt, 4};
        job.backward = false;
        WireCount expected{n - 1, (n - 1) * 17 * 4};
        for (int rank = 0; rank < n; ++rank) {
          const LoopCounts counts = count_loop(job, rank, false);
          expected += {2 * counts.messages, 2 * static_cast<Index>(counts.forward_bytes)};
        }
        EXPECT_EQ(prefill, expected);
        const Index whole = 2 * (n - 1) * prompt * 2 * 2 * 4 * 4 + (n - 1) * 17 * 4;
        EXPECT_LE(prefill.bytes, whole);
        EXPECT_EQ(prefill.bytes < whole, job.parts_blocks());
        parted += job.parts_blocks() ? 1 : 0;
        const MergeCost one = merge_cost(MergeKind::ring, 4, 4, n);
        EXPECT_EQ(decode, (WireCount{2 * (bytes - 1) * one.messages, 2 * (bytes - 1) * one.bytes}));
        EXPECT_EQ(prompt_rows, prompt);
        EXPECT_EQ(rows, bytes - 1);  // the last byte's row is never computed
        EXPECT_LE(most - fewest, 1);
      }
  EXPECT_GT(parted, 0);
}

// Where the prompt is the most, and where what is generated is.
TEST(Generate, HoldsWhatTheFormulaSays) {
  const Checkpoint checkpoint = small_checkpoint();
  for (const auto& [prompt, bytes] : {std::pair<Index, Index>{700, 2}, {1, 1500}}) {
    const Deal deal{PartitionKind::striped, 2};
    const GenerateOptions options = options_of(prompt, bytes);
    const Generated generated = generate_on_threads(checkpoint, deal, options);
    for (int rank = 0; rank < 2; ++rank) {
      const double expected = generating_bytes(checkpoint.settings, deal, options, rank);
      const auto held = static_cast<double>(generated.shares[rank].peak_bytes);
      EXPECT_NEAR(held, expected, 0.04 * held) << prompt;
    }
  }
}

TEST(Generate, EndsWithTheFirstFailure) {
  const Checkpoint checkpoint = small_checkpoint();
  const Deal deal{PartitionKind::zigzag, 3};
  int told = 0;
  const auto unheard = [&] {
    generate_on_threads(checkpoint, deal, options_of(5, 1000), [&](std::uint8_t) {
      if (++told == 4) throw RunError("nobody listens");
    });
  };
  EXPECT_EQ(run_error_of(unheard), "rank 0, step -1: nobody listens");
  EXPECT_EQ(told, 4);
  Checkpoint broken = checkpoint;
  broken.values[40] = std::numeric_limits<float>::quiet_NaN();  // of a byte's embedding
  EXPECT_THROW(generate_on_threads(broken, deal, options_of(5, 10)), RunError);
}

// Starts the hand-over's hop and then fails, while the copy may be under way.
class FailingHandover : public MessageLog {
 public:
  using MessageLog::MessageLog;
  Completion exchange(const Exchange& hop, std::initializer_list<Completion> after) override {
    Completion started = MessageLog::exchange(hop, after);
    if (hop.payload != Payload::dkv) return started;
    sent.assign(static_cast<const char*>(hop.send), static_cast<std::size_t>(hop.send_bytes));
    throw RunError("the cable is out");
  }

  std::string sent;
};

// The peer may still be reading what the rank that fails has sent, until its communicator ends.
TEST(Generate, WhatAFailedHandoverSendsStaysWhereItIs) {
  const Checkpoint checkpoint = small_checkpoint();
  const Deal deal{PartitionKind::contiguous, 2};  // rank 1 has the last row
  const GenerateOptions options = options_of(5, 10);
  struct State {
    State(const Checkpoint& its_checkpoint, const Deal& its_deal,
          const GenerateOptions& its_options, Communicator& its_comm)
        : failing(its_comm),
          rank(its_checkpoint, its_deal, its_options,
               its_comm.rank() == 1 ? static_cast<Communicator&>(failing) : its_comm) {}
    FailingHandover failing;
    GeneratingRank rank;
  };
  std::string sent, still_there;
  try {
    run_rank_threads(
        2,
        [&](Communicator& comm) {
          return std::make_unique<State>(checkpoint, deal, options, comm);
        },
        [&](State& state) {
          try {
            state.rank.generate();
          } catch (const RunError&) {
            if (state.rank.rank() == 1) {
              sent = state.failing.sent;
              still_there.assign(static_cast<const char*>(state.failing.hops.back().send),
                                 sent.size());
            }
            throw;
          }
        });
    ADD_FAILURE() << "nobody failed";
  } catch (const RunError& error) {
    EXPECT_STREQ(error.what(), "the cable is out");
    EXPECT_EQ(error.rank(), 1);
  }
  EXPECT_EQ(sent.size(), 17u * sizeof(float));
  EXPECT_EQ(still_there, sent);
}

TEST(Generate, ARankThatIsToldToStopDoes) {
  const Checkpoint checkpoint = small_checkpoint();
  const Deal deal{PartitionKind::zigzag, 1};
  const GenerateOptions options = options_of(5, 1000);
  RankPulse pulse;
  int told = 0;
  EXPECT_THROW(run_rank_threads(
                   1,
                   [&](Communicator& comm) {
                     return std::make_unique<GeneratingRank>(checkpoint, deal, options, comm,
                                                             &pulse);
                   },
                   [&](GeneratingRank& rank) {
                     rank.generate([&](std::uint8_t) {
                       if (++told == 4) pulse.stop();
                     });
                   }),
               RunError);
  EXPECT_EQ(told, 4);
}

// (What the program is asked for besides: tests/app/refusals.txt.)
TEST(Generate, RefusesMasksThatDoNotGoOn) {
  for (const char* const mask :
       {"full", "window:4", "prefix:6", "causal+documents:5,10", "causal+documents:2,3"})
    expect_contains(input_error_of([&] {
                      generate_on_threads(small_checkpoint(17, mask), {PartitionKind::zigzag, 2},
                                          options_of(5, 10));
                    }),
                    "'" + std::string(mask) + "'");
}

// ---

constexpr float kLogits[] = {0.5f, -1.0f, 2.0f, 2.0f, 0.0f};

TEST(Sampling, TemperatureZeroTakesTheFirstOfTheLikeliest) {
  for (std::uint64_t place = 0; place < 100; ++place)
    EXPECT_EQ(sample({.temperature = 0, .seed = place}, 5, kLogits, place), 2);
}

// Over 40,000 draws a frequency is off by more than 5 deviations, 5 * sqrt(p (1-p) / 40000), once
// in a million; the draws are the same every time.
TEST(Sampling, FrequenciesAreTheSoftmaxs) {
  for (const double temperature : {0.5, 1.0, 3.0}) {
    constexpr int kDraws = 40000;
    std::vector<double> counts(5);
    for (std::uint64_t place = 0; place < kDraws; ++place)
      ++counts[sample({temperature, 11}, 5, kLogits, place)];
    double sum = 0;
    for (const float z : kLogits) sum += std::exp(z / temperature);
    for (int i = 0; i < 5; ++i) {
      const double p = std::exp(kLogits[i] / temperature) / sum;
      EXPECT_NEAR(counts[i] / kDraws, p, 5 * std::sqrt(p * (1 - p) / kDraws)) << temperature;
    }
  }
}

TEST(Sampling, DependsOnSeedAndPlaceAlone) {
  int same_place = 0, same_seed = 0;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    const auto drawn = sample({1, 3}, 5, kLogits, i);
    EXPECT_EQ(drawn, sample({1, 3}, 5, kLogits, i));
    same_place += drawn == sample({1, 4}, 5, kLogits, i) ? 1 : 0;
    same_seed += drawn == sample({1, 3}, 5, kLogits, i + 1000) ? 1 : 0;
  }
  EXPECT_LT(same_place, 600);  // 0.35 of them by chance
  EXPECT_LT(same_seed, 600);
}

TEST(Sampling, LargeLogitsAndSmallTemperaturesDoNotOverflow) {
  const float logits[] = {3e38f, -3e38f, 2e38f};
  EXPECT_EQ(sample({1e-3, 1}, 3, logits, 5), 0);
  EXPECT_EQ(sample({1e-300, 1}, 3, logits, 5), 0);
}

TEST(Sampling, RefusesWhatIsNoDistribution) {
  const double inf = std::numeric_limits<double>::infinity();
  GenerateOptions options;
  for (const double temperature : {-0.5, inf, std::nan(""), 0.0}) {
    options.sampling.temperature = temperature;
    const std::string said = input_error_of([&] { validate(small_checkpoint(), {}, options); });
    EXPECT_EQ(said.starts_with("temperature: "), temperature != 0) << said;
  }
  const float logits[] = {0, std::numeric_limits<float>::quiet_NaN()};
  EXPECT_THROW(sample({}, 2, logits, 0), RunError);
}

}  // namespace
}  // namespace ringscope
