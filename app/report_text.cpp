// The table for people.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "app/machine.h"
#include "app/memory.h"
#include "app/report.h"

namespace ringscope {
namespace {

std::string header_line(const Report& report) {
  const RingConfig& config = report.config;
  const AttentionShape& s = config.shape;
  return fmt::format(
      "{} tokens x {} batch, {} heads ({} kv), head_dim {}, {}, mask {}, {}\n"
      "{}, {} rank{}, {}, {}{}: {}\n\n",
      s.seqlen, s.batch, s.num_heads, s.num_heads_kv, s.head_dim, name_of(config.dtype),
      config.mask.name(), config.backward ? "forward and backward" : "forward", report.backend,
      config.world_size, config.world_size == 1 ? "" : "s", name_of(config.partition),
      name_of(config.scheme),
      config.used_kv_buffers() > 2 ? fmt::format(", {} KV buffers", config.used_kv_buffers()) : "",
      seconds_text(report.wall_s));
}

std::string rank_table(const Report& report) {
  std::string text = fmt::format("{:>5}{:>10}{:>15}{:>12}{:>12}{:>12}{:>12}\n", "rank", "rows",
                                 "pairs", "busy", "waiting", "sent", "peak");
  const Partition partition = report.config.partition_of_sequence();
  for (std::size_t r = 0; r < report.summary.ranks.size(); ++r) {
    const RankSummary& rank = report.summary.ranks[r];
    text += fmt::format("{:>5}{:>10}{:>15}{:>12}{:>12}{:>12}{:>12}\n", r,
                        partition.rows_of(static_cast<int>(r)).size(), rank.pairs,
                        seconds_text(rank.compute_s), seconds_text(rank.wait_s),
                        bytes_text(rank.bytes_sent), bytes_text(report.peak_bytes[r]));
  }
  return text;
}

std::string verdict_text(const Verdict& verdict, DType dtype, bool backward) {
  std::string text =
      fmt::format("\n{:>5}{:>13}{:>13}{:>13}\n", "error", "absolute", "relative", "tolerance");
  for (const TensorVerdict& t : verdict.tensors)
    text += fmt::format(
        "{:>5}{:>13.3g}{:>13.3g}{:>13.3g}  {}{}\n", t.name, t.error.max_abs, t.error.max_rel,
        t.tolerance, t.pass() ? "good" : "WRONG",
        t.error.non_finite == 0
            ? ""
            : fmt::format(", {} NaN or infinite in both, not compared", t.error.non_finite));
  if (verdict.is_sample())
    text += fmt::format(
        "compared: {} of {} query rows of each head ({:.2g} %){}\n", verdict.query_rows,
        verdict.seqlen,
        100.0 * static_cast<double>(verdict.query_rows) / static_cast<double>(verdict.seqlen),
        backward ? "; dk and dv are not compared, they take every query" : "");
  return text + "against naive attention in f64 on the same rounded inputs; " +
         tolerance_source(dtype) + "\n";
}

}  // namespace

std::string seconds_text(double seconds) {
  if (seconds >= 1) return fmt::format("{:.2f} s", seconds);
  if (seconds >= 1e-3) return fmt::format("{:.2f} ms", seconds * 1e3);
  return fmt::format("{:.1f} us", seconds * 1e6);
}

std::string report_text(const Report& report) {
  const RunSummary& summary = report.summary;
  std::string text = header_line(report) + rank_table(report) + "\n";
  text +=
      fmt::format("imbalance (slowest rank / mean)   {:.3f} by pairs, {:.3f} by processor time\n",
                  summary.imbalance, summary.measured_imbalance);
  text +=
      fmt::format("balance ceiling (mean / slowest)  {:.3f} predicted, {:.3f} by processor time\n",
                  report.predicted_balance_ceiling, summary.measured_balance_ceiling);
  text += fmt::format("exposed communication             {}\n", seconds_text(summary.exposed_s));
  if (report.backend == "cpu" && report.config.world_size > cores())
    text += fmt::format(
        "{} ranks share {} core{}, so busy, waiting and exposed times include time without a "
        "core\n",
        report.config.world_size, cores(), cores() == 1 ? "" : "s");
  const Index dropped =
      std::accumulate(report.dropped_events.begin(), report.dropped_events.end(), Index{0});
  if (dropped > 0)
    text += fmt::format("{} events found no room and are not in the recording\n", dropped);
  text += report.engine_notes;
  if (report.verdict)
    text += verdict_text(*report.verdict, report.config.dtype, report.config.backward);
  return text;
}

}  // namespace ringscope
