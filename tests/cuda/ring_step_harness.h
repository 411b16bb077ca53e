// A kernel put through a ring without the ring: every rank meets all owners in ring order, one
// after another on one device, carrying its state, and the whole is compared with attention in f64.
// Knows CUDA only through its runtime, so it runs kernels on a GPU and on the host model alike.
//
// Every run also checks what is not in the numbers: outputs are NaN before and guarded on both
// sides, pairs counted by the kernel are those of the closed forms, tiles add up, and a second run
// (on the model under another order of threads) gives the same bits.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/base/dtype.h"
#include "core/problem/partition.h"
#include "cuda/kernels/kernel_table.h"
#include "tests/core/attention/random_problem.h"

namespace ringscope::cuda {

// One problem. A failure prints it, and the `ringscope run` command of the same problem.
struct StepCase {
  int batch = 1;
  int heads = 2;
  int heads_kv = 1;
  Index seqlen = 1;
  int head_dim = 64;
  std::string mask = "full";
  PartitionKind partition = PartitionKind::contiguous;
  int world_size = 1;
  DType dtype = DType::f32;
  int tile = 0;               // index into the kernel's tiles
  float score_deviation = 1;  // standard deviation of the scores; negative: negative softmax_scale
  bool skip_empty = true;     // as a backend does; false: a step without pairs reaches the kernel
  int only_step = -1;         // >= 0: that step of the ring alone, so that rows without keys remain
  std::uint64_t seed = 1;
  int head_dim_v = 0;          // 0: head_dim
  Index queries = 0;           // 0: seqlen
  Index q_offset = 0;          // the position of the first query
  std::vector<float> sinks{};  // a logit per head, or none

  AttentionShape shape() const { return {batch, heads, heads_kv, seqlen, head_dim}; }
  // Whether the CPU's oracle, too, has such a problem.
  bool is_square() const { return head_dim_v == 0 && queries == 0 && sinks.empty(); }
  int value_dim() const { return head_dim_v == 0 ? head_dim : head_dim_v; }
  Index seqlen_q() const { return queries == 0 ? seqlen : queries; }
  LocalRows queries_of(int rank) const {  // as rows of Q
    return Partition{partition, seqlen_q(), world_size}.rows_of(rank);
  }
  float softmax_scale() const;
};

// What the case's seed draws.
Tensors<float> inputs_of(const StepCase& tested);

std::string to_string(const StepCase& tested);
inline void PrintTo(const StepCase& tested, std::ostream* out) { *out << to_string(tested); }

// Whole tensors, as AttentionShape orders them, in f32 as the kernels leave them.
struct ForwardRun {
  std::vector<float> out, lse;
};
struct BackwardRun {
  std::vector<float> dq, dk, dv;
};

// Runs the kernel once, under the model's present schedule, and checks everything but the numbers.
// `in` holds values that tested.dtype can.
ForwardRun run_forward(const Kernel& kernel, const StepCase& tested, const Tensors<float>& in);
BackwardRun run_backward(const Kernel& kernel, const StepCase& tested, const Tensors<float>& in);

// Attention in f64, pair by pair, over the pairs that the case's steps visit. A sink is in row_max and
// row_sum.
struct ExactForward {
  std::vector<double> out, lse;
  std::vector<float> row_max;  // rounded up or down from f64, and row_sum measured against it
  std::vector<double> row_sum;
};
ExactForward exact_forward(const StepCase& tested, const Tensors<float>& in);
// The same as plain_backward computes.
ExactForward plain_forward(const StepCase& tested, const Tensors<float>& in);

// Return rowsum(dO o out), in f32.
std::vector<float> delta_of(const StepCase& tested, const Tensors<float>& in,
                            const ExactForward& forward);

// Gradients over the same pairs, from the exact row_max and row_sum that run_backward gives to
// kernels.
struct Gradients {
  std::vector<double> dq, dk, dv;
};
// In f64.
Gradients exact_backward(const StepCase& tested, const Tensors<float>& in);
// On a single device in its plainest form: in f32, with P and dS rounded to the case's dtype, in
// which matrix units take them. Unlike the CPU's tiles it cannot be lucky in that its scores round
// as those of its own forward pass did.
Gradients plain_backward(const StepCase& tested, const Tensors<float>& in);

// Random inputs from tested.seed. The tolerance is twice the error of the CPU's single-rank
// blockwise attention in the same dtype, + 1e-6 of the largest value or 1 (f32) or + 2e-3 (halves).
// Where the CPU has no such case, the plain forms below stand for it. A kernel that carries no state is
// given a world of one rank, and one that has no such tile another.
void expect_matches_oracle(const Kernel& kernel, const StepCase& tested);

// All masks on all partitions, over world sizes up to 8, lengths from 1 (fewer than ranks) to some
// tiles and a tail, groups of heads, large scores, a negative scale, empty steps that reach the
// kernel, and single steps with rows that have no keys. head_dims and tiles [0, tiles) take turns.
std::vector<StepCase> awkward_cases(DType dtype, const std::vector<int>& head_dims, int tiles = 1);

// On the model, which is slow where blocks are large, the case with few heads, and with at most `ranks`
// ranks where sequences take several tiles; on a GPU the case as it is.
StepCase as_the_model_can(StepCase tested, int ranks);

// Whether there is no device for a kernel with these limits; then the test is marked as skipped
// with the reason, and is to return. The model takes everything.
bool skip_without_device(const KernelLimits& limits);

// While it lives, 07 and 11 have at most `blocks` blocks at a time.
struct OnBlocks {
  explicit OnBlocks(int blocks) { leave_multiprocessors(multiprocessors() - blocks); }
  ~OnBlocks() { leave_multiprocessors(0); }
};

// Run the kernel under schedules of the model that differ as much as can be; on a GPU once more.
void expect_same_bits_under_all_schedules(const Kernel& kernel, const StepCase& tested);

}  // namespace ringscope::cuda
