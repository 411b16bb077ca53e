// The second seam: who attends a block. An operation starts once `after` (and the operations before
// it on the same backend) has happened and returns the completion of its own end: null when it
// ended before returning, as on a CPU.
#pragma once

#include "core/attention/views.h"
#include "core/partition/region.h"
#include "core/ring/completion.h"
#include "core/trace/event.h"

namespace ringscope {

// Which step of the ring a block operation belongs to.
struct StepInfo {
  Pass pass = Pass::forward;
  int step = 0;
  int kv_owner = 0;
  bool last = false;  // no block is attended after this one, in this pass
};

class BlockBackend {
 public:
  virtual ~BlockBackend() = default;

  // Forward: makes `state` that of no keys seen.
  virtual Completion begin(const QueryBlock& q, const SoftmaxState& state) = 0;
  // Carries `state` on over the keys of `block` that `region` allows.
  virtual Completion attend(const StepInfo& step, const Region& region, const QueryBlock& q,
                            const KvBlock& block, const SoftmaxState& state,
                            const Completion& after) = 0;
  // Turns out_accum into the output (f32; it is rounded to the storage type where it is stored), and
  // writes lse.
  virtual Completion finish(const QueryBlock& q, const SoftmaxState& state) = 0;

  // Backward: computes delta and zeroes dq.
  virtual Completion begin_backward(const QueryBlock& q, const BackwardState& state) = 0;
  // Adds this block's share to state.dq, and overwrites `gradient` with these queries' share of the
  // block's gradient.
  virtual Completion attend_backward(const StepInfo& step, const Region& region,
                                     const QueryBlock& q, const KvBlock& block,
                                     const BackwardState& state, const KvGradient& gradient,
                                     const Completion& after) = 0;
  // into += from, once `after` has happened.
  virtual Completion add(const StepInfo& step, const KvGradient& into, const KvGradient& from,
                         const Completion& after) = 0;
  // Completes dq. `after`: the arrival of the rank's own gradient, which is complete then.
  virtual Completion finish_backward(const StepInfo& step, const QueryBlock& q,
                                     const BackwardState& state, const Completion& after) = 0;

  // What the last attend or attend_backward counted; valid once its completion has happened.
  virtual const BlockStats& last_stats() const = 0;
};

}  // namespace ringscope
