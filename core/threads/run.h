// Running a whole problem: checking a config, describing it in a recording, and running its ranks.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/ring/problem.h"
#include "core/threads/engine.h"
#include "core/threads/rows.h"
#include "core/trace/event.h"

namespace ringscope {

// Throw InputError for an impossible config.
void check_config(const Problem& config);
// Throw InputError unless the rank attends something at the step, in a scheme whose KV blocks travel.
void check_tile_place(const Problem& config, TilePlace place);

// ---
// A whole attention problem on a ring: scatter the rows by partition, run one thread per rank, and
// gather the rows in order. It serves a caller who just wants the answer and the recording.

struct RingRun {
  AttentionOutputs outputs;
  Recording recording;
  std::vector<Index> peak_bytes;       // one per rank, measured
  std::vector<Index> predicted_bytes;  // one per rank, by formula
  std::string engine_notes;            // Engine::notes()
  double wall_s = 0;                   // from the common start to the end of the slowest rank
};

// Reports a failed run with what was recorded until then. recording.info.failure says how it ended.
class RunFailure : public RunError {
 public:
  RunFailure(const RunError& error, Recording recording)
      : RunError(error), recording_(std::make_shared<const Recording>(std::move(recording))) {}

  const Recording& recording() const { return *recording_; }

 private:
  std::shared_ptr<const Recording> recording_;  // shared, because exceptions are copied
};

// What a caller is told while a run goes on. Either may be empty.
struct Progress {
  // Called now and then from a rank's thread with the share of pairs done, in [0, 1].
  std::function<void(double)> share = {};
  // Called with the failure when a rank's own code has not returned for the timeout, and 5 s, after it.
  // Only the end of the process then ends its thread. Without this the run waits for it.
  std::function<void(const RunError&)> stuck = {};
};

// Return a listener that tells `progress.share`, which must outlive it, the share of `total_pairs`
// that is done. It is empty if that is, or if there are no pairs.
Engine::Listener progress_listener(const Progress& progress, double total_pairs);

// Run `config` with what `engine` provides, each rank on a thread of this process, which gets its rows
// from `rows`. Throw InputError for an impossible config, RunFailure with rank and step when a rank fails
// (every rank then ends), RunError before there are ranks, and std::bad_alloc.
RingRun run_ranks(const Problem& config, RowSource& rows, Engine& engine,
                  const Progress& progress = {});

// Run on the CPU: call run_ranks with a ThreadEngine.
RingRun run_on_threads(const Problem& config, RowSource& rows, const Progress& progress = {});

// Return the whole tensors as a source. Throw InputError for an impossible config, or for inputs that
// don't have its shape.
WholeInputs checked_rows(const Problem& config, const AttentionInputs& inputs);
// Run with these.
RingRun run_ranks(const Problem& config, const AttentionInputs& inputs, Engine& engine,
                  const Progress& progress = {});
RingRun run_on_threads(const Problem& config, const AttentionInputs& inputs,
                       const Progress& progress = {});

// Return the bytes that a rank on the CPU needs for `config` (Q, out_accum, KV buffers, row
// statistics, tile scratch; with backward also dO, dQ and the travelling gradients). Nothing in it
// grows with the square of the rows.
Index predicted_rank_bytes(const Problem& config, int rank);

// Return the unmasked pairs that `rank` attends at each step of its loop.
std::vector<Index> predicted_pairs(const Problem& config, int rank);

// Return the unmasked pairs of (rank, step) in a ring or an all-gather, from the closed forms.
Index predicted_pairs(const Problem& config, int rank, int step);

}  // namespace ringscope
