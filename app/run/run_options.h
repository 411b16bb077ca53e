// The options of `ringscope run`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "app/run/backend.h"
#include "core/check/mistakes.h"
#include "core/ring/problem.h"

namespace ringscope {

// The order of the axes of the files of Q, K, V and of all that has their rows: [batch, heads,
// seqlen, head_dim], [batch, seqlen, heads, head_dim], or [seqlen, heads, head_dim] without a batch.
enum class Layout { bhsd, bshd, thd };

// Return the layout that `text` names. Throw an InputError that lists the accepted names.
Layout parse_layout(std::string_view text);

// An empty optional was not given.
struct RunOptions {
  // The source of Q, K and V: exactly one of three.
  std::optional<std::string> q, k, v;
  Layout layout = Layout::bhsd;
  std::optional<std::string> text;
  bool random = false;
  std::uint64_t seed = 0;

  // Only for text and random inputs.
  std::optional<Index> batch, heads, heads_kv, seqlen, head_dim;

  Backend backend = Backend::cpu;
  CudaChoice cuda;
  std::optional<int> world_size;  // default 4, or the number of processes started
  Problem job;                    // without shape and ranks

  std::optional<std::string> dout;
  std::optional<std::string> out, lse, dq, dk, dv, trace, dump, write_partition;
  bool live = false;  // write the trace while the run goes on
  bool verify = false;
  std::optional<Index> verify_rows;  // of each head; default all
  bool json = false;
  std::optional<MistakenRing> mistaken;  // a numeric mistake on purpose, of all ranks or of one
  std::string command;                   // the words of the command line, for the recording
};

class CommandFlags;
// Add --q, --k, --v and --layout.
void add_tensors(CommandFlags& flags, RunOptions& run);

}  // namespace ringscope
