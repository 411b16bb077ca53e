#include "cuda/ring/tuned_kernels.h"

#include <set>

#include "core/ring/ring.h"
#include "cuda/base/check.h"
#include "cuda/base/device_memory.h"
#include "cuda/kernels/allowed_rows.h"
#include "cuda/kernels/row_kernels.h"
#include "cuda/ring/sample_rows.h"

namespace ringscope::cuda {

void warm_up(const RankKernels& kernels, const AttentionParams& params) {
  const int d = static_cast<int>(params.head_dim);
  const StepShape shape{1, 1, 1, 1, 1, d};
  const LocalRows row = Partition{PartitionKind::contiguous, 1, 1}.rows_of(0);
  const Region region{Mask{.seqlen = 1}, row, row};

  // One row of each tensor, in the widest type.
  MemoryMeter meter(device_memory());
  enum Tensor { q, k, v, dout, out, dq, dk, dv, tensors };
  Buffer<float> values(&meter, tensors * params.head_dim);
  const auto tensor = [&](Tensor which) { return values.data() + which * params.head_dim; };
  Buffer<float> of_row(&meter, 3);  // row_max, lse, delta
  Buffer<double> row_sum(&meter, 1);
  Buffer<RowInterval> allowed(&meter, 2);
  Buffer<StepCounters> counters(&meter, 1);
  Buffer<RowSample> sample(&meter, 1);
  Stream stream;  // declared last, so that it ends before what it uses

  launch_allowed_keys(region, allowed.data(), stream.get());
  ForwardStep forward;
  forward.shape = shape;
  forward.first = forward.last = true;
  forward.q = tensor(q);
  forward.k = tensor(k);
  forward.v = tensor(v);
  forward.allowed_keys = allowed.data();
  forward.row_max = of_row.data();
  forward.row_sum = row_sum.data();
  forward.out = tensor(out);
  forward.lse = of_row.data() + 1;
  forward.counters = counters.data();
  for (const int tile : std::set<int>(kernels.forward_tiles.begin(), kernels.forward_tiles.end()))
    kernels.kernels.forward->launch(forward, params.dtype, tile, stream.get());
  launch_sample_rows({{0, 0, 0}, 1}, forward.row_max, forward.row_sum, sample.data(), stream.get());
  launch_finish(forward, stream.get());

  if (kernels.kernels.backward != nullptr) {
    launch_allowed_queries(allowed.data(), 1, allowed.data() + 1, 1, stream.get());
    launch_delta(tensor(dout), params.dtype, tensor(out), of_row.data() + 2, 1, d, stream.get());
    BackwardStep backward;
    backward.shape = shape;
    backward.q = tensor(q);
    backward.k = tensor(k);
    backward.v = tensor(v);
    backward.dout = tensor(dout);
    backward.allowed_keys = allowed.data();
    backward.allowed_queries = allowed.data() + 1;
    backward.row_max = of_row.data();
    backward.row_sum = row_sum.data();
    backward.delta = of_row.data() + 2;
    backward.dq = tensor(dq);
    backward.dk = tensor(dk);
    backward.dv = tensor(dv);
    backward.counters = counters.data();
    for (const int tile :
         std::set<int>(kernels.backward_tiles.begin(), kernels.backward_tiles.end()))
      kernels.kernels.backward->launch(backward, params.dtype, tile, stream.get());
    launch_add(tensor(dk), tensor(dv), d, stream.get());
    launch_scale(tensor(dq), d, 1.0f, stream.get());
  }
  stream.synchronize();
}

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
