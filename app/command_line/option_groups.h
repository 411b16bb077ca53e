// The flags that several commands share: a problem, the hardware that computes it, and the ranks
// that work on it. Each function adds flags, which write to its arguments when the command line is
// read.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/command_line/flags.h"
#include "app/run/backend.h"
#include "core/ring/problem_rows.h"
#include "core/tools/sim/work.h"

namespace ringscope {

// ---
// The places of what commands write: checked before the long work, against each other and against all
// that is read.

// An output, and the flag that asks for it; without a path it was not asked for.
struct OutputPlace {
  const char* flag;
  std::optional<std::string> path;
  bool is_folder = false;
};

// Append to `files` those that names of masks and partitions have in them: `ranges:FILE`, `file:FILE`.
void add_files_in(const std::vector<std::string>& names, std::vector<std::string>& files);

// Throw InputError for a place that can't be written to, that is also another output or one of the
// `inputs` (all files that the command reads), whose name is that of a packed file, or that is stdout while
// --json uses it (`json`).
void check_output_places(const std::vector<OutputPlace>& places,
                         const std::vector<std::string>& inputs, bool json);

// ---

// Throw an InputError unless there is a speed a rank, or none at all.
void check_speeds(const Problem& job);
// Deal the positions of `job` out as its partition says, a searched one for kernels that compute
// `tile`s. Throw an InputError that names the flag.
void deal_out_as_given(Problem& job, Granularity tile = {});
// Add --world-size, for ranks that are `otherwise` threads or as many processes as were started.
void add_world_size(CommandFlags& flags, std::optional<int>& world_size, int otherwise);
void add_timeout(CommandFlags& flags, double& timeout_s, const std::string& help);
// Add --unpack, which limits what files that gzip packed become.
void add_unpack(CommandFlags& flags);

// Call `validate`, which names a size as its flag does, but without dashes. Throw its InputError again
// with the flags' names: all of them where the `sizes` are too large together.
template <class F>
void validate_for_flags(const AttentionShape& sizes, F&& validate) {
  try {
    validate();
  } catch (const InputError& error) {
    if (error.fault() != InputFault::too_large) throw InputError(std::string("--") + error.what());
    throw InputError(fmt::format("--batch {}, --heads {}, --seqlen {}, --head-dim {}: {}",
                                 sizes.batch, sizes.num_heads, sizes.seqlen, sizes.head_dim,
                                 error.what()));
  }
}

// ---
// A problem to be planned or simulated.

// Return a problem with the sizes of a 7B model's attention. 0 stands for sizes not given: seqlen,
// ranks, and heads-kv, which are then as many as heads.
Problem planned_problem();
// Throw InputError for a size that `command` lacks, and for an impossible shape or mask.
void complete_problem(const std::string& command, Problem& job);

// ---
// The ranks of `train` and `generate`: threads or processes.

struct RankOptions {
  Backend backend = Backend::cpu;
  std::optional<int> world_size;  // default: that of the command, or the processes started
  PartitionKind partition = PartitionKind::zigzag;
  double timeout_s = 60;
};

// Add all but --timeout, which add_timeout() does. `dealt` is what the ranks hold, `backends` are those that
// --timeout ends.
void add_ranks(CommandFlags& flags, RankOptions& ranks, int otherwise, const std::string& dealt);
void add_timeout(CommandFlags& flags, RankOptions& ranks, const std::string& backends);

}  // namespace ringscope
