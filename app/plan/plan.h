// The answer of `ringscope plan`, before it is put into words.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/plan/plan_options.h"
#include "core/cost/choices.h"
#include "core/cost/hardware.h"
#include "core/cost/measure.h"
#include "core/cost/memory.h"
#include "core/cost/model_step.h"
#include "core/sim/search/searched.h"

namespace ringscope {

class JsonWriter;

// How communication hides on a ring of the plan's partition, in one pass.
struct Overlap {
  double threshold_rows = 0;  // c*; may be infinite
  double headroom = 0;        // the rows there are / c*
};

// A ring whose ranks compute whole tiles.
struct RingInTiles {
  std::string_view partition;
  Balance balance;  // of computed pairs
  LayerTime time;
};

// What a search found, beside the four fixed partitions in the same tiles.
struct SearchedRings {
  Granularity tile;
  SearchedPartition found;
  std::vector<RingInTiles> rings;  // the four, then the one that was found
  double rows = 0;                 // of the rank with most, as it was found

  const RingInTiles& ring() const { return rings.back(); }
  double most_ceiling() const;  // of the balance, whatever else might be found
};

// A model around the attention, on the rank with most rows.
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
  Rates rates;
  double memory_limit = 0;  // bytes of a rank that attention may take

  std::optional<SearchedRings> searched;  // with --partition searched

  std::vector<Choice> choices;
  std::optional<std::size_t> best;  // among all choices
  Choice chosen;  // what was searched for, or the best of those that --partition and --scheme leave
  double rows = 0;  // of the rank with most, in `chosen`, as the next ones
  std::vector<MemoryPart> memory;
  double share = 1;                // of c^2 that is computed beside a hop, at the least
  std::optional<ModelPlan> model;  // with --width
  Overlap forward, backward;       // backward: only with it
  Index largest_seqlen = 0;
  std::optional<int> smallest_world_size;
  std::optional<double> hidden_seqlen;  // at which nothing is exposed; none where no seqlen does it
};

// Searches. Of `options`' job; tiles are those of the GPU kernels, or of a measured machine's.
SearchedRings search_rings(const PlanOptions& options, const Rates& rates);
// It as a choice, judged like the others.
Choice choice_of(const SearchedRings& searched, const PlanOptions& options, double memory_bytes);
std::string searched_text(const SearchedRings& searched);
std::string searched_explanation(const SearchedRings& searched);
void put_searched(JsonWriter& json, const SearchedRings& searched);

// The figures of this machine.
ModelPlan measured_model(const Job& job, const ModelSizes& sizes);
// Of what the plan chose.
StepTime step_time(const Plan& plan);
// Of a plan with a model.
std::string model_text(const Plan& plan);
std::string model_explanation(const Plan& plan);
void put_model(JsonWriter& json, const Plan& plan);

// Throws InputError for unknown hardware or a bad table. With --measure this takes about 2 s.
Plan make_plan(const PlanOptions& options);

// For people; ends with a newline.
std::string plan_text(const Plan& plan);

// How every number of plan_text comes about, line by line; ends with a newline.
std::string plan_explanation(const Plan& plan);

// One JSON object and a newline.
std::string plan_json(const Plan& plan);

// "1.23 GB", of 10^9 bytes as in data sheets.
std::string gb_text(double bytes);

}  // namespace ringscope
