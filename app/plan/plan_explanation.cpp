// Explains a plan: every number of its text, with the formula that it comes from and who says so.
#include <fmt/format.h>

#include <cmath>

#include "app/plan/plan.h"
#include "core/base/text.h"
#include "core/ring/loop_counts.h"
#include "core/tools/cost/amounts.h"
#include "core/tools/cost/time.h"

namespace ringscope {
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
