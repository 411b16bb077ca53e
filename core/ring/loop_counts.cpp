#include "core/ring/loop_counts.h"

#include <utility>

#include "core/ring/schemes.h"

namespace ringscope {

namespace {

class CountingSeams : public Communicator, public BlockBackend {
 public:
  CountingSeams(const Problem& job, int rank)
      : job_(job), rank_(rank), share_(share_of_heads(job.shape, 1, 0)) {
    counts.pairs_by_step.resize(static_cast<std::size_t>(job.world_size));
  }

  int rank() const override { return rank_; }
  int world_size() const override { return job_.world_size; }
  Completion exchange(const Exchange& hop, std::initializer_list<Completion>) override {
    (hop.pass == Pass::forward ? counts.forward_bytes : counts.backward_bytes) +=
        static_cast<double>(hop.send_bytes);
    ++counts.messages;
    counts.events += 2;
    return nullptr;
  }

  Completion begin(const QueryBlock&, const SoftmaxState&) override { return nullptr; }
  Completion attend(const StepInfo& step, const Region& region, const QueryBlock&, const KvBlock&,
                    const SoftmaxState&, const Completion&) override {
    counts.pairs_by_step[static_cast<std::size_t>(step.step)] +=
        pairs_of_share(job_.shape, region.pairs(), share_);
    counts.samples += 3;
    return computed();
  }
  Completion finish(const QueryBlock&, const SoftmaxState&) override { return nullptr; }
  Completion begin_backward(const QueryBlock&, const BackwardState&) override { return nullptr; }
  Completion attend_backward(const StepInfo&, const Region&, const QueryBlock&, const KvBlock&,
                             const BackwardState&, const KvGradient&, const Completion&) override {
    return computed();
  }
  Completion add(const StepInfo&, const KvGradient&, const KvGradient&,
                 const Completion&) override {
    return waited();
  }
  Completion finish_backward(const StepInfo&, const QueryBlock&, const BackwardState&,
                             const Completion&) override {
    return waited();
  }
  void use_heads(const HeadShare& share) override { share_ = share; }
  void await(const StepInfo&, Payload, const Completion&) override { waited(); }
  Completion merge(const StepInfo&, const QueryBlock&, const SoftmaxState&, const SoftmaxState&,
                   const Completion&) override {
    return waited();
  }
  Completion add_dq(const StepInfo&, const QueryBlock&, const BackwardState&, const BackwardState&,
                    const Completion&) override {
    return waited();
  }
  const BlockStats& last_stats() const override { return stats_; }

  LoopCounts counts;

 private:
  Completion computed() {
    counts.events += 2;  // a wait and a computation
    return nullptr;
  }
  Completion waited() {
    ++counts.events;
    return nullptr;
  }

  const Problem& job_;
  int rank_;
  HeadShare share_;
  BlockStats stats_;
};

}  // namespace

LoopCounts count_loop(const Problem& job, int rank) {
  NoMemory nowhere;
  RankMemory memory(job, rank, nowhere);
  const RingProblem problem = job.ring_problem();
  CountingSeams seams(job, rank);
  run_forward(job.scheme, seams, seams, problem, memory);
  if (job.backward) run_backward(job.scheme, seams, seams, problem, memory);
  return std::move(seams.counts);
}

}  // namespace ringscope
