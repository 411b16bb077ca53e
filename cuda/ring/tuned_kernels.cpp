#include "cuda/ring/tuned_kernels.h"

#include "core/ring/schedule.h"

namespace ringscope::cuda {
namespace {

template <class Kernel>
std::vector<int> tiles_of(const Kernel& kernel, const RingProblem& problem, int rank,
                          Autotuner& tuner) {
  const AttentionParams& params = problem.params;
  const RingSchedule ring{rank, problem.partition.world_size};
  std::vector<int> tiles;
  for (int step = 0; step < ring.steps(); ++step) {
    const Region region = problem.region(rank, ring.owner(step));
    const Index rows_q = region.queries.size(), rows_k = region.keys.size();
    const StepShape shape{static_cast<int>(params.batch),
                          static_cast<int>(params.num_heads),
                          static_cast<int>(params.num_heads_kv),
                          static_cast<int>(rows_q),
                          static_cast<int>(rows_k),
                          static_cast<int>(params.head_dim)};
    const Index pairs = region.pairs();
    const double all = static_cast<double>(rows_q) * static_cast<double>(rows_k);
    tiles.push_back(pairs == 0
                        ? 0
                        : tuner.choose(kernel, shape_class_of(shape, params.dtype,
                                                              static_cast<double>(pairs) / all)));
  }
  return tiles;
}

}  // namespace

RankKernels tuned_kernels(const ChosenKernels& kernels, const RingProblem& problem, int rank,
                          Autotuner& tuner) {
  RankKernels tuned{kernels, tiles_of(*kernels.forward, problem, rank, tuner), {}};
  if (kernels.backward != nullptr)
    tuned.backward_tiles = tiles_of(*kernels.backward, problem, rank, tuner);
  return tuned;
}

}  // namespace ringscope::cuda
