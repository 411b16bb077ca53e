#include "core/train/training_settings.h"

#include "core/attention/blockwise.h"
#include "core/problem/mask.h"
#include "core/problem/shape.h"
#include "core/ring/rank_memory.h"

namespace ringscope {

void validate(const TrainingSettings& settings) {
  validate(settings.shape);
  validate(settings.adam);
  validate(AttentionShape{settings.batch, settings.shape.num_heads, settings.shape.num_heads_kv,
                          settings.seqlen, settings.shape.head_dim});
  MaskSpec::parse(settings.mask).for_seqlen(settings.seqlen);
}

double training_rank_bytes(const TrainingSettings& settings, const Deal& deal) {
  const ModelShape& shape = settings.shape;
  const Partition partition{deal.partition, settings.seqlen, deal.world_size};
  const RingProblem problem{attention_params(shape, settings.batch),
                            MaskSpec::parse(settings.mask).for_seqlen(settings.seqlen), partition};
  const auto number = [](Index value) { return static_cast<double>(value); };
  const double weights = number(ModelWeights(shape).layout.size());
  const double tokens = number(settings.batch) * number(problem.rows(0));
  const double width = number(shape.width), hidden = number(shape.hidden);
  const double heads = number(shape.num_heads);
  const double queries = heads * number(shape.head_dim);
  const double keys = number(shape.num_heads_kv) * number(shape.head_dim);
  // Per token and layer: input and output of both norms, and their rms; Q, K, V, O, row_max and
  // row_sum (f64); gate and up.
  const double kept = 4 * width + 2 + 2 * queries + 2 * keys + 3 * heads + 2 * hidden;
  // Once per token: the stream, its gradient, the head's input and norm, logits; the Workspace.
  const double shared =
      3 * width + 1 + number(shape.vocab) + width + 2 * queries + 2 * keys + 3 * hidden;
  const double incoming = deal.world_size == 1 ? 0 : weights / deal.world_size;
  const double values = 4 * weights + incoming + tokens * (number(shape.layers) * kept + shared);
  const Index ring = RankMemory::predicted_bytes(problem, 0, Scheme::ring, true, 2) +
                     BlockwiseScratch::bytes(shape.head_dim, true);
  return 4 * values + number(ring);
}

}  // namespace ringscope
