// Rings with more than two KV buffers: the same bits, messages and work, memory as predicted, and
// blocks that come in as far ahead as the buffers reach, and no further.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "core/tools/cost/amounts.h"
#include "tests/core/ring/ring_harness.h"
#include "tests/core/ring/run_ahead.h"
#include "tests/core/ring/run_invariants.h"

namespace ringscope {
namespace {

Problem config_of(Index seqlen, PartitionKind partition, int world_size, int kv_buffers) {
  Problem config;
  config.shape = {1, 4, 2, seqlen, 4};
  config.mask = MaskSpec::parse(seqlen % 2 == 0 ? "causal" : "prefix:3");
  config.partition = partition;
  config.world_size = world_size;
  config.backward = true;
  config.kv_buffers = kv_buffers;
  return config;
}

AttentionInputs inputs_of(const Problem& config) {
  const Tensors<float> in = random_tensors(config.shape, 81);
  return {in.q, in.k, in.v, in.dout};
}

double billed_bytes(const Problem& config, int rank) {
  const auto rows = static_cast<double>(config.partition_of_sequence().rows_of(rank).size());
  return total_bytes(memory_parts(config, rows));
}

// Odd lengths and such that leave ranks without rows.
TEST(KvBuffers, ChangeNoBitNoMessageAndNoPair) {
  for (const Index seqlen : {61, 4, 1})
    for (const PartitionKind partition : kAllPartitions)
      for (const int n : {1, 2, 3, 5, 8}) {
        if (seqlen < n && partition != PartitionKind::zigzag) continue;
        const Problem two = config_of(seqlen, partition, n, 2);
        const AttentionInputs inputs = inputs_of(two);
        const auto expected = bits_of(run_on_threads(two, inputs).outputs);
        for (const int kv_buffers : std::set{2, 3, n, n + 3}) {
          if (kv_buffers < 2) continue;
          SCOPED_TRACE(testing::Message() << "seqlen " << seqlen << ", " << name_of(partition)
                                          << ", world_size " << n << ", buffers " << kv_buffers);
          Problem config = two;
          config.kv_buffers = kv_buffers;
          const RingRun run = run_on_threads(config, inputs);
          EXPECT_EQ(bits_of(run.outputs), expected);
          for (int rank = 0; rank < n; ++rank)
            EXPECT_EQ(static_cast<double>(run.peak_bytes[rank]), billed_bytes(config, rank));
          EXPECT_EQ(run.recording.info.kv_buffers, std::min(kv_buffers, n));
          expect_the_rules(config, run);
        }
      }
}

TEST(KvBuffers, TakeABlockEachUpToThatOfEveryRank) {
  for (const bool backward : {false, true}) {
    Index before = 0;
    for (const int kv_buffers : {2, 3, 4, 5, 6, 2'000'000'000}) {
      Problem config = config_of(50, PartitionKind::zigzag, 5, kv_buffers);
      config.backward = backward;
      const Index bytes = predicted_rank_bytes(config, 1);
      // K and V of 10 rows, 2 heads, 4 values, in f32. With backward, one buffer more is the own block.
      const int most = backward ? 4 : 5;
      if (kv_buffers > 2) {
        EXPECT_EQ(bytes - before, kv_buffers <= most ? 2 * 10 * 2 * 4 * 4 : 0) << kv_buffers;
      }
      before = bytes;
    }
  }
}

TEST(KvBuffers, AreAtLeastTwo) {
  for (const int kv_buffers : {1, 0, -3}) {
    const Problem config = config_of(8, PartitionKind::zigzag, 2, kv_buffers);
    EXPECT_THROW(check_config(config), InputError);
  }
}

// Something over at once, so that it can be told what comes after what.
class Past : public PendingOperation {
 public:
  bool done() const override { return true; }
  void wait() override {}
  TransferTimes times() const override { return {}; }
};

// What a rank's loops ask for, in order, and after what: "kv 1 after kv 0, attend 0" is the hop of step
// 1, "dkv 1" that of the gradient.
class Log {
 public:
  Completion add(const std::string& name, std::initializer_list<Completion> after,
                 Completion completion = std::make_shared<Past>()) {
    std::string line = name;
    for (const Completion& earlier : after)
      if (earlier != nullptr) line += (line == name ? " after " : ", ") + names_.at(earlier.get());
    text_ += line + "; ";
    names_[completion.get()] = name;
    kept_.push_back(completion);
    return completion;
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
  std::map<const PendingOperation*, std::string> names_;
  std::vector<Completion> kept_;
};

std::string numbered(const char* name, int step) { return name + std::to_string(step); }

class LoggingCommunicator : public ForwardingCommunicator {
 public:
  LoggingCommunicator(Communicator& inner, Log& log) : ForwardingCommunicator(inner), log_(log) {}
  Completion exchange(const Exchange& hop, std::initializer_list<Completion> after) override {
    return log_.add(numbered(hop.payload == Payload::kv ? "kv " : "dkv ", hop.step), after,
                    ForwardingCommunicator::exchange(hop, after));
  }

 private:
  Log& log_;
};

class LoggingBackend : public ForwardingBackend {
 public:
  LoggingBackend(BlockBackend& inner, Log& log) : ForwardingBackend(inner), log_(log) {}

 private:
  Completion around(BlockOperation which, const StepInfo* step, const Completion& after,
                    const Start& start) override {
    const Completion started = start(after);
    switch (which) {
      case BlockOperation::attend:
      case BlockOperation::attend_backward:
        return log_.add(numbered("attend ", step->step), {after});
      case BlockOperation::add:
        return log_.add(numbered("add ", step->step), {after});
      case BlockOperation::begin_backward:
        return log_.add("begin", {});
      default:
        return started;
    }
  }

  Log& log_;
};

std::string log_of(int world_size, int kv_buffers) {
  const Problem config = config_of(20, PartitionKind::striped, world_size, kv_buffers);
  std::vector<Log> logs(world_size);
  run_wrapped(
      config, inputs_of(config),
      [&](Rank& rank, Communicator& inner) {
        return LoggingCommunicator(inner, logs[rank.rank()]);
      },
      [&](Rank& rank, BlockBackend& inner) { return LoggingBackend(inner, logs[rank.rank()]); });
  for (const Log& log : logs) EXPECT_EQ(log.text(), logs[0].text());
  return logs[0].text();
}

TEST(KvBuffers, TwoPostOneHopAheadOfEveryStep) {
  EXPECT_EQ(log_of(3, 2),
            "kv 0; attend 0; kv 1 after kv 0, attend 0; attend 1 after kv 0; attend 2 after kv 1; "
            "begin; kv 0 after begin; attend 0; dkv 0 after attend 0; "
            "kv 1 after kv 0, attend 0; attend 1 after kv 0; add 1 after dkv 0; dkv 1 after add 1; "
            "attend 2 after kv 1; add 2 after dkv 1; dkv 2 after add 2; ");
}

TEST(KvBuffers, MorePostAllTheHopsThatThereAreBuffersFor) {
  EXPECT_EQ(log_of(5, 3),
            "kv 0; kv 1 after kv 0; attend 0; kv 2 after kv 1, attend 0; attend 1 after kv 0; "
            "kv 3 after kv 2, attend 1; attend 2 after kv 1; attend 3 after kv 2; "
            "attend 4 after kv 3; "
            "begin; kv 0 after begin; kv 1 after kv 0, begin; attend 0; dkv 0 after attend 0; "
            "kv 2 after kv 1, attend 0; attend 1 after kv 0; add 1 after dkv 0; dkv 1 after add 1; "
            "kv 3 after kv 2, attend 1; attend 2 after kv 1; add 2 after dkv 1; dkv 2 after add 2; "
            "attend 3 after kv 2; add 3 after dkv 2; dkv 3 after add 3; "
            "attend 4 after kv 3; add 4 after dkv 3; dkv 4 after add 4; ");
  EXPECT_EQ(log_of(3, 9), log_of(3, 3));
}

TEST(KvBuffers, BlocksArriveAheadWhileARankIsAtWork) {
  for (const int n : {2, 5, 8})
    for (const int kv_buffers : std::set{2, 3, 4, n}) {
      if (kv_buffers > n) continue;
      SCOPED_TRACE(testing::Message() << "world_size " << n << ", buffers " << kv_buffers);
      const Problem config = config_of(40, PartitionKind::zigzag, n, kv_buffers);
      std::vector<HopsAhead> hops(n, HopsAhead{kv_buffers, n, {}});
      const RingRun run = run_wrapped(
          config, inputs_of(config),
          [&](Rank& rank, Communicator& inner) {
            return WatchedCommunicator(inner, hops[rank.rank()]);
          },
          [&](Rank& rank, BlockBackend& inner) {
            return WaitingBackend(inner, hops[rank.rank()]);
          });
      EXPECT_EQ(bits_of(run.outputs), bits_of(run_on_threads(config, inputs_of(config)).outputs));
    }
}

}  // namespace
}  // namespace ringscope
