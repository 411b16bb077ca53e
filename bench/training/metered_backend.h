// A backend that forwards to another one and adds up the processor time spent in it.
#pragma once

#include "core/cost/time.h"
#include "core/run/faulty_ring.h"

namespace ringscope {

class MeteredBackend : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;

  double cpu_s() const { return cpu_s_; }

  Completion begin(const QueryBlock& q, const SoftmaxState& state) override {
    const Meter meter(cpu_s_);
    return ForwardingBackend::begin(q, state);
  }
  Completion attend(const StepInfo& step, const Region& region, const QueryBlock& q,
                    const KvBlock& block, const SoftmaxState& state,
                    const Completion& after) override {
    const Meter meter(cpu_s_);
    return ForwardingBackend::attend(step, region, q, block, state, after);
  }
  Completion finish(const QueryBlock& q, const SoftmaxState& state) override {
    const Meter meter(cpu_s_);
    return ForwardingBackend::finish(q, state);
  }
  Completion begin_backward(const QueryBlock& q, const BackwardState& state) override {
    const Meter meter(cpu_s_);
    return ForwardingBackend::begin_backward(q, state);
  }
  Completion attend_backward(const StepInfo& step, const Region& region, const QueryBlock& q,
                             const KvBlock& block, const BackwardState& state,
                             const KvGradient& gradient, const Completion& after) override {
    const Meter meter(cpu_s_);
    return ForwardingBackend::attend_backward(step, region, q, block, state, gradient, after);
  }
  Completion add(const StepInfo& step, const KvGradient& into, const KvGradient& from,
                 const Completion& after) override {
    const Meter meter(cpu_s_);
    return ForwardingBackend::add(step, into, from, after);
  }
  Completion finish_backward(const StepInfo& step, const QueryBlock& q, const BackwardState& state,
                             const Completion& after) override {
    const Meter meter(cpu_s_);
    return ForwardingBackend::finish_backward(step, q, state, after);
  }

 private:
  class Meter {
   public:
    explicit Meter(double& total) : total_(total), begin_(thread_cpu_seconds()) {}
    ~Meter() { total_ += thread_cpu_seconds() - begin_; }
    Meter(const Meter&) = delete;
    Meter& operator=(const Meter&) = delete;

   private:
    double& total_;
    double begin_;
  };

  double cpu_s_ = 0;
};

}  // namespace ringscope
