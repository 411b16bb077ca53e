#include "core/ring/loop_counts.h"

#include <utility>

#include "core/ring/forwarding.h"
#include "core/ring/schemes.h"

namespace ringscope {

namespace {

class CountingSeams : public Communicator, public IdleBackend {
 public:
  CountingSeams(const Problem& job, int rank, bool with_pairs)
      : job_(job), rank_(rank), with_pairs_(with_pairs), share_(share_of_heads(job.shape, 1, 0)) {
    counts.pairs_by_step.resize(job.world_size);
  }

  int rank() const override { return rank_; }
  int world_size() const override { return job_.world_size; }
  Completion exchange(const Exchange& hop, std::initializer_list<Completion>) override {
    (hop.pass == Pass::forward ? counts.forward_bytes : counts.backward_bytes) +=
        static_cast<double>(hop.send_bytes);
    counts.messages += hop.sends();
    counts.events += hop.sends() + hop.receives();
    return nullptr;
  }

  Completion attend(const StepInfo& step, const Region& region, const QueryBlock& q,
                    const KvBlock& block, const SoftmaxState& state,
                    const Completion& after) override {
    if (with_pairs_)
      counts.pairs_by_step[step.step] += pairs_of_share(job_.shape, region.pairs(), share_);
    counts.samples += 3;
    return IdleBackend::attend(step, region, q, block, state, after);
  }
  void use_heads(const HeadShare& share) override { share_ = share; }
  void await(const StepInfo&, Payload, const Completion&) override { ++counts.events; }

  LoopCounts counts;

 private:
  // Count a wait, and a computation.
  Completion around(BlockOperation which, const StepInfo* step, const Completion&,
                    const Start&) override {
    const bool attends =
        which == BlockOperation::attend || which == BlockOperation::attend_backward;
    if (step != nullptr) counts.events += attends ? 2 : 1;
    if (attends) counts.attended.push_back(*step);
    return nullptr;
  }

  const Problem& job_;
  int rank_;
  bool with_pairs_;
  HeadShare share_;
};

}  // namespace

LoopCounts count_loop(const Problem& job, int rank, bool with_pairs) {
  NoMemory nowhere;
  RankMemory memory(job, rank, nowhere);
  const RingProblem problem = job.ring_problem();
  CountingSeams seams(job, rank, with_pairs);
  run_forward(seams, seams, problem, memory);
  if (job.backward) run_backward(seams, seams, problem, memory);
  return std::move(seams.counts);
}

}  // namespace ringscope
