// A decorator around a backend that changes nothing: who makes one overrides what it is about.
#pragma once

#include "core/ring/block_backend.h"

namespace ringscope {

// `inner` must outlive it.
class ForwardingBackend : public BlockBackend {
 public:
  explicit ForwardingBackend(BlockBackend& inner) : inner_(inner) {}
  Completion begin(const QueryBlock& q, const SoftmaxState& state) override {
    return inner_.begin(q, state);
  }
  Completion attend(const StepInfo& step, const Region& region, const QueryBlock& q,
                    const KvBlock& block, const SoftmaxState& state,
                    const Completion& after) override {
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
  BlockBackend& inner_;
};

}  // namespace ringscope
