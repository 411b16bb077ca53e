#include "core/ring/delayed_backend.h"

#include <chrono>
#include <thread>

#include "core/base/random.h"
#include "core/ring/forwarding_backend.h"

namespace ringscope {

namespace {

class DelayedBackend : public ForwardingBackend {
 public:
  DelayedBackend(BlockBackend& inner, const RingConfig& config, int rank)
      : ForwardingBackend(inner),
        injection_(*config.injection),
        world_size_(config.world_size),
        rank_(rank) {}

  Completion attend(const StepInfo& step, const Region& region, const QueryBlock& q,
                    const KvBlock& block, const SoftmaxState& state,
                    const Completion& after) override {
    delay(step, after);
    return ForwardingBackend::attend(step, region, q, block, state, after);
  }
  Completion attend_backward(const StepInfo& step, const Region& region, const QueryBlock& q,
                             const KvBlock& block, const BackwardState& state,
                             const KvGradient& gradient, const Completion& after) override {
    delay(step, after);
    return ForwardingBackend::attend_backward(step, region, q, block, state, gradient, after);
  }

 private:
  void delay(const StepInfo& step, const Completion& after) const {
    wait_for(after);
    const double seconds = delay_before(injection_, world_size_, rank_, step.pass, step.step);
    if (seconds > 0) std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  }

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
