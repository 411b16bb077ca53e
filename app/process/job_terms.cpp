#include "app/process/job_terms.h"

#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "app/command_line/ending.h"
#include "core/base/error.h"

namespace ringscope {
namespace {

std::string given_or(const std::optional<Index>& size, const std::string& otherwise) {
  return size ? std::to_string(*size) : otherwise;
}

std::string source_of(const RunOptions& run) {
  return run.q ? ".npy files" : run.text ? "--text" : "--random";
}

Terms terms_of(const TrainOptions& train) {
  Terms terms{{"version", version_text()}};
  const auto given_texts = texts_of(train.given);
  // List all flags, so that the error can say of a rank that a flag was not given.
  for (const std::string& flag : setting_flags()) {
    const auto given = given_texts.find(flag);
    terms.emplace_back(flag, given == given_texts.end() ? "not given" : given->second);
  }
  terms.emplace_back("--partition", name_of(train.partition));
  terms.emplace_back("--steps", std::to_string(train.steps));
  terms.emplace_back("--resume", train.resume ? "given" : "not given");
  terms.emplace_back("--trace", train.trace ? "given" : "not given");
  terms.emplace_back("--trace-step", given_or(train.trace_step, "not given"));
  terms.emplace_back("--timeout", fmt::format("{}", train.timeout_s));
  return terms;
}

Terms terms_of(const GenerateRequest& request) {
  const GenerateOptions& options = request.options;
  return {{"version", version_text()},
          {"command", "generate"},
          {"--bytes", std::to_string(options.bytes)},
          {"--temperature", fmt::format("{}", options.sampling.temperature)},
          {"--seed", std::to_string(options.sampling.seed)},
          {"--partition", std::string(name_of(request.partition))},
          {"--merge", std::string(name_of(options.merge))},
          {"--timeout", fmt::format("{}", request.timeout_s)}};
}

// Sizes in native byte order, because all ranks run the same program.
struct FixedFacts {
  Index batch, num_heads, num_heads_kv, seqlen, head_dim, is_scattered, gathers_outputs;
};

}  // namespace

Terms terms_of(const Command& command) {
  Terms terms{{"version", version_text()}};
  if (const auto* help = std::get_if<Help>(&command)) {
    terms.emplace_back("--help", help->text);
    return terms;
  }
  if (const auto* train = std::get_if<TrainOptions>(&command)) return terms_of(*train);
  if (const auto* generate = std::get_if<GenerateRequest>(&command)) return terms_of(*generate);
  const auto* run = std::get_if<RunOptions>(&command);
  if (run == nullptr) return terms;
  terms.emplace_back("--backend", name_of(run->backend));
  terms.emplace_back("input", source_of(*run));
  terms.emplace_back("--seed", std::to_string(run->seed));
  terms.emplace_back("--batch", given_or(run->batch, "not given"));
  terms.emplace_back("--heads", given_or(run->heads, "not given"));
  terms.emplace_back("--heads-kv", given_or(run->heads_kv, "not given"));
  terms.emplace_back("--seqlen", given_or(run->seqlen, "not given"));
  terms.emplace_back("--head-dim", given_or(run->head_dim, "not given"));
  terms.emplace_back("--partition", name_of(run->partition));
  terms.emplace_back("--scheme", name_of(run->scheme));
  terms.emplace_back("--kv-buffers", given_or(run->kv_buffers, "not given"));
  terms.emplace_back("--mask", run->mask.name());
  terms.emplace_back("--dtype", name_of(run->dtype));
  // fmt prints all digits, so equal texts are equal numbers.
  terms.emplace_back("--scale",
                     run->softmax_scale ? fmt::format("{}", *run->softmax_scale) : "not given");
  terms.emplace_back("--backward", run->backward ? "given" : "not given");
  terms.emplace_back("--kernel", std::to_string(run->cuda.forward_kernel));
  terms.emplace_back("--backward-kernel", std::to_string(run->cuda.backward_kernel));
  terms.emplace_back("--timeout", fmt::format("{}", run->timeout_s));
  terms.emplace_back("--inject", run->injection ? to_string(*run->injection) : "not given");
  return terms;
}

std::string to_bytes(const JobFacts& facts) {
  const AttentionShape& s = facts.shape;
  const FixedFacts fixed{s.batch,    s.num_heads,        s.num_heads_kv,       s.seqlen,
                         s.head_dim, facts.is_scattered, facts.gathers_outputs};
  std::string bytes(sizeof fixed, '\0');
  std::memcpy(bytes.data(), &fixed, sizeof fixed);
  return bytes + facts.text;
}

JobFacts job_facts_from(const std::string& bytes) {
  FixedFacts fixed{};
  if (bytes.size() < sizeof fixed)
    throw RunError("rank 0 said something else than its inputs' sizes", 0);
  std::memcpy(&fixed, bytes.data(), sizeof fixed);
  return {{fixed.batch, fixed.num_heads, fixed.num_heads_kv, fixed.seqlen, fixed.head_dim},
          fixed.is_scattered != 0,
          fixed.gathers_outputs != 0,
          bytes.substr(sizeof fixed)};
}

}  // namespace ringscope
