// A BlockBackend on a GPU. Each operation is enqueued on one compute stream and returns at once,
// with an event as its completion. All pointers are device pointers.
//
// The kernels begin and end a pass themselves (`first` and `last` of their steps). So begin()
// enqueues nothing, and finish() does so only when the last step had no pairs. Where a rank attends
// for other ranks' queries, states are begun and finished in memory by kernels of their own, because
// there are several at once, which are sent and merged. A step without pairs starts no kernel.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "core/base/buffer.h"
#include "core/ring/problem.h"
#include "core/ring/seams.h"
#include "cuda/base/stream.h"
#include "cuda/kernels/ring_step.h"
#include "cuda/kernels/stamps.h"
#include "cuda/ring/device_communicator.h"
#include "cuda/ring/rank_kernels.h"

namespace ringscope::cuda {

class CudaBackend : public BlockBackend {
 public:
  // Serve the queries of `rank`. `problem` is job.ring_problem(). Allocates working memory on the
  // device, counted by `meter`: the tables of intervals of all steps, which are made now, one counter
  // per block attended, the mask's documents, the stretches of dealt positions, and the learned sinks.
  // Throws CudaError.
  CudaBackend(const Problem& job, const RingProblem& problem, int rank,
              const ChosenKernels& kernels, MemoryMeter& meter);
  // Return the bytes that the constructor allocates.
  static Index scratch_bytes(const Problem& job, int rank);

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
  void await(const StepInfo&, Payload, const Completion& after) override {
    wait_on(stream(), after);
  }
  Completion merge(const StepInfo& step, const QueryBlock& q, const SoftmaxState& into,
                   const SoftmaxState& from, const Completion& after) override;
  Completion add_dq(const StepInfo& step, const QueryBlock& q, const BackwardState& into,
                    const BackwardState& from, const Completion& after) override;

  // Fetch the counters of the latest block from the device.
  const BlockStats& last_stats() const override;
  // Return the stats of all blocks attended in a pass, in their order. Waits for the compute
  // stream. Throws CudaError.
  std::vector<BlockStats> all_stats(Pass pass) const;
  // Return what the kernels of the pass stamped, by block attended; null without stamps.
  StampLog* stamps(Pass pass) {
    auto& log = stamps_[static_cast<int>(pass)];
    return log ? &*log : nullptr;
  }

  cudaStream_t stream() const { return stream_.get(); }
  Event take_event() { return cuda::take_event(events_); }
  // Return the completion of all that was enqueued so far.
  std::shared_ptr<EventCompletion> end() {
    return std::make_shared<EventCompletion>(take_event(), stream());
  }
  // Return whether the state of the latest block is in memory.
  bool has_state() const { return !is_empty_; }

 private:
  // What a block's kernel knows its region by.
  struct Tables {
    const RowInterval* allowed_keys;
    const RowInterval* allowed_queries;
  };

  void enter(Pass pass);
  void zero_dq(const QueryBlock& q, const BackwardState& state);
  bool skips(const Region& region, const Kernel& kernel, int tile);
  const Tables& tables() const { return tables_[static_cast<int>(last_pass_)].at(attended_ - 1); }
  Region on_device(const Region& region) const;
  const void* values_of(const KvBlock& block) const;
  ForwardStep forward_step(const QueryBlock& q, const KvBlock& block,
                           const SoftmaxState& state) const;
  // Return the latest block's index into counters_ and skipped_tiles_.
  Index slot() const { return (last_pass_ == Pass::forward ? 0 : blocks_) + attended_ - 1; }
  // Return where the kernel of the latest block stamps, if it does.
  std::optional<StampBuffer> stamp_buffer() {
    StampLog* const log = stamps(last_pass_);
    if (log == nullptr) return std::nullopt;
    return log->of(static_cast<int>(attended_ - 1));
  }

  AttentionParams params_;
  int blocks_;  // in a pass
  bool has_many_states_, has_many_dq_;
  ChosenKernels kernels_;
  Buffer<RowInterval> allowed_keys_, allowed_queries_;
  Buffer<std::byte> workspace_;    // of a backward step
  Buffer<StepCounters> counters_;  // forward's blocks, then backward's
  Buffer<Index> document_ends_;
  Buffer<float> sinks_;                                 // of all heads, or empty
  Buffer<Stretch> stretches_;                           // of all ranks
  std::map<const Stretch*, const Stretch*> on_device_;  // by the host's tables
  // Tiles of the blocks that started no kernel, indexed like counters_.
  std::vector<Index> skipped_tiles_;
  std::optional<StampLog> stamps_[2];  // by pass
  std::vector<Tables> tables_[2];      // by pass and block attended
  std::vector<Event> events_;
  Stream stream_;  // declared after the memory that its work uses, so that it ends first

  bool is_empty_ = true;      // begin() left it to the first kernel to begin the state
  bool is_finished_ = true;   // a kernel has written out and lse
  bool is_dq_empty_ = false;  // begin_backward() left it to the first kernel to set dq
  Pass last_pass_ = Pass::forward;
  Index attended_ = 0;  // blocks of that pass
  mutable BlockStats last_stats_;
};

}  // namespace ringscope::cuda
