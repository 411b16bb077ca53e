// The machine on which `plan` and `simulate` place ranks: devices and links of a table or a file, or this
// machine, measured.
#pragma once

#include <optional>
#include <string>

#include "app/command_line/flags.h"
#include "app/report/fields.h"
#include "core/tools/cost/hardware.h"
#include "core/tools/cost/time.h"
#include "core/tools/sim/scenario.h"

namespace ringscope {

// What `plan` and `simulate` say without --calibrated.
inline constexpr const char* kCallsLeftOut =
    "calls and merging are left out; --calibrated counts them as published runs show them\n";

// GPU and links, each a name or a file; or a measurement of this machine.
struct HardwareOptions {
  std::optional<std::string> gpu, link;
  std::optional<std::string> between;  // the link between nodes
  std::optional<std::string> kernels;  // of attention
  std::optional<int> nodes;
  bool measure = false;
  bool calibrated = false;  // count calls and merging, as in published runs
};

struct Hardware {
  Gpu gpu;
  Link link;
  std::optional<Link> between;
  Rates rates;
  std::optional<CallCosts> calls;  // if calibrated
  bool is_measured = false;
};

void add_hardware(CommandFlags& flags, HardwareOptions& hardware);
// Throw InputError unless exactly one was given: gpu and link, or measure.
void check_hardware(const std::string& command, const HardwareOptions& hardware);
// Put the nodes into `job`. Throw InputError for nodes without a link between them, what only nodes have
// without nodes, and other nodes than those of its scheme.
void place_on_nodes(const CommandFlags& flags, const HardwareOptions& hardware, Problem& job);

// Return what the options name, with rates for the job's dtype. Throw InputError that names the flag.
// This machine, which takes about 2 s to measure, has rates of a core of its own, up to `ranks` of them
// busy, and a rank's share of the memory.
Hardware find_hardware(const HardwareOptions& options, const Problem& job, int ranks);

// Return "8 ranks of H100: 643 TFLOP/s, 80 GiB; NVLink4: 450 GB/s one way" and what joins its nodes, in a
// line without its end; and the same for programs.
std::string machine_text(const Hardware& hardware, const Problem& job, int nics,
                         Placement placement = Placement::block);
Fields machine_fields(const Hardware& hardware, const Problem& job, int nics);

}  // namespace ringscope
