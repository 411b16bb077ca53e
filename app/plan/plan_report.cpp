// Puts a plan into words: as text, as an explanation of each of its numbers, and as JSON.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string_view>

#include "app/plan/plan.h"
#include "app/report/fields.h"
#include "core/base/text.h"
#include "core/ring/loop_counts.h"
#include "core/tools/cost/amounts.h"
#include "core/tools/cost/time.h"
#include "core/tools/sim/scenario.h"

namespace ringscope {

namespace {

std::string header_text(const Plan& plan) {
  const Problem& job = plan.chosen.job;
  return problem_text(plan.options.whole) + "\n" + machine_text(plan, job, plan.options.nics) +
         "\n\n" +
         (plan.options.groups() == 1
              ? ""
              : labelled_line(20, "a rank's share",
                              fmt::format("{} heads ({} kv) of {}, in a context group of {}",
                                          job.shape.num_heads, job.shape.num_heads_kv,
                                          count_text(job.layers, "layer"), job.world_size)));
}

Fields feasible_fields(const Plan& plan) {
  const Choice& chosen = plan.chosen;
  const std::string why = chosen.obstacle.value_or(
      fmt::format("{} of {} a rank", gib_text(chosen.peak_bytes), gib_text(plan.memory_limit)));
  return {line("feasible", !chosen.obstacle, "feasible",
               fmt::format("{}: {}; {}", chosen.obstacle ? "no" : "yes", way_text(plan.chosen.job),
                           why)),
          {"why", chosen.obstacle}};
}

std::vector<Fields> memory_fields(const Plan& plan) {
  std::vector<Fields> parts;
  for (const MemoryPart& part : plan.memory)
    parts.push_back({{"part", std::string(part.name), "", -36,
                      [](const std::string& name) { return "  " + name; }},
                     {"bytes", part.bytes, "", 12, gib_text},
                     {"formula", part.formula}});
  return parts;
}

std::string memory_text(const Plan& plan) {
  std::string text = labelled_line(20, "memory a rank", gib_text(plan.chosen.peak_bytes));
  for (const Fields& part : memory_fields(plan)) text += table_row(part) + "\n";
  if (plan.host_bytes > 0) text += labelled_line(20, "and on the host", gib_text(plan.host_bytes));
  for (const Plan::Alone& alone : plan.alone)
    text += labelled_line(
        20, alone.name,
        fmt::format("{}; the memory holds {} tokens", gib_text(alone.bytes), alone.largest_seqlen));
  return text;
}

std::vector<Fields> alone_fields(const Plan& plan) {
  std::vector<Fields> rows;
  for (const auto& [name, key, bytes, seqlen] : plan.alone)
    rows.push_back({{"kernel", key}, {"bytes", bytes}, {"largest_seqlen", seqlen}});
  return rows;
}

Field overlap_field(std::string_view key, std::string_view name, const Overlap& overlap,
                    double rows) {
  return line(
      key, Fields{{"threshold_rows", overlap.threshold_rows}, {"headroom", overlap.headroom}}, name,
      std::isinf(overlap.threshold_rows)
          ? "none: at some steps nothing is computed, so their hops are exposed at any length"
          : fmt::format("{:.0f} rows per rank for a ring; {:.0f} there, headroom {:.2f}",
                        std::ceil(overlap.threshold_rows), rows, overlap.headroom));
}

Fields overlap_fields(const Plan& plan) {
  const Problem& job = plan.chosen.job;
  if (job.world_size == 1) return {line("", 0, "threshold", "none: one rank has nothing to send")};
  const char* const name = job.backward ? "threshold forward" : "threshold";
  Fields fields{overlap_field("overlap_forward", name, plan.forward, plan.rows)};
  if (job.backward)
    fields.push_back(
        overlap_field("overlap_backward", "threshold backward", plan.backward, plan.rows));
  return fields;
}

// Return a time, all of it and in parts.
Fields time_fields(const PassTime& time) {
  return {{"total_s", time.total(), "in all", 12, seconds_text},
          {"compute_s", time.compute, "compute", 12, seconds_text},
          {"imbalance_s", time.imbalance, "imbalance", 12, seconds_text},
          {"exposed_s", time.exposed, "exposed", 12, seconds_text}};
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
  return a.scheme_name() == b.scheme_name() && a.partition.name() == b.partition.name();
}

// Return a way in numbers, marked "*" if it is the best and ">" if it is another one asked for.
Fields choice_fields(const Plan& plan, const Choice& choice) {
  const Problem& job = choice.job;
  const bool is_best = plan.best && is_same_way(plan.choices[*plan.best].job, job);
  const char mark = is_best ? '*' : is_same_way(plan.chosen.job, job) ? '>' : ' ';
  const bool by_heads = job.scheme->course == Course::heads;
  const LayerTime& time = choice.time;
  const PassTime both{time.forward.compute + time.backward.compute, time.imbalance(),
                      time.exposed(), time.total()};
  const Traffic traffic = traffic_of(job, busiest_sender(job));
  return Fields{{"scheme", job.scheme_name(), "  scheme", -16,
                 [=](const std::string& name) { return fmt::format("{} {}", mark, name); }},
                {"partition", job.partition.name(), "partition", -12,
                 [=](const std::string& name) { return by_heads ? "(by heads)" : name; }},
                {"best", is_best},
                {"feasible", !choice.obstacle},
                {"why", choice.obstacle}} +
         time_fields(both) +
         Fields{{"forward", time_fields(time.forward)},
                {job.backward ? "backward" : "", time_fields(time.backward)},
                {"imbalance", choice.balance.imbalance()},
                {"balance_ceiling", choice.balance.ceiling(), "ceiling", 10, ratio_text},
                {"sampled", choice.balance.sampled},
                {"peak_bytes", choice.peak_bytes, "memory", 12, gib_text},
                {"bytes_sent", traffic.bytes()},
                {"hops", traffic.hops},
                {"", choice.obstacle ? "  too much" : "", "", 0}};
}

std::string searched_text(const Plan& plan) {
  return fmt::format(
      "searched: {}, the best of all deals; work is in tiles of {}x{}{}\n",
      plan.options.job.partition.found(), plan.tile.rows, plan.tile.keys,
      plan.options.job.speeds.empty() ? "" : ", and ulysses takes all ranks as equally fast");
}

std::string choices_text(const Plan& plan) {
  std::string text;
  bool sampled = false;
  for (const Choice& choice : plan.choices) {
    const Fields row = choice_fields(plan, choice);
    if (text.empty()) text += table_head(row) + "\n";
    const auto never = why_refused(choice.job);
    text += (never ? table_row(Fields{row[0], row[1]}) + "  no: " + *never : table_row(row)) + "\n";
    sampled = sampled || choice.balance.sampled;
  }
  text +=
      plan.best ? "* the fastest that fits; within 1 % the first counts\n" : "none of them fits\n";
  if (!plan.is_measured && !plan.calls) text += kCallsLeftOut;
  if (plan.calls) text += "calls and merging are as in published runs\n";
  if (sampled) text += "Imbalance and ceiling are from a sample of ranks and steps\n";
  if (plan.options.partition && plan.chosen.job.scheme->course == Course::heads)
    text += fmt::format(
        "--partition {} changes nothing here: in ulysses a rank attends all positions of its "
        "heads, and it holds an equal share before and after the exchange\n",
        plan.options.partition->name());
  if (plan.options.is_searched()) return text + searched_text(plan);
  const std::string mask = plan.chosen.job.mask.name();
  if (mask != "full" && mask != "causal" && plan.chosen.job.world_size > 1)
    text += "None of these was made for this mask; --partition searched looks for one that is\n";
  return text;
}

// A change of the flags after which a rank may hold less.
struct Change {
  std::string flags;
  std::function<void(ModelMemory&, Problem&)> make;
};

std::vector<Change> changes_of(const Plan& plan) {
  const Problem& job = plan.chosen.job;
  std::vector<Change> changes;
  if (plan.model && job.backward)
    changes = {
        {"--recompute layer", [](ModelMemory& m, Problem&) { m.recompute = Recompute::layer; }},
        {"--zero 3", [](ModelMemory& m, Problem&) { m.zero_stage = 3; }},
        {"--zero 3 --recompute layer --chunks 8", [](ModelMemory& m, Problem&) {
           m.zero_stage = 3, m.recompute = Recompute::layer, m.chunks = 8;
         }}};
  if (job.partition != PartitionKind::dealt && 2 * job.world_size <= kMostSimulatedRanks)
    changes.push_back({fmt::format("--world-size {}", 2 * job.world_size),
                       [](ModelMemory&, Problem& changed) { changed.world_size *= 2; }});
  return changes;
}

double bytes_after(const Plan& plan, const Change& change) {
  PlanOptions options = plan.options;
  Problem job = plan.chosen.job;
  change.make(options.model_memory, job);
  return total_bytes(memory_bill(options, job, job.max_rows()));
}

// Return the first change after which the memory suffices, or else the one that saves most, as flags
// and what they lead to. Return "" when none saves anything.
std::string first_change(const Plan& plan) {
  double least = total_bytes(plan.memory);
  std::string text;
  for (const Change& change : changes_of(plan)) {
    if (least <= plan.memory_limit) break;  // the one before suffices
    const double bytes = bytes_after(plan, change);
    if (bytes >= least) continue;
    least = bytes;
    text = fmt::format("{}: {} a rank{}", change.flags, gib_text(bytes),
                       bytes <= plan.memory_limit ? "" : ", still too much");
  }
  return text;
}

struct Limit {
  std::string what, change_first;
};

Limit memory_limit_of(const Plan& plan) {
  const MemoryPart& largest =
      *std::max_element(plan.memory.begin(), plan.memory.end(),
                        [](const auto& a, const auto& b) { return a.bytes < b.bytes; });
  return {fmt::format("memory, {} of it for {}",
                      percent_text(largest.bytes / total_bytes(plan.memory)), largest.name),
          first_change(plan)};
}

// Return what limits the plan, and what to change first.
Limit limit_of(const Plan& plan) {
  const Choice& chosen = plan.chosen;
  if (const auto why = why_refused(chosen.job)) return {*why, "--scheme or --world-size"};
  if (chosen.obstacle && total_bytes(plan.memory) > plan.memory_limit) return memory_limit_of(plan);
  if (chosen.obstacle) return {*chosen.obstacle, ""};
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
  const bool can_search = !plan.options.is_searched() && !plan.between &&
                          chosen.job.scheme->course == Course::steps &&
                          chosen.job.world_size <= kMostSearchedRanks;
  const std::string less_waiting =
      !is_same_way(best, chosen.job)
          ? fmt::format("--scheme {} --partition {}", best.scheme_name(), name_of(best.partition))
      : can_search ? "--partition searched"
                   : "a longer sequence, or fewer ranks";
  const std::vector<Loss> losses{
      {"waiting for the slowest rank", layers * chosen.time.imbalance(), less_waiting},
      {"exposed communication", layers * chosen.time.exposed(),
       plan.between ? "more --nics or a faster --between"
                    : "a faster --link, or more positions a rank"},
      {"computing again", step.recomputed, "less --recompute, where the memory allows"},
      {"adding up rows of --tensor", step.tensor, "a smaller --tensor, where the memory allows"},
      {"sending rows to experts", step.experts, "a smaller --expert, where the memory allows"},
      {"moving activations to the host", step.offload, "more --recompute, which keeps less"},
      {"filling the pipeline", step.pipeline,
       "more --micro-batches, more --interleave, or fewer stages"},
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

Fields limit_fields(const Plan& plan) {
  const Problem& job = plan.chosen.job;
  const std::string way = way_text(plan.chosen.job);
  const bool fits = !plan.chosen.obstacle;
  const Limit limit = limit_of(plan);
  return {line("largest_seqlen", plan.largest_seqlen, fits ? "largest seqlen" : "would fit: seqlen",
               plan.largest_seqlen == 0
                   ? "none: the memory holds not even one position"
                   : fmt::format("{}{} in {} a rank, {}",
                                 plan.largest_seqlen == kMaxSeqlen ? "at least " : "",
                                 plan.largest_seqlen, gib_text(plan.memory_limit), way)),
          line("smallest_world_size", plan.smallest_world_size,
               fits ? "smallest world_size" : "would fit: ranks",
               plan.smallest_world_size
                   ? fmt::format("{} for {} tokens, {}", *plan.smallest_world_size,
                                 job.shape.seqlen, way)
                   : fmt::format("none: no number of ranks will do for {} tokens, {}",
                                 job.shape.seqlen, way)),
          line("hidden_seqlen", plan.hidden_seqlen, job.world_size > 1 ? "hidden from seqlen" : "",
               plan.hidden_seqlen ? fmt::format("{:.0f} on a ring", *plan.hidden_seqlen)
                                  : "none hides every hop of a ring"),
          line("limited_by", limit.what, "limited by", limit.what),
          line("change_first", limit.change_first, limit.change_first.empty() ? "" : "change first",
               limit.change_first)};
}

}  // namespace

std::string plan_text(const Plan& plan) {
  return header_text(plan) + lines_text(20, feasible_fields(plan)) + "\n" + memory_text(plan) +
         "\n" + lines_text(20, overlap_fields(plan)) + "\n" + time_text(plan) + "\n" +
         (plan.model ? model_text(plan) + "\n" : "") + choices_text(plan) + "\n" +
         lines_text(20, limit_fields(plan)) +
         (plan.options.groups() > 1 ? "\n" + groups_text(plan) : "");
}

std::vector<Fields> contexts_fields(const std::vector<Plan>& plans) {
  std::vector<Fields> rows;
  for (const Plan& plan : plans) {
    const Choice& chosen = plan.chosen;
    const Limit limit = limit_of(plan);
    rows.push_back(
        {{"context", chosen.job.world_size, "context", 8},
         {"data", plan.options.split.data, "data", 7},
         {"micro_batches", plan.options.micro_batches, "batches", 9},
         {"feasible", !chosen.obstacle, "fits", 6, [](bool fits) { return fits ? "yes" : "no"; }},
         {"peak_bytes", chosen.peak_bytes, "memory", 12, gib_text},
         {"total_s", plan.model->step.total(), "step", 12, seconds_text},
         {"tokens_per_s", tokens_per_s(plan), "tokens/s", 13, integer_text},
         {"mfu", mfu_of(plan).value_or(0), "MFU", 9, percent_text},
         {"limited_by", limit.what, "  limited by", 0,
          [](const std::string& what) { return "  " + what; }}});
  }
  return rows;
}

// ---
// The plan as fields for programs.

namespace {

// Return the parts that not every plan has.
Fields optional_fields(const Plan& plan) {
  const PlanOptions& options = plan.options;
  Fields fields;
  if (!options.job.speeds.empty()) fields.emplace_back("speeds", options.job.speeds);
  if (options.is_searched())
    fields.emplace_back("searched", Fields{{"tile_rows", plan.tile.rows},
                                           {"tile_keys", plan.tile.keys},
                                           {"found", options.job.partition.found()}});
  if (plan.model) fields.emplace_back("model", model_fields(plan));
  if (options.groups() > 1) fields.emplace_back("groups", groups_fields(plan));
  return fields;
}

}  // namespace

Fields plan_fields(const Plan& plan) {
  const Problem& job = plan.chosen.job;
  const PlanOptions& options = plan.options;
  std::vector<Fields> choices;
  for (const Choice& choice : plan.choices) choices.push_back(choice_fields(plan, choice));
  return feasible_fields(plan) +
         Fields{{"world_size", job.world_size},
                {"mask", job.mask.name()},
                {"dtype", name_of(job.dtype)},
                {"backward", job.backward},
                {"layers", plan.options.whole.layers},
                {"shape", shape_fields(plan.options.whole.shape)},
                {"machine", machine_fields(plan, options.job, options.nics) +
                                Fields{{"memory_limit_bytes", plan.memory_limit}}},
                {"chosen", choice_fields(plan, plan.chosen)},
                {"memory", memory_fields(plan)},
                {"alone", alone_fields(plan)},
                {"rows", plan.rows},
                {"share", plan.share},
                {"choices", choices}} +
         overlap_fields(plan) + limit_fields(plan) + optional_fields(plan);
}

// ---
// Explains a plan: every number of its text, with the formula that it comes from and who says so.

namespace {

void explain_rates(PlanExplanation& all, const Plan& plan) {
  const Rates& r = plan.rates;
  constexpr const char* link = "{:.4g} bytes/s, {:.3g} s a message";
  if (plan.is_measured) {
    all.add("F", "FLOPs of blocks attended / time, cores / ranks of it at most", "measured now",
            "{:.4g} FLOP/s", r.forward_flops);
    all.add("B", "bytes of blocks moved between two threads / time", "measured now", link,
            r.bytes_per_s, r.latency_s);
    return;
  }
  all.add("F", "peak x forward_share", "table of hardware; S0 takes the peak itself",
          "{:.4g} x {:.3g} = {:.4g} FLOP/s", plan.gpu.peak_flops(plan.chosen.job.dtype),
          plan.gpu.forward_share, r.forward_flops);
  all.add("B", "one direction of " + plan.link.name,
          "table of hardware; S1 and S3 add up both directions", link, r.bytes_per_s, r.latency_s);
}

void explain_work(PlanExplanation& all, const Plan& plan) {
  const AttentionShape& s = plan.chosen.job.shape;
  const Balance& balance = plan.chosen.balance;
  const double pairs = total_pairs(plan.chosen.job);
  all.add("FLOPs forward", "4 b H d pairs",
          "S0, Arithmetic Complexity; S1 part two 7.1 counts half",
          "4 x {} x {} x {} x {:.6g} = {:.6g}", s.batch, s.num_heads, s.head_dim, pairs,
          flops_of_pairs(s, pairs, Pass::forward));
  if (plan.chosen.job.backward)
    all.add("FLOPs backward", "10 b H d pairs",
            "S1 part two 8.1: five products for the forward's two", "{:.6g}",
            flops_of_pairs(s, pairs, Pass::backward));
  all.add("balance ceiling", "mean / slowest rank, summed over steps",
          "C20: N / (2N - 1) for contiguous ranks under a causal mask", "{:.6g} / {:.6g} = {:.4f}",
          balance.mean_rank, balance.slowest_steps(), balance.ceiling());
}

void explain_bytes(PlanExplanation& all, const Problem& job) {
  const int rank = busiest_sender(job);
  const Traffic traffic = traffic_of(job, rank);
  const bool by_heads = job.scheme->course == Course::heads;
  const char* const loop = is_followed(job) ? "all messages of the scheme's loop" : nullptr;
  all.add("bytes sent",
          loop       ? loop
          : by_heads ? "(N-1)/N of Q, K, V and of the output"
                     : "2 b d G e (S - rows of one rank)",
          "S0, Communication Complexity; S1 part one 4.4 counts a hop too many",
          "{:.6g} forward by rank {}", traffic.forward_bytes, rank);
  if (job.backward)
    all.add("bytes back",
            loop       ? loop
            : by_heads ? "(N-1)/N of dO and of dQ, dK, dV"
                       : "K, V again, and dK, dV in f32",
            "S1 part two 8.2, put right: gradients follow their block",
            "{:.6g} backward by rank {}, {:.0f} hops in all", traffic.backward_bytes, rank,
            traffic.hops);
}

void explain_memory(PlanExplanation& all, const Plan& plan) {
  all.say(
      "memory, b batch, c rows of a rank, S seqlen, N world_size, H heads, G kv heads, d head_dim, "
      "e bytes of a stored value, L layers");
  for (const MemoryPart& part : plan.memory)
    all.say(fmt::format("  {:<34}= {} = {:.0f} bytes", part.name, part.formula, part.bytes));
  all.say(
      "  [S0, Memory Complexity: 6 d c values, the output as stored; here it is summed in f32]");
  if (plan.model)
    all.say("P weights, W width, F hidden, V vocab, T = b c; ZeRO, section 3.1: 16 bytes a weight");
}

void explain_threshold(PlanExplanation& all, const Plan& plan, Pass pass) {
  const bool forward = pass == Pass::forward;
  const auto& [rows, headroom] = forward ? plan.forward : plan.backward;
  if (std::isinf(rows)) return;
  const AttentionShape& s = plan.chosen.job.shape;
  const double e = plan.chosen.job.storage_bytes();
  all.add(forward ? "c*" : "c* backward",
          forward ? "(F/B) (e/2) (G/H) / share" : "(F/B) ((2e + 8) / 10) (G/H) / share",
          "S0 and S3 entry 3: F/B for full masks, 2-byte values, as many kv heads",
          "{:.4g}/{:.4g} x {} x {}/{} / {:.4g} = {:.1f} rows, latency included",
          plan.rates.flops(pass), plan.ring_rates().bytes_per_s,
          forward ? fmt::format("{}/2", e) : fmt::format("(2 x {} + 8)/10", e), s.num_heads_kv,
          s.num_heads, plan.share, rows);
  all.add(forward ? "headroom" : "headroom backward", "c / c*",
          "above 1 every hop hides beside the step's work", "{:.0f} / {:.1f} = {:.4g}", plan.rows,
          rows, headroom);
}

void explain_time(PlanExplanation& all, const Plan& plan, Pass pass) {
  const Problem& job = plan.chosen.job;
  const bool forward = pass == Pass::forward;
  const PassTime& time = forward ? plan.chosen.time.forward : plan.chosen.time.backward;
  const double hop_s = job.world_size == 1 ? 0 : hop_seconds(job, plan.rates, pass, plan.rows);
  const std::string hop = ", hop " + seconds_text(hop_s);
  std::string formula = "bytes sent / B + FLOPs / (N F)";
  const char* source = "S3, related work: an all-to-all before and after";
  if (is_followed(job) || job.scheme->course == Course::turns || plan.between || plan.calls) {
    formula = "the scheme's loop, simulated; imbalance: what is waited with free links";
    source = "core/tools/sim, as `simulate` says";
  } else if (job.scheme->course == Course::steps) {
    formula = "sum over steps of max(slowest rank's FLOPs / F, hop)" + hop +
              (forward ? "" : "; then the last gradient's hop");
    source = "S0, Communication Complexity; S4 part 3, Wall-Clock Time";
  } else if (job.scheme->course == Course::gathers) {
    formula = "(N-1) hops + slowest rank's FLOPs / F" + hop;
    source = "S1 part one 3.2: the gather is not hidden";
  }
  all.add(forward ? "time forward" : "time backward", formula, source,
          "{} compute + {} imbalance + {} exposed = {}", seconds_text(time.compute),
          seconds_text(time.imbalance), seconds_text(time.exposed), seconds_text(time.total()));
}

void explain_limits(PlanExplanation& all, const Plan& plan) {
  all.add("largest seqlen", "the largest S with memory(S) <= fraction x device memory",
          "C52: about N times that of one rank", "{} in {:.3g} x {}", plan.largest_seqlen,
          plan.options.memory_fraction, gib_text(plan.gpu.memory_bytes));
  if (plan.smallest_world_size)
    all.add("smallest N", "the smallest N with memory(N) <= fraction x device memory",
            "S1 part one 2.4: memory falls as 1/N", "{}", *plan.smallest_world_size);
  if (plan.hidden_seqlen)
    all.add("hidden from", "c* N", "S0: s/N >= F/B", "{:.0f} tokens", *plan.hidden_seqlen);
}

}  // namespace

std::string plan_explanation(const Plan& plan) {
  std::vector<Pass> passes{Pass::forward};
  if (plan.chosen.job.backward) passes.push_back(Pass::backward);
  PlanExplanation all;
  explain_rates(all, plan);
  all.say("");
  explain_work(all, plan);
  all.say("");
  explain_bytes(all, plan.chosen.job);
  all.say("");
  explain_memory(all, plan);
  all.say("");
  if (plan.chosen.job.world_size > 1) {
    for (const Pass pass : passes) explain_threshold(all, plan, pass);
    all.say(
        "share: of c^2 pairs, at the slowest rank of the emptiest step beside a hop; with latency "
        "c* is where share c^2 FLOPs / F = hop(c)\n");
  }
  for (const Pass pass : passes) explain_time(all, plan, pass);
  all.say("");
  if (plan.model) {
    explain_model(all, plan);
    all.say("");
  }
  explain_limits(all, plan);
  return all.text();
}

}  // namespace ringscope
