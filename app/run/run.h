// `ringscope run`: its options, its inputs, and the files that it writes.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "app/command_line/option_groups.h"
#include "app/run/backend.h"
#include "core/base/files.h"
#include "core/base/names.h"
#include "core/ring/problem.h"
#include "core/threads/rows.h"
#include "core/threads/run.h"
#include "core/tools/check/mistakes.h"

namespace ringscope {

// The order of the axes of the files of Q, K, V and of all that has their rows: [batch, heads,
// seqlen, head_dim], [batch, seqlen, heads, head_dim], [seqlen, batch, heads, head_dim], or [seqlen,
// heads, head_dim] without a batch.
enum class Layout { bhsd, bshd, sbhd, thd };
constexpr auto names_of(Layout) { return list_of({"bhsd", "bshd", "sbhd", "thd"}); }

// An empty optional was not given.
struct RunOptions {
  // The source of Q, K and V: exactly one of three.
  std::optional<std::string> q, k, v;
  Layout layout = Layout::bhsd;
  std::optional<std::string> text;
  bool random = false;
  std::uint64_t seed = 0;

  Backend backend = Backend::cpu;
  CudaChoice cuda;
  std::optional<int> world_size;  // default 4, or the number of processes started
  // Without ranks. The shape is only for text and random inputs; 0: as many heads, the default seqlen.
  Problem job = {.shape = {1, 4, 0, 0, 64}};

  std::optional<std::string> dout;
  std::optional<std::string> sink_logits;  // a file, or "random"
  std::optional<std::string> out, lse, dq, dk, dv, dsink, trace, write_partition;
  bool verify = false;
  std::optional<Index> verify_rows;  // of each head; default all
  bool json = false;
  std::optional<MistakenRing> mistaken;  // a numeric mistake on purpose, of all ranks or of one
};

class CommandFlags;
// Add --q, --k, --v, --layout and --scale.
void add_tensors(CommandFlags& flags, RunOptions& run);

// ---
// Reads or makes Q, K, V and dO. The sizes come first, from the headers and lengths of files, so
// that impossible ones are refused before anything is read or allocated. Then come the values.

// What is known of the inputs before they are read.
struct InputPlan {
  AttentionShape shape;
  bool all_f64 = false;            // every file holds float64, so outputs do too
  std::vector<std::string> files;  // to be read
  std::string doubt;               // a line about a shape that looks like another layout, or ""
  std::vector<float> sink_logits;  // [heads], or empty; so few that they are read at once
};

// Return the files that `path` stands for: itself, or a file per rank if it holds {r}.
std::vector<std::string> files_of_ranks(const std::string& path, const RunOptions& options);

// Read the header of the file that `flag` names, or of all ranks' files, and return the sizes [batch,
// heads, seqlen, head_dim] that it has in the layout. Throw InputError.
std::array<Index, 4> sizes_of_file(const char* flag, const std::string& path,
                                   const RunOptions& options);

// Read a file in the layout, or the rows that the ranks' files hold by the partition (of the queries of a
// shape, if one is given), into the order [batch, heads, seqlen, head_dim]. Add remarks on its values. Throw InputError.
std::vector<float> read_tensor(const char* flag, const std::string& path, const RunOptions& options,
                               std::vector<std::string>* remarks = nullptr,
                               const AttentionShape* of_queries = nullptr);
// Read an array [heads]. Throw InputError.
std::vector<float> read_per_head(const char* flag, const std::string& path, Index heads);
// Put the parts of a tensor [heads, rows of a rank, width] into [heads, seqlen, width]. Throw an
// InputError that names `flag` if a part has another number of rows than its rank.
std::vector<float> joined_ranks(const char* flag, const RunOptions& options, Index width,
                                const std::vector<std::vector<float>>& parts, Index heads,
                                const AttentionShape* of_queries = nullptr);

// Return the shape that a tensor of `sizes` [batch, heads, seqlen, width] has in a file; thd: behind a 1.
std::array<Index, 4> shape_in_file(Layout layout, const std::array<Index, 4>& sizes);
// Return such a tensor, which is ordered as in a file, in the order of bhsd; or the other way round.
std::vector<float> from_layout(Layout layout, const std::array<Index, 4>& sizes,
                               std::vector<float> values);
std::vector<float> to_layout(Layout layout, const std::array<Index, 4>& sizes,
                             std::vector<float> values);

// Throw InputError naming flag, file, value and what would be accepted.
InputPlan plan_inputs(const RunOptions& options);

// The values, and a line about each file whose values are NaN, infinite, or too large for the run's
// dtype. Such values are computed with as IEEE 754 says. Without remarks, all are finite.
struct LoadedInputs {
  AttentionInputs tensors;
  std::vector<std::string> remarks;
};

// Read or make the values. Throw as plan_inputs does, and RunError when memory does not suffice.
LoadedInputs load_inputs(const RunOptions& options, const InputPlan& plan);

// Return whether ranks can make their own rows, because no file but a text is read.
bool can_be_generated(const RunOptions& options);
// Return the bytes of --text that are tokens, or "" for --random. Throw InputError with the file.
std::string text_of(const RunOptions& options, const InputPlan& plan);
// Return the rows of --random or of --text; `text` is what text_of returned.
std::unique_ptr<RowSource> generated_rows(const RunOptions& options, const AttentionShape& shape,
                                          std::string text);

// ---
// The files that a run writes: .npy tensors and the trace. Their places are checked before the long
// work. In the end all are written under temporary names and renamed only when all of them are on
// the disk, so that a full disk leaves none of them.

// Return the outputs of `run`.
std::vector<OutputPlace> output_places(const RunOptions& options);

// Write what `options` ask for, with tensors as float64 if `f64`. Throw RunError, for example when
// the disk is full.
void write_outputs(const RunOptions& options, const Problem& config, const RingRun& run, bool f64);

// Write the recording alone, if `options` ask for it. Throw as write_outputs does.
void write_trace(const RunOptions& options, const Recording& recording);

}  // namespace ringscope
