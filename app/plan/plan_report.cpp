// Puts a plan into words: as text, as an explanation of each of its numbers, and as JSON.

#include <fmt/format.h>

#include <cmath>
#include <string_view>

#include "app/plan/plan.h"
#include "app/report/fields.h"
#include "core/base/text.h"
#include "core/ring/loop_counts.h"
#include "core/tools/cost/amounts.h"
#include "core/tools/cost/time.h"
#include "core/tools/sim/scenario.h"

namespace ringscope {

Fields time_fields(double total, double compute, double imbalance, double exposed) {
  return {{"total_s", total, "in all", 12, seconds_text},
          {"compute_s", compute, "compute", 12, seconds_text},
          {"imbalance_s", imbalance, "imbalance", 12, seconds_text},
          {"exposed_s", exposed, "exposed", 12, seconds_text}};
}

// ---
// The plan as text: what was asked, feasibility, memory, threshold, time, choices, limits.

namespace {

std::string plan_line(std::string_view what, std::string_view value) {
  return labelled_line(20, what, value);
}

// Return the name of the chosen way.
std::string way_text(const Plan& plan) {
  const Problem& job = plan.chosen.job;
  if (job.scheme == Scheme::ulysses) return "ulysses";
  return fmt::format("{}, {}", plan.searched ? kSearched : name_of(job.partition),
                     job.scheme_name());
}

std::string header_text(const Plan& plan) {
  const Problem& job = plan.chosen.job;
  return fmt::format("{}\n{} of {}: {}, {}; {}: {:.4g} GB/s one way{}\n\n", problem_text(job),
                     count_text(job.world_size, "rank"), plan.gpu.name,
                     flops_text(plan.rates, job.backward), gib_text(plan.gpu.memory_bytes),
                     plan.link.name, plan.rates.bytes_per_s / 1e9,
                     plan.between ? fmt::format("; {} nodes, {} x {} between them", job.nodes,
                                                plan.options.nics, plan.between->name)
                                  : "");
}

std::string feasible_text(const Plan& plan) {
  const Choice& chosen = plan.chosen;
  if (chosen.obstacle)
    return plan_line("feasible", fmt::format("no: {}; {}", way_text(plan), *chosen.obstacle));
  return plan_line("feasible",
                   fmt::format("yes: {}; {} of {} a rank", way_text(plan),
                               gib_text(chosen.peak_bytes), gib_text(plan.memory_limit)));
}

std::string memory_text(const Plan& plan) {
  std::string text = plan_line("memory a rank", gib_text(plan.chosen.peak_bytes));
  for (const MemoryPart& part : plan.memory)
    text += fmt::format("  {:<34}{:>12}\n", part.name, gib_text(part.bytes));
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

Fields pass_fields(const char* name, const PassTime& pass) {
  return Fields{{"", fmt::format("  {}", name), "time of a layer", -20}} + time_fields(pass);
}

std::string time_text(const Plan& plan) {
  const LayerTime& time = plan.chosen.time;
  std::vector<Fields> passes{pass_fields("forward", time.forward)};
  if (plan.chosen.job.backward) passes.push_back(pass_fields("backward", time.backward));
  return table_text(passes);
}

bool is_same_way(const Problem& a, const Problem& b) {
  return a.scheme_name() == b.scheme_name() && a.partition == b.partition;
}

// Return "*" for the best choice and ">" for another one that was asked for.
char mark_of(const Plan& plan, std::size_t index) {
  if (plan.best == index) return '*';
  if (plan.searched) return ' ';
  const Problem &job = plan.choices[index].job, &chosen = plan.chosen.job;
  return is_same_way(job, chosen) ? '>' : ' ';
}

std::string choices_text(const Plan& plan) {
  std::string text;
  bool sampled = false;
  for (std::size_t i = 0; i < plan.choices.size(); ++i) {
    const Choice& choice = plan.choices[i];
    const bool by_heads = choice.job.scheme == Scheme::ulysses;
    const Fields way{
        {"", fmt::format("{} {}", mark_of(plan, i), choice.job.scheme_name()), "  scheme", -16},
        {"", by_heads ? "(by heads)" : name_of(choice.job.partition), "partition", -12}};
    const Fields row = way + time_fields(choice.time) +
                       Fields{{"", choice.balance.ceiling(), "ceiling", 10, ratio_text},
                              {"", choice.peak_bytes, "memory", 12, gib_text},
                              {"", choice.obstacle ? "  too much" : "", "", 0}};
    if (i == 0) text += table_head(row) + "\n";
    if (const auto why = impossible(choice.job)) {
      text += table_row(way) + "  no: " + *why + "\n";
      continue;
    }
    text += table_row(row) + "\n";
    sampled = sampled || choice.balance.sampled;
  }
  text +=
      plan.best ? "* the fastest that fits; within 1 % the first counts\n" : "none of them fits\n";
  if (sampled) text += "Imbalance and ceiling are from a sample of ranks and steps\n";
  if (plan.options.partition && plan.chosen.job.scheme == Scheme::ulysses)
    text += fmt::format(
        "--partition {} changes nothing here: in ulysses a rank attends all positions of its "
        "heads, and it holds an equal share before and after the exchange\n",
        plan.options.partition->name());
  if (!plan.options.job.speeds.empty())
    text += "The table above takes all ranks as equally fast; the rings below have --speeds\n";
  if (plan.searched) return text + "\n" + searched_text(*plan.searched);
  const std::string mask = plan.chosen.job.mask.name();
  if (mask != "full" && mask != "causal" && plan.chosen.job.world_size > 1)
    text += "None of these was made for this mask; --partition searched looks for one that is\n";
  return text;
}

struct Limit {
  std::string what, change_first;
};

// Return what limits an infeasible plan, and of some changes the first that makes it fit, or else
// the one that saves most.
Limit memory_limit_of(const Plan& plan) {
  const Problem& job = plan.chosen.job;
  const auto largest =
      std::max_element(plan.memory.begin(), plan.memory.end(),
                       [](const auto& a, const auto& b) { return a.bytes < b.bytes; });
  Limit limit{fmt::format("memory, {} of it for {}",
                          percent_text(largest->bytes / total_bytes(plan.memory)), largest->name),
              ""};
  double least = total_bytes(plan.memory);
  const auto attempt = [&](const std::string& change, const auto& make) {
    PlanOptions options = plan.options;
    Problem changed = job;
    make(options.model_memory, changed);
    const double bytes = total_bytes(memory_bill(options, changed, changed.max_rows()));
    if (least <= plan.memory_limit || bytes >= least) return;
    least = bytes;
    limit.change_first = fmt::format("{}: {} a rank{}", change, gib_text(bytes),
                                     bytes <= plan.memory_limit ? "" : ", still too much");
  };
  if (plan.model && job.backward) {
    attempt("--recompute layer", [](ModelMemory& m, Problem&) { m.recompute = Recompute::layer; });
    attempt("--zero 3", [](ModelMemory& m, Problem&) { m.zero_stage = 3; });
    attempt("--zero 3 --recompute layer --chunks 8", [](ModelMemory& m, Problem&) {
      m.zero_stage = 3, m.recompute = Recompute::layer, m.chunks = 8;
    });
  }
  if (job.partition != PartitionKind::dealt && 2 * job.world_size <= kMostSimulatedRanks)
    attempt(fmt::format("--world-size {}", 2 * job.world_size),
            [](ModelMemory&, Problem& changed) { changed.world_size *= 2; });
  return limit;
}

// Return what limits the plan, and what to change first.
Limit limit_of(const Plan& plan) {
  const Choice& chosen = plan.chosen;
  if (const auto why = impossible(chosen.job)) return {*why, "--scheme or --world-size"};
  if (chosen.obstacle) return memory_limit_of(plan);
  const StepTime step = plan.model ? plan.model->step : StepTime{};
  const auto layers =
      static_cast<double>(plan.model ? step.layers * plan.options.micro_batches : 1);
  const double all = plan.model ? step.total() : chosen.time.total();
  struct Loss {
    const char* name;
    double seconds;
    std::string change_first;
  };
  const Problem& best = plan.best ? plan.choices[*plan.best].job : chosen.job;
  const bool can_search = !plan.searched && !plan.between && chosen.job.scheme == Scheme::ring &&
                          chosen.job.world_size <= kMostSearchedRanks;
  const std::string less_waiting =
      !plan.searched && !is_same_way(best, chosen.job)
          ? fmt::format("--scheme {} --partition {}", best.scheme_name(), name_of(best.partition))
      : can_search ? "--partition searched"
                   : "a longer sequence, or fewer ranks";
  const std::vector<Loss> losses{
      {"waiting for the slowest rank", layers * chosen.time.imbalance(), less_waiting},
      {"exposed communication", layers * chosen.time.exposed(),
       plan.between ? "more --nics or a faster --between"
                    : "a faster --link, or more positions a rank"},
      {"computing again", step.recomputed, "less --recompute, where the memory allows"},
      {"adding up gradients", step.reduction,
       plan.options.model_memory.zero_stage < 2
           ? "more --micro-batches, after which gradients are added up once"
           : "--zero 1, which adds them up once a step, where the memory allows"},
      {"gathering weights", step.gathering,
       plan.options.model_memory.zero_stage == 3
           ? "--zero 2, which gathers them once a step, where the memory allows"
           : "more --micro-batches, after which weights are gathered once"}};
  const Loss& most =
      *std::max_element(losses.begin(), losses.end(),
                        [](const Loss& a, const Loss& b) { return a.seconds < b.seconds; });
  if (most.seconds < 0.02 * all) return {"computing", "more ranks, or faster ones"};
  return {fmt::format("{}, {} of the time", most.name, percent_text(most.seconds / all)),
          most.change_first};
}

std::string limits_text(const Plan& plan) {
  const Problem& job = plan.chosen.job;
  const std::string way = way_text(plan);
  std::string text =
      plan_line(plan.chosen.obstacle ? "would fit: seqlen" : "largest seqlen",
                plan.largest_seqlen == 0
                    ? "none: the memory holds not even one position"
                    : fmt::format("{}{} in {} a rank, {}",
                                  plan.largest_seqlen == kMaxSeqlen ? "at least " : "",
                                  plan.largest_seqlen, gib_text(plan.memory_limit), way));
  text += plan_line(
      plan.chosen.obstacle ? "would fit: ranks" : "smallest world_size",
      plan.smallest_world_size
          ? fmt::format("{} for {} tokens, {}", *plan.smallest_world_size, job.shape.seqlen, way)
          : fmt::format("none: no number of ranks will do for {} tokens, {}", job.shape.seqlen,
                        way));
  if (job.world_size > 1)
    text += plan_line("hidden from seqlen",
                      plan.hidden_seqlen ? fmt::format("{:.0f} on a ring", *plan.hidden_seqlen)
                                         : "none hides every hop of a ring");
  const Limit limit = limit_of(plan);
  return text + plan_line("limited by", limit.what) +
         (limit.change_first.empty() ? "" : plan_line("change first", limit.change_first));
}

}  // namespace

std::string plan_text(const Plan& plan) {
  return header_text(plan) + feasible_text(plan) + "\n" + memory_text(plan) + "\n" +
         threshold_text(plan) + "\n" + time_text(plan) + "\n" +
         (plan.model ? model_text(plan) + "\n" : "") + choices_text(plan) + "\n" +
         limits_text(plan) + (plan.options.has_groups() ? "\n" + groups_text(plan.options) : "");
}

// ---
// The explanation of the plan: each number's formula, with the numbers put in, and its source.

std::string entry(std::string_view name, std::string_view formula, std::string_view numbers,
                  std::string_view source) {
  return fmt::format("{:<18}= {}\n{:<18}= {}   [{}]\n", name, formula, "", numbers, source);
}

namespace {

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
  const char* const forward = is_followed(job) ? "all messages of the scheme's loop"
                              : job.scheme == Scheme::ulysses
                                  ? "(N-1)/N of Q, K, V and of the output"
                                  : "2 b d G e (S - rows of one rank)";
  std::string text =
      entry("bytes sent", forward, fmt::format("{:.6g} forward by rank 0", traffic.forward_bytes),
            "S0, Communication Complexity; S1 part one 4.4 counts a hop too many");
  if (job.backward)
    text += entry("bytes back",
                  is_followed(job)                ? "all messages of the scheme's loop"
                  : job.scheme == Scheme::ulysses ? "(N-1)/N of dO and of dQ, dK, dV"
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
         "f32]\n" +
         (plan.model ? "  [P weights, W width, F hidden, V vocab, T = b c; ZeRO, section 3.1: 16 "
                       "bytes a weight]\n"
                     : "");
}

std::string threshold_lines(const Plan& plan) {
  const Problem& job = plan.chosen.job;
  if (job.world_size == 1) return "";
  const auto of_pass = [&](Pass pass, const Overlap& overlap) {
    const bool forward = pass == Pass::forward;
    return entry(forward ? "c*" : "c* backward",
                 forward ? "(F/B) (e/2) (G/H) / share" : "(F/B) ((2e + 8) / 10) (G/H) / share",
                 fmt::format("{:.4g} x {:.3g} x {}/{} / {:.4g} = {:.1f} rows, latency included",
                             plan.rates.flops(pass) / plan.ring_rates().bytes_per_s,
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
  if (is_followed(job) || job.scheme == Scheme::two_level || plan.between)
    return entry(name, "the scheme's loop, simulated; imbalance: what is waited with free links",
                 numbers, "core/tools/sim, as `simulate` says");
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
                            gib_text(plan.gpu.memory_bytes)),
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
         (plan.model ? model_explanation(plan) + "\n" : "") + limit_lines(plan);
}

// ---
// The plan as JSON for programs.

namespace {

Fields machine_fields(const Plan& plan) {
  return {{"gpu", plan.gpu.name},
          {"link", plan.link.name},
          {plan.between ? "nodes" : "", plan.options.job.nodes},
          {plan.between ? "between" : "", plan.between ? plan.between->name : ""},
          {plan.between ? "nics" : "", plan.options.nics},
          {"measured", plan.options.hardware.measure},
          {"forward_flops", plan.rates.forward_flops},
          {"backward_flops", plan.rates.backward_flops},
          {"bytes_per_s", plan.rates.bytes_per_s},
          {"latency_s", plan.rates.latency_s},
          {"memory_bytes", plan.gpu.memory_bytes},
          {"memory_limit_bytes", plan.memory_limit}};
}

Fields choice_fields(const Choice& choice, std::string_view partition, bool is_best) {
  const Traffic traffic = traffic_of(choice.job, 0);
  return {{"scheme", choice.job.scheme_name()},
          {"partition", partition},
          {"best", is_best},
          {"feasible", !choice.obstacle},
          {"why", choice.obstacle},
          {"total_s", choice.time.total()},
          {"forward", time_fields(choice.time.forward)},
          {choice.job.backward ? "backward" : "", time_fields(choice.time.backward)},
          {"imbalance", choice.balance.imbalance()},
          {"balance_ceiling", choice.balance.ceiling()},
          {"sampled", choice.balance.sampled},
          {"peak_bytes", choice.peak_bytes},
          {"bytes_sent", traffic.bytes()},
          {"hops", traffic.hops}};
}

Fields overlap_fields(const Overlap& overlap) {
  return {{"threshold_rows", overlap.threshold_rows}, {"headroom", overlap.headroom}};
}

}  // namespace

std::string plan_json(const Plan& plan) {
  const Choice& chosen = plan.chosen;
  const Problem& job = chosen.job;
  const bool is_best =
      !plan.searched && plan.best && is_same_way(plan.choices[*plan.best].job, job);
  std::vector<Fields> memory, choices;
  for (const MemoryPart& part : plan.memory)
    memory.push_back({{"part", part.name}, {"bytes", part.bytes}, {"formula", part.formula}});
  for (std::size_t i = 0; i < plan.choices.size(); ++i)
    choices.push_back(
        choice_fields(plan.choices[i], name_of(plan.choices[i].job.partition), plan.best == i));
  const bool has_hops = job.world_size > 1;
  const Limit limit = limit_of(plan);
  const Fields fields{
      {"feasible", !chosen.obstacle},
      {"why", chosen.obstacle},
      {"world_size", job.world_size},
      {"mask", job.mask.name()},
      {"dtype", name_of(job.dtype)},
      {"backward", job.backward},
      {"layers", job.layers},
      {"shape", shape_fields(job.shape)},
      {"machine", machine_fields(plan)},
      {"chosen",
       choice_fields(chosen, plan.searched ? kSearched : name_of(job.partition), is_best)},
      {plan.options.job.speeds.empty() ? "" : "speeds", plan.options.job.speeds},
      {plan.searched ? "searched" : "", plan.searched ? searched_fields(*plan.searched) : Fields()},
      {"memory", memory},
      {plan.model ? "model" : "", plan.model ? model_fields(plan) : Fields()},
      {"rows", plan.rows},
      {"share", plan.share},
      {plan.options.has_groups() ? "groups" : "",
       plan.options.has_groups() ? groups_fields(plan.options) : Fields()},
      {has_hops ? "overlap_forward" : "", overlap_fields(plan.forward)},
      {has_hops && job.backward ? "overlap_backward" : "", overlap_fields(plan.backward)},
      {"choices", choices},
      {"largest_seqlen", plan.largest_seqlen},
      {"smallest_world_size", plan.smallest_world_size},
      {"hidden_seqlen", plan.hidden_seqlen},
      {"limited_by", limit.what},
      {"change_first", limit.change_first},
      {plan.options.explain ? "explanation" : "",
       plan.options.explain ? plan_explanation(plan) : ""},
  };
  return json_line(fields);
}

}  // namespace ringscope
