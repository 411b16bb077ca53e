// Puts a plan into words: as text, as an explanation of each of its numbers, and as JSON.

#include <fmt/format.h>

#include <cmath>
#include <string_view>

#include "app/plan/plan.h"
#include "app/report/json_writer.h"
#include "app/run/report.h"
#include "core/cost/amounts.h"
#include "core/cost/time.h"
#include "core/sim/scenario.h"

namespace ringscope {

// ---
// The plan as text: what was asked, feasibility, memory, threshold, time, choices, limits.

namespace {

std::string plan_line(const std::string& what, const std::string& value) {
  return fmt::format("{:<20}{}\n", what, value);
}

// Return the name of the chosen way.
std::string way_text(const Plan& plan) {
  const Problem& job = plan.chosen.job;
  if (job.scheme == Scheme::ulysses) return "ulysses";
  return fmt::format("{}, {}", plan.searched ? kSearched : name_of(job.partition),
                     name_of(job.scheme));
}

std::string header_text(const Plan& plan) {
  const Problem& job = plan.chosen.job;
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
  const Problem& job = plan.chosen.job;
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

// Return "*" for the best choice and ">" for another one that was asked for.
char mark_of(const Plan& plan, std::size_t index) {
  if (plan.best == index) return '*';
  if (plan.searched) return ' ';
  const Problem &job = plan.choices[index].job, &chosen = plan.chosen.job;
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
    const bool by_heads = choice.job.scheme == Scheme::ulysses;
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
  const Problem& job = plan.chosen.job;
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

// ---
// The explanation of the plan: each number's formula, with the numbers put in, and its source.

namespace {

std::string entry(const std::string& name, const std::string& formula, const std::string& numbers,
                  const std::string& source) {
  return fmt::format("{:<18}= {}\n{:<18}= {}   [{}]\n", name, formula, "", numbers, source);
}

std::string rates_text(const Plan& plan) {
  const std::string forward = fmt::format("{:.4g} FLOP/s", plan.rates.forward_flops);
  const std::string link = fmt::format("{:.4g} bytes/s, {:.3g} s a message", plan.rates.bytes_per_s,
                                       plan.rates.latency_s);
  std::string text;
  if (plan.options.hardware.measure) {
    text += entry("F", "FLOPs of blocks attended / time, cores / ranks of it at most", forward,
                  "measured now");
    text += entry("B", "bytes of blocks moved between two threads / time", link, "measured now");
    return text;
  }
  text += entry("F", "peak x forward_share",
                fmt::format("{:.4g} x {:.3g} = {}", plan.gpu.peak_flops(plan.chosen.job.dtype),
                            plan.gpu.forward_share, forward),
                "table of hardware; S0 takes the peak itself");
  text += entry("B", "one direction of " + plan.link.name, link,
                "table of hardware; S1 and S3 add up both directions");
  return text;
}

std::string work_text(const Plan& plan) {
  const Problem& job = plan.chosen.job;
  const Balance& balance = plan.chosen.balance;
  const double pairs = total_pairs(job);
  std::string text;
  text +=
      entry("FLOPs forward", "4 b H d pairs",
            fmt::format("4 x {} x {} x {} x {:.6g} = {:.6g}", job.shape.batch, job.shape.num_heads,
                        job.shape.head_dim, pairs, flops_of_pairs(job.shape, pairs, Pass::forward)),
            "S0, Arithmetic Complexity; S1 part two 7.1 counts half");
  if (job.backward)
    text += entry("FLOPs backward", "10 b H d pairs",
                  fmt::format("{:.6g}", flops_of_pairs(job.shape, pairs, Pass::backward)),
                  "S1 part two 8.1: five products for the forward's two");
  text += entry("balance ceiling", "mean / slowest rank, summed over steps",
                fmt::format("{:.6g} / {:.6g} = {:.4f}", balance.mean_rank, balance.slowest_steps(),
                            balance.ceiling()),
                "C20: N / (2N - 1) for contiguous ranks under a causal mask");
  return text;
}

std::string traffic_text(const Plan& plan) {
  const Problem& job = plan.chosen.job;
  const Traffic traffic = traffic_of(job, 0);
  const char* const forward = job.scheme == Scheme::ulysses ? "(N-1)/N of Q, K, V and of the output"
                                                            : "2 b d G e (S - rows of one rank)";
  std::string text =
      entry("bytes sent", forward, fmt::format("{:.6g} forward by rank 0", traffic.forward_bytes),
            "S0, Communication Complexity; S1 part one 4.4 counts a hop too many");
  if (job.backward)
    text += entry("bytes back",
                  job.scheme == Scheme::ulysses ? "(N-1)/N of dO and of dQ, dK, dV"
                                                : "K, V again, and dK, dV in f32",
                  fmt::format("{:.6g} backward by rank 0, {:.0f} hops in all",
                              traffic.backward_bytes, traffic.hops),
                  "S1 part two 8.2, put right: gradients follow their block");
  return text;
}

std::string memory_lines(const Plan& plan) {
  std::string text = "memory, " + std::string(kMemoryLetters) + "\n";
  for (const MemoryPart& part : plan.memory)
    text += fmt::format("  {:<34}= {} = {:.0f} bytes\n", part.name, part.formula, part.bytes);
  return text +
         "  [S0, Memory Complexity: 6 d c values, the output as stored; here it is summed in "
         "f32]\n";
}

std::string threshold_lines(const Plan& plan) {
  const Problem& job = plan.chosen.job;
  if (job.world_size == 1) return "";
  const auto of_pass = [&](Pass pass, const Overlap& overlap) {
    const bool forward = pass == Pass::forward;
    return entry(forward ? "c*" : "c* backward",
                 forward ? "(F/B) (e/2) (G/H) / share" : "(F/B) ((2e + 8) / 10) (G/H) / share",
                 fmt::format("{:.4g} x {:.3g} x {}/{} / {:.4g} = {:.1f} rows, latency included",
                             plan.rates.flops(pass) / plan.rates.bytes_per_s,
                             forward ? job.storage_bytes() / 2 : (2 * job.storage_bytes() + 8) / 10,
                             job.shape.num_heads_kv, job.shape.num_heads, plan.share,
                             overlap.threshold_rows),
                 "S0 and S3 entry 3: F/B for full masks, 2-byte values, as many kv heads") +
           entry(forward ? "headroom" : "headroom backward", "c / c*",
                 fmt::format("{:.0f} / {:.1f} = {:.4g}", plan.rows, overlap.threshold_rows,
                             overlap.headroom),
                 "above 1 every hop hides beside the step's work");
  };
  std::string text = of_pass(Pass::forward, plan.forward);
  if (job.backward) text += of_pass(Pass::backward, plan.backward);
  return text + fmt::format(
                    "{:<18}  share: of c^2 pairs, at the slowest rank of the emptiest step "
                    "beside a hop; with latency c* is where share c^2 FLOPs / F = hop(c)\n",
                    "");
}

std::string pass_line(const Plan& plan, Pass pass) {
  const Problem& job = plan.chosen.job;
  const bool forward = pass == Pass::forward;
  const std::string name = "time " + std::string(name_of(pass));
  const PassTime& time = forward ? plan.chosen.time.forward : plan.chosen.time.backward;
  const std::string numbers = fmt::format("{} compute + {} imbalance + {} exposed = {}",
                                          seconds_text(time.compute), seconds_text(time.imbalance),
                                          seconds_text(time.exposed), seconds_text(time.total()));
  const std::string hop =
      seconds_text(job.world_size == 1 ? 0 : hop_seconds(job, plan.rates, pass, plan.rows));
  switch (job.scheme) {
    case Scheme::ring:
      return entry(name,
                   "sum over steps of max(slowest rank's FLOPs / F, hop), hop " + hop +
                       (forward ? "" : "; then the last gradient's hop"),
                   numbers, "S0, Communication Complexity; S4 part 3, Wall-Clock Time");
    case Scheme::allgather:
      return entry(name, "(N-1) hops + slowest rank's FLOPs / F, hop " + hop, numbers,
                   "S1 part one 3.2: the gather is not hidden");
    default:
      return entry(name, "bytes sent / B + FLOPs / (N F)", numbers,
                   "S3, related work: an all-to-all before and after");
  }
}

std::string time_lines(const Plan& plan) {
  return pass_line(plan, Pass::forward) +
         (plan.chosen.job.backward ? pass_line(plan, Pass::backward) : "");
}

std::string limit_lines(const Plan& plan) {
  std::string text;
  text += entry("largest seqlen", "the largest S with memory(S) <= fraction x device memory",
                fmt::format("{} in {:.3g} x {}", plan.largest_seqlen, plan.options.memory_fraction,
                            gb_text(plan.gpu.memory_bytes)),
                "C52: about N times that of one rank");
  text += entry("smallest N", "the smallest N with memory(N) <= fraction x device memory",
                plan.smallest_world_size ? std::to_string(*plan.smallest_world_size) : "none",
                "S1 part one 2.4: memory falls as 1/N");
  if (plan.hidden_seqlen)
    text += entry("hidden from", "c* N", fmt::format("{:.0f} tokens", *plan.hidden_seqlen),
                  "S0: s/N >= F/B");
  return text;
}

}  // namespace

std::string plan_explanation(const Plan& plan) {
  return rates_text(plan) + "\n" + work_text(plan) + "\n" + traffic_text(plan) + "\n" +
         memory_lines(plan) + "\n" + threshold_lines(plan) + "\n" + time_lines(plan) + "\n" +
         (plan.model ? model_explanation(plan) + "\n" : "") + limit_lines(plan) +
         (plan.searched ? "\n" + searched_explanation(*plan.searched) : "");
}

// ---
// The plan as JSON for programs.

namespace {

void put_machine(JsonWriter& json, const Plan& plan) {
  json.key("machine");
  json.object([&] {
    json.put("gpu", std::string_view(plan.gpu.name));
    json.put("link", std::string_view(plan.link.name));
    json.put("measured", plan.options.hardware.measure);
    json.put("forward_flops", plan.rates.forward_flops);
    json.put("backward_flops", plan.rates.backward_flops);
    json.put("bytes_per_s", plan.rates.bytes_per_s);
    json.put("latency_s", plan.rates.latency_s);
    json.put("memory_bytes", plan.gpu.memory_bytes);
    json.put("memory_limit_bytes", plan.memory_limit);
  });
}

void put_problem(JsonWriter& json, const Problem& job) {
  json.put("world_size", Index{job.world_size});
  json.put("mask", std::string_view(job.mask.name()));
  json.put("dtype", name_of(job.dtype));
  json.put("backward", job.backward);
  json.put("layers", job.layers);
  put_shape(json, job.shape);
}

void put_pass(JsonWriter& json, std::string_view name, const PassTime& time) {
  json.key(name);
  json.object([&] {
    json.put("total_s", time.total());
    json.put("compute_s", time.compute);
    json.put("imbalance_s", time.imbalance);
    json.put("exposed_s", time.exposed);
  });
}

void put_choice(JsonWriter& json, const Choice& choice, std::string_view partition, bool is_best) {
  json.object([&] {
    json.put("scheme", name_of(choice.job.scheme));
    json.put("partition", partition);
    json.put("best", is_best);
    json.put("feasible", !choice.obstacle);
    choice.obstacle ? json.put("why", std::string_view(*choice.obstacle)) : json.null("why");
    json.put("total_s", choice.time.total());
    put_pass(json, "forward", choice.time.forward);
    if (choice.job.backward) put_pass(json, "backward", choice.time.backward);
    json.put("imbalance", choice.balance.imbalance());
    json.put("balance_ceiling", choice.balance.ceiling());
    json.put("sampled", choice.balance.sampled);
    json.put("peak_bytes", choice.peak_bytes);
    const Traffic traffic = traffic_of(choice.job, 0);
    json.put("bytes_sent", traffic.bytes());
    json.put("hops", traffic.hops);
  });
}

bool is_same_way(const Problem& a, const Problem& b) {
  return a.scheme == b.scheme && a.partition == b.partition;
}

void put_overlap(JsonWriter& json, std::string_view name, const Overlap& overlap) {
  json.key(name);
  json.object([&] {
    json.put("threshold_rows", overlap.threshold_rows);
    json.put("headroom", overlap.headroom);
  });
}

}  // namespace

std::string plan_json(const Plan& plan) {
  const Choice& chosen = plan.chosen;
  JsonWriter json;
  json.object([&] {
    json.put("feasible", !chosen.obstacle);
    chosen.obstacle ? json.put("why", std::string_view(*chosen.obstacle)) : json.null("why");
    put_problem(json, chosen.job);
    put_machine(json, plan);
    json.key("chosen");
    put_choice(
        json, chosen, plan.searched ? kSearched : name_of(chosen.job.partition),
        !plan.searched && plan.best && is_same_way(plan.choices[*plan.best].job, chosen.job));
    if (plan.searched) put_searched(json, *plan.searched);
    json.array("memory", [&] {
      for (const MemoryPart& part : plan.memory)
        json.object([&] {
          json.put("part", std::string_view(part.name));
          json.put("bytes", part.bytes);
          json.put("formula", std::string_view(part.formula));
        });
    });
    if (plan.model) put_model(json, plan);
    json.put("rows", plan.rows);
    json.put("share", plan.share);
    if (chosen.job.world_size > 1) {
      put_overlap(json, "overlap_forward", plan.forward);
      if (chosen.job.backward) put_overlap(json, "overlap_backward", plan.backward);
    }
    json.array("choices", [&] {
      for (std::size_t i = 0; i < plan.choices.size(); ++i)
        put_choice(json, plan.choices[i], name_of(plan.choices[i].job.partition), plan.best == i);
    });
    json.put("largest_seqlen", plan.largest_seqlen);
    plan.smallest_world_size ? json.put("smallest_world_size", Index{*plan.smallest_world_size})
                             : json.null("smallest_world_size");
    plan.hidden_seqlen ? json.put("hidden_seqlen", *plan.hidden_seqlen)
                       : json.null("hidden_seqlen");
    if (plan.options.explain) json.put("explanation", std::string_view(plan_explanation(plan)));
  });
  return json.text() + "\n";
}

}  // namespace ringscope
