#include "app/report/fields.h"

#include <cstdlib>
#include <ctime>

#include "app/report/machine.h"
#include "app/report/terminal.h"
#include "core/base/text.h"
#include "core/ring/problem_rows.h"

namespace ringscope {
namespace {

struct NotedCall {
  std::string command = "ringscope", seed = "0", recorded_words;
};
NotedCall noted_call;

std::string utc_text(std::time_t seconds) {
  std::tm utc{};
  char text[32] = "";
  if (::gmtime_r(&seconds, &utc) != nullptr)
    std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

}  // namespace

void note_call(const std::string& command, const std::string& seed,
               const std::string& recorded_words) {
  noted_call = {command, seed, recorded_words};
}

const std::string& recorded_words() { return noted_call.recorded_words; }

std::vector<std::pair<std::string, std::string>> provenance() {
  const char* const pinned = std::getenv("SOURCE_DATE_EPOCH");
  const auto epoch = parse_number<Index>(pinned == nullptr ? "" : pinned);
  const std::string version = version_text();
  const std::size_t comma = version.find(", commit ");
  return {{"version", version.substr(0, comma)},
          {"commit", comma == version.npos ? "unknown" : version.substr(comma + 9)},
          {"command", noted_call.command},
          {"seed", noted_call.seed},
          {"machine", machine_text()},
          {"time", utc_text(epoch ? static_cast<std::time_t>(*epoch) : std::time(nullptr))}};
}

std::string provenance_line() {
  std::string line;
  for (const auto& [key, value] : provenance())
    line += fmt::format("{}{}: {}", line.empty() ? "" : "; ", key, value);
  return line;
}

std::string json_line(const Fields& fields) {
  const auto origin = provenance();
  Fields origin_fields;
  for (const auto& [key, value] : origin) origin_fields.emplace_back(key, value);
  return Json(fields + Fields{{"provenance", origin_fields}}).text() + "\n";
}

std::string labelled_line(int width, std::string_view label, std::string_view value) {
  return fmt::format("{:<{}}{}\n", label, width, value);
}

std::string lines_text(int width, const Fields& fields) {
  std::string text;
  for (const Field& field : fields)
    if (!field.head.empty()) text += labelled_line(width, field.head, field.text);
  return text;
}

std::string ratio_text(double ratio) { return fmt::format("{:.3f}", ratio); }
std::string percent_text(double share) { return fmt::format("{:.1f} %", 100 * share); }
std::string integer_text(double number) { return fmt::format("{:.0f}", number); }
std::string digits_text(double number) { return fmt::format("{:.3g}", number); }

Fields worst_row_fields(const WorstRow& worst) {
  return {{"batch", worst.batch},
          {"head", worst.head},
          {"row", worst.row},
          {"error", worst.error},
          {"tolerance", worst.tolerance}};
}

Fields shape_fields(const AttentionShape& shape) {
  const bool has_two_widths = shape.value_dim() != shape.head_dim;
  return fields_of(shape, {"seqlen", "batch", "heads", "heads-kv", "head-dim"}) +
         Fields{{has_two_widths ? "head_dim_v" : "", shape.value_dim()},
                {shape.is_square() ? "" : "seqlen_q", shape.queries()},
                {shape.is_square() ? "" : "q_offset", shape.first_query()}};
}

Fields way_fields(const Problem& job) {
  return fields_of(job, {"world-size", "partition", "mask", "dtype", "backward"}) +
         Fields{{job.partition_q ? "partition_q" : "", text_of(job.partition_q)},
                {"scheme", job.scheme_name()},
                {"shape", shape_fields(job.shape)}};
}

std::string way_text(const Problem& job) {
  if (job.scheme->course == Course::heads) return job.scheme_name();
  return fmt::format("{}, {}", job.partition.name(), job.scheme_name());
}

std::string problem_text(const Problem& job) {
  const AttentionShape& s = job.shape;
  return fmt::format(
      "{} tokens x {} batch, {} heads ({} kv), head_dim {}{}, {}, mask {}{}, {}",
      s.is_square()
          ? std::to_string(s.seqlen)
          : fmt::format("{} queries from {} on, {}", s.queries(), s.first_query(), s.seqlen),
      s.batch, s.num_heads, s.num_heads_kv, s.head_dim,
      s.value_dim() == s.head_dim ? "" : fmt::format(" and {}", s.value_dim()), name_of(job.dtype),
      job.mask.name(), job.softcap > 0 ? fmt::format(", softcap {}", job.softcap) : "",
      job.backward ? "forward and backward" : "forward");
}

std::string shared_cores_text(int ranks, std::string_view consequence) {
  if (ranks <= cores()) return "";
  return fmt::format("{} ranks share {}, so {} time without a core\n", ranks,
                     count_text(cores(), "core"), consequence);
}

}  // namespace ringscope
