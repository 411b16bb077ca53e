// What `ringscope plan` is asked for, its answer, and the functions that turn that into text or JSON.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "app/command_line/hardware.h"
#include "app/command_line/option_groups.h"
#include "app/report/fields.h"
#include "core/tools/cost/amounts.h"
#include "core/tools/cost/choices.h"
#include "core/tools/cost/measure.h"
#include "core/tools/cost/model_step.h"
#include "core/tools/sim/work.h"
#include "core/training/rank_groups.h"

namespace ringscope {

struct PlanOptions {
  HardwareOptions hardware;
  int nics = 1;                  // links between nodes that a node has
  double memory_fraction = 0.9;  // of a device's memory that all of it may take

  // A rank's share of the heads and layers; partition and scheme: those of the answer, unless given.
  Problem job = planned_problem();
  std::optional<PartitionSpec> partition;
  bool scheme_given = false;        // of `job`
  std::optional<ModelSizes> model;  // around the attention; of a rank's share as well
  ModelMemory model_memory;
  bool in_8_bits = false;   // the products of the model's layers
  Index micro_batches = 1;  // of a step, each of job.shape.batch, one after the other

  // Ranks along the other axes, where job.world_size ranks are only one of several context groups, and
  // what all of them have. `contexts`: one plan for each size of the context group, where all are asked
  // for.
  ModelSplit split;
  int ranks_a_node = 8;
  Problem whole;
  std::optional<ModelSizes> whole_model;
  std::vector<PlanOptions> contexts;
  bool is_searched() const { return partition && partition->is_searched(); }
  int groups() const { return split.tensor * split.pipeline * split.data; }

  bool explain = false;
  bool json = false;
};

// Whether compute hides the hops on a ring of the plan's partition, in one pass.
struct Overlap {
  double threshold_rows = 0;  // c*; may be infinite
  double headroom = 0;        // actual rows / c*
};

// A model around the attention, for the rank with most rows.
struct ModelPlan {
  ModelSizes sizes;
  ModelFigures figures;
  std::optional<CpuFigures> kernels;  // of a machine that was measured
  StepTime step;                      // of all layers
};

struct Plan : Hardware {
  PlanOptions options;
  StepLinks links;  // libraries spread sums and gathers over all links of a node (NCCL's channels)
  double memory_limit = 0;  // bytes per rank that all of it may take

  Granularity tile;  // with --partition searched, which counts and deals out whole ones
  std::vector<Choice> choices;
  std::optional<std::size_t> best;  // among all choices
  Choice chosen;                    // the best that --partition and --scheme allow
  double rows = 0;                  // of the rank with most, in `chosen`; so are the next members
  std::vector<MemoryPart> memory;
  double host_bytes = 0;           // of activations, in the host's memory
  double share = 1;                // least share of c^2 computed during a hop
  std::optional<ModelPlan> model;  // with --width
  Overlap forward, backward;       // backward: only with --backward
  Index largest_seqlen = 0;
  std::optional<int> smallest_world_size;
  std::optional<double> hidden_seqlen;  // from which nothing is exposed; none if no seqlen suffices
  // The same on one rank by itself, with a kernel that holds no scores, and with all scores of a layer.
  struct Alone {
    const char *name, *key;
    double bytes = 0;
    Index largest_seqlen = 0;
  };
  std::vector<Alone> alone;

  // Return the rates with the slowest link of a ring, which leaves and enters every node once.
  Rates ring_rates() const {
    if (!between || between->bytes_per_s >= rates.bytes_per_s) return rates;
    return {rates.forward_flops, rates.backward_flops, between->bytes_per_s, between->latency_s};
  }
};

// Return the bill of the rank with `rows` rows: attention, and the model around it if there is one.
std::vector<MemoryPart> memory_bill(const PlanOptions& options, const Problem& job, double rows);

inline constexpr int kMostGroupedRanks = 1 << 16;  // few enough to locate all of them at once

// The flags of the groups as they were given.
struct GroupFlags {
  std::string context;             // a number, or `all`
  std::optional<Index> sequences;  // of a step, over all ranks
};
void add_groups(CommandFlags& flags, PlanOptions& options, GroupFlags& groups);
// Return the options with each size of the context group that was asked for. Throw InputError for ranks
// or sequences that don't go together.
std::vector<PlanOptions> with_contexts(const CommandFlags& flags, const PlanOptions& options,
                                       const GroupFlags& groups);
// Leave a rank's share in `options`. Throw InputError for more ranks than can be told, and for heads or
// layers that can't be split evenly.
void split_up(PlanOptions& options);
// Find the links that the plan's groups take, which share those between nodes.
void place_groups(Plan& plan);
// These require a plan with groups.
std::string groups_text(const Plan& plan);
Fields groups_fields(const Plan& plan);

// Return the plan of a model, whose figures are the machine's of the table or measured.
ModelPlan model_plan(const Plan& plan);
// Return the time of a step with the plan's choice; `second` is the time of every second layer's attention.
StepTime step_time(const Plan& plan, const LayerTime& second);
// These require a plan with a model.
double tokens_per_s(const Plan& plan);
std::optional<double> mfu_of(const Plan& plan);
std::string model_text(const Plan& plan);
Fields model_fields(const Plan& plan);

// Return text for people that ends with a newline.
std::string plan_text(const Plan& plan);

// Explain every number of plan_text; the text ends with a newline.
std::string plan_explanation(const Plan& plan);

class PlanExplanation {
 public:
  // Add "name = formula" and, below it, what that is here, as `form` has the values, and its source.
  template <class... T>
  void add(std::string_view name, std::string_view formula, std::string_view source,
           fmt::format_string<const T&...> form, const T&... values) {
    say(fmt::format("{:<18}= {}\n{:<18}= {}   [{}]", name, formula, "",
                    fmt::format(form, values...), source));
  }
  void say(std::string_view line) { text_.append(line).append("\n"); }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};
// Explain the numbers of the plan's model.
void explain_model(PlanExplanation& all, const Plan& plan);

// Return the plan for programs, without the explanation.
Fields plan_fields(const Plan& plan);

// Return one row for each plan: the same ranks in context groups of several sizes.
std::vector<Fields> contexts_fields(const std::vector<Plan>& plans);

}  // namespace ringscope
