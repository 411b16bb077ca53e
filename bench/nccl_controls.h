// The two halves of a run over NCCL, each without the other, for comparison with the whole: only
// computing, where no block moves, and only communicating, where no block is attended. Their
// results are useless, and buffers that nothing arrives in hold NaN.
#pragma once

#include <memory>

#include "core/run/engine.h"

namespace ringscope::cuda {

enum class Half { both, compute, communication };

// A communicator that moves nothing.
class StandingCommunicator : public Communicator {
 public:
  explicit StandingCommunicator(const Communicator& other)
      : rank_(other.rank()), world_size_(other.world_size()) {}
  int rank() const override { return rank_; }
  int world_size() const override { return world_size_; }
  Completion exchange(const Exchange&, std::initializer_list<Completion>) override {
    return nullptr;
  }

 private:
  int rank_, world_size_;
};

// A backend that attends nothing.
class IdleBackend : public BlockBackend {
 public:
  Completion begin(const QueryBlock&, const SoftmaxState&) override { return nullptr; }
  Completion attend(const StepInfo&, const Region&, const QueryBlock&, const KvBlock&,
                    const SoftmaxState&, const Completion&) override {
    return nullptr;
  }
  Completion finish(const QueryBlock&, const SoftmaxState&) override { return nullptr; }
  Completion begin_backward(const QueryBlock&, const BackwardState&) override { return nullptr; }
  Completion attend_backward(const StepInfo&, const Region&, const QueryBlock&, const KvBlock&,
                             const BackwardState&, const KvGradient&, const Completion&) override {
    return nullptr;
  }
  Completion add(const StepInfo&, const KvGradient&, const KvGradient&,
                 const Completion&) override {
    return nullptr;
  }
  Completion finish_backward(const StepInfo&, const QueryBlock&, const BackwardState&,
                             const Completion&) override {
    return nullptr;
  }
  const BlockStats& last_stats() const override { return stats_; }

 private:
  BlockStats stats_;
};

// An engine that does only one half of the work.
class HalfEngine : public Engine {
 public:
  HalfEngine(Engine& whole, Half half) : whole_(whole), half_(half) {}

  std::string_view name() const override { return whole_.name(); }
  MemorySpace& memory() override { return whole_.memory(); }
  MemorySpace& memory_of(int rank) override { return whole_.memory_of(rank); }
  std::string notes() const override { return whole_.notes(); }
  bool has_pulses() const override { return whole_.has_pulses(); }
  std::unique_ptr<RankEngine> make(Rank& rank, const Listener& listener) override {
    return std::make_unique<HalfRank>(whole_.make(rank, listener), half_);
  }
  void fail(const RunError& error) override { whole_.fail(error); }
  void throw_if_failed() override { whole_.throw_if_failed(); }

 private:
  class HalfRank : public RankEngine {
   public:
    HalfRank(std::unique_ptr<RankEngine> whole, Half half)
        : whole_(std::move(whole)), half_(half), standing_(whole_->communicator()) {}
    // Call both getters, because they select the rank's GPU for its thread.
    Communicator& communicator() override {
      Communicator& moving = whole_->communicator();
      return half_ == Half::compute ? standing_ : moving;
    }
    BlockBackend& backend() override {
      BlockBackend& working = whole_->backend();
      return half_ == Half::communication ? idle_ : working;
    }
    void finish() override { whole_->finish(); }
    void finish_failed() override { whole_->finish_failed(); }
    Index scratch_bytes() const override { return whole_->scratch_bytes(); }
    std::int64_t clock_error_ns() const override { return whole_->clock_error_ns(); }

   private:
    std::unique_ptr<RankEngine> whole_;
    Half half_;
    StandingCommunicator standing_;
    IdleBackend idle_;
  };

  Engine& whole_;
  Half half_;
};

}  // namespace ringscope::cuda
