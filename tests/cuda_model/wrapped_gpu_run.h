// Runs on the host model with each rank's communicator and backend wrapped as a test wants.
#pragma once

#include <memory>
#include <utility>

#include "core/run/rank.h"
#include "cuda/base/device_info.h"
#include "cuda/ring/gpu_engine.h"
#include "tests/core/ring/ring_harness.h"
#include "tests/cuda/one_gpu_ring.h"

namespace ringscope::cuda {

// make_communicator(rank, inner) and make_backend(rank, inner) return wrappers of what they are
// given: the recorded ones of the engine inside.
template <class MakeCommunicator, class MakeBackend>
class WrappedEngine : public Engine {
 public:
  WrappedEngine(Engine& inner, MakeCommunicator make_communicator, MakeBackend make_backend)
      : inner_(inner),
        make_communicator_(std::move(make_communicator)),
        make_backend_(std::move(make_backend)) {}

  std::string_view name() const override { return inner_.name(); }
  MemorySpace& memory() override { return inner_.memory(); }
  std::unique_ptr<RankEngine> make(Rank& rank, const Listener& listener) override {
    return std::make_unique<Wrapped>(inner_.make(rank, listener), rank.rank(), *this);
  }
  void fail(const RunError& error) override { inner_.fail(error); }
  void throw_if_failed() override { inner_.throw_if_failed(); }

 private:
  class Wrapped : public RankEngine {
   public:
    Wrapped(std::unique_ptr<RankEngine> inner, int rank, WrappedEngine& all)
        : inner_(std::move(inner)),
          communicator_(all.make_communicator_(rank, inner_->communicator())),
          backend_(all.make_backend_(rank, inner_->backend())) {}
    Communicator& communicator() override { return communicator_; }
    BlockBackend& backend() override { return backend_; }
    void finish() override { inner_->finish(); }
    Index scratch_bytes() const override { return inner_->scratch_bytes(); }
    std::int64_t clock_error_ns() const override { return inner_->clock_error_ns(); }

   private:
    std::unique_ptr<RankEngine> inner_;
    std::invoke_result_t<MakeCommunicator, int, Communicator&> communicator_;
    std::invoke_result_t<MakeBackend, int, BlockBackend&> backend_;
  };

  Engine& inner_;
  MakeCommunicator make_communicator_;
  MakeBackend make_backend_;
};

template <class MakeCommunicator, class MakeBackend>
RingRun run_wrapped_on_gpu(const RingReference& problem, const Problem& config,
                           MakeCommunicator make_communicator, MakeBackend make_backend) {
  Autotuner tuner{TunerOptions{}};
  const ChosenKernels kernels = choose_kernels(options_for(config.dtype).kernels, 90, config.dtype,
                                               config.shape.head_dim, config.backward);
  GpuEngine gpu(config.world_size, kernels, true, tuner);
  WrappedEngine engine(gpu, std::move(make_communicator), std::move(make_backend));
  return run_ranks(config, problem.inputs, engine);
}

}  // namespace ringscope::cuda
