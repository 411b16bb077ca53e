// What `ringscope plan` is asked for, its answer, and the functions that turn that into text or JSON.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "app/command_line/option_groups.h"
#include "app/report/fields.h"
#include "core/model/rank_groups.h"
#include "core/tools/cost/amounts.h"
#include "core/tools/cost/choices.h"
#include "core/tools/cost/hardware.h"
#include "core/tools/cost/measure.h"
#include "core/tools/cost/model_step.h"
#include "core/tools/sim/searched.h"

namespace ringscope {

struct PlanOptions {
  HardwareOptions hardware;
  std::optional<std::string> between;  // the link between nodes, if job.nodes > 1
  int nics = 1;                        // such links a node
  double memory_fraction = 0.9;        // of a device's memory that all of it may take

  Problem job = planned_problem();  // partition and scheme: those of the answer, unless given
  std::optional<PartitionSpec> partition;
  bool scheme_given = false;        // of `job`
  std::optional<ModelSizes> model;  // around the attention
  ModelMemory model_memory;
  Index micro_batches = 1;  // of a step, each of job.shape.batch, one after the other

  // Ranks along the other axes, where job.world_size ranks are only one of several context groups.
  PerAxis groups{{1, 1, 1, 1}};
  int ranks_a_node = 8;
  bool is_searched() const { return partition && partition->is_searched(); }
  bool has_groups() const { return groups != PerAxis{{1, 1, 1, 1}}; }

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

struct Plan {
  PlanOptions options;
  Gpu gpu;
  Link link;
  std::optional<Link> between;  // nodes
  Rates rates;
  double memory_limit = 0;  // bytes per rank that all of it may take

  Granularity tile;  // with --partition searched, which counts and deals out whole ones
  std::vector<Choice> choices;
  std::optional<std::size_t> best;  // among all choices
  Choice chosen;                    // the best that --partition and --scheme allow
  double rows = 0;                  // of the rank with most, in `chosen`; so are the next members
  std::vector<MemoryPart> memory;
  double share = 1;                // least share of c^2 computed during a hop
  std::optional<ModelPlan> model;  // with --width
  Overlap forward, backward;       // backward: only with --backward
  Index largest_seqlen = 0;
  std::optional<int> smallest_world_size;
  std::optional<double> hidden_seqlen;  // from which nothing is exposed; none if no seqlen suffices

  // Return the rates with the slowest link of a ring, which leaves and enters every node once.
  Rates ring_rates() const {
    if (!between || between->bytes_per_s >= rates.bytes_per_s) return rates;
    return {rates.forward_flops, rates.backward_flops, between->bytes_per_s, between->latency_s};
  }
  // Return the rates of sums of gradients and gathers of weights, which libraries spread over all links
  // of a node (NCCL's channels).
  Rates weight_rates() const {
    Rates wide = ring_rates();
    if (between)
      wide.bytes_per_s = std::min(rates.bytes_per_s, options.nics * between->bytes_per_s);
    return wide;
  }
};

// Return the bill of the rank with `rows` rows: attention, and the model around it if there is one.
std::vector<MemoryPart> memory_bill(const PlanOptions& options, const Problem& job, double rows);

// Add the flags of the groups. Throw InputError for more ranks than can be told, and for heads or
// layers that can't be split evenly.
void add_groups(CommandFlags& flags, PlanOptions& options);
void check_groups(const PlanOptions& options);
// These require a plan with groups.
std::string groups_text(const PlanOptions& options);
Fields groups_fields(const PlanOptions& options);

// Return a time, all of it and in parts.
Fields time_fields(double total, double compute, double imbalance, double exposed);
inline Fields time_fields(const PassTime& pass) {
  return time_fields(pass.total(), pass.compute, pass.imbalance, pass.exposed);
}
inline Fields time_fields(const LayerTime& layer) {
  return time_fields(layer.total(), layer.compute(), layer.imbalance(), layer.exposed());
}

// Measure this machine.
ModelPlan measured_model(const Problem& job, const ModelSizes& sizes);
// Return the time of a step with the plan's choice.
StepTime step_time(const Plan& plan);
// These require a plan with a model.
std::string model_text(const Plan& plan);
std::string model_explanation(const Plan& plan);
Fields model_fields(const Plan& plan);

// Return text for people that ends with a newline.
std::string plan_text(const Plan& plan);

// A number of the explanation: its formula, the formula with numbers, and its source.
struct Entry {
  std::string name, formula, numbers, source;
};
// Return two lines for each entry that has a name.
std::string entries_text(const std::vector<Entry>& entries);

// Explain every number of plan_text, line by line; the text ends with a newline.
std::string plan_explanation(const Plan& plan);

// Return one JSON object and a newline.
std::string plan_json(const Plan& plan);

}  // namespace ringscope
