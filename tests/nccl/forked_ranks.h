// Runs over the real NCCL in processes that are forked for them, so that the program of the tests never
// touches a GPU itself (what has, cannot fork any more) and a run that hangs can be ended. A process a
// rank needs no launcher here: the ranks are siblings, joined by a lifeline (core/processes/supervision), and several
// of them may share a GPU (cuda/nccl/placement.h).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cuda/ring/rank_kernels.h"
#include "tests/core/ring/ring_case.h"

namespace ringscope::cuda {

// What this machine has, asked by a process of its own.
struct NcclMachine {
  std::string why_not;  // one line; empty when there is an NCCL and a GPU
  int gpus = 0;
  int architecture = 0;  // of the first GPU: compute capability x 10
  int version = 0;       // of NCCL, as NCCL_VERSION makes it
};
const NcclMachine& nccl_machine();

// A problem and how it is dealt out.
struct NcclCase {
  const RingReference* problem;
  Problem config;
  bool by_best_kernels = false;  // 07 and 11, which need compute capability 9.0

  KernelWish kernels() const {
    if (by_best_kernels) return {7, 11};
    return config.dtype == DType::f32 ? KernelWish{4, 8} : KernelWish{5, 9};
  }
};

// How a process ended.
struct RankEnd {
  bool ended_well = false;
  int signal = 0;
  int rank = -1, step = -1;  // of the failure that it told of
  std::string what;          // the failure's text
};

struct ForkedRuns {
  std::vector<RankEnd> ends;              // by rank
  std::vector<AttentionOutputs> outputs;  // by case; NaN where no rank has put anything
};

// The cases, one after the other over one set of connections, with a process a rank; all have the same
// world_size. What has not ended after `limit_s` is killed.
ForkedRuns run_a_process_a_rank(const std::vector<NcclCase>& cases, double limit_s);

// The cases one after the other in one process, each with `run`.
ForkedRuns run_in_one_process(const std::vector<NcclCase>& cases,
                              const std::function<RingRun(const NcclCase&)>& run, double limit_s);

// Whether the first's outputs are right, as RingReference says.
void check(const NcclCase& one, const AttentionOutputs& outputs);

}  // namespace ringscope::cuda
