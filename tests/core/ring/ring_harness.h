// A ring whose ranks work with whatever communicator and backend a test puts in between.
#pragma once

#include <memory>
#include <type_traits>
#include <utility>

#include "core/ring/forwarding.h"
#include "core/threads/cpu_engine.h"
#include "core/threads/run.h"
#include "tests/core/ring/ring_case.h"

namespace ringscope {

// An engine that wraps each rank's communicator and backend as a test wants.
// make_communicator(Rank&, inner) and make_backend(Rank&, inner) return wrappers of the recorded ones
// of the engine inside.

template <class MakeCommunicator, class MakeBackend>
class WrappedEngine : public Engine {
 public:
  WrappedEngine(Engine& inner, MakeCommunicator make_communicator, MakeBackend make_backend)
      : inner_(inner),
        make_communicator_(std::move(make_communicator)),
        make_backend_(std::move(make_backend)) {}

  std::string_view name() const override { return inner_.name(); }
  MemorySpace& memory() override { return inner_.memory(); }
  MemorySpace& memory_of(int rank) override { return inner_.memory_of(rank); }
  bool has_pulses() const override { return inner_.has_pulses(); }
  std::unique_ptr<RankEngine> make(Rank& rank, const Listener& listener) override {
    return std::make_unique<Wrapped>(inner_.make(rank, listener), rank, *this);
  }
  void fail(const RunError& error) override { inner_.fail(error); }
  void throw_if_failed() override { inner_.throw_if_failed(); }

 private:
  class Wrapped : public RankEngine {
   public:
    Wrapped(std::unique_ptr<RankEngine> inner, Rank& rank, WrappedEngine& all)
        : inner_(std::move(inner)),
          communicator_(all.make_communicator_(rank, inner_->communicator())),
          backend_(all.make_backend_(rank, inner_->backend())) {}
    void begin() override { inner_->begin(); }
    Communicator& communicator() override { return communicator_; }
    BlockBackend& backend() override { return backend_; }
    void finish() override { inner_->finish(); }
    void record() override { inner_->record(); }
    void finish_failed() override { inner_->finish_failed(); }
    Index scratch_bytes() const override { return inner_->scratch_bytes(); }
    std::int64_t clock_error_ns() const override { return inner_->clock_error_ns(); }

   private:
    std::unique_ptr<RankEngine> inner_;
    std::invoke_result_t<MakeCommunicator, Rank&, Communicator&> communicator_;
    std::invoke_result_t<MakeBackend, Rank&, BlockBackend&> backend_;
  };

  Engine& inner_;
  MakeCommunicator make_communicator_;
  MakeBackend make_backend_;
};

// Run on threads with each rank's communicator and backend wrapped as told.
template <class MakeCommunicator, class MakeBackend>
RingRun run_wrapped(const Problem& config, const AttentionInputs& inputs,
                    MakeCommunicator make_communicator, MakeBackend make_backend) {
  ThreadEngine threads(config.world_size);
  WrappedEngine engine(threads, make_communicator, make_backend);
  return run_ranks(config, inputs, engine);
}

}  // namespace ringscope
