#include "app/process/job_terms.h"
#include "app/report/terminal.h"

#include <fmt/ranges.h>

#include <cstring>
#include <utility>

#include "core/base/error.h"

namespace ringscope {
namespace {

// Return the value's text, all digits of a number included, so that equal texts are equal values.
template <class T>
std::string text_of(const std::optional<T>& value) {
  return value ? fmt::format("{}", *value) : "not given";
}
std::string text_of(bool given) { return given ? "given" : "not given"; }

// Append the terms of `options` to `terms`.
void add_terms(Terms& terms, const Help& help) { terms.emplace_back("--help", help.text); }

void add_terms(Terms& terms, const TrainOptions& train) {
  const Terms settings = texts_of(train.given);
  terms.insert(terms.end(), settings.begin(), settings.end());
  terms.insert(terms.end(), {{"--partition", std::string(name_of(train.ranks.partition))},
                             {"--steps", train.steps ? std::to_string(*train.steps) : "not given"},
                             {"--resume", text_of(train.resume.has_value())},
                             {"--trace", text_of(train.trace.has_value())},
                             {"--trace-step", text_of(train.trace_step)},
                             {"--recompute", std::string(name_of(train.memory.recompute))},
                             {"--chunks", std::to_string(train.memory.chunks)},
                             {"--shard-optimizer", text_of(train.shard_optimizer)},
                             {"--checkpoint", text_of(train.checkpoint.has_value())},
                             {"--checkpoint-every", std::to_string(every(train))},
                             {"--timeout", fmt::format("{}", train.ranks.timeout_s)}});
}

void add_terms(Terms& terms, const GenerateRequest& request) {
  const GenerateOptions& options = request.options;
  terms.insert(terms.end(), {{"command", "generate"},
                             {"--bytes", std::to_string(options.bytes)},
                             {"--temperature", fmt::format("{}", options.sampling.temperature)},
                             {"--seed", std::to_string(options.sampling.seed)},
                             {"--partition", std::string(name_of(request.ranks.partition))},
                             {"--merge", std::string(name_of(options.merge))},
                             {"--timeout", fmt::format("{}", request.ranks.timeout_s)}});
}

void add_terms(Terms& terms, const RunOptions& run) {
  const Problem& job = run.job;
  terms.insert(terms.end(),
               {{"--backend", std::string(name_of(run.backend))},
                {"input", run.q      ? ".npy files"
                          : run.text ? "--text"
                                     : "--random"},
                {"--seed", std::to_string(run.seed)},
                {"--batch", text_of(run.batch)},
                {"--heads", text_of(run.heads)},
                {"--heads-kv", text_of(run.heads_kv)},
                {"--seqlen", text_of(run.seqlen)},
                {"--head-dim", text_of(run.head_dim)},
                {"--partition", job.partition.identity()},
                {"--speeds", fmt::format("{}", fmt::join(job.speeds, ","))},
                {"--scheme", job.scheme_name()},
                {"--kv-buffers", std::to_string(job.kv_buffers)},
                {"--mask", job.mask.identity()},
                {"--dtype", std::string(name_of(job.dtype))},
                {"--scale", text_of(job.softmax_scale)},
                {"--backward", text_of(job.backward)},
                {"--kernel", std::to_string(run.cuda.forward_kernel)},
                {"--backward-kernel", std::to_string(run.cuda.backward_kernel)},
                {"--timeout", fmt::format("{}", job.timeout_s)},
                {"--inject", job.injection ? to_string(*job.injection) : "not given"}});
}

// No ranks work together on other commands.
template <class Options>
void add_terms(Terms&, const Options&) {}

// In native byte order, because all ranks run the same program.
struct FixedFacts {
  AttentionShape shape;
  Index is_scattered, gathers_outputs;
};

}  // namespace

Terms terms_of(const Command& command) {
  Terms terms{{"version", version_text()}};
  std::visit([&](const auto& options) { add_terms(terms, options); }, command);
  return terms;
}

std::string to_bytes(const JobFacts& facts) {
  const FixedFacts fixed{facts.shape, facts.is_scattered, facts.gathers_outputs};
  std::string bytes(sizeof fixed, '\0');
  std::memcpy(bytes.data(), &fixed, sizeof fixed);
  return bytes + facts.text;
}

JobFacts job_facts_from(const std::string& bytes) {
  FixedFacts fixed{};
  if (bytes.size() < sizeof fixed)
    throw RunError("rank 0 said something else than its inputs' sizes", 0);
  std::memcpy(&fixed, bytes.data(), sizeof fixed);
  return {fixed.shape, fixed.is_scattered != 0, fixed.gathers_outputs != 0,
          bytes.substr(sizeof fixed)};
}

}  // namespace ringscope
