// Writes down what each rank holds after each operation of its loop: the softmax state, and the
// gradients that travel. It is a decorator around an engine's backends, so a dump shows what the loop
// itself computed, of every scheme that runs on threads.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/base/math.h"
#include "core/run/run.h"

namespace ringscope {

// One .npy file of a dump. Its rows are [first_row, end_row) of the local rows of rank `rows_of`.
struct DumpedArray {
  std::string file{};  // in the dump's folder
  int rank = 0;        // who held it, ...
  Pass pass = Pass::forward;
  int step = 0;             // ... at which ring step, ...
  std::string operation{};  // ... after which operation: attend, merge, add, finish
  int kv_owner = 0;         // of the block that was attended, or that the gradient belongs to
  // row_max, row_sum, out_accum (not normalised) and, after finish, out and lse; dk and dv.
  std::string what{};
  bool is_f64 = false;         // row_sum alone; the others are f32
  std::vector<Index> shape{};  // [batch, heads or kv heads, rows] and, but for statistics, head_dim
  Index first_head = 0;        // of the heads in it, where ranks hold shares of the heads
  int rows_of = 0;
  Index first_row = 0, end_row = 0;
  Index first_position = -1, last_position = -1;  // global; -1 without rows
};

// Run `config` on threads, as run_on_threads does, and write arrays into the existing `folder`,
// beside positions-rank-R.npy, the global positions of each rank's local rows ([rows], int64). Set
// `arrays` to what was written, rank by rank, in the order of the loop. Throw RunError too when
// writing fails.
//
// Travelling gradients are dk and dv after `add`, the sum so far, or where a rank adds nothing, at a
// ring's step 0 or alone, after `attend`; other attends give the rank's own share. A share of the
// heads that a group's ranks give back (Ulysses, hybrid) is summed without a dump: the sums are the
// outputs dk and dv.
RingRun run_dumped(const Problem& config, const AttentionInputs& inputs, const Progress& progress,
                   const std::string& folder, std::vector<DumpedArray>& arrays);

}  // namespace ringscope
