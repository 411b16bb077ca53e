#include "core/ring/loop_counts.h"

#include "core/ring/program.h"

namespace ringscope {

LoopCounts count_loop(const Problem& job, int rank, bool with_pairs) {
  LoopCounts counts;
  counts.pairs_by_step.resize(static_cast<std::size_t>(job.world_size));
  const auto count_pairs = [&](const Op& op, const Region& region, const HeadShare& heads) {
    if (op.pass == Pass::forward)
      counts.pairs_by_step[static_cast<std::size_t>(op.step)] +=
          pairs_of_share(job.shape, region.pairs(), heads);
  };
  const Program program =
      program_of(job, rank, with_pairs ? OnAttended(count_pairs) : OnAttended());
  for (const Op& op : program.ops) {
    const bool is_forward = op.pass == Pass::forward;
    switch (op.kind) {
      case Op::Kind::hop:
        (is_forward ? counts.forward_bytes : counts.backward_bytes) += op.bytes;
        counts.messages += op.to >= 0;
        ++counts.hops;
        counts.events += (op.to >= 0) + (op.from >= 0);
        break;
      case Op::Kind::attend:
        counts.attended.push_back({op.pass, op.step, op.owner});
        counts.events += 2;  // a wait, and the computation
        counts.samples += is_forward ? 3 : 0;
        break;
      case Op::Kind::begin:
        break;
      case Op::Kind::finish:
        counts.events += !is_forward;
        break;
      default:
        ++counts.events;
    }
  }
  return counts;
}

}  // namespace ringscope
