// BlockBackend on the CPU: the blockwise tile loops, run by the calling thread. Every operation has
// ended when it returns, so all completions are null.
#pragma once

#include "core/attention/blockwise.h"
#include "core/ring/seams.h"

namespace ringscope {

class CpuBackend : public BlockBackend {
 public:
  // A non-null `pulse` is ticked while a block is attended, can stop that, and must outlive the
  // backend.
  CpuBackend(const AttentionParams& params, bool backward, MemoryMeter* meter,
             WorkPulse* pulse = nullptr)
      : params_(params), scratch_(meter, params, backward) {
    scratch_.pulse = pulse;
  }

  Completion begin(const QueryBlock& q, const SoftmaxState& state) override;
  Completion attend(const StepInfo& step, const Region& region, const QueryBlock& q,
                    const KvBlock& block, const SoftmaxState& state,
                    const Completion& after) override;
  Completion finish(const QueryBlock& q, const SoftmaxState& state) override;
  Completion begin_backward(const QueryBlock& q, const BackwardState& state) override;
  Completion attend_backward(const StepInfo& step, const Region& region, const QueryBlock& q,
                             const KvBlock& block, const BackwardState& state,
                             const KvGradient& gradient, const Completion& after) override;
  Completion add(const StepInfo& step, const KvGradient& into, const KvGradient& from,
                 const Completion& after) override;
  Completion finish_backward(const StepInfo& step, const QueryBlock& q, const BackwardState& state,
                             const Completion& after) override;

  void use_heads(const HeadShare& share) override { params_ = share.of(params_); }
  Completion merge(const StepInfo& step, const QueryBlock& q, const SoftmaxState& into,
                   const SoftmaxState& from, const Completion& after) override;
  Completion add_dq(const StepInfo& step, const QueryBlock& q, const BackwardState& into,
                    const BackwardState& from, const Completion& after) override;

  const BlockStats& last_stats() const override { return last_stats_; }

 private:
  AttentionParams params_;
  BlockwiseScratch scratch_;
  BlockStats last_stats_;
};

}  // namespace ringscope
