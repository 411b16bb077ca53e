// What every kind of run says about itself in its recording, and what it must be right about before
// it starts.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/ring/problem.h"
#include "core/run/engine.h"
#include "core/run/rows.h"
#include "core/trace/event.h"

namespace ringscope {

// Throws InputError for an impossible config.
void check_config(const RingConfig& config);

// With no offsets between the ranks' clocks, and now as its base time.
RunInfo run_info(const RingConfig& config, std::string_view backend);

// ---
// A whole attention problem, run on a ring: scatter the rows by partition, one thread a rank,
// gather the rows in order. What a caller who just wants the answer and the recording needs.

struct RingRun {
  AttentionOutputs outputs;
  Recording recording;
  std::vector<Index> peak_bytes;       // one a rank, measured
  std::vector<Index> predicted_bytes;  // one a rank, by formula
  std::string engine_notes;            // Engine::notes()
  double wall_s = 0;                   // from the common start to the end of the slowest rank
};

// A run that failed, with what had been recorded until then. recording.info.failure says how it ended.
class RunFailure : public RunError {
 public:
  RunFailure(const RunError& error, Recording recording)
      : RunError(error), recording_(std::make_shared<const Recording>(std::move(recording))) {}

  const Recording& recording() const { return *recording_; }

 private:
  std::shared_ptr<const Recording> recording_;  // shared, since exceptions are copied
};

// Called from one of the rank threads now and then with the share of pairs done, in [0, 1].
using Progress = std::function<void(double)>;

// Throws InputError for an impossible config, or inputs that are not of its shape.
void check_run(const RingConfig& config, const AttentionInputs& inputs);

// Runs `config`, each rank on a thread of this process, with what `engine` provides. Throws
// InputError for an impossible config, RunFailure naming rank and step when a rank fails (every rank
// then ends), RunError before there are ranks, std::bad_alloc.
RingRun run_ranks(const RingConfig& config, const AttentionInputs& inputs, Engine& engine,
                  const Progress& progress = {});

// The same on the CPU: run_ranks with a ThreadEngine.
RingRun run_on_threads(const RingConfig& config, const AttentionInputs& inputs,
                       const Progress& progress = {});

// Bytes that a rank on the CPU needs for `config` (Q, out_accum, KV buffers, row statistics, tile
// scratch; with backward also dO, dQ and the travelling gradients). Nothing in it grows with the
// square of the rows.
Index predicted_rank_bytes(const RingConfig& config, int rank);

// Unmasked pairs of (rank, step), from the closed forms.
Index predicted_pairs(const RingConfig& config, int rank, int step);

}  // namespace ringscope
