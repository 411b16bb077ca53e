// Where the plan's numbers come from: each as its formula, with the numbers put in, and the source.
#include <fmt/format.h>

#include <cmath>

#include "app/plan.h"
#include "app/report.h"
#include "core/cost/flops.h"
#include "core/cost/overlap.h"
#include "core/cost/traffic.h"

namespace ringscope {
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
  const Job& job = plan.chosen.job;
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
  const Job& job = plan.chosen.job;
  const Traffic traffic = traffic_of(job, 0);
  const char* const forward = job.scheme == JobScheme::ulysses
                                  ? "(N-1)/N of Q, K, V and of the output"
                                  : "2 b d G e (S - rows of one rank)";
  std::string text =
      entry("bytes sent", forward, fmt::format("{:.6g} forward by rank 0", traffic.forward_bytes),
            "S0, Communication Complexity; S1 part one 4.4 counts a hop too many");
  if (job.backward)
    text += entry("bytes back",
                  job.scheme == JobScheme::ulysses ? "(N-1)/N of dO and of dQ, dK, dV"
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
  const Job& job = plan.chosen.job;
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
  const Job& job = plan.chosen.job;
  const bool forward = pass == Pass::forward;
  const std::string name = "time " + std::string(name_of(pass));
  const PassTime& time = forward ? plan.chosen.time.forward : plan.chosen.time.backward;
  const std::string numbers = fmt::format("{} compute + {} imbalance + {} exposed = {}",
                                          seconds_text(time.compute), seconds_text(time.imbalance),
                                          seconds_text(time.exposed), seconds_text(time.total()));
  const std::string hop =
      seconds_text(job.world_size == 1 ? 0 : hop_seconds(job, plan.rates, pass, plan.rows));
  switch (job.scheme) {
    case JobScheme::ring:
      return entry(name,
                   "sum over steps of max(slowest rank's FLOPs / F, hop), hop " + hop +
                       (forward ? "" : "; then the last gradient's hop"),
                   numbers, "S0, Communication Complexity; S4 part 3, Wall-Clock Time");
    case JobScheme::allgather:
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

}  // namespace ringscope
