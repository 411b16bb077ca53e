// A ring that states its dependencies badly, or whose ranks do not ask for the same hops, is found out
// by the stand-in for NCCL: wrong numbers, a complaint, or a hang that the signs of life end.
#include <gtest/gtest.h>

#include <functional>

#include "core/run/rank.h"
#include "cuda/nccl/nccl_engine.h"
#include "cuda/nccl/nccl_setup.h"
#include "tests/core/ring/ring_harness.h"
#include "tests/nccl_model/nccl_run.h"

namespace ringscope::cuda {
namespace nccl_mutants_test {

const RingReference& problem() {
  static const RingReference reference({1, 1, 1, 22, 4}, DType::f32, "full", 0.5f, 91);
  return reference;
}

// (That a block has arrived before it is sent on needs no event: a rank's hops are in one stream.)
enum class Mistake {
  nothing,
  attends_before_arrival,
  backward_before_arrival,
  adds_before_arrival,
  receives_before_consumed,
  gradient_sent_before_summed,
  send_not_grouped,
  hop_left_out
};

class BadBackend : public ForwardingBackend {
 public:
  BadBackend(BlockBackend& inner, Mistake mistake) : ForwardingBackend(inner), mistake_(mistake) {}
  Completion attend(const StepInfo& step, const Region& region, const QueryBlock& q,
                    const KvBlock& block, const SoftmaxState& state,
                    const Completion& after) override {
    return ForwardingBackend::attend(step, region, q, block, state,
                                     unless(Mistake::attends_before_arrival, after));
  }
  Completion attend_backward(const StepInfo& step, const Region& region, const QueryBlock& q,
                             const KvBlock& block, const BackwardState& state,
                             const KvGradient& gradient, const Completion& after) override {
    return ForwardingBackend::attend_backward(step, region, q, block, state, gradient,
                                              unless(Mistake::backward_before_arrival, after));
  }
  Completion add(const StepInfo& step, const KvGradient& into, const KvGradient& from,
                 const Completion& after) override {
    return ForwardingBackend::add(step, into, from, unless(Mistake::adds_before_arrival, after));
  }

 private:
  Completion unless(Mistake mistake, const Completion& after) const {
    return mistake_ == mistake ? nullptr : after;
  }
  Mistake mistake_;
};

class BadCommunicator : public ForwardingCommunicator {
 public:
  BadCommunicator(Communicator& inner, Mistake mistake)
      : ForwardingCommunicator(inner), mistake_(mistake) {}
  Completion exchange(const Exchange& hop, std::initializer_list<Completion> after) override {
    // A block's hop comes after {arrived, consumed}, a gradient's after {summed}.
    const bool is_block = hop.payload == Payload::kv;
    if (mistake_ == Mistake::receives_before_consumed && is_block)
      return ForwardingCommunicator::exchange(hop, {after.begin()[0]});
    if (mistake_ == Mistake::gradient_sent_before_summed && !is_block)
      return ForwardingCommunicator::exchange(hop, {});
    Exchange changed = hop;
    if (mistake_ == Mistake::send_not_grouped) changed.send_first = true;
    if (mistake_ == Mistake::hop_left_out && rank() == 1 && hop.pass == Pass::backward &&
        is_block && hop.step == 0)
      return nullptr;
    return ForwardingCommunicator::exchange(changed, after);
  }

 private:
  Mistake mistake_;
};

// The engine of a run over NCCL, with the mistake in every rank.
class BadEngine : public NcclEngine {
 public:
  BadEngine(NcclWorld& world, NcclSetup& setup, Mistake mistake)
      : NcclEngine(world, setup.kernels(), setup.tuner(), nullptr, true, RankLives::in_a_thread),
        mistake_(mistake) {}
  std::unique_ptr<RankEngine> make(Rank& rank, const Listener& listener) override {
    return std::make_unique<BadRank>(NcclEngine::make(rank, listener), mistake_);
  }

 private:
  class BadRank : public RankEngine {
   public:
    BadRank(std::unique_ptr<RankEngine> inner, Mistake mistake)
        : inner_(std::move(inner)),
          communicator_(inner_->communicator(), mistake),
          backend_(inner_->backend(), mistake) {}
    Communicator& communicator() override { return communicator_; }
    BlockBackend& backend() override { return backend_; }
    void finish() override { inner_->finish(); }
    void finish_failed() override { inner_->finish_failed(); }
    Index scratch_bytes() const override { return inner_->scratch_bytes(); }

   private:
    std::unique_ptr<RankEngine> inner_;
    BadCommunicator communicator_;
    BadBackend backend_;
  };
  Mistake mistake_;
};

// How a run with the mistake shows it, under any of some orders of streams; empty: not at all.
std::string shows(Mistake mistake, std::uint64_t seeds, double timeout_s) {
  constexpr int kRanks = 4;
  Problem config = problem().config(PartitionKind::zigzag, kRanks);
  config.timeout_s = timeout_s;
  std::vector<NcclSeat> seats;
  for (int rank = 0; rank < kRanks; ++rank) seats.push_back({rank, 0});
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    reset_models();
    setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", 1);
    model::set_stream_seed(seed);
    AttentionOutputs outputs;
    const auto error = error_of([&] {
      NcclSetup setup(config, seats, quick_options());
      NcclWorld world(new_nccl_id(), kRanks, seats, {4, 20});
      BadEngine engine(world, setup, mistake);
      outputs = run_ranks(config, problem().inputs, engine).outputs;
    });
    if (error) return error->what();
    if (!model::nccl_complaints().empty()) return model::nccl_complaints().front();
    const auto same = [](const std::vector<float>& a, const std::vector<double>& b) {
      return max_abs_error(a, b) <= 1e-4;
    };
    const auto& oracle = problem().oracle;
    if (!(same(outputs.out, oracle.out) && same(outputs.dq, oracle.dq) &&
          same(outputs.dk, oracle.dk) && same(outputs.dv, oracle.dv)))
      return "wrong numbers";
  }
  return "";
}

class NcclMutants : public NcclTest {};

TEST_F(NcclMutants, NoneOfThemNothingShows) { EXPECT_EQ(shows(Mistake::nothing, 8, 20), ""); }

TEST_F(NcclMutants, AMissingDependencyShows) {
  for (const Mistake mistake : {Mistake::attends_before_arrival, Mistake::backward_before_arrival,
                                Mistake::adds_before_arrival, Mistake::receives_before_consumed,
                                Mistake::gradient_sent_before_summed})
    EXPECT_NE(shows(mistake, 40, 20), "") << "mistake " << static_cast<int>(mistake);
}

TEST_F(NcclMutants, AnUngroupedPairHangs) {
  EXPECT_NE(shows(Mistake::send_not_grouped, 1, 1).find("wait for each other"), std::string::npos);
}

TEST_F(NcclMutants, AHopLeftOutOnOneRankShows) {
  EXPECT_NE(shows(Mistake::hop_left_out, 1, 0.3), "");
}

}  // namespace nccl_mutants_test
}  // namespace ringscope::cuda
