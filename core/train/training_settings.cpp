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

std::vector<MemoryPart> training_memory(const TrainingSettings& settings, const Deal& deal,
                                        int rank) {
  Problem problem = attention_problem(settings, deal);
  problem.layers = settings.shape.layers;
  return model_memory_parts(
      problem, sizes_of(settings.shape), deal.memory,
      rank < 0 ? problem.max_rows() : static_cast<double>(problem.rows(rank)));
}

}  // namespace ringscope
