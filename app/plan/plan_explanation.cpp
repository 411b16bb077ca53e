// Explains a plan: explanation.txt is filled in with the numbers that programs get, and some more.
#include <fmt/format.h>
#include <rapidjson/document.h>
#include <rapidjson/pointer.h>

#include <optional>

#include "app/plan/plan.h"
#include "core/base/text.h"
#include "core/ring/loop_counts.h"
#include "core/tools/cost/amounts.h"
#include "core/tools/cost/time.h"
#include "lessons/book/lesson.h"

namespace ringscope {
namespace {

// Return what `fields` has at "PATH:FORMAT", such as "chosen/hops:.0f", as text: a number as fmt writes
// it or, with the format s or GiB, with its unit; "" for what is only true, or above 0 with the format ?.
// Return none if it is not there, which is how fields say that it does not apply.
std::optional<std::string> text_at(const rapidjson::Document& fields, std::string_view at) {
  const std::string path = "/" + std::string(at.substr(0, at.find(':')));
  const std::string format(at.substr(std::min(path.size(), at.size())));
  const rapidjson::Value* const value = rapidjson::Pointer(path.c_str()).Get(fields);
  if (value == nullptr || value->IsNull() || value->IsFalse()) return std::nullopt;
  if (value->IsString()) return value->GetString();
  if (!value->IsNumber()) return "";
  const double number = value->GetDouble();
  if (format == "s") return seconds_text(number);
  if (format == "GiB") return gib_text(number);
  if (format == "?") return number > 0 ? std::optional("") : std::nullopt;
  return fmt::format(fmt::runtime("{:" + format + "}"), number);
}

// Return the entries of `text` with {PATH:FORMAT} filled in, without those for which something is not
// there. An entry is a line and the lines below it that begin with a blank.
std::string filled_entries(std::string_view text, const rapidjson::Document& fields) {
  std::string all, entry;
  bool applies = true;
  const auto end_entry = [&] {
    if (applies && !(entry == "\n" && all.ends_with("\n\n"))) all += entry;
    entry.clear();
    applies = true;
  };
  for_each_line(text, [&](std::string_view line) {
    if (!line.starts_with(' ')) end_entry();
    while (!line.empty()) {
      const std::size_t open = std::min(line.find('{'), line.size());
      entry += line.substr(0, open);
      if (open == line.size()) break;
      const std::size_t close = line.find('}', open);
      const auto found = text_at(fields, line.substr(open + 1, close - open - 1));
      applies = applies && found;
      entry += found.value_or("");
      line.remove_prefix(close + 1);
    }
    entry += '\n';
  });
  end_entry();
  return all;
}

Fields traffic_fields(const Problem& job) {
  const int rank = busiest_sender(job);
  const Traffic traffic = traffic_of(job, rank);
  const bool by_heads = job.scheme->course == Course::heads;
  const char* const loop = is_followed(job) ? "all messages of the scheme's loop" : nullptr;
  return {{"rank", rank},
          {"formula", loop       ? loop
                      : by_heads ? "(N-1)/N of Q, K, V and of the output"
                                 : "2 b d G e (S - rows of one rank)"},
          {"formula_back", loop       ? loop
                           : by_heads ? "(N-1)/N of dO and of dQ, dK, dV"
                                      : "K, V again, and dK, dV in f32"},
          {"forward", traffic.forward_bytes},
          {job.backward ? "backward" : "", traffic.backward_bytes}};
}

std::string memory_lines(const Plan& plan) {
  std::string text;
  for (const MemoryPart& part : plan.memory)
    text += fmt::format("  {:<34}= {} = {:.0f} bytes\n", part.name, part.formula, part.bytes);
  return text;
}

// Return make(pass) for both passes, or for the forward pass alone if the job has no other.
template <class Make>
Fields of_passes(const Problem& job, const Make& make) {
  return {{"forward", make(Pass::forward)}, {job.backward ? "backward" : "", make(Pass::backward)}};
}

// Return the numbers that plan_fields() lacks, and by which formula the time came about.
Fields explained_fields(const Plan& plan) {
  const Problem& job = plan.chosen.job;
  const bool forward = !job.backward, in_table = !plan.is_measured;
  const bool simulated =
      is_followed(job) || job.scheme->course == Course::turns || plan.between || plan.calls;
  const double pairs = total_pairs(job);
  Fields fields{
      {in_table ? "peak_flops" : "", in_table ? plan.gpu.peak_flops(job.dtype) : 0},
      {in_table ? "forward_share" : "", plan.gpu.forward_share},
      {"in_table", in_table},
      {"own", shape_fields(job.shape)},
      {"pairs", pairs},
      {"flops", of_passes(job, [&](Pass pass) { return flops_of_pairs(job.shape, pairs, pass); })},
      {"mean_pairs", plan.chosen.balance.mean_rank},
      {"slowest_pairs", plan.chosen.balance.slowest_steps()},
      {"bytes", traffic_fields(job)},
      {"memory_lines", memory_lines(plan)},
      {"e", job.storage_bytes()},
      {"ring_bytes_per_s", plan.ring_rates().bytes_per_s},
      {"hop_s", of_passes(job,
                          [&](Pass pass) {
                            return job.world_size == 1
                                       ? 0
                                       : hop_seconds(job, plan.rates, pass, plan.rows);
                          })},
      {simulated ? "simulated" : name_of(job.scheme), true},
      {"forward_only", plan.model && forward},
      {"memory_fraction", plan.options.memory_fraction}};
  if (plan.model) fields.emplace_back("step", explained_model(plan));
  return fields;
}

}  // namespace

std::string plan_explanation(const Plan& plan) {
  rapidjson::Document fields;
  fields.Parse(Json(plan_fields(plan) + explained_fields(plan)).text().c_str());
  return filled_entries(lessons::embedded_text("app/plan/explanation.txt"), fields);
}

}  // namespace ringscope
