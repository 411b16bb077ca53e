#include "core/train/training_settings.h"

#include <utility>

#include "core/base/error.h"
#include "core/problem/mask.h"

namespace ringscope {

void validate(const TrainingSettings& settings) {
  validate(settings.shape);
  validate(settings.adam);
  validate(AttentionShape{settings.batch, settings.shape.num_heads, settings.shape.num_heads_kv,
                          settings.seqlen, settings.shape.head_dim});
  // A checkpoint keeps the mask as text, and must not name files to be read.
  if (settings.mask.find("ranges:") != std::string::npos)
    throw InputError("mask: '" + settings.mask +
                     "' given; masks without ranges accepted, because a checkpoint keeps its mask");
  MaskSpec::parse(settings.mask).for_seqlen(settings.seqlen);
}

Problem attention_problem(const TrainingSettings& settings, const Deal& deal) {
  return attention_problem(settings.shape, settings.batch, settings.seqlen,
                           MaskSpec::parse(settings.mask), deal.partition, deal.world_size);
}

std::vector<MemoryPart> training_memory(const TrainingSettings& settings, const Deal& deal) {
  const Problem problem = attention_problem(settings, deal);
  const Index rows = problem.partition_of_sequence().rows_of(0).size();
  const auto weights = static_cast<double>(ModelWeights(settings.shape).layout.size());
  constexpr auto kOther = MemoryPart::Kind::other;
  std::vector<MemoryPart> parts = memory_parts(problem, static_cast<double>(rows));
  parts.push_back({kOther, "weights, gradients, AdamW's two moments", 16 * weights, "16 P"});
  if (deal.world_size > 1)
    parts.push_back({kOther, "incoming gradients", 4 * weights / deal.world_size, "4 P/N"});
  for (MemoryPart& part : model_memory(settings.shape, settings.batch * rows))
    parts.push_back(std::move(part));
  return parts;
}

}  // namespace ringscope
