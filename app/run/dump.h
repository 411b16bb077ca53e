// `run --dump`: what each rank holds after each operation of its loop. It is a decorator around the
// threads' backends, so a dump shows what the loop itself computed, whatever the scheme.
#pragma once

#include "core/base/files.h"
#include "core/run/run.h"

namespace ringscope {

// Run `config` as run_on_threads does, and write into the `folder` what run.md lists: an
// array (.npy) for each tensor and operation, positions-rank-R.npy, the global positions of each
// rank's local rows, and manifest.json. Throw RunError too when writing fails.
RingRun run_dumped(const Problem& config, const AttentionInputs& inputs, const Progress& progress,
                   const AtomicFolder& folder);

}  // namespace ringscope
