// Reads or makes Q, K, V and dO. The sizes come first, from the headers and lengths of files, so
// that impossible ones are refused before anything is read or allocated. Then come the values.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "app/run/run_options.h"
#include "core/run/rows.h"

namespace ringscope {

// What is known of the inputs before they are read.
struct InputPlan {
  AttentionShape shape;
  bool all_f64 = false;            // every file holds float64, so outputs do too
  std::vector<std::string> files;  // to be read
  std::string doubt;               // a line about a shape that looks like another layout, or ""
};

// Read the header of the file that `flag` names, and return the sizes [batch, heads, seqlen,
// head_dim] that it has in the layout. Throw InputError.
std::array<Index, 4> sizes_of_file(const char* flag, const std::string& path, Layout layout);

// Read a file in the layout, into the order [batch, heads, seqlen, head_dim]. Throw InputError.
std::vector<float> read_tensor(const char* flag, const std::string& path, Layout layout);

// Return a tensor of `sizes` [batch, heads, seqlen, width] that is ordered as the layout says in the
// order of bhsd, or the other way round.
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

}  // namespace ringscope
