#include "core/ring/program.h"

#include <deque>

#include "core/ring/forwarding.h"
#include "core/ring/schemes.h"

namespace ringscope {

namespace {

// Stands for the end of an operation that a rank asked for.
class AskedFor : public PendingOperation {
 public:
  explicit AskedFor(std::int32_t its_number) : number(its_number) {}
  bool done() const override { return false; }
  void wait() override {}
  TransferTimes times() const override { return {}; }

  const std::int32_t number;
};

class WritingSeams : public Communicator, public IdleBackend {
 public:
  WritingSeams(const Problem& job, int rank, const OnAttended& on_attended)
      : rank_(rank),
        world_size_(job.world_size),
        on_attended_(on_attended),
        heads_(share_of_heads(job.shape, 1, 0)) {}

  int rank() const override { return rank_; }
  int world_size() const override { return world_size_; }
  Completion exchange(const Exchange& hop, std::initializer_list<Completion> after) override {
    return write({.kind = Op::Kind::hop,
                  .pass = hop.pass,
                  .payload = hop.payload,
                  .way = hop.way,
                  .step = hop.step,
                  .owner = hop.send_owner,
                  .to = hop.sends() ? hop.receiver(rank_, world_size_) : -1,
                  .from = hop.receives() ? hop.sender(rank_, world_size_) : -1,
                  .bytes = static_cast<double>(hop.send_bytes)},
                 after);
  }

  Completion attend(const StepInfo& step, const Region& region, const QueryBlock&, const KvBlock&,
                    const SoftmaxState&, const Completion& after) override {
    last_step_ = step.step;
    return write_attention(step, region, after);
  }
  Completion attend_backward(const StepInfo& step, const Region& region, const QueryBlock&,
                             const KvBlock&, const BackwardState&, const KvGradient&,
                             const Completion& after) override {
    return write_attention(step, region, after);
  }
  void use_heads(const HeadShare& heads) override { heads_ = heads; }
  void await(const StepInfo& step, Payload payload, const Completion& after) override {
    write(at(step, Op::Kind::await, payload), {after});
  }

  Program program;

 private:
  static Op at(const StepInfo& step, Op::Kind kind, Payload payload = Payload::kv) {
    return {.kind = kind,
            .pass = step.pass,
            .payload = payload,
            .step = step.step,
            .owner = step.kv_owner};
  }

  Completion write_attention(const StepInfo& step, const Region& region, const Completion& after) {
    Completion asked = write(at(step, Op::Kind::attend), {after});
    if (on_attended_) on_attended_(program.ops.back(), region, heads_);
    return asked;
  }

  Completion around(BlockOperation which, const StepInfo* step, const Completion& after,
                    const Start&) override {
    switch (which) {
      case BlockOperation::begin:
        return write(at({Pass::forward, 0, rank_}, Op::Kind::begin), {});
      case BlockOperation::begin_backward:
        return write(at({Pass::backward, 0, rank_}, Op::Kind::begin), {});
      case BlockOperation::finish:
        return write(at({Pass::forward, last_step_, rank_}, Op::Kind::finish), {});
      case BlockOperation::finish_backward:
        return write(at({step->pass, step->step, rank_}, Op::Kind::finish,
                        after != nullptr ? Payload::dkv : Payload::kv),
                     {after});
      default:
        return write(at(*step, Op::Kind::add, Payload::dkv), {after});
    }
  }

  Completion write(Op op, std::initializer_list<Completion> after) {
    op.first = static_cast<std::uint32_t>(program.earlier.size());
    for (const Completion& earlier : after)
      if (earlier != nullptr)
        program.earlier.push_back(static_cast<const AskedFor&>(*earlier).number);
    op.last = static_cast<std::uint32_t>(program.earlier.size());
    program.ops.push_back(op);
    // The seams own all of them, so that no completion counts its owners.
    return Completion(Completion(),
                      &asked_.emplace_back(static_cast<std::int32_t>(program.ops.size() - 1)));
  }

  std::deque<AskedFor> asked_;
  int rank_, world_size_;
  const OnAttended& on_attended_;
  HeadShare heads_;
  int last_step_ = 0;
};

}  // namespace

Program program_of(const Problem& job, const RingProblem& problem, int rank,
                   const OnAttended& on_attended) {
  NoMemory nowhere;
  RankMemory memory(job, rank, nowhere);
  WritingSeams seams(job, rank, on_attended);
  run_forward(seams, seams, problem, memory);
  if (job.backward) run_backward(seams, seams, problem, memory);
  return std::move(seams.program);
}

}  // namespace ringscope
