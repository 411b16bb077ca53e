#include "app/command_line/commands.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "app/command_line/flags.h"
#include "app/plan/plan.h"
#include "app/report/machine.h"
#include "app/report/terminal.h"
#include "core/cost/choices.h"
#include "core/cost/measure.h"
#include "core/cost/time.h"
#include "core/ring/loop_counts.h"
#include "core/sim/scenario.h"

namespace ringscope {
namespace {

void look_up_machine(Plan& plan) {
  const PlanOptions& options = plan.options;
  plan.gpu = for_flag("--gpu", [&] { return find_gpu(*options.hardware.gpu); });
  plan.link = for_flag("--link", [&] { return find_link(*options.hardware.link); });
  if (options.between)
    plan.between = for_flag("--between", [&] { return find_link(*options.between); });
  plan.rates =
      for_flag("--dtype:", [&] { return rates_of(plan.gpu, plan.link, options.job.dtype); });
  if (options.model)
    plan.model = ModelPlan{*options.model, model_figures(plan.gpu, options.job.dtype), {}, {}};
}

// Measure this machine. Ranks are threads, so they share the cores and the memory.
void measure_machine(Plan& plan) {
  const Problem& job = plan.options.job;
  const int busy = std::min(cores(), job.world_size);
  plan.rates = measure_rates(job.shape.head_dim, job.dtype, busy);
  const double share_of_core = static_cast<double>(busy) / job.world_size;
  plan.rates.forward_flops *= share_of_core;
  plan.rates.backward_flops *= share_of_core;
  plan.gpu.name = kMeasuredGpu;
  plan.gpu.memory_bytes = static_cast<double>(available_memory().bytes) / job.world_size;
  plan.link.name = kMeasuredLink;
  plan.link.bytes_per_s = plan.rates.bytes_per_s;
  plan.link.latency_s = plan.rates.latency_s;
  if (const auto& model = plan.options.model) plan.model = measured_model(job, *model);
}

bool is_asked_for(const Choice& choice, const PlanOptions& options) {
  const bool right_scheme =
      !options.scheme_given || choice.job.scheme_name() == options.job.scheme_name();
  // Leave Ulysses out if a partition was asked for, because it makes no difference to Ulysses.
  const bool right_partition =
      !options.partition ||
      (choice.job.scheme == Scheme::ulysses ? options.scheme_given
                                            : choice.job.partition == *options.partition);
  return right_scheme && right_partition;
}

// Return the choices of the schemes that need no number and, if there are nodes or another one was
// asked for, of two-level or of that scheme in every partition.
std::vector<Choice> all_choices(const Plan& plan, const MemoryOf& memory_of) {
  const PlanOptions& options = plan.options;
  const auto simulated = [&](const Problem& job) {
    Scenario scenario;
    scenario.job = job;
    // A loop of messages sees which rows a rank has, also in Ulysses.
    if (job.scheme == Scheme::ulysses && options.partition)
      scenario.job.partition = options.job.partition == PartitionKind::dealt ? options.job.partition
                                                                             : *options.partition;
    scenario.rates = plan.rates;
    scenario.nics = options.nics;
    if (plan.between) scenario.between = *plan.between;
    return judge_by_simulation(std::move(scenario), plan.memory_limit, memory_of);
  };
  Problem tried = options.job;
  set_scheme(tried, name_of(Scheme::ring));
  std::vector<Choice> choices = all_choices(tried, plan.rates, plan.memory_limit, memory_of);
  for (Choice& choice : choices)
    if (is_followed(choice.job) || plan.between) choice = simulated(choice.job);
  if (options.job.scheme == Scheme::ulysses || (is_plain(options.job) && !plan.between))
    return choices;
  std::vector<PartitionSpec> partitions(std::begin(kAllPartitions), std::end(kAllPartitions));
  if (options.job.partition == PartitionKind::dealt) partitions.push_back(options.job.partition);
  tried = options.job;
  if (is_plain(tried)) tried.scheme = Scheme::two_level;
  for (const PartitionSpec& partition : partitions) {
    tried.partition = partition;
    choices.push_back(simulated(tried));
  }
  return choices;
}

Choice choose(const Plan& plan) {
  std::vector<Choice> asked_for;
  std::copy_if(plan.choices.begin(), plan.choices.end(), std::back_inserter(asked_for),
               [&](const Choice& choice) { return is_asked_for(choice, plan.options); });
  if (const auto best = best_choice(asked_for)) return asked_for[*best];
  // If no choice is feasible, return the one that would be the fastest, with its obstacle. Ulysses
  // keeps its obstacle, because it may be meaningless with too few heads.
  std::vector<Choice> unhindered = asked_for;
  for (Choice& choice : unhindered)
    if (choice.job.scheme != Scheme::ulysses) choice.obstacle.reset();
  return asked_for[best_choice(unhindered).value_or(0)];
}

// Find the overlap of a ring with the chosen partition, whatever the chosen scheme.
void find_overlap(Plan& plan) {
  Problem ring = plan.chosen.job;
  ring.scheme = Scheme::ring;
  const Balance balance = plan.searched ? plan.chosen.balance : balance_of(ring);
  plan.share = least_share(ring, balance);
  if (ring.world_size == 1) return;
  const auto overlap = [&](Pass pass) {
    const double rows = threshold_rows(ring, plan.ring_rates(), pass, plan.share);
    return Overlap{rows, plan.rows / rows};
  };
  plan.forward = overlap(Pass::forward);
  plan.backward = ring.backward ? overlap(Pass::backward) : Overlap{};
  const double rows = std::max(plan.forward.threshold_rows, plan.backward.threshold_rows);
  if (std::isfinite(rows)) plan.hidden_seqlen = std::ceil(rows) * ring.world_size;
}

}  // namespace

std::vector<MemoryPart> memory_bill(const PlanOptions& options, const Problem& job, double rows) {
  if (!options.model) return memory_parts(job, rows);
  return model_memory_parts(job, *options.model, options.model_memory, rows);
}

Plan make_plan(const PlanOptions& options) {
  Plan plan;
  plan.options = options;
  options.hardware.measure ? measure_machine(plan) : look_up_machine(plan);
  plan.memory_limit = options.memory_fraction * plan.gpu.memory_bytes;
  const MemoryOf memory_of = [&](const Problem& job) {
    return total_bytes(memory_bill(options, job, job.max_rows()));
  };
  if (options.scheme_given) with_dashes([&] { check_scheme(options.job); });
  plan.choices = all_choices(plan, memory_of);
  plan.best = best_choice(plan.choices);
  if (options.searched) plan.searched = search_rings(options, plan.rates);
  plan.chosen =
      plan.searched ? choice_of(*plan.searched, options, plan.memory_limit) : choose(plan);
  const Problem& job = plan.chosen.job;
  plan.rows = plan.searched ? plan.searched->rows : job.max_rows();
  plan.memory = memory_bill(options, job, plan.rows);
  find_overlap(plan);
  if (plan.model) plan.model->step = step_time(plan);
  plan.largest_seqlen = largest_seqlen(job, plan.memory_limit, memory_of);
  plan.smallest_world_size = smallest_world_size(job, plan.memory_limit, memory_of);
  return plan;
}

int carry_out(const PlanOptions& options) {
  const Plan plan = make_plan(options);
  if (options.json) {
    print_out(plan_json(plan));
  } else {
    print_out(plan_text(plan) + (options.explain ? "\n" + plan_explanation(plan) : ""));
  }
  return 0;
}

}  // namespace ringscope
