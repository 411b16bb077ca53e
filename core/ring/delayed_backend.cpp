#include "core/ring/delayed_backend.h"

#include <chrono>
#include <thread>

#include "core/base/random.h"

namespace ringscope {

namespace {

class DelayedBackend : public BlockBackend {
 public:
  DelayedBackend(BlockBackend& inner, const RingConfig& config, int rank)
      : inner_(inner), injection_(*config.injection), world_size_(config.world_size), rank_(rank) {}

  Completion begin(const QueryBlock& q, const SoftmaxState& state) override {
    return inner_.begin(q, state);
  }
  Completion attend(const StepInfo& step, const Region& region, const QueryBlock& q,
                    const KvBlock& block, const SoftmaxState& state,
                    const Completion& after) override {
    delay(step, after);
    return inner_.attend(step, region, q, block, state, after);
  }
  Completion finish(const QueryBlock& q, const SoftmaxState& state) override {
    return inner_.finish(q, state);
  }
  Completion begin_backward(const QueryBlock& q, const BackwardState& state) override {
    return inner_.begin_backward(q, state);
  }
  Completion attend_backward(const StepInfo& step, const Region& region, const QueryBlock& q,
                             const KvBlock& block, const BackwardState& state,
                             const KvGradient& gradient, const Completion& after) override {
    delay(step, after);
    return inner_.attend_backward(step, region, q, block, state, gradient, after);
  }
  Completion add(const StepInfo& step, const KvGradient& into, const KvGradient& from,
                 const Completion& after) override {
    return inner_.add(step, into, from, after);
  }
  Completion finish_backward(const StepInfo& step, const QueryBlock& q, const BackwardState& state,
                             const Completion& after) override {
    return inner_.finish_backward(step, q, state, after);
  }
  const BlockStats& last_stats() const override { return inner_.last_stats(); }

 private:
  void delay(const StepInfo& step, const Completion& after) const {
    wait_for(after);
    const double seconds = delay_before(injection_, world_size_, rank_, step.pass, step.step);
    if (seconds > 0) std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  }

  BlockBackend& inner_;
  const Injection& injection_;
  int world_size_, rank_;
};

bool is_delayed(const Injection& injection, int world_size, int rank) {
  if (!delays_computing(injection.fault)) return false;
  if (injection.rank >= 0) return injection.rank == rank;
  return injection.fault == Fault::jitter || rank == world_size - 1;
}

}  // namespace

double delay_before(const Injection& injection, int world_size, int rank, Pass pass, int step) {
  if (!is_delayed(injection, world_size, rank)) return 0;
  if (pass == Pass::forward && step < injection.step) return 0;
  if (injection.fault == Fault::straggler) return injection.delay_s;
  const std::uint64_t index =
      (static_cast<std::uint64_t>(step) << 32) | static_cast<std::uint64_t>(rank);
  return injection.delay_s * exponential(injection.seed, static_cast<std::uint64_t>(pass), index);
}

std::unique_ptr<BlockBackend> with_delays(BlockBackend& inner, const RingConfig& config, int rank) {
  if (!config.injection || !is_delayed(*config.injection, config.world_size, rank)) return nullptr;
  return std::make_unique<DelayedBackend>(inner, config, rank);
}

}  // namespace ringscope
