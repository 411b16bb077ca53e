// The options of every command: the command line, read and checked for contradictions. No file has
// been opened yet.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "app/command_line/flags.h"
#include "app/generate/generate_options.h"
#include "app/groups/groups_options.h"
#include "app/lesson/lesson_options.h"
#include "app/plan/plan_options.h"
#include "app/run/backend.h"
#include "app/simulate/simulate_options.h"
#include "app/train/train_options.h"
#include "core/base/dtype.h"
#include "core/base/math.h"
#include "core/problem/mask.h"
#include "core/problem/partition.h"
#include "core/ring/faults.h"
#include "core/ring/problem.h"
#include "viz/window/view.h"

namespace ringscope {

// The options of `ringscope run`. An empty optional was not given.
struct RunOptions {
  // The source of Q, K and V: exactly one of three.
  std::optional<std::string> q, k, v;
  std::optional<std::string> text;
  bool random = false;
  std::uint64_t seed = 0;

  // Only for text and random inputs.
  std::optional<Index> batch, heads, heads_kv, seqlen, head_dim;

  Backend backend = Backend::cpu;
  CudaChoice cuda;
  std::optional<int> world_size;  // default 4, or the number of processes started
  PartitionKind partition = PartitionKind::contiguous;
  Scheme scheme = Scheme::ring;
  std::optional<int> kv_buffers;  // default 2
  MaskSpec mask;
  DType dtype = DType::f32;
  std::optional<double> softmax_scale;

  bool backward = false;
  std::optional<std::string> dout;

  std::optional<std::string> out, lse, dq, dk, dv, trace;
  bool verify = false;
  std::optional<Index> verify_rows;  // of each head; default all
  bool json = false;

  double timeout_s = 60;
  std::optional<Injection> injection;
};

// The options of `ringscope demo`.
struct DemoOptions {
  std::string text;  // "": the text that lies beside the program
  std::string out = "runs/demo";
  Index seqlen = 8192;
  bool no_view = false;  // do not open a window, even on a display
};

struct InfoOptions {};

// The text of --help or `ringscope help`, which is to be printed.
struct Help {
  std::string text;
};

using Command =
    std::variant<Help, GroupsOptions, LessonOptions, PlanOptions, RunOptions, DemoOptions,
                 SimulateOptions, TrainOptions, GenerateRequest, viz::ViewOptions, InfoOptions>;

// Read `arguments` (without the program's name). Throw InputError naming the flag, the value and
// what would be accepted.
Command parse_command_line(const std::vector<std::string>& arguments);

// ---
// Pages made from the table that reads the command line: a man page, and the scripts with which
// bash and zsh complete commands, flags and their values.

// Return a page: "man" (troff), "bash", "zsh", or "" for the text of --help. Throw InputError.
std::string help_page(const std::string& page, const CommandLine& line);

}  // namespace ringscope
