// The options of `ringscope plan`: a problem, a machine, and how much to print.
#pragma once

#include <optional>

#include "app/command_line/option_groups.h"
#include "core/cost/model_step.h"

namespace ringscope {

struct PlanOptions {
  HardwareOptions hardware;
  std::optional<std::string> between;  // the link between nodes, if job.nodes > 1
  int nics = 1;                        // such links a node
  double memory_fraction = 0.9;        // of a device's memory that all of it may take

  Problem job = planned_problem();  // partition and scheme: those of the answer, unless given
  std::optional<PartitionSpec> partition;
  bool searched = false;            // search for a ring's partition instead of naming one
  bool scheme_given = false;        // of `job`
  std::optional<ModelSizes> model;  // around the attention
  ModelMemory model_memory;
  Index micro_batches = 1;  // of a step, each of job.shape.batch, one after the other

  bool explain = false;
  bool json = false;
};

}  // namespace ringscope
