// The plan for people: what was asked, then feasibility, memory, threshold, time, choices, limits.
#include <fmt/format.h>

#include <cmath>

#include "app/plan.h"
#include "app/report.h"
#include "core/sim/scenario.h"

namespace ringscope {
namespace {

std::string plan_line(const std::string& what, const std::string& value) {
  return fmt::format("{:<20}{}\n", what, value);
}

// The one that was chosen.
std::string way_text(const Plan& plan) {
  const Job& job = plan.chosen.job;
  if (job.scheme == JobScheme::ulysses) return "ulysses";
  return fmt::format("{}, {}", plan.searched ? kSearched : name_of(job.partition),
                     name_of(job.scheme));
}

std::string header_text(const Plan& plan) {
  const Job& job = plan.chosen.job;
  const AttentionShape& s = job.shape;
  return fmt::format(
      "{} tokens x {} batch, {} heads ({} kv), head_dim {}, {}, mask {}, {}\n"
      "{} rank{} of {}: {:.4g} TFLOP/s{}, {}; {}: {:.4g} GB/s one way\n\n",
      s.seqlen, s.batch, s.num_heads, s.num_heads_kv, s.head_dim, name_of(job.dtype),
      job.mask.name(), job.backward ? "forward and backward" : "forward", job.world_size,
      job.world_size == 1 ? "" : "s", plan.gpu.name, plan.rates.forward_flops / 1e12,
      job.backward
          ? fmt::format(" forward, {:.4g} TFLOP/s backward", plan.rates.backward_flops / 1e12)
          : "",
      gb_text(plan.gpu.memory_bytes), plan.link.name, plan.rates.bytes_per_s / 1e9);
}

std::string feasible_text(const Plan& plan) {
  const Choice& chosen = plan.chosen;
  if (chosen.obstacle)
    return plan_line("feasible", fmt::format("no: {}; {}", way_text(plan), *chosen.obstacle));
  return plan_line("feasible", fmt::format("yes: {}; {} of {} a rank", way_text(plan),
                                           gb_text(chosen.peak_bytes), gb_text(plan.memory_limit)));
}

std::string memory_text(const Plan& plan) {
  std::string text = plan_line("memory a rank", gb_text(plan.chosen.peak_bytes));
  for (const MemoryPart& part : plan.memory)
    text += fmt::format("  {:<34}{:>12}\n", part.name, gb_text(part.bytes));
  return text;
}

std::string overlap_text(const Overlap& overlap, double rows) {
  if (std::isinf(overlap.threshold_rows))
    return "none: at some steps nothing is computed, so their hops are exposed at any length";
  return fmt::format("{:.0f} rows a rank for a ring; {:.0f} there, headroom {:.2f}",
                     std::ceil(overlap.threshold_rows), rows, overlap.headroom);
}

std::string threshold_text(const Plan& plan) {
  const Job& job = plan.chosen.job;
  if (job.world_size == 1) return plan_line("threshold", "none: one rank has nothing to send");
  std::string text = plan_line(job.backward ? "threshold forward" : "threshold",
                               overlap_text(plan.forward, plan.rows));
  if (job.backward) text += plan_line("threshold backward", overlap_text(plan.backward, plan.rows));
  return text;
}

std::string time_text(const Plan& plan) {
  const LayerTime& time = plan.chosen.time;
  std::string text = fmt::format("{:<20}{:>12}{:>12}{:>12}{:>12}\n", "time of a layer", "in all",
                                 "compute", "imbalance", "exposed");
  const auto row = [&text](const char* name, const PassTime& pass) {
    text += fmt::format("  {:<18}{:>12}{:>12}{:>12}{:>12}\n", name, seconds_text(pass.total()),
                        seconds_text(pass.compute), seconds_text(pass.imbalance),
                        seconds_text(pass.exposed));
  };
  row("forward", time.forward);
  if (plan.chosen.job.backward) row("backward", time.backward);
  return text;
}

// "*" marks the best, ">" another one that was asked for.
char mark_of(const Plan& plan, std::size_t index) {
  if (plan.best == index) return '*';
  if (plan.searched) return ' ';
  const Job &job = plan.choices[index].job, &chosen = plan.chosen.job;
  return job.scheme == chosen.scheme && job.partition == chosen.partition ? '>' : ' ';
}

std::string choices_text(const Plan& plan) {
  std::string text =
      fmt::format("  {:<11}{:<12}{:>12}{:>12}{:>12}{:>12}{:>10}{:>12}\n", "scheme", "partition",
                  "in all", "compute", "imbalance", "exposed", "ceiling", "memory");
  bool sampled = false;
  for (std::size_t i = 0; i < plan.choices.size(); ++i) {
    const Choice& choice = plan.choices[i];
    const LayerTime& time = choice.time;
    const bool by_heads = choice.job.scheme == JobScheme::ulysses;
    text += fmt::format("{} {:<11}{:<12}", mark_of(plan, i), name_of(choice.job.scheme),
                        by_heads ? "(by heads)" : name_of(choice.job.partition));
    if (by_heads && choice.obstacle && choice.obstacle->find("divide") != std::string::npos) {
      text += "  no: " + *choice.obstacle + "\n";
      continue;
    }
    text += fmt::format("{:>12}{:>12}{:>12}{:>12}{:>10.3f}{:>12}{}\n", seconds_text(time.total()),
                        seconds_text(time.compute()), seconds_text(time.imbalance()),
                        seconds_text(time.exposed()), choice.balance.ceiling(),
                        gb_text(choice.peak_bytes), choice.obstacle ? "  too much" : "");
    sampled = sampled || choice.balance.sampled;
  }
  text +=
      plan.best ? "* the fastest that fits; within 1 % the first counts\n" : "none of them fits\n";
  if (sampled) text += "Imbalance and ceiling are from a sample of ranks and steps\n";
  if (plan.searched) return text + "\n" + searched_text(*plan.searched);
  const std::string mask = plan.chosen.job.mask.name();
  if (mask != "full" && mask != "causal" && plan.chosen.job.world_size > 1)
    text += "None of these was made for this mask; --partition searched looks for one that is\n";
  return text;
}

std::string limits_text(const Plan& plan) {
  const Job& job = plan.chosen.job;
  const std::string way = way_text(plan);
  std::string text = plan_line(
      "largest seqlen", plan.largest_seqlen == 0
                            ? "none: the memory holds not even one position"
                            : fmt::format("{}{} in {} a rank, {}",
                                          plan.largest_seqlen == kMaxSeqlen ? "at least " : "",
                                          plan.largest_seqlen, gb_text(plan.memory_limit), way));
  text += plan_line(
      "smallest world_size",
      plan.smallest_world_size
          ? fmt::format("{} for {} tokens, {}", *plan.smallest_world_size, job.shape.seqlen, way)
          : fmt::format("none: no number of ranks will do for {} tokens, {}", job.shape.seqlen,
                        way));
  if (job.world_size > 1)
    text += plan_line("hidden from seqlen",
                      plan.hidden_seqlen ? fmt::format("{:.0f} on a ring", *plan.hidden_seqlen)
                                         : "none hides every hop of a ring");
  return text;
}

}  // namespace

std::string gb_text(double bytes) {
  if (bytes >= 0.995e9) return fmt::format("{:.2f} GB", bytes / 1e9);
  if (bytes >= 0.995e6) return fmt::format("{:.2f} MB", bytes / 1e6);
  return fmt::format("{:.2f} kB", bytes / 1e3);
}

std::string plan_text(const Plan& plan) {
  return header_text(plan) + feasible_text(plan) + "\n" + memory_text(plan) + "\n" +
         threshold_text(plan) + "\n" + time_text(plan) + "\n" +
         (plan.model ? model_text(plan) + "\n" : "") + choices_text(plan) + "\n" +
         limits_text(plan);
}

}  // namespace ringscope
